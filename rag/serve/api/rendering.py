"""Renders values for the native routes: their JSON form, with a URL for each cited place.

For remote callers, folders are sent by name instead of path.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import NoneType
from typing import Any

from rag.memory.facts import Fact
from rag.schema import Interface, Json, checked_citations, checked_turn, to_json, with_old_names
from rag.serve.access.keys import Caller
from rag.serve.links import citation_url, viewer_link
from rag.serve.service import Service
from rag.service import Dialog
from rag.types import (
    Answer,
    Citation,
    CodeFact,
    CodeFacts,
    Conversation,
    DialogTurn,
    Freshness,
    Hit,
    Message,
    worst,
)

_NUMBERS = frozenset({int, float, bool, NoneType})
Pairs = Iterable[tuple[Citation, Freshness]]


class Renderer:
    """Renders values for one caller.

    Args:
        service: the service.
        caller: the caller who receives the values.
        base: the server's own URL, for links to its viewer.
        dialog: the conversation that an answer comes from; its repositories are open.
    """

    def __init__(self, service: Service, caller: Caller, base: str, dialog: Dialog | None = None) -> None:
        self._service, self._base = service, base
        self._entries = service.registry.visible_to(caller)
        self._open = {r.source.location: r.checkout for r in dialog.repositories} if dialog else {}

    def hit(self, hit: Hit) -> Json:
        """Return a hit with its text."""
        return self._sent(to_json(hit) | {"repository": self._name(hit), "url": self._link(hit)})

    def citation(self, citation: Citation) -> Json:
        """Return a citation."""
        (found,) = self._with_urls([to_json(citation)], [citation])
        return self._sent(found)

    def checked(self, pairs: Pairs) -> list[Json]:
        """Return citations, each with its freshness."""
        pairs = list(pairs)
        return [self._sent(one) for one in self._with_urls(checked_citations(pairs), [c for c, _ in pairs])]

    def checked_turn(self, turn: DialogTurn) -> Json:
        """Return the freshness of all citations of a turn."""
        pairs = list(zip(turn.citations, turn.checks, strict=True))
        return self._sent(checked_turn(turn, ())) | {"citations": self.checked(pairs)}

    def answer(self, answer: Answer) -> Json:
        """Return an answer."""
        written = to_json(answer)
        for ranked, hit in zip(written["hits"], answer.hits, strict=True):
            ranked["repository"] = self._name(hit)
        written["code_facts"] = self._code_facts(answer.code_facts)
        for name, citations in (("citations", answer.citations), ("sources", answer.sources)):
            written[name] = self._with_urls(written[name], citations)
        return self._sent(written)

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
        """Return a turn, without the freshness of its citations."""
        written = to_json(replace(turn, checks=()))
        return self._sent(written | {"citations": self._with_urls(written["citations"], turn.citations)})

    def freshness(self, turn: DialogTurn) -> Json:
        """Return the worst freshness of a turn's citations."""
        return self._sent(to_json(turn.freshness or worst(())))

    def message(self, message: Message) -> Json:
        """Return a message."""
        return self._sent(to_json(message))

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
        return [
            one | {"repository": self._name(of), "url": self._url(of)}
            for one, of in zip(written, citations, strict=True)
        ]

    def _url(self, citation: Citation) -> str:
        location = citation.location
        opened = (s.checkout for s in self._entries if s.source.location == location and s.checkout)
        checkout = self._open.get(location) or next(opened, None)
        return citation_url(citation, checkout, self._name(citation), self._base)

    def _link(self, of: Hit | CodeFact) -> str:
        return viewer_link(self._base, self._name(of), of.path, of.start, of.end)

    def _name(self, of: Hit | CodeFact | Citation) -> str:
        """Return the name that a repository is served under, or its own name."""
        return next((s.name for s in self._entries if s.source.location == of.location), of.repo)

    def _sent(self, written: Json) -> Json:
        return sent(self._service, written, "api")


def sent(service: Service, written: Json, interface: Interface) -> Json:
    """Return JSON as an interface sends it: invalid text replaced, folders by name, with deprecated names."""
    redactions = {"location": service.shown_location, "reason": service.redacted}

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

    found: Json = with_old_names(texts(written), interface)
    return found


def encodable(text: str) -> str:
    """Return text that can be encoded as UTF-8: lone surrogates become `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
