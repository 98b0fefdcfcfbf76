"""Questions about the history of a definition or a file: who changed it, since when it exists, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from math import log

from rag.analysis import is_stop_word, term_set, words
from rag.ports import ChunkIndex
from rag.retrieval.asked_history import CHANGED, MADE, PAST, Asks
from rag.retrieval.context import ContextualQuestion, is_document
from rag.retrieval.kinds.recognition import asking_part
from rag.retrieval.mentions import is_path
from rag.retrieval.question import ParsedQuestion, last_part
from rag.retrieval.rank import chunk_at
from rag.types import Hit, Subject

_NO_NAMES = re.compile(
    rf"(?:{MADE}|{CHANGED}|{PAST}|last|commits?|changes?|history|git|blame|since|author|wrote|appear|lately"
    r"|recently|functions?|method|class|file|definition|introduce|change|add)",
    re.IGNORECASE,
)
"""Words of such questions, which may also be names in the code."""
_MIN_NAME = 3
_LAST = re.compile(r"\b(?:last|recently|lately|latest)\b", re.IGNORECASE)
_OF_TEXT, _OF_LINES, _FEW_TERMS, _BETTER, _MIN_FOUND = 0.6, 0.6, 40, 1.2, 2
Word = frozenset[str]
"""The terms of a word."""
ChangeText = tuple[str, str, str]
"""The title of a change, its text, and the lines that it added or removed."""


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

    @property
    def is_file(self) -> bool:
        """Whether it is a whole file."""
        return self.name == self.hit.path


def subject_of(
    question: ContextualQuestion, asks: Asks, ranked: Sequence[Hit], indexes: Sequence[ChunkIndex]
) -> HistorySubject | None:
    """Return the definition or file that is meant: the one named, what "it" means, or the best hit's.

    Whether something happened to what has no name is not known: it is none then.
    """
    parsed = question.question
    named = [last_part(name) for name in parsed.names if not any(name in path for path in parsed.paths)]
    files = [file for path in parsed.paths if (file := _file(path, indexes))]
    near = [file.hit.path for file in files]
    definitions = (_definition(name, ranked, indexes, near) for name in named)
    within = (one for one in definitions if one and (one.hit.path in near or not near))
    if named or parsed.paths:
        return next(chain(within, files), None)
    places = [one.place for one in question.about if parsed.dependent]
    written = [word for word in words(parsed.text) if _may_be_a_name(word) and asks != "event"]
    found = chain(
        (_section(place, indexes) for place in places[:1] if is_document(place)),
        (_definition(name, ranked, indexes, question.near) for name in question.focus if places),
        (_definition(name, ranked, indexes) for name in written),
        (_file(word, indexes) for word in written if word != word.lower()),  # Dockerfile, LICENSE
    )
    subject = next((one for one in found if one), None)
    if subject or asks == "event":
        return subject
    best = _definition(ranked[0].symbol, ranked, indexes, (ranked[0].path,)) if ranked else None
    return replace(best, certain=False) if best else None


def sought_words(question: ParsedQuestion, subject: HistorySubject) -> list[Word]:
    """Return what a question says of a change besides what changed; nothing if it asks for the last one."""
    text = asking_part(question.text)
    if _LAST.search(text):
        return []
    for path in question.paths:
        if is_path(subject.hit.path, path):
            text = text.replace(path, " ")
    said = [word for word in words(text) if not is_stop_word(word) and not _NO_NAMES.fullmatch(word)]
    sought = (frozenset(term_set(f"{word} {word.lower()}") - term_set(subject.name)) for word in said)
    return [word for word in dict.fromkeys(sought) if word]


def matching(wanted: Sequence[Word], changes: Sequence[ChangeText]) -> list[int]:
    """Return the numbers of the changes, newest first, that match some words, by how well they do.

    The fewer changes have a word, the more it counts; in a text or among changed lines less than in a title.
    Of equal changes the first that was made comes first: the others follow from it. None is returned unless
    the message of the best one has two of the words, and most of them or the others match worse.
    """
    fields = [[term_set(part) for part in change] for change in changes]
    rare = _rarity(wanted, [title | text for title, text, _ in fields])
    rare_line = _rarity(wanted, [lines for *_, lines in fields])
    scores, found = list[float](), list[int]()
    for title, text, lines in fields:
        of_lines = _OF_LINES / (1 + len(lines) / _FEW_TERMS)
        shares = ((title, rare, 1.0), (text, rare, _OF_TEXT), (lines, rare_line, of_lines))
        weights = (
            max((of[term] * share for part, of, share in shares for term in word & part), default=0.0)
            for word in wanted
        )
        scores.append(round(sum(weights), 1))
        found.append(sum(not word.isdisjoint(title | text) for word in wanted))
    order = sorted(
        (number for number, score in enumerate(scores) if score),
        key=lambda number: (-scores[number], -number),
    )
    if not order or found[order[0]] < min(_MIN_FOUND, len(wanted)):
        return []
    best, *others = (scores[number] for number in order)
    most = found[order[0]] >= _MIN_FOUND and found[order[0]] > len(wanted) / 2
    return order if most or best > _BETTER * max(others, default=0.0) else []


def _rarity(wanted: Sequence[Word], texts: Sequence[Set[str]]) -> dict[str, float]:
    """Return how much each term of some words counts: the more, the fewer texts have it."""
    count = len(texts) + 1
    return {term: log(count / (sum(term in text for text in texts) + 0.5)) for term in chain(*wanted)}


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
