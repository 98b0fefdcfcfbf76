"""Renders values for the native routes: their JSON form, with a URL for each cited place.

For remote callers, folders are sent by name instead of path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any

import pydantic_core
from starlette.responses import Response

from rag.answer.references import at_cited_lines
from rag.memory.asked import settled
from rag.memory.facts import Fact
from rag.schema import OPAQUE, Json, checked_citations, checked_turn, to_json
from rag.serve.access.keys import Caller
from rag.serve.links import citation_url, viewer_link
from rag.serve.service import Service
from rag.service import Dialog
from rag.types import (
    Answer,
    Checkout,
    Citation,
    CodeFact,
    CodeFacts,
    Conversation,
    DialogTurn,
    Freshness,
    Hit,
    LinesLeft,
    PatternMatches,
    Subject,
    TraceStep,
    worst,
)

_NUMBERS = frozenset({int, float, bool, NoneType})
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
Pairs = Iterable[tuple[Citation, Freshness]]


class Renderer:
    """Renders values for one caller.

    Args:
        service: the service.
        caller: the caller who receives the values.
        base: the server's own URL, for links to its viewer.
        dialog: the conversation that an answer comes from; its repositories are open.
    """

    def __init__(
        self,
        service: Service,
        caller: Caller,
        base: str,
        dialog: Dialog | None = None,
    ) -> None:
        self._service, self._base = service, base
        self._entries = service.registry.visible_to(caller)
        self._open = {r.source.location: r.checkout for r in dialog.repositories} if dialog else {}
        self._served: dict[str, tuple[str | None, Checkout | None]] = {}

    def hit(self, hit: Hit) -> Json:
        """Return a hit with its text."""
        return self._sent(to_json(hit) | {"repository": self._name(hit), "url": self._link(hit)})

    def matches(self, matches: PatternMatches | None) -> Json | None:
        """Return the counts of a search for a string or an expression; None for those of a question."""
        if matches is None:
            return None
        named = ((to_json(one), self._name(one)) for one in matches.rest)
        rest = [self._sent(written | {"repository": name}) for written, name in named]
        return to_json(matches) | {"rest": rest}

    def citation(self, citation: Citation) -> Json:
        """Return a citation."""
        (found,) = self._with_urls([to_json(citation)], [citation])
        return self._sent(found)

    def citations(self, citations: Sequence[Citation]) -> list[Json]:
        """Return citations, in order."""
        return [self._sent(one) for one in self._with_urls([to_json(one) for one in citations], citations)]

    def checked(self, pairs: Pairs) -> list[Json]:
        """Return citations, each with its freshness."""
        pairs = list(pairs)
        return [self._sent(one) for one in self._with_urls(checked_citations(pairs), [c for c, _ in pairs])]

    def checked_turn(self, turn: DialogTurn) -> Json:
        """Return the freshness of all citations of a turn."""
        pairs = list(zip(turn.citations, turn.checks, strict=True))
        return self._sent(checked_turn(turn, ())) | {"citations": self.checked(pairs)}

    def answer(self, answer: Answer) -> Json:
        """Return an answer, for `json_response` or an event: its texts may be invalid.

        It has thousands of values, so they are not examined one by one.
        """
        written = to_json(answer)
        written["code_facts"] = self._code_facts(answer.code_facts)
        cited = at_cited_lines(answer.text, answer.sources)
        written["sources"] = self._with_urls(written["sources"], cited)
        found: Json = _redacted(written, _redactions(self._service))
        return found

    def subject(self, subject: Subject | None) -> Json | None:
        """Return what "it" means; None for nothing."""
        return None if subject is None else self._sent(to_json(subject))

    def code_facts(self, found: CodeFacts | None) -> Json | None:
        """Return facts, which are None for a question of no known kind."""
        written = self._code_facts(found)
        return written and self._sent(written)

    def _code_facts(self, found: CodeFacts | None) -> Json | None:
        if found is None:
            return None
        items = [
            to_json(one) | {"repository": self._name(one), "url": self._link(one)} for one in found.items
        ]
        return to_json(found) | {"items": items}

    def turn(self, turn: DialogTurn) -> Json:
        """Return a turn, without the freshness of its citations; "failed" if it was interrupted."""
        written = to_json(replace(settled(turn), checks=()))
        cited = at_cited_lines(turn.answer, turn.citations)
        return self._sent(written | {"citations": self._with_urls(written["citations"], cited)})

    def freshness(self, turn: DialogTurn) -> Json:
        """Return the worst freshness of a turn's citations."""
        return self._sent(to_json(turn.freshness or worst(())))

    def conversation(self, conversation: Conversation, title: str) -> Json:
        """Return a conversation; each source has the name that it is served under, or None."""
        names = {str(entry.source): entry.name for entry in self._entries}
        written = to_json(conversation) | {"title": title}
        for source, one in zip(conversation.sources, written["sources"], strict=True):
            one["name"] = names.get(str(source))
        return self._sent(written)

    def fact(self, fact: Fact) -> Json:
        """Return a fact; `repository` is the name that it is served under, or None."""
        names = {entry.source.location: entry.name for entry in reversed(self._entries)}
        written = to_json(fact) | {"repository": names.get(fact.location)}
        return self._sent(written | {"citations": self._with_urls(written["citations"], fact.citations)})

    def _with_urls(self, written: list[Json], citations: Iterable[Citation]) -> list[Json]:
        for one, of in zip(written, citations, strict=True):
            one["repository"] = self._name(of)
            one["url"] = citation_url(of, self._served_as(of.location)[1], one["repository"], self._base)
        return written

    def _link(self, of: Hit | CodeFact) -> str:
        return viewer_link(self._base, self._name(of), of.path, of.start, of.end)

    def _name(self, of: Hit | CodeFact | Citation | LinesLeft) -> str:
        """Return the name that a repository is served under, or its own name."""
        name, _ = self._served_as(of.location)
        return of.repo if name is None else name

    def _served_as(self, location: str) -> tuple[str | None, Checkout | None]:
        """Return the name that a location is served under, and its checkout; None if there is none."""
        if (known := self._served.get(location)) is None:
            entries = [entry for entry in self._entries if entry.source.location == location]
            opened = (entry.checkout for entry in entries if entry.checkout)
            checkout = self._open.get(location) or next(opened, None)
            known = self._served[location] = entries[0].name if entries else None, checkout
        return known

    def step(self, step: TraceStep) -> Json:
        """Return a step of a second look."""
        return self._sent(to_json(step))

    def _sent(self, written: Json) -> Json:
        return sent(self._service, written)


def json_response(written: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return JSON as a response that is neither validated nor copied; invalid text becomes `?`."""
    try:
        body = pydantic_core.to_json(written, inf_nan_mode="null")  # in a quarter of the time of `json`
    except pydantic_core.PydanticSerializationError:  # text that cannot be encoded
        body = _ENCODER.encode(written).encode("utf-8", "replace")
    return Response(body, status, headers, media_type="application/json")


def sent(service: Service, written: Json) -> Json:
    """Return JSON as an interface sends it: invalid text replaced, folders by name."""
    redactions = _redactions(service)

    def texts(value: Any, name: str = "") -> Any:
        kind = type(value)
        if kind is str:
            return encodable(redactions[name](value) if name in redactions else value)
        if kind is list:
            return [texts(one, name) for one in value]
        if kind is dict:
            return {
                encodable(key): value if type(value) in _NUMBERS else texts(value, key)
                for key, value in value.items()
            }
        return value

    found: Json = texts(written)
    return found


def _redacted(value: Any, redactions: Mapping[str, Callable[[str], str]], name: str = "") -> Any:
    """Return JSON with the texts of the fields that have a redaction replaced."""
    if not redactions or name in OPAQUE:
        return value
    if type(value) is dict:
        return {key: _redacted(one, redactions, key) for key, one in value.items()}
    if type(value) is list:
        return [_redacted(one, redactions, name) for one in value]
    return redactions[name](value) if name in redactions and type(value) is str else value


def _redactions(service: Service) -> dict[str, Callable[[str], str]]:
    """Return the functions that redact the values of fields, by name; none if the server is private."""
    if not service.redacts:
        return {}
    return {"location": service.shown_location, "reason": service.redacted, "error": service.redacted}


def encodable(text: str) -> str:
    """Return text that can be encoded as UTF-8: lone surrogates become `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
