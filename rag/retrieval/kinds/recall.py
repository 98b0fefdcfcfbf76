"""Answer a question about the conversation from its working set: "Where were we?", "What do I change?"."""

from __future__ import annotations

from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import Asked, FactPlace, code_facts, named
from rag.retrieval.kinds.setting import places_of
from rag.retrieval.kinds.tested import tests_of
from rag.retrieval.uses import uses_of_name
from rag.types import CodeFacts, Subject
from rag.types.question_kinds import AFFECTED, AGAIN

_MAX_FILES = 10
"""How many files are shown that a change affects."""


def find(asked: Asked) -> CodeFacts | None:
    """Return the recalled places as they are now, each with its question; None if none is there any more."""
    if asked.question.recalls == AFFECTED:
        return _affected(asked)
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


def _affected(asked: Asked) -> CodeFacts | None:
    """Return what a change affects, by file: the first place, the others of the conversation, then the users
    and the tests of the first.
    """
    (subject, *others), setting = asked.question.recalled, asked.question.setting
    best, order = dict[str, FactPlace](), dict[str, None]()
    for index in asked.indexes:
        own = places_of(asked, index, setting) if setting else _uses(asked, index, subject.place)
        also = [_now(asked, index, one.place, one.question) for one in others]
        best |= {place.file.path: place for place in reversed([*own, *also]) if place}
        order |= {place.file.path: None for place in (*own[:1], *also, *own[1:]) if place}
    files = [best[path] for path in order]
    about, count = named(setting or subject.place.name), len(files)
    what = f"{about} and of the other places of this conversation" if others else about
    summary = f"A change of {what} affects {count} file{'s' * (count != 1)}"
    files = asked.first(files, _MAX_FILES, "files are shown")
    return code_facts(asked, AFFECTED, "", summary, files, count=count)


def _uses(asked: Asked, index: ChunkIndex, place: Subject) -> list[FactPlace | None]:
    """Return a place as it is now, its users and its tests."""
    symbol = place.symbol
    found = [_now(asked, index, place, "defined here" if symbol else "what this is about")]
    defined = [one for one in index.graph.definitions(symbol) if one.path == place.path] if symbol else []
    if defined or (symbol and index.graph.values(symbol)):
        uses = uses_of_name(index, symbol, meant=defined, calls=False).shown
        found += [asked.place(index, use.path, use.line, f"uses {named(symbol)}") for use in uses]
    tests = tests_of(asked, index, defined) if defined else []
    found += [asked.place(index, use.path, use.line, f"tests {named(symbol)}") for use in tests]
    for use in index.graph.importers(place.path) if not symbol else ():
        found.append(asked.place(index, use.path, use.line, f"imports {named(place.path)}"))
    return found


def _now(asked: Asked, index: ChunkIndex, place: Subject, reason: str) -> FactPlace | None:
    """Return a place at its current line; None if it is no longer there."""
    name, line = place.symbol, place.start or 1
    defined = [one for one in index.graph.definitions(name) if one.path == place.path] if name else []
    if defined and not any(one.start <= line <= one.end for one in defined):
        line = min((one.start for one in defined), key=lambda start: abs(start - line))
    return asked.place(index, place.path, line, reason)
