"""Mine pairs from histories: `python mine_history.py OUT.jsonl GIT_DIR… [--pairs 500] [--keep-out NAME …]`.

The title of a commit is the query; the definitions that it changed, as they were before it, are the
documents. Left out are merges, bots, version bumps and other chores, titles of fewer than four words, commits
that changed more than five files, tests, and titles that are only the name of the definition. One JSON object
a line, with the fields of `pairs.Pair` and the repository and commit that it comes from. Next to OUT,
`OUT.tsv` has a row for each repository: name, last commit, licence, commits read, and the number of pairs or
why it was refused (`histories.tsv` is the one of `--pairs 400 --seed 1`). A git directory is only read.

Run it in the environment of `rag` itself: definitions are found by its parser.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rag.code.definitions import Definition
from rag.code.grammars import has_grammar
from rag.code.languages import kind_of, language_of_path
from rag.code.parsing import SourceText, outlines
from rag.evaluation.mine import question_of

from archives import Refused, kept_out
from pairs import MAX_DOC, Pair
from units import MAX_BODY

MAX_FILES = 5
MAX_DEFINITIONS = 3
"""Definitions that one commit gives pairs of; a commit that changed many more is about none of them."""
MAX_CHANGED = 8
MAX_COMMITS = 20_000
MAX_FILE_BYTES = 400_000
_TRIED = 3
"""Commits that are read per wanted pair."""
_BATCH = 50

_GIT = ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "--git-dir"]
_BOT = re.compile(
    r"\[bot\]|\bbot\b|dependabot|renovate|greenkeeper|pre-commit-ci|github-actions", re.IGNORECASE
)
_BUMP = re.compile(
    r"\bbump\b|\bversion\b.*\d|\bv?\d+\.\d+\.\d+\b|^release|^prepare|changelog|^merge\b|^revert\b"
    r"|copyright year",
    re.IGNORECASE,
)
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
_LICENCES = (
    ("GPL", re.compile(r"GNU (?:LESSER |AFFERO )?GENERAL PUBLIC|\bA?L?GPL\b", re.IGNORECASE)),
    ("MPL-2.0", re.compile(r"Mozilla Public License", re.IGNORECASE)),
    ("EPL", re.compile(r"Eclipse Public License", re.IGNORECASE)),
    ("MIT", re.compile(r"Permission is hereby granted, free of charge|\bMIT License", re.IGNORECASE)),
    ("Apache-2.0", re.compile(r"Apache License,?\s+Version 2", re.IGNORECASE)),
    ("BSD", re.compile(r"Redistribution and use in source and binary forms", re.IGNORECASE)),
    ("ISC", re.compile(r"Permission to use, copy, modify, and(?:/or)? distribute", re.IGNORECASE)),
    ("BSL-1.0", re.compile(r"Boost Software License", re.IGNORECASE)),
    ("zlib", re.compile(r"provided 'as-is', without any express", re.IGNORECASE)),
    ("Unlicense", re.compile(r"released into the public domain", re.IGNORECASE)),
)
_UNFREE = {"GPL", "MPL-2.0", "EPL"}


@dataclass(frozen=True, slots=True)
class Edit:
    """What a commit changed: its title, and the changed lines of each file before it, counted from 0."""

    commit: str
    title: str
    lines: dict[str, list[tuple[int, int]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mined:
    """The pairs of a repository as JSON objects, and its row of the table."""

    rows: list[dict[str, str]]
    name: str
    commit: str = ""
    licence: str = ""
    read: int = 0
    refused: str = ""


def git(folder: Path, *arguments: str, stdin: str | None = None) -> str:
    """Run a git command that only reads; return its output."""
    done = subprocess.run(
        [*_GIT, str(folder), *arguments],
        input=None if stdin is None else stdin.encode(),
        capture_output=True,
        check=True,
        timeout=300,
    )
    return done.stdout.decode("utf-8", "replace")


def name_of(folder: Path) -> str:
    """Return the name of a repository: of its folder, or of the folder around `repo` or `.git`."""
    path = folder.parent if folder.name in ("repo", ".git") else folder
    return path.name.removesuffix(".git").replace("+", "/")


def mine(folder: Path, limit: int, seed: int, keep_out: Sequence[str] = ()) -> Mined:
    """Return at most `limit` pairs of a history; the same for the same seed."""
    name = name_of(folder)
    last = name.rpartition("/")[2].lower()
    if kept_out(last) or kept_out(name.lower()) or {last, name.lower()} & {one.lower() for one in keep_out}:
        return Mined([], name, refused="kept out")
    head = git(folder, "rev-parse", "HEAD").strip()
    licence = licence_of(folder)
    if licence in _UNFREE or not licence:
        return Mined([], name, head, licence, refused="licence")
    titles = list(_titles(folder))
    chance = random.Random(f"{seed} {name}")
    chance.shuffle(titles)
    rows: list[dict[str, str]] = []
    read = 0
    for at in range(0, min(len(titles), _TRIED * limit), _BATCH):
        if len(rows) >= limit:
            break
        batch = dict(titles[at : at + _BATCH])
        read += len(batch)
        edits = list(_edits(batch, _diffs(folder, batch)))
        for edit, pair in _pairs(folder, edits):
            rows.append(asdict(pair) | {"repository": name, "commit": edit.commit})
    return Mined(rows[:limit], name, head, licence, read)


def licence_of(folder: Path) -> str:
    """Return the licence that the file of the last commit states, "" if none is known."""
    names = git(folder, "ls-tree", "--name-only", "HEAD").splitlines()
    for name in sorted(names):
        if re.search(r"licen[cs]e|copying", name, re.IGNORECASE):
            try:
                text = " ".join(git(folder, "cat-file", "blob", f"HEAD:{name}")[:6_000].split())
            except subprocess.CalledProcessError:
                continue  # a folder
            if found := next((one for one, pattern in _LICENCES if pattern.search(text)), ""):
                return found
    return ""


def query_of(title: str) -> str:
    """Return the query of a commit's title, "" for chores and titles of under four words."""
    return "" if _BUMP.search(title) or _BOT.search(title) else question_of(title)[:300]


def _titles(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the commits with a usable title, each with its query; each query once."""
    output = git(
        folder,
        "log",
        "--no-merges",
        "--min-parents=1",
        f"--max-count={MAX_COMMITS}",
        "--format=%H%x00%an%x00%s",
    )
    asked = set()
    for line in output.splitlines():
        commit, author, title = [*line.split("\0"), "", ""][:3]
        query = "" if _BOT.search(author) else query_of(title)
        if query and query.lower() not in asked:
            asked.add(query.lower())
            yield commit, query


def _diffs(folder: Path, commits: Iterable[str]) -> str:
    """Return the changes of commits; a commit whose files the directory lacks has none."""
    options = ["-r", "-p", "-U0", "--no-renames", "--no-ext-diff", "--no-textconv", "--diff-filter=AMD"]
    commits = list(commits)
    try:
        return git(folder, "diff-tree", "--stdin", *options, stdin="".join(f"{one}\n" for one in commits))
    except subprocess.CalledProcessError:
        return "".join(_diffs(folder, [one]) for one in commits) if len(commits) > 1 else ""


def _edits(batch: dict[str, str], output: str) -> Iterator[Edit]:
    """Yield what commits changed, of those that changed at most MAX_FILES files."""
    edit: Edit | None = None
    path = ""
    for line in output.split("\n"):
        if line in batch:
            if edit is not None and 0 < len(edit.lines) <= MAX_FILES:
                yield edit
            edit = Edit(line, batch[line])
        elif line.startswith("diff --git "):
            path = ""
        elif edit is not None and line.startswith("--- "):
            path = line[6:] if line.startswith("--- a/") else ""
            edit.lines.setdefault(path or f"new file {len(edit.lines)}", [])
        elif edit is not None and path and (hunk := _HUNK.match(line)):
            start, count = int(hunk[1]), int(hunk[2] or 1)
            # Of an insertion, the lines around it.
            rows = (start - 1, start + count - 1) if count else (start - 1, start + 1)
            edit.lines[path].append(rows)
    if edit is not None and 0 < len(edit.lines) <= MAX_FILES:
        yield edit


def _pairs(folder: Path, edits: Sequence[Edit]) -> Iterator[tuple[Edit, Pair]]:
    """Yield the pairs of commits; the files before them are read together."""
    wanted = [(edit, path) for edit in edits for path in _code_files(edit)]
    texts = _texts(folder, [f"{edit.commit}^:{path}" for edit, path in wanted])
    found: dict[str, tuple[Edit, list[tuple[int, Pair]]]] = {}
    for (edit, path), text in zip(wanted, texts, strict=True):
        if text:
            _, pairs = found.setdefault(edit.commit, (edit, []))
            pairs += _changed_definitions(edit, path, text)
    for edit, pairs in found.values():
        if 0 < len(pairs) <= MAX_CHANGED:
            best = sorted(pairs, key=lambda one: -one[0])[:MAX_DEFINITIONS]
            yield from ((edit, pair) for _, pair in best)


def _code_files(edit: Edit) -> list[str]:
    """Return the changed files that are code, without tests."""
    languages = {path: language_of_path(path) or "" for path in edit.lines}
    return [path for path, name in languages.items() if has_grammar(name) and kind_of(path, name) == "code"]


def _texts(folder: Path, objects: Sequence[str]) -> list[str]:
    """Return the texts of blobs; "" for one that is missing, too large or not text."""
    usable = [one for one in objects if "\n" not in one]
    if not usable:
        return [""] * len(objects)
    sizes = git(folder, "cat-file", "--batch-check", stdin="".join(f"{one}\n" for one in usable)).splitlines()
    ids = {}
    for one, line in zip(usable, sizes, strict=True):
        number, _, rest = line.partition(" blob ")
        if rest.isdigit() and int(rest) <= MAX_FILE_BYTES:
            ids[one] = number
    blobs = dict.fromkeys(ids.values(), "")
    for number in blobs:
        # The size was read, so the blob is there.
        blobs[number] = git(folder, "cat-file", "blob", number).replace("\r\n", "\n")
    return ["" if "\0" in (text := blobs.get(ids.get(one, ""), "")) else text for one in objects]


def _changed_definitions(edit: Edit, path: str, text: str) -> Iterator[tuple[int, Pair]]:
    """Yield the innermost definitions that hold the changed lines, each with the number of these lines."""
    language = language_of_path(path) or ""
    (outline,) = outlines([SourceText(text, language)], max_chars=None)
    lines = text.split("\n")
    changed: Counter[tuple[int, int, str, str]] = Counter()
    for start, end in edit.lines[path]:
        if found := _innermost(outline.definitions, start, end):
            changed[found.start, found.end, found.scope, found.symbol] += end - start
    for (start, end, scope, symbol), count in changed.items():
        body = "\n".join(lines[start:end])[: MAX_BODY + MAX_DOC // 4]
        head = f"{path} {scope}.{symbol}" if scope else f"{path} {symbol}"
        if symbol and len(body) >= 30 and edit.title.strip("` ") != symbol:
            yield count, Pair("commit", language, edit.title, head, body)


def _innermost(definitions: Sequence[Definition], start: int, end: int) -> Definition | None:
    for one in definitions:
        if one.start <= start and end <= one.end:
            return _innermost(one.members, start, end) or one
    return None


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("folders", type=Path, nargs="+", metavar="GIT_DIR")
    parser.add_argument("--pairs", type=int, default=500, help="The largest number of pairs of a repository.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep-out", nargs="*", default=[], metavar="NAME")
    given = parser.parse_args()
    total, table = 0, []
    with given.out.open("w", encoding="utf-8") as stream:
        for folder in sorted(given.folders):
            try:
                mined = mine(folder, given.pairs, given.seed, given.keep_out)
            except (subprocess.SubprocessError, Refused) as error:
                mined = Mined([], name_of(folder), refused=type(error).__name__)
            for row in mined.rows:
                stream.write(json.dumps(row, ensure_ascii=False) + "\n")
            stream.flush()
            total += len(mined.rows)
            counts = mined.refused or len(mined.rows)
            table.append(f"{mined.name}\t{mined.commit}\t{mined.licence}\t{mined.read}\t{counts}\n")
            print(table[-1], end="", flush=True)
    given.out.with_suffix(".tsv").write_text("".join(table), encoding="utf-8")
    print(
        f"{total} pairs of {sum(line.rstrip().rpartition(chr(9))[2].isdigit() for line in table)} histories"
    )


if __name__ == "__main__":
    main()
