"""Is `rag check` right about notes of long ago? The texts of two trees are compared: no lineage, no grammar.

Of each history in HISTORIES (a folder of git repositories) a copy is made in which an old commit adds notes
that name what its tree has. The real later commits follow, then planted ones; then the notes are checked.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rag.code.languages import kind_of_path
from rag.corpus.history import files_at, read_blobs
from rag.memory.claims import CheckedClaim
from rag.service import Engine, locate
from rag.service.checks.claims import check_texts, text_of
from rag.settings import Settings
from tools.benchmarks.bench import Bench, NotMeasured, show
from tools.benchmarks.blame import git

NOTES = "NOTES-OF-THE-BENCHMARK.md"
OF_A_KIND = 40
"""How many names of each kind a text has at most."""
LATER = (0.25, 0.6)
"""The share of the commits, at most MAX_LATER, that follow after each text."""
MAX_LATER = 3_000
PLAIN = re.compile(r"[\w.+-]+(?:/[\w.+-]+)+")
DEFINED = re.compile(
    r"^[ \t]*(?:(?:export|default|pub|async|abstract|public|private|protected|static)(?:\(\w+\))?[ \t]+)*"
    r"(?:def|class|fn|func|function|struct|interface|trait|enum|module)[ \t]+"
    r"(?:\([^)\n]*\)[ \t]*|self\.)?([A-Za-z_]\w*)",
    re.MULTILINE,
)
SETTING = re.compile(
    r"(?:environ(?:\.get)?[\[(]|[gG]etenv\(|process\.env\.|ENV(?:\.fetch)?[\[(])[\"']?([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b"
)
MAKE = re.compile(r"^([A-Za-z][\w-]+)[ \t]*:(?!=)", re.MULTILINE)
NPM = re.compile(r"^[ \t]+\"([a-z][\w:-]+)\":", re.MULTILINE)
COMMENT = re.compile(r"(?:#|//|\*|/\*|--).*")
Tree = Mapping[str, str]


@dataclass(frozen=True)
class Named:
    """What a line of the notes names: a path, with lines or not, or a name of a kind that a file has."""

    kind: str
    text: str
    path: str
    name: str = ""
    first: int = 0
    last: int = 0


def check(bench: Bench) -> None:
    """What `rag check` says of old notes in real histories, beside looking whether the names are there"""
    folder = os.environ.get("HISTORIES", "")
    if not Path(folder or "/nowhere").is_dir():
        raise NotMeasured("set HISTORIES to a folder of git repositories")
    judged: dict[str, Counter[str]] = defaultdict(Counter)
    wrong: list[tuple[str, str, str, str]] = []
    for root in sorted(Path(folder).iterdir()):
        for share in LATER:
            with tempfile.TemporaryDirectory() as scratch:
                for one, said, truth, there in _judged(root, Path(scratch), share):
                    is_wrong = bool(said) != truth
                    for row in (one.kind, "all"):
                        judged[row]["all"] += 1
                        judged[row][f"{'flagged' if said else 'passed'} {'stale' if truth else 'true'}"] += 1
                        judged[row][
                            f"search {'flagged' if not there else 'passed'} {'stale' if truth else 'true'}"
                        ] += 1
                    if is_wrong:
                        wrong.append((f"{root.name} {share}", one.kind, one.text, said or "passed"))
    show(
        "Old notes",
        ("kind", "names", "stale", "precision", "recall", "search: precision", "recall"),
        [_row(*item) for item in judged.items()],
    )
    bench.results.mkdir(parents=True, exist_ok=True)
    (bench.results / "check.json").write_text(json.dumps({"judged": judged, "wrong": wrong}, indent=1))


def _row(kind: str, found: Counter[str]) -> list[object]:
    row: list[object] = [kind, found["all"], found["flagged stale"] + found["passed stale"]]
    for who in ("", "search "):
        right, false, missed = (
            found[f"{who}{what}"] for what in ("flagged stale", "flagged true", "passed stale")
        )
        row += [f"{right / max(1, right + false):.4f}", f"{right / max(1, right + missed):.4f}"]
    return row


def _judged(root: Path, scratch: Path, share: float) -> Iterator[tuple[Named, str, bool, bool]]:
    """Yield each name with what is said of it ("" for nothing), whether it is stale, and found by search."""
    rng = random.Random(f"{root.name}{share}")
    commits = git(root, "rev-list", "--first-parent", "HEAD").decode().split()
    later = commits[: min(int(len(commits) * share), MAX_LATER)]
    if len(later) < 20:
        return
    clone = scratch / "clone"
    git(root, "clone", "--quiet", "--shared", "--no-checkout", str(root), str(clone))
    then, last = _tree(clone, commits[len(later)]), _tree(clone, later[0])
    named = _names(then, rng)
    notes = "# Notes\n\n" + "".join(f"- Look at `{one.text}`.\n" for one in named)
    planted = _planted([one for one in named if _is_stale(one, then, last) is False], last, rng)
    _import(clone, commits[len(later)], later[::-1], notes, planted)
    now = _tree(clone, "HEAD")
    with closing(Engine(Settings(home=scratch / "home", memory="memory:"))) as engine:
        said = _by_line(check_texts(engine, locate(str(clone)), [text_of(NOTES, notes.encode(), NOTES)]))
    for line, one in enumerate(named, start=3):
        truth = _is_stale(one, then, now)
        if truth is not None:
            yield one, said.get(line, ""), truth, _is_found(one, now)


def _by_line(found: Collection[CheckedClaim]) -> dict[int, str]:
    return {one.claim.line: str(one) for one in found if one.is_stale}


def _tree(root: Path, commit: str) -> dict[str, str]:
    listing = files_at(root, commit)
    files = listing.files if listing else {}
    contents = read_blobs(root, set(files.values()))
    return {
        path: contents.get(blob, b"").decode("utf-8", "replace")
        for path, blob in files.items()
        if path != NOTES
    }


def _names(tree: Tree, rng: random.Random) -> list[Named]:
    """Return names of each kind that a tree has, in any order."""
    code = {
        path: text
        for path, text in tree.items()
        if kind_of_path(path) == "code" and len(text) < 200_000 and "\0" not in text
    }
    every: dict[str, list[Named]] = defaultdict(list)
    for path in tree:
        if PLAIN.fullmatch(path):
            every["path"].append(Named("path", path, path))
    often: Counter[str] = Counter()
    for path, text in code.items():
        lines = text.split("\n")
        if len(lines) > 12 and PLAIN.fullmatch(path):
            first = rng.randrange(1, len(lines) - 8)
            cut = first, first + rng.randrange(2, 7)
            if sum(len(line.strip()) > 15 for line in lines[cut[0] - 1 : cut[1]]) > 1:
                every["lines"].append(Named("lines", f"{path}:{cut[0]}-{cut[1]}", path, "", *cut))
        for name in dict.fromkeys(DEFINED.findall(text)):
            often[name] += 1
            if len(name) > 5 and ("_" in name.strip("_") or re.search("[a-z][A-Z]", name)):
                every["symbol"].append(Named("symbol", f"{name}()", path, name))
        every["setting"] += [
            Named("setting", name, path, name) for name in sorted(set(SETTING.findall(text)))
        ]
    every["symbol"] = [one for one in every["symbol"] if often[one.name] == 1]
    for file, pattern, command in (("Makefile", MAKE, "make"), ("package.json", NPM, "npm run")):
        for name in _targets(file, pattern, tree):
            every["command"].append(Named("command", f"{command} {name}", file, name))
    for named in every.values():
        rng.shuffle(named)
    return [
        one for named in every.values() for one in {each.text: each for each in named[:OF_A_KIND]}.values()
    ]


def _targets(file: str, pattern: re.Pattern[str], tree: Tree) -> list[str]:
    text = tree.get(file, "")
    if file == "package.json":
        text = text.partition('"scripts"')[2].partition("}")[0]
    return [*dict.fromkeys(pattern.findall(text))]


def _is_stale(one: Named, then: Tree, now: Tree) -> bool | None:
    """Whether what was named is there no more; None if texts alone do not say."""
    if one.kind == "path":
        return one.path not in now
    if one.kind == "lines":
        before, after = (
            "\n".join(tree.get(one.path, "").split("\n")[one.first - 1 : one.last]) for tree in (then, now)
        )
        same = re.sub(r"\s", "", before) == re.sub(r"\s", "", after)
        is_close = _bare(before) == _bare(after)
        return False if same else None if is_close else True
    if one.kind == "command":
        paths = [path for path in now if path.rpartition("/")[2] == one.path]
        pattern = MAKE if one.path == "Makefile" else NPM
        return not any(one.name in pattern.findall(now[path]) for path in paths)
    holding = _with(one.name, now, code_only=True)
    if one.kind == "symbol" and holding:
        return None if not any(one.name in DEFINED.findall(text) for text in holding) else False
    return not holding


def _bare(text: str) -> str:
    return re.sub(r"[\s\"',;()]", "", "\n".join(COMMENT.sub("", line) for line in text.split("\n")))


def _with(name: str, tree: Tree, *, code_only: bool = False) -> list[str]:
    word = re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
    texts = (text for path, text in tree.items() if not code_only or kind_of_path(path) != "doc")
    return [text for text in texts if name in text and word.search(text)]


def _is_found(one: Named, now: Tree) -> bool:
    """Whether a search without a history finds the path, that many lines, or the name."""
    if one.name:
        return bool(_with(one.name, now))
    return one.path in now and len(now[one.path].split("\n")) >= one.last


def _planted(named: list[Named], tree: Tree, rng: random.Random) -> list[dict[str, str | None]]:
    """Return commits, as the new texts of files, which change a part of what is still as it was named."""
    made: list[dict[str, str | None]] = []
    now = dict(tree)
    for one in rng.sample(named, len(named) // 3):
        text, way = now.get(one.path, ""), rng.random()
        if one.kind == "path" and one.path in now:
            moved = rng.choice(
                (f"moved/{one.path}", f"{one.path.rpartition('/')[0]}/planted/{one.path.rpartition('/')[2]}")
            )
            change: dict[str, str | None] = {one.path: None} | ({moved: text} if way < 0.6 else {})
        elif one.kind == "lines" and one.path in now:
            lines = text.split("\n")
            if way < 0.5:
                lines[one.first : one.first + 1] = ["planted = 'another line'"]
            else:
                lines.insert(0, "\n" * 3)
            change = {one.path: "\n".join(lines)}
        else:
            word = re.compile(rf"(?<![\w$]){re.escape(one.name)}(?![\w$])")
            change = {
                path: word.sub("planted_name", each)
                for path, each in now.items()
                if one.name and one.name in each and "\ufffd" not in each
            }
        change = {path: each for path, each in change.items() if "\ufffd" not in (each or "")}
        made.append(change)
        now = {path: each for path, each in (now | change).items() if each is not None}
    return made


def _import(
    clone: Path, base: str, later: list[str], notes: str, planted: list[dict[str, str | None]]
) -> None:
    """Write the notes on top of a commit, the later commits with them, and the planted ones; check out."""
    trees = git(clone, "log", "--no-walk=unsorted", "--format=%T %ct", *later).decode().split("\n")
    text = notes.encode()
    stream = [b"blob\nmark :1\ndata %d\n%s\n" % (len(text), text)]
    date = 0

    def commit(parent: str) -> None:
        stream.append(
            b"commit refs/heads/checked\ncommitter benchmark <b@example.org> %d +0000\ndata 4\nnext\n" % date
        )
        stream.append(b"from %s\n" % parent.encode() if parent else b"")

    date = int(git(clone, "log", "-1", "--format=%ct", base))
    commit(base)
    stream.append(b"M 100644 :1 %s\n\n" % NOTES.encode())
    for row in filter(None, trees):
        tree, _, seconds = row.partition(" ")
        date = int(seconds)
        commit("")
        stream.append(b'M 040000 %s ""\nM 100644 :1 %s\n\n' % (tree.encode(), NOTES.encode()))
    for change in planted:
        date += 60
        commit("")
        for path, each in change.items():
            content = (each or "").encode()
            stream.append(
                f"D {path}\n".encode()
                if each is None
                else b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(content), content)
            )
        stream.append(b"\n")
    subprocess.run(
        ["git", "fast-import", "--quiet", "--force"], cwd=clone, input=b"".join(stream), check=True
    )
    git(clone, "checkout", "--quiet", "--force", "checked")
