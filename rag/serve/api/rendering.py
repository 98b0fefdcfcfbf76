"""Values as the native routes send them: their JSON form, and where each place of it can be read (`url`).

Callers from elsewhere read the names of folders in the place of their paths.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rag.memory.facts import Fact
from rag.schema import Interface, Json, checked_citations, checked_turn, to_json, with_old_names
from rag.serve.access.keys import Caller
from rag.serve.links import citation_url, viewer_link
from rag.serve.service import Service
from rag.service import Dialog
from rag.types import Answer, Citation, Conversation, DialogTurn, Freshness, Hit, Message, worst

Pairs = Iterable[tuple[Citation, Freshness]]


class Renderer:
    """Writes values for one caller.

    Args:
        service: what is served.
        caller: who reads it.
        base: the server's own address, for links to its viewer.
        dialog: the conversation that an answer comes from; its repositories are open.
    """

    def __init__(self, service: Service, caller: Caller, base: str, dialog: Dialog | None = None) -> None:
        self._service, self._base = service, base
        self._shelves = service.library.seen_by(caller)
        self._open = {r.source.location: r.checkout for r in dialog.repositories} if dialog else {}

    def hit(self, hit: Hit) -> Json:
        """A hit with its text."""
        name = self._name(hit)
        url = viewer_link(self._base, name, hit.path, hit.start, hit.end)
        return self._sent(to_json(hit) | {"repository": name, "url": url})

    def citation(self, citation: Citation) -> Json:
        """A citation."""
        (found,) = self._with_urls([to_json(citation)], [citation])
        return self._sent(found)

    def checked(self, pairs: Pairs) -> list[Json]:
        """Citations, each with what became of it."""
        pairs = list(pairs)
        return [self._sent(one) for one in self._with_urls(checked_citations(pairs), [c for c, _ in pairs])]

    def checked_turn(self, turn: DialogTurn) -> Json:
        """What became of all citations of a turn."""
        pairs = list(zip(turn.citations, turn.checks, strict=True))
        return self._sent(checked_turn(turn, ())) | {"citations": self.checked(pairs)}

    def answer(self, answer: Answer) -> Json:
        """An answer."""
        written = to_json(answer)
        for ranked, hit in zip(written["hits"], answer.hits, strict=True):
            ranked["repository"] = self._name(hit)
        for name, citations in (("citations", answer.citations), ("sources", answer.sources)):
            written[name] = self._with_urls(written[name], citations)
        return self._sent(written)

    def turn(self, turn: DialogTurn) -> Json:
        """A turn, without what became of its citations."""
        written = to_json(replace(turn, checks=()))
        return self._sent(written | {"citations": self._with_urls(written["citations"], turn.citations)})

    def freshness(self, turn: DialogTurn) -> Json:
        """What became of what a turn rests on, the worst of it."""
        return self._sent(to_json(turn.freshness or worst(())))

    def message(self, message: Message) -> Json:
        """A message."""
        return self._sent(to_json(message))

    def conversation(self, conversation: Conversation, title: str) -> Json:
        """A conversation; its sources have the name that they are served under, None for none."""
        names = {str(shelf.source): shelf.name for shelf in self._shelves}
        written = to_json(conversation) | {"title": title}
        for source, one in zip(conversation.sources, written["sources"], strict=True):
            one["name"] = names.get(str(source))
        return self._sent(written)

    def fact(self, fact: Fact) -> Json:
        """A fact; `repository` is the name that it is served under, None for none."""
        names = {shelf.source.location: shelf.name for shelf in reversed(self._shelves)}
        written = to_json(fact) | {"repository": names.get(fact.location)}
        return self._sent(written | {"citations": self._with_urls(written["citations"], fact.citations)})

    def _with_urls(self, written: list[Json], citations: Iterable[Citation]) -> list[Json]:
        return [
            one | {"repository": self._name(of), "url": self._url(of)}
            for one, of in zip(written, citations, strict=True)
        ]

    def _url(self, citation: Citation) -> str:
        location = citation.location
        opened = (s.checkout for s in self._shelves if s.source.location == location and s.checkout)
        checkout = self._open.get(location) or next(opened, None)
        return citation_url(citation, checkout, self._name(citation), self._base)

    def _name(self, of: Hit | Citation) -> str:
        """What the repository is called here; its own name where it is not served."""
        return next((s.name for s in self._shelves if s.source.location == of.location), of.repo)

    def _sent(self, written: Json) -> Json:
        return sent(self._service, written, "api")


def sent(service: Service, written: Json, interface: Interface) -> Json:
    """JSON as an interface sends it: text that is none as `?`, folders by name, old names as well as new."""
    hidden = {"location": service.place, "reason": service.told}

    def texts(value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            return shown(hidden[name](value) if name in hidden else value)
        if isinstance(value, list):
            return [texts(one, name) for one in value]
        if isinstance(value, dict):
            return {shown(key): texts(one, key) for key, one in value.items()}
        return value

    found: Json = with_old_names(texts(written), interface)
    return found


def shown(text: str) -> str:
    """Text as it can be sent: what is no text becomes `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")
