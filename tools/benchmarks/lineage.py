"""Is the memory right along real histories? `git blame --reverse --first-parent` judges, commit by commit.

Spans are chunks, windows of 1 to 40 lines, and definitions of files that differ between a commit and the last
one, 50 to 2,000 first-parent commits later; half of the files are not at their path any more. Every line is
traced twice, with and without `-M -C`; a span is intact if one of them traces it whole.
"""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from rag.backends.memory.turns import MemoryTurnStore
from rag.code.definitions import Definition
from rag.code.languages import kind_of, language_of_path
from rag.code.parsing import SourceText, outlines
from rag.corpus.chunk import chunk
from rag.corpus.history import files_at, read_blobs
from rag.memory.anchor import letters
from rag.memory.freshness import check
from rag.service.checks.snapshots import CommitState
from rag.service.upkeep.retention import KeptFiles
from rag.types import Citation, Freshness, SourceFile, Span
from tools.benchmarks.blame import Place

DISTANCES = (50, 200, 600, 1200, 2000)
"""How many first-parent commits lie between a citation and its check."""
_FILES = 12
_SPANS_OF_A_FILE = 2
_MAX_BYTES = 150_000
_BLAME_S = 20.0
_WINDOWS = (1, 3, 8, 15, 25, 40)
_LONGEST_DEFINITION = 150


@dataclass(frozen=True)
class Fate:
    """A span at an old commit, and where each of its lines is at the new one.

    `plain` and `copied` hold a place (or None) for every line of the file, traced without and with `-M -C`.
    `intact` are the places that have the whole span, byte for byte; none if it was changed. `whole` is the
    definition that the span consists of, "" for chunks and windows.
    """

    repository: str
    old: str
    new: str
    span: Span
    text: tuple[bytes, ...] = field(repr=False)
    plain: tuple[Place | None, ...] = field(repr=False)
    copied: tuple[Place | None, ...] = field(repr=False)
    intact: frozenset[Place]
    whole: str = ""
    renamed: bool = False

    @property
    def rows(self) -> range:
        """The lines of the span, from 0."""
        return range(self.span.start - 1, min(self.span.end, len(self.text)))

    @property
    def survivors(self) -> Counter[str]:
        """How many of the span's lines with at least three letters are left, by path, without copies."""
        return Counter(at[0] for row in self.strong_rows if (at := self.plain[row]) is not None)

    @property
    def strong_rows(self) -> list[int]:
        """The lines of the span with at least three letters, from 0."""
        return [row for row in self.rows if letters((self.text[row],)) >= 3]


def fates(folder: Path, name: str) -> Iterator[Fate]:
    """Yield the spans of one history; nothing for commits that git cannot read whole."""
    commits = (
        _git(folder, "rev-list", "--first-parent", "-n", str(DISTANCES[-1] + 1), "HEAD").decode().split()
    )
    distances = sorted({min(distance, len(commits) - 1) for distance in DISTANCES})
    for distance in distances:
        yield from _of_commit(folder, name, commits[distance], commits[0])


def _of_commit(folder: Path, name: str, old: str, new: str) -> Iterator[Fate]:
    before, after = files_at(folder, old), files_at(folder, new)
    assert before is not None and after is not None
    draw = random.Random(f"{name} {old}")
    differing = sorted(path for path, blob in before.files.items() if after.files.get(path) != blob)
    usable = [path for path in differing if language_of_path(path) is not None]
    absent = [path for path in usable if path not in after.files]
    present = [path for path in usable if path in after.files]
    chosen = draw.sample(absent, min(_FILES // 2, len(absent)))
    chosen += draw.sample(present, min(_FILES - len(chosen), len(present)))
    contents = read_blobs(folder, [before.files[path] for path in chosen])

    @cache
    def after_lines(path: str) -> list[bytes]:
        blob = after.files[path]
        return _lines(read_blobs(folder, [blob]).get(blob, b""))

    for path in chosen:
        content = contents.get(before.files[path], b"\0")
        if not content.strip() or b"\0" in content or len(content) > _MAX_BYTES:
            continue
        lines = _lines(content)
        try:
            plain, copied = (_traced(folder, old, new, path, len(lines), more) for more in ((), ("-M", "-C")))
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            continue
        for span, name_of in _spans(path, content, len(lines), before.files[path], old, draw):
            rows = range(span.start - 1, span.end)
            found = (_whole(lines, rows, traced, after_lines) for traced in (plain, copied))
            intact = frozenset(place for place in found if place)
            renamed = path not in after.files
            yield Fate(name, old, new, span, tuple(lines), plain, copied, intact, name_of, renamed)


def _lines(content: bytes) -> list[bytes]:
    return content.replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n")


def _whole(
    lines: Sequence[bytes], rows: range, traced: Sequence[Place | None], after: Callable[[str], list[bytes]]
) -> Place | None:
    """Return where the span is whole: most of its lines are traced there, and all have the same bytes."""
    starts = Counter((at[0], at[1] - row) for row in rows if (at := traced[row]) is not None)
    for (path, shift), _ in starts.most_common(3):
        begin = rows.start + shift
        there = after(path)[begin - 1 : begin - 1 + len(rows)] if begin >= 1 else []
        if there == list(lines[rows.start : rows.stop]):
            return path, begin
    return None


def _spans(
    path: str, content: bytes, count: int, blob: str, commit: str, draw: random.Random
) -> Iterator[tuple[Span, str]]:
    language = language_of_path(path)
    assert language is not None
    text = content.decode("utf-8", "replace")
    pieces = [one.span for one in chunk(SourceFile(path, text, blob, language, kind_of(path, language)))]
    for span in draw.sample(pieces, min(_SPANS_OF_A_FILE, len(pieces))):
        yield Span("", path, span.start, min(span.end, count), blob, commit), ""
    for _ in range(_SPANS_OF_A_FILE):
        start = draw.randint(1, count)
        yield Span("", path, start, min(start + draw.choice(_WINDOWS) - 1, count), blob, commit), ""
    (outline,) = outlines([SourceText(text, language)], max_chars=None)
    whole = [one for one in _functions(outline.definitions) if one.end - one.start <= _LONGEST_DEFINITION]
    for one in draw.sample(whole, min(_SPANS_OF_A_FILE, len(whole))):
        span = Span("", path, one.start + 1, min(one.end, count), blob, commit)
        yield span, one.symbol


def _functions(definitions: Sequence[Definition]) -> Iterator[Definition]:
    for one in definitions:
        if one.unit == "function" and one.symbol and one.end - one.start >= 3:
            yield one
        yield from _functions(one.members)


def _traced(
    folder: Path, old: str, new: str, path: str, count: int, more: Sequence[str]
) -> tuple[Place | None, ...]:
    arguments = ["blame", "--reverse", "--first-parent", "-p", *more, f"{old}..{new}", "--", path]
    found: list[Place | None] = [None] * count
    commit, row, line, names = "", 0, 0, dict[str, str]()
    for each in _git(folder, *arguments).split(b"\n"):
        if each.startswith(b"\t"):
            if commit == new and row <= count:
                found[row - 1] = (names[commit], line)
        elif each.startswith(b"filename "):
            names[commit] = each[9:].decode("utf-8", "surrogateescape")
        elif len(parts := each.split(b" ")) >= 3 and len(parts[0]) == 40 and parts[1].isdigit():
            commit, line, row = parts[0].decode(), int(parts[1]), int(parts[2])
    return tuple(found)


def _git(folder: Path, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", "-c", "core.quotePath=false", *arguments],
        cwd=folder,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=_BLAME_S,
    ).stdout


@dataclass(frozen=True)
class Outcome:
    """What we say of a span, and what blame says."""

    fate: Fate
    ours: Freshness

    @property
    def is_cosmetic(self) -> bool:
        """Whether we say that only the layout or comments changed, which blame cannot know."""
        return self.ours.state == "reformatted" and not self.fate.intact


def outcomes(folder: Path, some: Sequence[Fate]) -> list[Outcome]:
    """Check the spans of one history at its last commit."""
    if not some:
        return []
    state = CommitState(folder, some[0].new, KeptFiles(MemoryTurnStore(), ""))
    ours = check([Citation(1, fate.span) for fate in some], {"": state})
    return [Outcome(fate, freshness) for fate, freshness in zip(some, ours, strict=True)]


def shares(judged: Sequence[Outcome]) -> dict[str, tuple[int, int]]:
    """Return how often we agree with blame, as (agreeing, all), by what is counted."""
    said = [one for one in judged if one.ours.is_stale]
    stale = [one for one in judged if not one.fate.intact]
    gone = [one for one in judged if one.ours.state == "gone"]
    moved = [one for one in judged if one.fate.intact and _own_place(one) not in one.fate.intact]
    followed = [one for one in stale if one.fate.renamed and one.fate.survivors]
    symbols = [(one, at) for one in judged if one.fate.whole and (at := _home(one.fate))]
    counted = {
        "stale: precision": [not one.fate.intact for one in said],
        "stale: recall, cosmetic edits included": [one.ours.is_stale or one.is_cosmetic for one in stale],
        "gone: none of the lines is left": [not one.fate.survivors for one in gone],
        "moved: the very place": [(one.ours.path, one.ours.start) in one.fate.intact for one in moved],
        "edited in a renamed file: the file": [one.ours.path in one.fate.survivors for one in followed],
        "definitions with half of their lines left: the place": [_names(one, *at) for one, at in symbols],
    }
    return {name: (sum(values), len(values)) for name, values in counted.items()}


def _own_place(one: Outcome) -> Place:
    return one.fate.span.path, one.fate.span.start


def _home(fate: Fate) -> Place | None:
    """Return the file with at least half of the span's lines, and the middle one of them; None without."""
    rows = fate.strong_rows
    for traced in (fate.plain, fate.copied):
        places = [at for row in rows if (at := traced[row]) is not None]
        path, count = Counter(path for path, _ in places).most_common(1)[0] if places else ("", 0)
        if count and count >= len(rows) / 2:
            lines = sorted(line for where, line in places if where == path)
            return path, lines[len(lines) // 2]
    return None


def _names(one: Outcome, path: str, line: int) -> bool:
    is_there = one.ours.path == path and one.ours.start <= line <= one.ours.end
    return is_there or (bool(one.fate.intact) and one.ours.state in ("fresh", "moved"))
