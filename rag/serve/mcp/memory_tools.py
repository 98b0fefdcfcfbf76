"""The tools for what is remembered: facts, and the turns whose sources may have changed since.

Plain functions like those of `rag.serve.mcp.toolbox`, with the same replies: a text, and structured values.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from pydantic import Field

from rag import types
from rag.memory.facts import Fact as FactValue
from rag.memory.facts import FactState
from rag.schema import Json
from rag.serve.access.keys import Caller
from rag.serve.api.json_models import JsonModels
from rag.serve.api.rendering import Renderer
from rag.serve.errors import BadRequest
from rag.serve.mcp.toolbox import ToolReply
from rag.serve.repositories.entry import ServedRepository
from rag.serve.service import Service
from rag.service.facts import (
    add_fact,
    check_facts,
    confirm_fact,
    facts_at,
    facts_of,
    forget_fact,
    reject_fact,
)
from rag.service.freshness import About, checked, turns_about, turns_about_symbol
from rag.service.read_lines import repository_path
from rag.settings import FactScope
from rag.types import DialogTurn, worst

_MAX_FACTS = 200

if TYPE_CHECKING:
    RememberedFact: TypeAlias = Json
    CheckedAnswer: TypeAlias = Json
else:
    _models = JsonModels()
    _models.of(types.CitedSymbol)
    _freshness = _models.of(types.Freshness)
    _source = _models.of(types.Citation, "CheckedSource", url=str, freshness=_freshness)
    CheckedAnswer = _models.create(
        "CheckedAnswer",
        "The freshness of an answer and of its sources.",
        {
            "turn": str,
            "number": int | None,
            "conversation": str | None,
            "question": str,
            "freshness": _freshness,
            "citations": list[_source],
        },
    )
    _models.of(types.Citation, url=str)
    RememberedFact = _models.of(FactValue, "RememberedFact", repository=str | None)


class OneFact(ToolReply):
    """A fact as it is stored now, or as it was before it was deleted."""

    fact: RememberedFact


class FactsFound(ToolReply):
    """Facts, oldest first, and the number of all of them."""

    facts: list[RememberedFact] = Field(default_factory=list)
    total: int = 0


class TurnsChecked(ToolReply):
    """Earlier answers with the freshness of their sources, oldest first."""

    turns: list[CheckedAnswer] = Field(default_factory=list)


class MemoryTools:
    """The tools of one service for what is remembered.

    Args:
        service: the service.
        base: the server's own URL, for links to our viewer; "" if there is none.
    """

    def __init__(self, service: Service, base: str = "") -> None:
        self._service, self._base = service, base

    async def remember(
        self,
        caller: Caller,
        *,
        text: str | None,
        fact: str | None,
        repo: str | None,
        turn: str | None,
        scope: FactScope | None,
        supersedes: Sequence[str],
    ) -> OneFact:
        """Store a fact, from a turn or about a repository, or confirm a proposed one by its id."""
        engine = self._service.engine_for(caller)
        if (text is None) == (fact is None):
            raise BadRequest("pass either `text` or the id of a proposed `fact`")
        if fact is not None:
            if repo is not None or turn is not None:
                raise BadRequest("a proposed fact has its repository and turn; pass only `fact`")
            found = await to_thread(confirm_fact, engine, fact, scope=scope, supersedes=supersedes)
        else:
            stated = source = None
            if turn is not None:
                stated = await to_thread(engine.turns.turn, turn, namespace=caller.namespace)
            else:
                source = self._entry(caller, repo).source
            found = await to_thread(
                add_fact, engine, text or "", turn=stated, source=source, scope=scope, supersedes=supersedes
            )
        known = await to_thread(facts_of(engine).list)
        return OneFact(result=f"Remembered:\n\n{_fact_lines(found, known)}", fact=self._fact(caller, found))

    async def forget(self, caller: Caller, fact: str, scope: FactScope | None) -> OneFact:
        """Delete a confirmed fact, or reject a proposed one, so that it is not proposed again."""
        engine = self._service.engine_for(caller)
        known = await to_thread(facts_of(engine).fact, fact, scope=scope)
        if known.state == "proposed":
            gone, done = await to_thread(reject_fact, engine, known.id), "Rejected"
        else:
            gone, done = await to_thread(forget_fact, engine, known.id, scope=scope), "Forgot"
        return OneFact(result=f"{done}: {gone.text}", fact=self._fact(caller, gone))

    async def facts(
        self,
        caller: Caller,
        *,
        repo: str | None,
        state: FactState,
        at: str | None,
        scope: FactScope | None,
        check: bool,
        limit: int,
    ) -> FactsFound:
        """Return the newest facts, oldest first, with the freshness of their lines if they are checked."""
        engine = self._service.engine_for(caller)
        entry = self._entry(caller, repo) if repo is not None or at is not None else None

        def wanted() -> tuple[int, list[FactValue]]:
            known, location = facts_of(engine), entry.source.location if entry else None
            if at is None or entry is None:
                every = known.list(location, state=state, scope=scope)
            else:
                every = facts_at(engine, known.all(location, scope=scope), [entry.source], at)
            found = every[-min(limit, _MAX_FACTS) :]
            served = [one.source for one in self._service.registry.visible_to(caller)]
            return len(every), check_facts(engine, found, served) if check else found

        async with self._service.limiter.slot():
            total, found = await to_thread(wanted)
        text = "\n".join(_fact_lines(fact, found) for fact in found) or f"There are no {state} facts."
        if total > len(found):
            text = f"The newest {len(found)} of {total} facts:\n\n{text}"
        return FactsFound(result=text, facts=[self._fact(caller, fact) for fact in found], total=total)

    async def check_turns(self, caller: Caller, conversation: str | None, ref: str | None) -> TurnsChecked:
        """Return the freshness of the answers of a conversation, by default the last one."""
        engine = self._service.engine_for(caller)
        if conversation:
            one = await to_thread(engine.find_conversation, conversation)
        else:
            one = await to_thread(engine.last_conversation)
        entries = [entry for source in one.sources if (entry := self._service.registry.entry_of(source))]
        if ref is not None:
            entries = [self._service.at_ref(entry, ref, caller) for entry in entries]
            for entry in entries:
                await self._service.registry.opened(entry)
        served = [entry.source for entry in entries]

        def compared() -> list[DialogTurn]:
            return checked(engine, engine.turns.turns(one.id, namespace=caller.namespace), served)

        async with self._service.limiter.slot():
            turns = await to_thread(compared)
        pairs = [(turn, tuple(zip(turn.citations, turn.checks, strict=True))) for turn in turns]
        return self._checked(caller, pairs, nothing="The conversation has no turns.")

    async def turns_about(
        self,
        caller: Caller,
        *,
        repo: str | None,
        path: str | None,
        line: int | None,
        symbol: str | None,
        limit: int,
    ) -> TurnsChecked:
        """Return the newest answers that cite a file, a line of it, or the definitions of a symbol."""
        if (path is None) == (symbol is None) or (line is not None and path is None):
            raise BadRequest("pass either `path`, with or without `line`, or `symbol`")
        engine, entry = self._service.engine_for(caller), self._entry(caller, repo)
        repository = await self._service.registry.opened(entry)

        def found() -> list[About]:
            if path is not None:
                inside = repository_path(repository, path)
                return turns_about(engine, entry.source, inside, lines=(line, line) if line else None)
            return turns_about_symbol(engine, entry.source, repository.store, symbol or "")

        async with self._service.limiter.slot():
            about = await to_thread(found)
        what = path if path is not None else symbol
        return self._checked(caller, about[-limit:], nothing=f"No answer cites {what}.")

    def _entry(self, caller: Caller, repo: str | None) -> ServedRepository:
        registry = self._service.registry
        return registry.only_entry() if repo is None else registry.entry(repo, caller=caller)

    def _fact(self, caller: Caller, fact: FactValue) -> Json:
        return Renderer(self._service, caller, self._base).fact(fact)

    def _checked(self, caller: Caller, about: Sequence[About], *, nothing: str) -> TurnsChecked:
        renderer = Renderer(self._service, caller, self._base)
        lines = []
        for turn, pairs in about:
            state = worst(check for _, check in pairs).state if pairs else "no sources"
            lines += [f"{turn.question}  [{state}]", f"   turn {turn.id} of {turn.conversation_id}"]
            lines += [f"   [{citation.n}] {citation.place}  {check}" for citation, check in pairs]
        turns = [
            renderer.checked_turn(turn) | {"citations": renderer.checked(pairs)} for turn, pairs in about
        ]
        return TurnsChecked(result="\n".join(lines) or nothing, turns=turns)


def _fact_lines(fact: FactValue, known: Sequence[FactValue]) -> str:
    """Return a fact as text: its id and sentence, what it rests on, and what it may replace."""
    state = f"  [{fact.freshness.state}]" if fact.freshness else ""
    places = ", ".join(dict.fromkeys(citation.place for citation in fact.citations))
    lines = [f"- {fact.id}  {fact.text}{state}", *([f"   {places}"] if places else [])]
    alike = [one for one in known if one.id in fact.may_supersede]
    lines += [f"   on the same subject: {one.id}  {one.text}" for one in alike]
    return "\n".join(lines)
