"""How much of what a newcomer must learn the pages of `rag wiki` say, and whether they can be published.

The architecture documents that the statements were taken from are removed before the wiki is generated. It is
written by this version and by the last one whose pages followed folders, in the same run. Of this version's
pages it also shows what exceeds the limits, whether MkDocs builds them without a warning, and how many lines
differ after a comment was added to the most central file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rag.evaluation.repositories import EvaluationRepository, obtain
from rag.parsing import parse_toml
from rag.service import Engine, locate
from rag.settings import load_settings
from rag.wiki.repository_graph import survey
from tools.benchmarks.bench import CHECKOUT, QUESTIONS, Bench, not_measured, run_process, show
from tools.benchmarks.wiki_statements import Statement, sampled, statements

BEFORE = os.environ.get("WIKI_BEFORE", "3bfcaa585e4deb2bca98daf8684d2224bd586cee")
"""The commit with the wiki by folders."""
_SAMPLE, _MAX_WRONG = 300, 40
_MAX_PAGE_BYTES, _MAX_PAGE_LINES, _MAX_DIFF_LINES = 40_000, 400, 30
_COMMENTS = {
    ".py": "#",
    ".rb": "#",
    **dict.fromkeys((".c", ".cc", ".go", ".java", ".js", ".php", ".rs", ".ts"), "//"),
}
_RUN = "import sys; sys.path.insert(0, {!r}); from rag.__main__ import main; sys.exit(main())"
_REMOTE = "https://github.com/measured/repository"
_REFERENCE = re.compile(r"^\[([^\]]+)\]: (\S+)$", re.MULTILINE)
_LINK = re.compile(
    r"\]\(([^)\s]+)\)|\]\[([^\]]+)\]|^  click n\d+ href \"([^\"]+)|^  link n\d+: Code @ (\S+)", re.MULTILINE
)
_LINES = re.compile(rf"{re.escape(_REMOTE)}/blob/[0-9a-f]+/([^#]+)#L(\d+)(?:-L(\d+))?")


@dataclass(frozen=True)
class _Thing:
    learn: str
    said: tuple[re.Pattern[str], ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class _Section:
    """The text below one heading: its headings, its blocks, and the lines that it links to."""

    headings: str
    blocks: tuple[str, ...]
    places: tuple[tuple[str, int, int], ...]


def wiki(bench: Bench) -> None:
    """Statements of architecture documents that the wiki says with true lines, before and after."""
    listed = parse_toml((QUESTIONS / "wiki_things.toml").read_text(encoding="utf-8"))["repository"]
    rows, missing = [], []
    stated: list[Statement] = []
    published: list[tuple[object, ...]] = []
    with tempfile.TemporaryDirectory(prefix="rag-bench-wiki-") as workplace:
        versions = {"concepts": CHECKOUT}
        before = Path(workplace) / "before"
        try:
            _archived(BEFORE, before)
            versions = {"folders": before, **versions}
        except (OSError, subprocess.CalledProcessError) as error:
            not_measured(f"the wiki by folders: commit {BEFORE[:10]} is not here ({error})")
        for entry in listed:
            things = [_thing(one) for one in entry["things"]]
            root = _repository(entry, Path(workplace) / entry["name"], bench)
            definitions = _definitions(root)
            for name, program in versions.items():
                folder = Path(workplace) / f"{entry['name']}-{name}"
                seconds = _written(program, root, folder)
                said = [thing for thing in things if _is_said(thing, folder, definitions)]
                if name == "concepts":
                    stated += statements(folder, root)
                    published.append((entry["name"], *_publishable(program, root, folder)))
                pages = [path.read_text(encoding="utf-8") for path in (folder / "docs").glob("*.md")]
                largest = max(pages, key=len)
                rows.append(
                    (
                        entry["name"],
                        name,
                        f"{len(said)} of {len(things)}",
                        len(pages),
                        f"{sum(map(len, pages)) / 1e3:.0f}",
                        f"{len(largest.encode()) / 1e3:.0f}",
                        max(page.count("\n") for page in pages),
                        f"{seconds:.0f}",
                    )
                )
                missing += [(entry["name"], name, thing.learn) for thing in things if thing not in said]
    columns = (
        "repository",
        "pages by",
        "said with true lines",
        "pages",
        "kB",
        "largest kB",
        "longest lines",
        "s",
    )
    show("What a newcomer must learn", columns, rows)
    _show_truth(stated)
    show(
        "Can it be published",
        (
            "repository",
            f"pages over {_MAX_PAGE_BYTES // 1000} kB or {_MAX_PAGE_LINES} lines",
            "mkdocs build --strict",
            f"lines that a comment changes (at most {_MAX_DIFF_LINES})",
        ),
        published,
    )
    show("Not said", ("repository", "pages by", "statement"), missing)


def _show_truth(stated: list[Statement]) -> None:
    """Show how many of the statements that a program can check are true, and the false ones."""
    sample = sampled(stated, _SAMPLE)
    rows = [
        (which, len(found), f"{sum(one.is_true for one in found) / max(1, len(found)):.4f}")
        for which, found in (("all", stated), (f"{_SAMPLE} at random", sample))
    ]
    show("Statements that agree with the files", ("statements", "n", "true"), rows)
    wrong = [(one.page, one.kind, one.text) for one in stated if not one.is_true][:_MAX_WRONG]
    show("Statements that do not", ("page", "kind", "statement"), wrong)


def _thing(entry: Mapping[str, Any]) -> _Thing:
    said = tuple(re.compile(pattern, re.DOTALL) for pattern in entry["said"])
    return _Thing(entry["learn"], said, tuple(entry["lines"]))


# ---------------------------------------------------------------- repositories


def _archived(commit: str, folder: Path) -> None:
    """Write the files of a commit of this repository into a folder."""
    folder.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=CHECKOUT, check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)


def _repository(entry: Mapping[str, Any], folder: Path, bench: Bench) -> Path:
    """Return a git repository with the files of an entry, without its architecture documents."""
    if entry["source"] == "checkout":
        _archived("HEAD", folder)
    else:
        fields = {name: entry[name] for name in EvaluationRepository.__dataclass_fields__ if name in entry}
        shutil.copytree(obtain(EvaluationRepository(**fields), bench.cache), folder)
    for name in entry.get("removed", ()):
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, line in entry.get("cut", {}).items():
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_text(text[: text.index(f"\n{line}\n")] + "\n", encoding="utf-8")
    who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for command in (["init", "-q"], ["add", "-A", "-f"], [*who, "commit", "-q", "-m", "files"]):
        subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True)
    subprocess.run(["git", "remote", "add", "origin", _REMOTE], cwd=folder, check=True)
    return folder


def _definitions(root: Path) -> dict[str, list[tuple[int, int]]]:
    """Return the lines of each definition, by `path#name`."""
    with tempfile.TemporaryDirectory(prefix="rag-bench-wiki-home-") as home:
        engine = Engine(load_settings({"home": home}))
        surveyed = survey(engine.repository(locate(str(root))))
        found: dict[str, list[tuple[int, int]]] = {}
        for path in surveyed.files:
            for symbol in surveyed.symbols(path):
                spans = found.setdefault(f"{path}#{symbol.qualified_name}", [])
                spans.append((symbol.start, symbol.end))
        engine.close()
    return found


def _written(program: Path, root: Path, folder: Path) -> float:
    """Write a wiki with a version of the program; return the seconds, index included."""
    with tempfile.TemporaryDirectory(prefix="rag-bench-wiki-home-") as home:
        environment = {**os.environ, "RAG_HOME": home, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [
            sys.executable,
            "-P",
            "-c",
            _RUN.format(str(program)),
            "wiki",
            str(root),
            "-o",
            str(folder),
        ]
        began = time.perf_counter()
        run_process([*command, "--no-draw", "--yes"], environment)
        return time.perf_counter() - began


def _publishable(program: Path, root: Path, folder: Path) -> tuple[object, ...]:
    """Return the pages over the limits, whether the site builds, and the lines that a comment changes."""
    pages = [path.read_text(encoding="utf-8") for path in (folder / "docs").glob("*.md")]
    over = sum(len(p.encode()) > _MAX_PAGE_BYTES or p.count("\n") > _MAX_PAGE_LINES for p in pages)
    with tempfile.TemporaryDirectory(prefix="rag-bench-wiki-site-") as site:
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", site]
        built = subprocess.run(command, cwd=folder, check=False, capture_output=True)
    return over, "yes" if built.returncode == 0 else "no", _comment_diff(program, root, folder)


def _comment_diff(program: Path, root: Path, folder: Path) -> object:
    """Return how many lines of the pages differ after a comment was added at the top of a central file."""
    architecture = (folder / "docs" / "architecture.md").read_text(encoding="utf-8")
    linked = (unquote(match[1]) for match in _LINES.finditer(architecture))
    central = next((path for path in linked if Path(path).suffix in _COMMENTS), None)
    if central is None:
        return "no such file"
    before = folder.with_name(f"{folder.name}-before")
    shutil.copytree(folder, before)
    text = (root / central).read_text(encoding="utf-8")
    end = text.index("\n") + 1
    comment = f"{_COMMENTS[Path(central).suffix]} Only a comment.\n"
    (root / central).write_text(text[:end] + comment + text[end:], encoding="utf-8")
    who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    subprocess.run(["git", *who, "commit", "-aqm", "comment"], cwd=root, check=True, capture_output=True)
    _written(program, root, folder)
    compared = subprocess.run(
        ["git", "diff", "--no-index", "--numstat", str(before / "docs"), str(folder / "docs")],
        check=False,
        capture_output=True,
        text=True,
    )
    counts = [line.split("\t")[:2] for line in compared.stdout.splitlines()]
    return sum(int(count) for pair in counts for count in pair if count.isdigit())


# ---------------------------------------------------------------- what pages say


def _is_said(thing: _Thing, folder: Path, definitions: Mapping[str, list[tuple[int, int]]]) -> bool:
    wanted = {name: spans for name in thing.lines if (spans := definitions.get(name))}
    for path in sorted((folder / "docs").glob("*.md")):
        for section in _sections(path.read_text(encoding="utf-8")):
            if any(_is_true(place, wanted, definitions) for place in section.places) and any(
                all(pattern.search(f"{section.headings}\n{block}") for pattern in thing.said)
                for block in section.blocks
            ):
                return True
    return False


def _is_true(
    place: tuple[str, int, int],
    wanted: Mapping[str, list[tuple[int, int]]],
    definitions: Mapping[str, list[tuple[int, int]]],
) -> bool:
    """Return whether a link leads to a definition, into it, or to the class that it is in."""
    path, start, end = place
    for name, spans in wanted.items():
        file, _, scope = name.partition("#")
        classes = definitions.get(f"{file}#{scope.rpartition('.')[0]}", [])
        if path == file and (any(a <= start <= b for a, b in spans) or (start, end) in classes):
            return True
    return False


def _sections(text: str) -> Iterator[_Section]:
    """Yield the sections of a page, one for each heading."""
    addresses = dict(_REFERENCE.findall(text))
    body = _REFERENCE.sub("", text)
    headings: dict[int, str] = {}
    for part in re.split(r"^(?=#{1,6} )", body, flags=re.MULTILINE):
        if heading := re.match(r"(#{1,6}) (.*)", part):
            level = len(heading[1])
            headings = {n: name for n, name in headings.items() if n < level} | {level: heading[2]}
        places = []
        for inline, label, node, participant in _LINK.findall(part):
            if found := _LINES.match(inline or node or participant or addresses.get(label, "")):
                places.append((unquote(found[1]), int(found[2]), int(found[3] or found[2])))
        yield _Section(_plain(" ".join(headings.values())), tuple(map(_plain, _blocks(part))), tuple(places))


def _blocks(part: str) -> Iterator[str]:
    """Yield paragraphs, table rows, outer list items with what is below them, and the arrows of diagrams."""
    fence = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for diagram in fence.findall(part):
        labels = dict(re.findall(r"(n\d+)\(?\[\"([^\"]+)\"", diagram))
        for source, target in re.findall(r"(n\d+) -->(?:\|\d+\|)? (n\d+)", diagram):
            yield f"{labels[source]} → {labels[target]}"
    for paragraph in re.split(r"\n\s*\n", fence.sub("", part)):
        if paragraph.lstrip().startswith(("|", "- ", "1. ")):
            yield from re.split(r"\n(?=\S)", paragraph)
        else:
            yield paragraph


def _plain(text: str) -> str:
    """Return Markdown with its escaped signs, without the addresses of links."""
    text = re.sub(r"&#(\d+);", lambda match: chr(int(match[1])), text)
    return re.sub(r"\]\([^)\s]*\)|\]\[[^\]]*\]", "]", text)
