"""What the rules of a kind of question are given, and what they return it as."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

import numpy as np

from rag.code.roles import is_bundle
from rag.lines import lines_of
from rag.ports import ChunkIndex
from rag.quoting import one_line
from rag.retrieval.context import ContextualQuestion
from rag.retrieval.rank import chunk_at
from rag.retrieval.shown_definition import lines_of_hit, named_at
from rag.top_k import distinct
from rag.types import CodeFact, CodeFacts, Hit, Kind
from rag.types.question_kinds import COMMAND, TRACE

MAX_FACTS = 60
"""The largest number of facts that are returned; the others are only counted."""
_MAX_FILES_READ = 40
_MAX_CHARS_READ = 4_000_000
"""Limits of the files read for one question."""
MAX_CHUNKS = 600
"""How many chunks with a term are read for one question."""
INCOMPLETE = "may be incomplete: "
"""The beginning of a note on what may be missing."""
_LINES_AROUND = 300
_FIRST_FACTS, _KEPT_HITS = 5, 3
"""How many chunks with facts come before the first hits of the ranking, and how many of these follow."""
_IN_ORDER, _HITS_IN_ORDER = frozenset({TRACE}), 7
"""Kinds whose facts are listed in an order that is not their rank: only the first comes before the hits, and
this many of these follow.
"""
_NAMED_HITS = 10
"""How many of the first hits are named by the definition that has the fact, where another names the chunk."""
_MAX_NAME_CHARS = 120
_CODE = 0
_One = TypeVar("_One")


@dataclass(frozen=True, slots=True)
class Ranked:
    """A hit of the ranking, and the store that it is in."""

    hit: Hit
    index: ChunkIndex


@dataclass(frozen=True, slots=True)
class FileText:
    """The lines of an indexed file, without the characters that end them. `lines[0]` is line 1."""

    index: ChunkIndex
    path: str
    lines: list[str]
    chunks: range

    def chunk_at(self, line: int) -> int:
        """Return the number of the chunk that holds a line, from 1."""
        return chunk_at(self.index, self.chunks, line)


@dataclass(frozen=True, slots=True)
class FactPlace:
    """Lines of a file that are a fact. `line` counts from 1; `end` is 0 for one line; `key` names them."""

    file: FileText
    line: int
    reason: str
    end: int = 0
    certain: bool = True
    key: str = ""


@dataclass(slots=True)
class Asked:
    """A question of a kind: the question, the stores, the best hits of the ranking, and the purpose of the
    commands that it asks for, "" for none.

    Files are read through `file`, which bounds how many and how much; it returns None beyond that. `limits`
    are the limits that were met and left something out, which the note of the facts names.
    """

    question: ContextualQuestion
    indexes: Sequence[ChunkIndex]
    best: Sequence[Ranked]
    purpose: str = ""
    limits: dict[str, None] = field(default_factory=dict)
    _files: dict[tuple[int, str], FileText | None] = field(default_factory=dict)
    _chars_read: int = 0

    def file(self, index: ChunkIndex, path: str, *, most: int = _MAX_FILES_READ) -> FileText | None:
        """Return the text of a file; None if it is not indexed, or `most` files or too much were read."""
        key = id(index), path
        if key not in self._files:
            if len(self._files) >= most or self._chars_read > _MAX_CHARS_READ:
                return None
            self._files[key] = self._read(index, path)
        return self._files[key]

    def place(
        self, index: ChunkIndex, path: str, line: int, reason: str, *, certain: bool = True
    ) -> FactPlace | None:
        """Return a line as a fact; None if `file` does not return its file, or that is shorter."""
        file = self.file(index, path)
        return FactPlace(file, line, reason, certain=certain) if file and line <= len(file.lines) else None

    def first(self, found: list[_One], most: int, what: str) -> list[_One]:
        """Return at most this many; if there are more, the facts say that only these "chunks were read"."""
        if len(found) > most:
            self.limits[f"only {most:,} {what}"] = None
        return found[:most]

    def hits_with(
        self, index: ChunkIndex, wanted: Iterable[str], *, code: bool = False, ending: str = ""
    ) -> Iterator[Hit]:
        """Yield the chunks that have one of some terms, at most `MAX_CHUNKS`; with `code` only code, in files
        whose paths have the ending.
        """
        held = [index.postings(term).chunks for term in wanted]
        chunks = distinct(np.concatenate(held)) if held else np.zeros(0, np.int32)
        if code:
            chunks = chunks[index.kind[chunks] == _CODE]
        if ending:
            files = [file for file in range(index.total_files) if index.file_path(file).endswith(ending)]
            chunks = chunks[np.isin(index.file[chunks], files)]
        for chunk in self.first(chunks.tolist(), MAX_CHUNKS, "chunks were read"):
            yield index.hit(chunk, 0.0, {})

    def best_files(self, limit: int) -> list[FileText]:
        """Return the texts of the files of the best hits, best first, at most `limit`.

        Bundles are left out where the code that they repeat is among the hits.
        """
        places: Iterable[Ranked] = {(one.hit.path, id(one.index)): one for one in self.best}.values()
        if any(one.hit.kind == "code" and not is_bundle(one.hit.path) for one in places):
            places = (one for one in places if not is_bundle(one.hit.path))
        files = (self.file(one.index, one.hit.path) for one in islice(places, limit))
        return [file for file in files if file is not None]

    def kind_of(self, file: FileText) -> Kind:
        """Return the kind of a file: that of its first chunk."""
        return file.index.hit(file.chunks[0], 0.0, {}).kind

    def lines_near(self, file: FileText, long: int) -> list[str]:
        """Return the lines of a file; of one with more than `long` those far from every hit are empty."""
        if len(file.lines) <= long:
            return file.lines
        near = bytearray(len(file.lines))
        for one in self.best:
            if one.hit.path == file.path and one.index is file.index:
                first = max(one.hit.start - _LINES_AROUND, 0)
                last = min(one.hit.end + _LINES_AROUND, len(near))
                near[first:last] = b"\1" * (last - first)
        return [line if kept else "" for line, kept in zip(file.lines, near, strict=True)]

    def _read(self, index: ChunkIndex, path: str) -> FileText | None:
        found = index.file_text(path)
        if found is None:
            return None
        self._chars_read += len(found[0])
        lines = lines_of(found[0])
        if "\r" in found[0]:
            lines = [line.rstrip("\r") for line in lines]
        return FileText(index, path, lines, index.chunks_of(path))


@dataclass(frozen=True, slots=True)
class _HeldFact:
    """A chunk with the first fact that it holds, and the store that it is in."""

    hit: Hit
    index: ChunkIndex
    item: CodeFact


def named(text: str) -> str:
    """Return a name or path of the repository between backticks, for a summary or a reason."""
    return f"`{one_line(text[:_MAX_NAME_CHARS])}`"


def code_facts(
    asked: Asked,
    kind: str,
    subject: str,
    summary: str,
    places: Sequence[FactPlace],
    *,
    note: str = "",
    count: int = 0,
    certain_count: int | None = None,
    is_doubtful: bool = False,
) -> CodeFacts | None:
    """Return places as facts, each once, at most `MAX_FACTS`; None without a certain one, unless
    `is_doubtful`.

    With a `note`, which says what may be missing, or if a limit was met, they are not complete. `count` is
    the number of facts if some of the places only lead to them, or not all are places, 0 for that of the
    places; `certain_count` that of the certain ones, None for all if a place is certain.
    """
    places = list({(id(one.file), one.line): one for one in places}.values())
    certain = sum(one.certain for one in places)
    if not places or not (certain or is_doubtful):
        return None
    limits = "; ".join(asked.limits)
    if limits and INCOMPLETE not in note:
        limits = INCOMPLETE + limits
    note = "; ".join(filter(None, (note, limits)))
    if certain_count is None:
        certain_count = (count or certain) if certain else 0
    return CodeFacts(
        kind=kind,
        subject=subject,
        summary=summary,
        items=tuple(_fact(one) for one in places[:MAX_FACTS]),
        count=count or len(places),
        certain_count=certain_count,
        complete=not note,
        note=note,
    )


def _fact(place: FactPlace) -> CodeFact:
    file, end = place.file, place.end or place.line
    hit = file.index.hit(file.chunk_at(place.line), 0.0, {})
    span = lines_of_hit(file.index, hit, place.line, end).span
    return CodeFact(
        span=replace(span, symbol=place.key, scope="") if place.key not in ("", span.symbol) else span,
        text="\n".join(file.lines[place.line - 1 : end]),
        reason=place.reason,
        certain=place.certain,
        dirty=hit.dirty,
        location=hit.location,
    )


def merged_hits(
    found: CodeFacts, ranked: Sequence[Hit], indexes: Sequence[ChunkIndex], k: int
) -> tuple[Hit, ...]:
    """Return the k best hits: the chunks that hold the first facts, in their order, the first of the ranking,
    the chunks of the other facts, then the rest of the ranking.

    The scores descend: those of the facts are raised above the best one. Fewer hits are the first of more.
    """
    known = {_key(hit): hit for hit in ranked}
    holding = _holding(found.items, indexes, limit=k)
    hits = {key: fact.hit for key, fact in holding.items()} | known
    leading, following = (1, _HITS_IN_ORDER) if found.kind in _IN_ORDER else (_FIRST_FACTS, _KEPT_HITS)
    first = dict(islice(holding.items(), leading))
    kept = [key for key in known if key not in first][:following]
    order = [*first, *kept, *(key for key in holding if key not in first and key not in kept)]
    best = max((hit.score for hit in ranked), default=0.0)
    placed = {}
    for position, key in enumerate(order):
        fact, hit = holding.get(key), hits[key]
        if fact and position < _NAMED_HITS:
            hit = named_at(fact.index, hit, fact.item.start)
        if fact and found.kind == COMMAND:
            hit = replace(hit, asked_line=fact.item.start)
        score = best + (MAX_FACTS + _HITS_IN_ORDER - position) / 1_000
        placed[key] = replace(hit, score=score, reason=fact.item.reason if fact else "")
    rest = [hit for key, hit in known.items() if key not in placed]
    return (*placed.values(), *rest)[:k]


def _holding(
    items: Sequence[CodeFact], indexes: Sequence[ChunkIndex], limit: int
) -> dict[tuple[str, str, int], _HeldFact]:
    """Return the chunks that hold the facts, at most `limit`, each with its first one."""
    found: dict[tuple[str, str, int], _HeldFact] = {}
    for item in items:
        for index in indexes:
            if len(found) >= limit:
                return found
            if chunks := index.chunks_of(item.path):
                hit = index.hit(FileText(index, item.path, [], chunks).chunk_at(item.start), 0.0, {})
                if hit.location == item.location:
                    found.setdefault(_key(hit), _HeldFact(hit, index, item))
    return found


def _key(hit: Hit) -> tuple[str, str, int]:
    return hit.location, hit.path, hit.start
