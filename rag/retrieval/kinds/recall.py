"""Answer a question about the conversation from its working set: "Which files would I have to change?"."""

from __future__ import annotations

from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import Asked, FactPlace, code_facts, named
from rag.types import CodeFacts, Subject
from rag.types.question_kinds import AGAIN


def find(asked: Asked) -> CodeFacts | None:
    """Return the recalled places as they are now, each with its question; None if none is there any more."""
    places, gone = list[FactPlace](), 0
    for one in asked.question.recalled:
        found = [place for index in asked.indexes if (place := _now(asked, index, one.place, one.question))]
        places += found[:1]
        gone += not found
    files, count = len({place.file.path for place in places}), len(places)
    where = f"{files} file{'s' * (files != 1)}"
    if asked.question.recalls == AGAIN:
        summary = f"The last answer is about {named(asked.question.recalled[0].place.name)}"
    elif asked.question.recalls_latest:
        summary = f"The latest {count} places of this conversation are in {where}"
    else:
        summary = f"This conversation is about {count} place{'s' * (count != 1)} in {where}"
    note = f"{gone} of its places {'is' if gone == 1 else 'are'} gone" if gone else ""
    return code_facts(asked, asked.question.recalls, "", summary, places, note=note)


def _now(asked: Asked, index: ChunkIndex, place: Subject, reason: str) -> FactPlace | None:
    """Return a place at its current line; None if it is no longer there."""
    name, line = place.symbol, place.start or 1
    defined = [one for one in index.graph.definitions(name) if one.path == place.path] if name else []
    if defined and not any(one.start <= line <= one.end for one in defined):
        line = min((one.start for one in defined), key=lambda start: abs(start - line))
    return asked.place(index, place.path, line, reason)
