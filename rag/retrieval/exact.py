"""Search the indexed text for a string or a regular expression, and count all matches.

Every file of the stores is read, except where the postings show that it cannot match: a word inside the
string, with its borders on both sides, is a word of the text, so its terms are in the postings. Regular
expressions are RE2's, which take linear time. At a time limit the search ends with what it found until then.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import re2

from rag.analysis import terms, words
from rag.code.languages import language_of_path
from rag.code.roles import is_carried, is_generated
from rag.errors import SearchInvalid
from rag.identifiers import composed, spellings
from rag.ports import ChunkIndex
from rag.retrieval.rank import is_aside
from rag.retrieval.shown_definition import lines_of_hit
from rag.top_k import find_sorted
from rag.types import Hit, LinesLeft, PatternMatches

MAX_PATTERN_CHARS = 1_000
MAX_SECONDS = 10.0
_MAX_PLACES = 5_000
"""The number of lines that are put into order; the others are only counted."""
_MAX_TEXT_CHARS = 200
"""The length of the text that is shown of the lines of a match."""
_MAX_ALTERNATIVES = 6
_BATCH = 128
"""The number of files that one thread reads at a time."""
_MAX_THREADS = 4

_SCORES = (1.0, 0.8, 0.7, 0.6, 0.5, 0.4)
_KIND_ORDER = np.asarray([0, 2, 3, 1])
_MINOR = 4
"""The scores of hits by their rank: a definition in code, then the order of their files; this order, by the
number of a kind. A minor file is generated, a copy, an example, a migration, a style sheet or a workflow.
"""
_MINOR_PATH = re.compile(r"(?:^|/)(?:migrations?|locales?|translations?|\.github|\.circleci)/")
_STYLES = ("css", "scss")
_LINES_AT_ONCE = 3
"""This many lines of each file are chosen before more of one file."""
_NAMED_FILES = 200
"""The most files of which it is said how many of their lines are left; the others are counted by folder."""
_TEST, _DOC = 1, 2
_COMMENT = re.compile(r"\s*(?://|/?\*|# |--|;;|%|\"\"\"|''')")
"""The beginning of a line that may mention the name of a definition above the line that defines it."""

_NO_NAME_BEFORE, _NO_NAME_AFTER = rb"(?<![\w$\x80-\xff])", rb"(?![\w$\x80-\xff])"
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*+\]?|.", re.DOTALL)
"""An escaped character of an expression, a set, or another character."""

Span = tuple[int, int]
Spans = Callable[[bytes], Iterator[Span]]


@dataclass(frozen=True, slots=True)
class TextResult:
    """The lines on which a match begins: where code defines the matched name, code, configuration, tests,
    documents, minor files; within these in the order of the stores, by path and line. If there are more than
    one page has, a few lines of each file are on an earlier page than more of one file, and tests, documents
    and minor files are on later pages than all others.

    `lines_by_path` counts all lines of each file.
    """

    hits: tuple[Hit, ...]
    matches: PatternMatches
    lines_by_path: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Place:
    """The lines of a match, from the line on which it begins, in a chunk; `text` is what is shown of them."""

    chunk: int
    first: int
    last: int
    text: str
    is_definition: bool


@dataclass(slots=True)
class _Found:
    """The matches in some files of one store: the counts, and the first places."""

    count: int = 0
    lines: int = 0
    files: int = 0
    places: list[_Place] = field(default_factory=list)
    complete: bool = True
    lines_by_file: Counter[int] = field(default_factory=Counter)

    def add(self, other: _Found) -> None:
        """Add the matches in other files."""
        self.count += other.count
        self.lines += other.lines
        self.files += other.files
        self.places += other.places[: _MAX_PLACES - len(self.places)]
        self.complete &= other.complete
        self.lines_by_file.update(other.lines_by_file)


_Order = tuple[int, int, bool, str, int]
_Choice = tuple[bool, bool, int, _Order]


@dataclass(frozen=True, slots=True)
class _RankedPlace:
    """A place in a store of this number: its position in a list of all places, and on which page it comes."""

    place: _Place
    order: _Order
    choice: _Choice

    @property
    def store(self) -> int:
        """The number of the store."""
        return self.order[1]


def find_text(
    indexes: Sequence[ChunkIndex],
    pattern: str,
    *,
    regex: bool = False,
    ignore_case: bool = False,
    k: int = 10,
    page: int = 1,
    max_seconds: float = MAX_SECONDS,
) -> TextResult:
    """Find a string, or an expression in RE2's syntax, in the text of all live files.

    Matches do not overlap; empty matches do not count. `^` and `$` match at every line. A page has `k` lines;
    all pages together have each line once.

    Raises:
        SearchInvalid: the pattern is empty, too long, or not an expression.
    """
    spans = matcher(pattern, regex=regex, ignore_case=ignore_case)
    until = time.monotonic() + max_seconds
    inner = [] if regex or ignore_case else _inner_words(pattern)
    found = [_search(index, spans, inner, until) for index in indexes]
    places = [
        one
        for number, (index, held) in enumerate(zip(indexes, found, strict=True))
        for one in _ranked(index, number, held.places)
    ]
    places.sort(key=lambda one: one.choice)
    before, end = min((page - 1) * k, len(places)), page * k
    shown = sorted(places[before:end], key=lambda one: one.order)
    lines = sum(one.lines for one in found)
    matches = PatternMatches(
        sum(one.count for one in found),
        lines,
        sum(one.files for one in found),
        lines - before - len(shown),
        complete=all(one.complete for one in found),
        before=before,
        next_page=page + 1 if end < len(places) else None,
        rest=tuple(_rest(indexes, found, places[:end])),
    )
    by_path: Counter[str] = Counter()
    for index, one in zip(indexes, found, strict=True):
        by_path.update({index.file_path(file): count for file, count in one.lines_by_file.items()})
    hits = (_hit(indexes[one.store], one) for one in shown)
    return TextResult(tuple(hits), matches, by_path)


def _rest(
    indexes: Sequence[ChunkIndex], found: Sequence[_Found], listed: Sequence[_RankedPlace]
) -> Iterator[LinesLeft]:
    """Yield how many lines of each file are not listed, in the order of the files; of many the last ones by
    their first folder."""
    done = Counter((one.store, int(indexes[one.store].file[one.place.chunk])) for one in listed)
    files: list[tuple[int, int, str, int]] = []
    for number, (index, held) in enumerate(zip(indexes, found, strict=True)):
        for file, count in held.lines_by_file.items():
            if left := count - done[number, file]:
                path = index.file_path(file)
                files.append((_order(path, int(index.kind[index.chunks_of(path)[0]])), number, path, left))
    of = {
        number: indexes[number].hit(found[number].places[0].chunk, 0.0, {})
        for number in {number for _, number, *_ in files}
    }
    folders: Counter[tuple[int, str]] = Counter()
    for at, (_, number, path, left) in enumerate(sorted(files)):
        if at < _NAMED_FILES:
            yield LinesLeft(of[number].repo, path, left, of[number].location)
        else:
            folders[number, f"{path.partition('/')[0]}/" if "/" in path else "./"] += left
    for (number, folder), left in folders.items():
        yield LinesLeft(of[number].repo, folder, left, of[number].location)


def matcher(pattern: str, *, regex: bool, ignore_case: bool) -> Spans:
    """Return a function that yields where a pattern matches in a text."""
    if not pattern:
        raise SearchInvalid("the string to find is empty")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise SearchInvalid(
            f"the pattern has {len(pattern):,} characters, the limit is {MAX_PATTERN_CHARS:,}"
        )
    expression = _in_any_spelling(pattern) if regex else spellings(pattern)
    if not regex and not ignore_case and expression == re.escape(pattern):
        return partial(_occurrences, pattern.encode("utf-8", "surrogatepass"))
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # a match with hundreds of groups would take a thousand times longer
    options.case_sensitive = not ignore_case
    try:
        compiled = re2.compile(f"(?m){expression}".encode("utf-8", "surrogatepass"), options)
    except re2.error as error:
        why = error.args[0].decode("utf-8", "replace") if error.args else "not an expression"
        raise SearchInvalid(
            f"invalid regular expression: {why}; the syntax is RE2's, without look-around and back-references"
        ) from error
    return lambda text: (match.span() for match in compiled.finditer(text) if match.end() > match.start())


def alternatives(expression: str) -> list[str]:
    """Return the alternatives of an expression, `a` and `b` of `a|b`; the expression itself if it has none,
    many, or an option for all of them.
    """
    parts, depth = [""], 0
    for token in _TOKEN.findall(expression):
        depth += (token == "(") - (token == ")")
        if token == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += token
    is_one = r"\Q" in expression or (expression.startswith("(?") and not expression.startswith("(?:"))
    return [expression] if is_one or "" in parts or len(parts) > _MAX_ALTERNATIVES else parts


def _in_any_spelling(expression: str) -> str:
    """Return an expression that matches composed and decomposed forms of its letters, except in sets."""
    if expression.isascii() or r"\Q" in expression:
        return expression
    return _TOKEN.sub(
        lambda token: token[0] if token[0].isascii() or token[0][0] in "\\[" else spellings(token[0]),
        composed(expression),
    )


def _occurrences(wanted: bytes, text: bytes) -> Iterator[Span]:
    at = text.find(wanted)
    while at >= 0:
        yield at, at + len(wanted)
        at = text.find(wanted, at + len(wanted))


def _inner_words(literal: str) -> list[str]:
    """Return the words of a string that are whole words wherever it occurs: not those at its ends."""
    literal = composed(literal)
    found = words(literal)
    at_start = bool(found) and literal.startswith(found[0])
    at_end = bool(found) and literal.endswith(found[-1])
    return found[at_start : len(found) - at_end]


def _search(index: ChunkIndex, spans: Spans, inner: Sequence[str], until: float) -> _Found:
    """Search one store. Several threads read, since most of the time is spent on decompression."""
    files = _candidates(index, inner)
    batches = [files[at : at + _BATCH] for at in range(0, len(files), _BATCH)]
    threads = min(os.cpu_count() or 1, _MAX_THREADS, max(len(batches), 1))
    found = _Found()
    with ThreadPoolExecutor(threads) as pool:
        for at in range(0, len(batches), threads):
            room = _MAX_PLACES - len(found.places)
            for one in pool.map(partial(_read, index, spans, until, room), batches[at : at + threads]):
                found.add(one)
    return found


def _candidates(index: ChunkIndex, inner: Sequence[str]) -> list[int]:
    """Return the live files that may hold all these words; code first, documents last, since places are
    limited.
    """
    live = np.arange(len(index)) if index.dead is None else np.flatnonzero(~index.dead)
    files, first = np.unique(index.file[live], return_index=True)
    for term in {term for word in inner for term in terms(word)}:
        may = index.divided.copy()
        may[index.file[index.postings(term).chunks]] = True
        files, first = files[may[files]], first[may[files]]
    found: list[int] = files[np.argsort(_KIND_ORDER[index.kind[live[first]]], kind="stable")].tolist()
    return found


def _read(index: ChunkIndex, spans: Spans, until: float, room: int, files: Sequence[int]) -> _Found:
    """Search some files of a store; return at most `room` places."""
    found = _Found()
    for file in files:
        if time.monotonic() > until:
            found.complete = False
            break
        text = index.file_bytes(file)
        chunks = _Chunks(index, file)
        line, last, counted_to, before = 1, 0, 0, found.lines
        for start, end in spans(text):
            if time.monotonic() > until:  # each match may read the rest of the file
                found.complete = False
                break
            found.count += 1
            line += text.count(b"\n", counted_to, start)
            counted_to = start
            if line == last:
                continue
            last = line
            found.lines += 1
            if len(found.places) < room:
                found.places.append(chunks.place(text, line, (start, end)))
        if found.lines > before:
            found.files += 1
            found.lines_by_file[file] = found.lines - before
    return found


class _Chunks:
    """The chunks of a file, read when the first match is found."""

    def __init__(self, index: ChunkIndex, file: int) -> None:
        self._index, self._file = index, file

    @cached_property
    def _numbers(self) -> range:
        first, end = (int(find_sorted(self._index.file, self._file, side)) for side in ("left", "right"))
        return range(first, end)

    @cached_property
    def _starts(self) -> list[int]:
        return [self._index.lines(chunk)[0] for chunk in self._numbers]

    @cached_property
    def _names(self) -> list[tuple[str, str]]:
        return self._index.names(np.asarray(self._numbers, np.int64))

    def place(self, text: bytes, line: int, match: Span) -> _Place:
        """Return the place of a match that begins on a line of the file's text."""
        start, end = match
        at = int(np.searchsorted(self._starts, line, side="right")) - 1
        from_ = text.rfind(b"\n", 0, start) + 1
        to = text.find(b"\n", end - 1)
        to = len(text) if to < 0 else to
        return _Place(
            chunk=self._numbers[at],
            first=line,
            last=line + text.count(b"\n", start, end - 1),
            text=_shown(text, from_, to, match),
            is_definition=self._is_definition(text, at, line, from_, match),
        )

    def _is_definition(self, text: bytes, at: int, line: int, from_: int, match: Span) -> bool:
        """Return whether a match contains the name that its chunk defines, where it is defined."""
        symbol = self._names[at][0]
        if not symbol or (at > 0 and self._names[at - 1] == self._names[at]):
            return False
        named = re.compile(_NO_NAME_BEFORE + spellings(symbol).encode("utf-8", "replace") + _NO_NAME_AFTER)
        found = named.search(text, from_, match[1])
        if found is None or found.start() < match[0]:
            return False
        begins = from_
        for _ in range(line - self._starts[at]):
            begins = text.rfind(b"\n", 0, begins - 1) + 1
        *above, here = (
            text[begins : match[1]].decode("utf-8", "replace").rsplit("\n", line - self._starts[at])
        )
        if self._index.kind[self._numbers[at]] == _DOC:
            return not any(symbol in composed(one) for one in above)
        return not _COMMENT.match(here) and not any(
            symbol in composed(one) and not _COMMENT.match(one) for one in above
        )


def _shown(text: bytes, start: int, end: int, match: Span) -> str:
    """Return what is shown of the lines of a match, cut around its beginning if they are long."""
    first = max(start, min(match[0] - _MAX_TEXT_CHARS // 4, end - _MAX_TEXT_CHARS))
    shown = text[first : min(end, first + _MAX_TEXT_CHARS)].decode("utf-8", "replace")
    return ("…" if first > start else "") + shown + ("…" if first + _MAX_TEXT_CHARS < end else "")


def _ranked(index: ChunkIndex, number: int, places: Sequence[_Place]) -> Iterator[_RankedPlace]:
    """Yield the places of a store with their order."""
    files: dict[tuple[int, int], tuple[int, str]] = {}
    before: Counter[int] = Counter()
    for place in places:
        file, kind = key = int(index.file[place.chunk]), int(index.kind[place.chunk])
        if key not in files:
            path = index.file_path(file)
            files[key] = _order(path, kind), path
        of_file, path = files[key]
        rank = 0 if place.is_definition and of_file == 0 else 1 + of_file
        order = (rank, number, not place.is_definition, path, place.first)
        turn = 0 if place.is_definition else before[file] // _LINES_AT_ONCE
        before[file] += not place.is_definition
        yield _RankedPlace(place, order, (rank > 0, of_file >= _KIND_ORDER[_TEST], turn, order))


def _order(path: str, kind: int) -> int:
    """Return the order of a file among the others."""
    is_minor = (
        is_carried(path)
        or is_generated(path)
        or is_aside(path)
        or language_of_path(path) in _STYLES
        or _MINOR_PATH.search(path) is not None
    )
    return _MINOR if is_minor else int(_KIND_ORDER[kind])


def _hit(index: ChunkIndex, ranked: _RankedPlace) -> Hit:
    place = ranked.place
    hit = index.hit(place.chunk, 0.0, {})
    shown = lines_of_hit(index, hit, place.first, place.last)
    return replace(shown, text=place.text, score=_SCORES[ranked.order[0]], blank_end="")
