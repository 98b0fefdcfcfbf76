"""Facts about a repository: a sentence, the turn that it comes from, and the lines that support it.

The freshness of a fact is that of its citations, checked like those of a turn (`rag.service.facts`).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from rag.errors import NotFound
from rag.memory.freshness import Against, check_turns
from rag.ports import RecordStore
from rag.schema import from_json, to_json
from rag.types import Citation, DialogTurn, Freshness, UserQuery, now_utc

SHELF = "facts"


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement about a repository, supported by `citations`.

    `location` is that of the repository (`Source.location`), `turn` the id of the turn that it was extracted
    from, "" for none. `freshness` is never stored; None if it was not checked or there are no citations.
    """

    text: str
    location: str
    turn: str = ""
    citations: tuple[Citation, ...] = ()
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: datetime = field(default_factory=now_utc)
    freshness: Freshness | None = field(default=None, compare=False)

    def as_turn(self) -> DialogTurn:
        """Return the fact as a turn with the same citations, which can be checked."""
        return DialogTurn(id=self.id, user_query=UserQuery(self.text), citations=self.citations)


class Facts:
    """The facts of a namespace, in a store.

    Args:
        store: stores the facts.
        namespace: isolated from other namespaces.
    """

    def __init__(self, store: RecordStore, *, namespace: str = "") -> None:
        self._store, self._namespace = store, namespace

    def add(self, facts: Sequence[Fact]) -> list[Fact]:
        """Store facts without duplicates of text and repository; return the new ones.

        A repeated fact gets the citations of the new one, if it has any.

        Raises:
            ValueError: a fact is empty.
        """
        known: dict[str, dict[str, Fact]] = {}
        added, kept = [], {}
        for fact in facts:
            text = " ".join(fact.text.split())
            if not text:
                raise ValueError("a fact must not be empty")
            if fact.location not in known:
                known[fact.location] = {_normalized(one.text): one for one in self.list(fact.location)}
            same = known[fact.location].get(_normalized(text))
            if same is None:
                same = replace(fact, text=text, id=_id(fact.location, text))
                added.append(same.id)
            elif fact.citations and fact.citations != same.citations:
                same = replace(same, turn=fact.turn, citations=fact.citations, created=fact.created)
            else:
                continue
            known[fact.location][_normalized(text)] = kept[same.id] = same
        stored = [replace(fact, freshness=None) for fact in kept.values()]
        records = {_key(fact): json.dumps(to_json(fact)).encode() for fact in stored}
        if records:
            self._store.put_records(records, shelf=SHELF, namespace=self._namespace)
        return [kept[one] for one in added]

    def same_as(self, fact: Fact) -> Fact | None:
        """Return the stored fact with the same text and repository; None if there is none."""
        text = _normalized(fact.text)
        return next((one for one in self.list(fact.location) if _normalized(one.text) == text), None)

    def list(self, location: str | None = None) -> list[Fact]:
        """Return the facts of a repository (None: of all), oldest first."""
        prefix = "" if location is None else _prefix(location)
        kept = self._store.scan_records(shelf=SHELF, namespace=self._namespace, prefix=prefix)
        facts = [from_json(Fact, json.loads(value)) for _, value in kept]
        return sorted(facts, key=lambda fact: (fact.created, fact.id))

    def fact(self, beginning: str) -> Fact:
        """Return the only fact whose id starts with `beginning`. Raises NotFound."""
        matching = [fact for fact in self.list() if beginning and fact.id.startswith(beginning)]
        if len(matching) != 1:
            raise NotFound(
                f"there is no fact {beginning!r}; see `rag facts list`"
                if not matching
                else f"{len(matching)} facts begin with {beginning!r}; give more of the id"
            )
        return matching[0]

    def delete(self, fact: Fact) -> bool:
        """Delete a fact; return False if there was none."""
        return self._store.delete_records([_key(fact)], shelf=SHELF, namespace=self._namespace) > 0


def fresh_facts(facts: Sequence[Fact], against: Against) -> list[Fact]:
    """Return the facts with the freshness of their citations; those without citations unchanged."""
    turns = check_turns([fact.as_turn() for fact in facts], against)
    return [replace(fact, freshness=turn.freshness) for fact, turn in zip(facts, turns, strict=True)]


def cited_blobs(store: RecordStore, namespace: str) -> set[str]:
    """Return the blobs that facts cite; their bytes are stored like those of turns."""
    facts = Facts(store, namespace=namespace).list()
    return {citation.blob for fact in facts for citation in fact.citations if citation.blob}


def _prefix(location: str) -> str:
    return f"{len(location)}:{location}:"


def _key(fact: Fact) -> str:
    return _prefix(fact.location) + fact.id


def _id(location: str, text: str) -> str:
    """Return the same id for the same statement, so that concurrent writers store one fact."""
    statement = (_prefix(location) + _normalized(text)).encode("utf-8", "surrogatepass")
    return str(uuid.UUID(bytes=hashlib.sha256(statement).digest()[:16]))


def _normalized(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".")
