"""Questions about the history of a definition or a file: who changed it, since when it exists, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from rag.analysis import is_stop_word, words
from rag.ports import ChunkIndex
from rag.retrieval.asked_history import CHANGED, MADE, PAST
from rag.retrieval.context import ContextualQuestion, is_document
from rag.retrieval.mentions import is_path
from rag.retrieval.question import last_part
from rag.retrieval.rank import chunk_at
from rag.types import Hit, Subject

_NO_NAMES = re.compile(
    rf"(?:{MADE}|{CHANGED}|{PAST}|last|commits?|changes?|history|git|blame|since|author|wrote|appear|lately"
    r"|recently|functions?|method|class|file|definition|introduce|change|add)",
    re.IGNORECASE,
)
"""Words of such questions, which may also be names in the code."""
_MIN_NAME = 3


@dataclass(frozen=True, slots=True)
class HistorySubject:
    """The definition, or the file, whose history is asked for, as lines of an indexed file.

    It is not `certain` if the question does not name it.
    """

    index: ChunkIndex
    hit: Hit
    name: str
    first: int
    last: int
    certain: bool = True


def subject_of(
    question: ContextualQuestion, ranked: Sequence[Hit], indexes: Sequence[ChunkIndex]
) -> HistorySubject | None:
    """Return the definition or file that is meant: the one named, what "it" means, or the best hit's."""
    parsed = question.question
    named = [last_part(name) for name in parsed.names if not any(name in path for path in parsed.paths)]
    written = [word for word in words(parsed.text) if _may_be_a_name(word)]
    found = chain(
        (_definition(name, ranked, indexes) for name in named),
        (_file(path, indexes) for path in parsed.paths),
    )
    if named or parsed.paths:
        return next((one for one in found if one), None)
    places = [one.place for one in question.about if parsed.dependent]
    found = chain(
        (_section(place, indexes) for place in places[:1] if is_document(place)),
        (_definition(name, ranked, indexes, question.near) for name in question.focus if places),
        (_definition(name, ranked, indexes) for name in written),
        (_file(word, indexes) for word in written if word != word.lower()),  # Dockerfile, LICENSE
    )
    if subject := next((one for one in found if one), None):
        return subject
    best = _definition(ranked[0].symbol, ranked, indexes, (ranked[0].path,)) if ranked else None
    return replace(best, certain=False) if best else None


def _may_be_a_name(word: str) -> bool:
    return len(word) >= _MIN_NAME and not is_stop_word(word) and not _NO_NAMES.fullmatch(word)


def _definition(
    name: str, ranked: Sequence[Hit], indexes: Sequence[ChunkIndex], near: Sequence[str] = ()
) -> HistorySubject | None:
    """Return the definition with exactly this name: in the files last shown, else the one ranked best."""
    places = {hit.place: number for number, hit in reversed(list(enumerate(ranked)))}
    found = [
        (index, hit)
        for index in indexes
        for chunk in index.defining(name)
        if (hit := index.hit(chunk, 0.0, {})).symbol == name and hit.kind != "doc"
    ]
    if not name or not found:
        return None
    index, hit = min(
        found,
        key=lambda one: (
            one[1].path not in near,
            places.get(one[1].place, len(places)),
            one[1].kind != "code",
            one[1].path,
        ),
    )
    first, last = _extent(index, hit)
    return HistorySubject(index, hit, hit.qualified_name, first, last)


def _section(place: Subject, indexes: Sequence[ChunkIndex]) -> HistorySubject | None:
    """Return the section of a document that a conversation is about."""
    for index in indexes:
        if chunks := index.chunks_of(place.path):
            hit = index.hit(chunk_at(index, chunks, max(place.start, 1)), 0.0, {})
            return HistorySubject(index, hit, hit.label or hit.path, hit.start, hit.end)
    return None


def _extent(index: ChunkIndex, hit: Hit) -> tuple[int, int]:
    """Return the first and last line of the definition that a hit is a part of, else those of the hit."""
    graph = index.graph
    for one in (*graph.defined_in(hit.path), *graph.values_in(hit.path)):
        is_same = (one.name, one.scope) == (hit.symbol, hit.scope)
        if is_same and one.start <= hit.end and hit.start <= one.end:
            return one.start, one.end
    return hit.start, hit.end


def _file(path: str, indexes: Sequence[ChunkIndex]) -> HistorySubject | None:
    for index in indexes:
        files = (file for file in range(index.total_files) if is_path(index.file_path(file), path))
        for file in files:
            if chunks := index.chunks_of(index.file_path(file)):
                hit = index.hit(chunks[0], 0.0, {})
                return HistorySubject(index, hit, hit.path, 1, index.hit(chunks[-1], 0.0, {}).end)
    return None
