"""Facts about a repository: a sentence, the turn that it comes from, and the lines that support it.

A fact is proposed, by a rule or a model, and then confirmed or rejected by the user; or it is stated by the
user, which confirms it. A rejected sentence is kept, so that it is not proposed again. A newer fact closes an
older one: `superseded_by` names it. Which facts held at a commit follows from the commits at which they were
stated (`held_at`).

The freshness of a fact is that of its citations, checked like those of a turn (`rag.service.checks.facts`).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from rag.errors import NotFound
from rag.identifiers import folded
from rag.memory.freshness import Against, check_turns
from rag.parsing import parse_json
from rag.ports import RecordStore
from rag.schema import from_json, to_json
from rag.settings import FactScope
from rag.types import Citation, DialogTurn, Freshness, UserQuery, now_utc, worst

SHELF = "facts"
NOT_BOUND = "it names no place in the code, so nothing shows when it is no longer true"
FactState = Literal["proposed", "confirmed", "rejected"]
FactKind = Literal["", "decision", "convention", "constraint", "definition"]


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement about a repository, supported by `citations`.

    `location` is that of the repository (`Source.location`), `turn` the id of the turn that it was extracted
    from, "" for none. `valid_from` is the repository's commit when it was stated, "" if there is none;
    `superseded_by` the id of the fact that replaced it at the time `closed`, "" for none.

    `freshness`, `checks`, `scope`, `may_supersede` and `note` are never stored. `freshness` is None if it was
    not checked or there are no citations; `checks` has that of each citation. `may_supersede` are the ids of
    facts about the same subject, which this one may replace. `note` is what a user should know when a fact is
    added, "" for nothing.
    """

    text: str
    location: str
    turn: str = ""
    citations: tuple[Citation, ...] = ()
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: datetime = field(default_factory=now_utc)
    freshness: Freshness | None = field(default=None, compare=False)
    state: FactState = "confirmed"
    kind: FactKind = ""
    valid_from: str = ""
    superseded_by: str = ""
    closed: datetime | None = None
    scope: FactScope = field(default="user", compare=False)
    may_supersede: tuple[str, ...] = field(default=(), compare=False)
    checks: tuple[Freshness, ...] = field(default=(), compare=False)
    note: str = field(default="", compare=False)

    @property
    def holds(self) -> bool:
        """Whether it is confirmed, and not superseded."""
        return self.state == "confirmed" and not self.superseded_by

    @property
    def commit(self) -> str:
        """The commit at which it was stated, else the one that it cites; "" if neither is known."""
        return self.valid_from or next((c.span.commit for c in self.citations if c.span.commit), None) or ""

    @property
    def places(self) -> list[str]:
        """The places that it cites, each once, with its state if it was checked and is not fresh."""
        states: dict[str, list[Freshness]] = {}
        for n, citation in enumerate(self.citations):
            states.setdefault(citation.place, []).extend(self.checks[n : n + 1])
        found = {place: worst(checks) if checks else None for place, checks in states.items()}
        return [f"{place}  {one}" if one and one.state != "fresh" else place for place, one in found.items()]

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
        """Store facts without duplicates of text and repository; return those that are new in their state.

        A repeated fact gets the citations of the new one, if it has any. A proposal that was confirmed or
        rejected before changes nothing; a confirmed fact replaces a proposed or rejected one. A superseded
        fact that is stated again becomes a new one.

        Raises:
            ValueError: a fact is empty.
        """
        known: dict[str, list[Fact]] = {}
        added, kept = [], {}
        for fact in facts:
            text = " ".join(fact.text.split())
            if not text:
                raise ValueError("a fact must not be empty")
            there = known.setdefault(fact.location, self.all(fact.location))
            alike = [one for one in there if statement_of(one.text) == statement_of(text)]
            same = next((one for one in alike if not one.superseded_by), None)
            changed = _changed(same, fact)
            if changed is None:
                continue
            if same is None:
                changed = replace(changed, text=text, id=fact_id(fact.location, text, len(alike)))
            if same is None or same.state != changed.state:
                added.append(changed.id)
            known[fact.location] = [*(one for one in there if one is not same), changed]
            kept[changed.id] = changed
        self._put(kept.values())
        return [kept[one] for one in added]

    def same_as(self, fact: Fact) -> Fact | None:
        """Return the stored fact with the same text and repository that is not superseded, or None."""
        text = statement_of(fact.text)
        alike = (one for one in self.all(fact.location) if statement_of(one.text) == text)
        return next((one for one in alike if not one.superseded_by), None)

    def all(self, location: str | None = None) -> list[Fact]:
        """Return what is stored in every state about a repository (None: about all), oldest first."""
        prefix = "" if location is None else _prefix(location)
        kept = self._store.scan_records(shelf=SHELF, namespace=self._namespace, prefix=prefix)
        facts = (_fact(record) for _, record in kept)
        return sorted((fact for fact in facts if fact is not None), key=lambda fact: (fact.created, fact.id))

    def decide(self, fact: Fact, state: FactState) -> Fact:
        """Store a fact in another state; return it."""
        decided = replace(fact, state=state)
        self._put([decided])
        return decided

    def supersede(self, old: Fact, new: Fact) -> Fact:
        """Close a fact, as another one replaces it; return the closed one."""
        closed = replace(old, superseded_by=new.id, closed=now_utc())
        self._put([closed])
        return closed

    def reopen(self, fact: Fact) -> None:
        """Let the facts that another one superseded hold again, or be superseded by its own successor."""
        before = [one for one in self.all(fact.location) if one.superseded_by == fact.id]
        closed = fact.closed if fact.superseded_by else None
        self._put([replace(one, superseded_by=fact.superseded_by, closed=closed) for one in before])

    def delete(self, fact: Fact) -> bool:
        """Delete a fact; return False if there was none."""
        return self._store.delete_records([_key(fact)], shelf=SHELF, namespace=self._namespace) > 0

    def exchange(self, new: Iterable[Fact], gone: Sequence[Fact]) -> None:
        """Store facts as they are, and delete others."""
        self._put(new)
        if gone:
            self._store.delete_records([*map(_key, gone)], shelf=SHELF, namespace=self._namespace)

    def _put(self, facts: Iterable[Fact]) -> None:
        shown = {"freshness": None, "scope": "user", "may_supersede": (), "checks": (), "note": ""}
        stored = [replace(fact, **shown) for fact in facts]  # type: ignore[arg-type]
        records = {_key(fact): json.dumps(to_json(fact)).encode() for fact in stored}
        if records:
            self._store.put_records(records, shelf=SHELF, namespace=self._namespace)

    def list(self, location: str | None = None) -> list[Fact]:
        """Return the facts that hold about a repository (None: about all), oldest first."""
        return [fact for fact in self.all(location) if fact.holds]


def the_fact(facts: Sequence[Fact], beginning: str) -> Fact:
    """Return the only one of these facts whose id starts with `beginning`. Raises NotFound."""
    matching = {fact.id: fact for fact in reversed(facts) if beginning and fact.id.startswith(beginning)}
    if len(matching) != 1:
        raise NotFound(
            f"there is no fact {beginning!r}; see `rag facts list`"
            if not matching
            else f"{len(matching)} facts begin with {beginning!r}; give more of the id"
        )
    return next(iter(matching.values()))


def held_at(facts: Sequence[Fact], is_before: Callable[[Fact], bool]) -> list[Fact]:
    """Return the confirmed facts that held at a point of the history, in their order.

    Args:
        facts: all facts of a repository.
        is_before: whether a fact was stated at that point or before it.
    """
    by_id = {fact.id: fact for fact in facts}
    held = []
    for fact in facts:
        successor = by_id.get(fact.superseded_by)
        is_over = bool(fact.superseded_by) and (successor is None or is_before(successor))
        if fact.state == "confirmed" and not is_over and is_before(fact):
            held.append(fact)
    return held


def states_the_same(one: Fact, other: Fact) -> bool:
    """Whether two facts are the same sentence about the same repository."""
    return one.location == other.location and statement_of(one.text) == statement_of(other.text)


def fresh_facts(facts: Sequence[Fact], against: Against) -> list[Fact]:
    """Return the facts with the freshness of their citations; those without citations unchanged."""
    turns = check_turns([fact.as_turn() for fact in facts], against)
    pairs = zip(facts, turns, strict=True)
    return [replace(fact, freshness=turn.freshness, checks=turn.checks) for fact, turn in pairs]


def cited_blobs(store: RecordStore, namespace: str) -> set[str]:
    """Return the blobs that facts cite, also proposed ones; their bytes are stored like those of turns."""
    facts = Facts(store, namespace=namespace).all()
    return {citation.blob for fact in facts for citation in fact.citations if citation.blob}


def _changed(same: Fact | None, new: Fact) -> Fact | None:
    """Return what to store where `same` was; None if nothing changes."""
    if same is None:
        return new
    has_new_lines = bool(new.citations) and new.citations != same.citations
    is_decided = new.state == "confirmed" != same.state
    if not is_decided and (new.state != same.state or not has_new_lines):
        return None
    changed = replace(same, state=new.state, kind=new.kind or same.kind)
    if not has_new_lines:
        return changed
    return replace(
        changed, turn=new.turn, citations=new.citations, created=new.created, valid_from=new.valid_from
    )


def _prefix(location: str) -> str:
    return f"{len(location)}:{location}:"


def _key(fact: Fact) -> str:
    return _prefix(fact.location) + fact.id


def fact_id(location: str, text: str, before: int) -> str:
    """Return the same id for the same statement, so that concurrent writers store one fact.

    `before` is the number of superseded facts with the same statement.
    """
    statement = _prefix(location) + statement_of(text) + (f"\0{before}" if before else "")
    digest = hashlib.sha256(statement.encode("utf-8", "surrogatepass")).digest()
    return str(uuid.UUID(bytes=digest[:16]))


def statement_of(text: str) -> str:
    """Return the form in which the texts of facts are compared."""
    return folded(" ".join(text.split())).rstrip(".")


def _fact(record: bytes) -> Fact | None:
    """Return the fact of a record; None if it is damaged."""
    try:
        return from_json(Fact, parse_json(record))
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
