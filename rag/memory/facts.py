"""Facts about a repository: a sentence, the turn it comes from, and the lines that it rests on.

A fact holds as long as its lines do: what became of them is looked up as it is for a turn, and the fact is as
fresh as the worst of them (`rag.service.facts`).
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
    """Something that is so in a repository, as far as its `citations` are as they were.

    `location` is the repository's (`Source.location`), `turn` the id of the turn it was drawn from, "" for
    none. `freshness` is never stored: None where it was not looked up, or where nothing is cited.
    """

    text: str
    location: str
    turn: str = ""
    citations: tuple[Citation, ...] = ()
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: datetime = field(default_factory=now_utc)
    freshness: Freshness | None = field(default=None, compare=False)

    def as_turn(self) -> DialogTurn:
        """The fact as a turn that cites what it cites, to be checked as turns are."""
        return DialogTurn(id=self.id, user_query=UserQuery(self.text), citations=self.citations)


class Facts:
    """The facts of a namespace, in a store.

    Args:
        store: where they are kept.
        namespace: a namespace never sees another's.
    """

    def __init__(self, store: RecordStore, *, namespace: str = "") -> None:
        self._store, self._namespace = store, namespace

    def add(self, facts: Sequence[Fact]) -> list[Fact]:
        """Keep facts; of those that say the same of the same repository one. Return the new ones.

        One that is stated again rests from then on what it was stated from last, if that was anything.

        Raises:
            ValueError: a fact says nothing.
        """
        known: dict[str, dict[str, Fact]] = {}
        added, kept = [], {}
        for fact in facts:
            text = " ".join(fact.text.split())
            if not text:
                raise ValueError("a fact needs words")
            if fact.location not in known:
                known[fact.location] = {_said(one.text): one for one in self.list(fact.location)}
            same = known[fact.location].get(_said(text))
            if same is None:
                same = replace(fact, text=text, id=_id(fact.location, text))
                added.append(same.id)
            elif fact.citations and fact.citations != same.citations:
                same = replace(same, turn=fact.turn, citations=fact.citations, created=fact.created)
            else:
                continue
            known[fact.location][_said(text)] = kept[same.id] = same
        stored = [replace(fact, freshness=None) for fact in kept.values()]
        records = {_key(fact): json.dumps(to_json(fact)).encode() for fact in stored}
        if records:
            self._store.put_records(records, shelf=SHELF, namespace=self._namespace)
        return [kept[one] for one in added]

    def same_as(self, fact: Fact) -> Fact | None:
        """The fact kept that says the same of the same repository; None when there is none."""
        return next((one for one in self.list(fact.location) if _said(one.text) == _said(fact.text)), None)

    def list(self, location: str | None = None) -> list[Fact]:
        """The facts of a repository, of all for None, oldest first."""
        before = "" if location is None else _of(location)
        kept = self._store.scan_records(shelf=SHELF, namespace=self._namespace, prefix=before)
        facts = [from_json(Fact, json.loads(value)) for _, value in kept]
        return sorted(facts, key=lambda fact: (fact.created, fact.id))

    def fact(self, beginning: str) -> Fact:
        """The fact whose id, or whose alone, begins like this. Raises NotFound."""
        alike = [fact for fact in self.list() if beginning and fact.id.startswith(beginning)]
        if len(alike) != 1:
            raise NotFound(
                f"there is no fact {beginning!r}; see `rag facts list`"
                if not alike
                else f"{len(alike)} facts begin with {beginning!r}; give more of the id"
            )
        return alike[0]

    def delete(self, fact: Fact) -> bool:
        """Forget a fact; False when there was none."""
        return self._store.delete_records([_key(fact)], shelf=SHELF, namespace=self._namespace) > 0


def fresh_facts(facts: Sequence[Fact], against: Against) -> list[Fact]:
    """The facts with what became of the lines they rest on; those that cite none as they are."""
    turns = check_turns([fact.as_turn() for fact in facts], against)
    return [replace(fact, freshness=turn.freshness) for fact, turn in zip(facts, turns, strict=True)]


def cited_blobs(store: RecordStore, namespace: str) -> set[str]:
    """The blobs that facts rest on: their bytes are kept as those of turns are."""
    facts = Facts(store, namespace=namespace).list()
    return {citation.blob for fact in facts for citation in fact.citations if citation.blob}


def _of(location: str) -> str:
    return f"{len(location)}:{location}:"


def _key(fact: Fact) -> str:
    return _of(fact.location) + fact.id


def _id(location: str, text: str) -> str:
    """The same for what says the same: two who state it at once state one fact."""
    stated = (_of(location) + _said(text)).encode("utf-8", "surrogatepass")
    return str(uuid.UUID(bytes=hashlib.sha256(stated).digest()[:16]))


def _said(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".")
