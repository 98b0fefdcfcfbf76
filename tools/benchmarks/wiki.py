"""How much of what a newcomer must learn the pages of `rag wiki` say, and whether they can be published.

The architecture documents that the statements were taken from are removed before a wiki is generated. It also
shows which statements of the pages disagree with the files, what exceeds the limits, whether MkDocs builds
the site without a warning, and how many lines differ after a comment was added to the most central file.
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

from rag.parsing import parse_toml
from rag.processes import python_command
from rag.service import Engine, locate
from rag.service.tools.survey_of import survey
from rag.settings import load_settings
from tools.benchmarks.bench import CHECKOUT, QUESTIONS, Bench, NotMeasured, not_measured, run_process, show
from tools.benchmarks.repositories import EvaluationRepository, obtain
from tools.benchmarks.wiki_statements import Statement, sampled, statements

_SAMPLE, _MAX_WRONG, _MAX_WARNING = 300, 40, 800
_MAX_PAGE_BYTES, _MAX_PAGE_LINES, _MAX_DIFF_LINES = 40_000, 400, 30
_COMMENTS = {
    ".py": "#",
    ".rb": "#",
    **dict.fromkeys((".c", ".cc", ".go", ".java", ".js", ".php", ".rs", ".ts"), "//"),
}
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


@dataclass(frozen=True)
class _Measured:
    """What was measured of one wiki. `built` is "yes", or what MkDocs said."""

    repository: str
    things: int
    missing: list[str]
    stated: list[Statement]
    pages: int
    kilobytes: int
    largest_kb: int
    longest_lines: int
    over: int
    built: str
    changed_lines: int
    seconds: int


def wiki(bench: Bench) -> None:
    """Wikis of twelve repositories: what they say, whether it is true, whether it can be published."""
    listed = parse_toml((QUESTIONS / "wiki_things.toml").read_text(encoding="utf-8"))["repository"]
    measured = []
    with tempfile.TemporaryDirectory(prefix="rag-bench-wiki-") as workplace:
        for entry in listed:
            try:
                measured.append(_measured(entry, Path(workplace) / entry["name"], bench))
            except NotMeasured as error:
                not_measured(f"{entry['name']}: {error}")
    if not measured:
        return
    _show_table(measured)
    _show_truth([statement for one in measured for statement in one.stated])
    unbuilt = [(one.repository, one.built) for one in measured if one.built != "yes"]
    show("What MkDocs warns of", ("repository", "warnings"), unbuilt)
    missing = [(one.repository, learn) for one in measured for learn in one.missing]
    show("Not said", ("repository", "statement"), missing)


def _show_table(measured: list[_Measured]) -> None:
    """Show one row for each wiki, and their sums."""
    rows = [*(_row(one.repository, [one]) for one in measured), _row("all", measured)]
    columns = (
        "repository",
        "said with true lines",
        "true statements",
        "pages",
        "kB",
        "largest kB",
        "longest lines",
        f"over {_MAX_PAGE_BYTES // 1000} kB or {_MAX_PAGE_LINES} lines",
        "mkdocs --strict",
        f"lines a comment changes (aim {_MAX_DIFF_LINES})",
        "s",
    )
    show("Twelve wikis", columns, rows)


def _row(name: str, wikis: list[_Measured]) -> tuple[object, ...]:
    things = sum(one.things for one in wikis)
    stated = [statement.is_true for one in wikis for statement in one.stated]
    built = sum(one.built == "yes" for one in wikis)
    return (
        name,
        f"{things - sum(len(one.missing) for one in wikis)} of {things}",
        f"{sum(stated):,} of {len(stated):,}",
        sum(one.pages for one in wikis),
        sum(one.kilobytes for one in wikis),
        max(one.largest_kb for one in wikis),
        max(one.longest_lines for one in wikis),
        sum(one.over for one in wikis),
        f"{built} of {len(wikis)}",
        max(one.changed_lines for one in wikis),
        sum(one.seconds for one in wikis),
    )


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


# ---------------------------------------------------------------- one wiki


def _measured(entry: Mapping[str, Any], folder: Path, bench: Bench) -> _Measured:
    """Write the wiki of a repository, and measure it."""
    root, site = _repository(entry, folder / entry["name"], bench), folder / "wiki"
    things = [_thing(one) for one in entry["things"]]
    began = time.perf_counter()
    _write(root, site, folder / "home")
    seconds = time.perf_counter() - began
    definitions = _definitions(root)
    pages = [path.read_text(encoding="utf-8") for path in (site / "docs").glob("*.md")]
    sizes, lines = [len(page.encode()) for page in pages], [page.count("\n") for page in pages]
    return _Measured(
        repository=entry["name"],
        things=len(things),
        missing=[thing.learn for thing in things if not _is_said(thing, site, definitions)],
        stated=list(statements(site, root)),
        pages=len(pages),
        kilobytes=round(sum(sizes) / 1e3),
        largest_kb=round(max(sizes) / 1e3),
        longest_lines=max(lines),
        over=sum(
            size > _MAX_PAGE_BYTES or count > _MAX_PAGE_LINES
            for size, count in zip(sizes, lines, strict=True)
        ),
        built=_built(site),
        changed_lines=_comment_diff(root, site, folder / "home"),
        seconds=round(seconds),
    )


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


def _write(root: Path, folder: Path, home: Path) -> None:
    """Write a wiki, or bring it up to date."""
    environment = {**os.environ, "RAG_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*python_command("rag", "wiki"), str(root), "-o", str(folder), "--no-draw", "--yes"]
    run_process(command, environment)


def _built(folder: Path) -> str:
    """Return "yes" if MkDocs builds the site without a warning, else what it says."""
    with tempfile.TemporaryDirectory(prefix="rag-bench-wiki-site-") as site:
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", site]
        built = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    return "yes" if built.returncode == 0 else (built.stderr + built.stdout).strip()[-_MAX_WARNING:]


def _comment_diff(root: Path, folder: Path, home: Path) -> int:
    """Return how many lines of the pages differ after a comment was added at the top of a central file."""
    architecture = (folder / "docs" / "architecture.md").read_text(encoding="utf-8")
    linked = (unquote(match[1]) for match in _LINES.finditer(architecture))
    central = next((path for path in linked if Path(path).suffix in _COMMENTS), None)
    if central is None:
        raise NotMeasured("the page on the architecture links to no file that a comment can be added to")
    before = folder.with_name(f"{folder.name}-before")
    shutil.copytree(folder, before)
    text = (root / central).read_text(encoding="utf-8")
    is_docstring = central.endswith(".py") and text.startswith(('"', "'", "r"))
    end = 0 if is_docstring else text.index("\n") + 1
    comment = f"{_COMMENTS[Path(central).suffix]} Only a comment.\n"
    (root / central).write_text(text[:end] + comment + text[end:], encoding="utf-8")
    who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    subprocess.run(["git", *who, "commit", "-aqm", "comment"], cwd=root, check=True, capture_output=True)
    _write(root, folder, home)
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
