"""Find the definition that an answer is about in each of its citations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from rag.code.file_graph import Defined
from rag.service.repositories.repository import Repository
from rag.types import Answer, Citation, CitedSymbol, Prepared, Subject

_WORD = re.compile(r"[^\W\d]\w*")


def with_anchors(answer: Answer, repositories: Sequence[Repository], prepared: Prepared) -> Answer:
    """Return the answer with the `anchor` of each citation that it refers to; the others are as they were.

    Of the functions and classes within the cited lines it is the only one that the question names, else the
    subject, else the only one that the answer names, else the one that the chunk is called after.
    """
    asked = frozenset(_WORD.findall(f"{answer.question} {prepared.standalone_question}"))
    said = frozenset(_WORD.findall(answer.text))
    stores = {one.source.location: one.store for one in repositories}
    names = asked | said | {one.symbol for one in answer.citations}
    names |= {prepared.subject.symbol} if prepared.subject else set()

    @cache
    def defined(location: str, path: str) -> list[Defined]:
        return stores[location].definitions_in(path, names)

    def anchored(citation: Citation) -> Citation:
        if citation.location not in stores or not citation.used or not citation.blob:
            return citation
        within = _within(citation, defined(citation.location, citation.path))
        return replace(citation, anchor=_meant(within, asked, said, prepared.subject, citation))

    return replace(answer, sources=tuple(map(anchored, answer.sources)))


def _within(citation: Citation, defined: Sequence[Defined]) -> list[Defined]:
    return [one for one in defined if citation.start <= one.start and one.end <= citation.end]


def _meant(
    within: Sequence[Defined],
    asked: frozenset[str],
    said: frozenset[str],
    subject: Subject | None,
    citation: Citation,
) -> CitedSymbol | None:
    named = {subject.symbol} if subject and subject.path == citation.path else set()
    for names in (asked, named, said, {citation.symbol}):
        some = [one for one in within if one.name in names]
        if len(some) == 1:
            (one,) = some
            return CitedSymbol(one.name, one.start, one.end)
    return None
