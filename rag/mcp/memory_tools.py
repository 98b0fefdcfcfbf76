"""The tools for what is remembered: facts, and the turns whose sources may have changed since."""

from __future__ import annotations

from collections.abc import Sequence

from rag.errors import ConfigError
from rag.mcp.host import Host, Progress
from rag.mcp.toolbox import Reply, placed
from rag.memory.facts import Fact, FactState
from rag.schema import Json, checked_citations, checked_turn, to_json
from rag.service.checks.facts import (
    add_fact,
    check_facts,
    confirm_fact,
    facts_at,
    facts_of,
    forget_fact,
    reject_fact,
)
from rag.service.checks.freshness import About, checked, turns_about, turns_about_symbol
from rag.service.repositories.read_lines import repository_path
from rag.service.repositories.repository import Repository
from rag.settings import FactScope
from rag.types import Conversation, DialogTurn, worst


class MemoryTools:
    """The tools of one client for what is remembered.

    Args:
        host: provides the conversations, facts and repositories.
    """

    def __init__(self, host: Host) -> None:
        self._host = host

    async def remember(
        self,
        progress: Progress,
        text: str | None = None,
        repo: str | None = None,
        turn: str | None = None,
        fact: str | None = None,
        supersedes: Sequence[str] = (),
        scope: FactScope | None = None,
    ) -> Reply:
        """Store a fact, from a turn or about a repository, or confirm a proposed one by its id."""
        engine = self._host.engine
        if (text is None) == (fact is None):
            raise ConfigError("pass either `text` or the id of a proposed `fact`")
        if fact is not None and (repo is not None or turn is not None):
            raise ConfigError("a proposed fact has its repository and turn; pass only `fact`")

        def stored() -> Fact:
            if fact is not None:
                return confirm_fact(engine, fact, scope=scope, supersedes=supersedes)
            stated = engine.turns.turn(turn, namespace=engine.settings.namespace) if turn else None
            source = None if turn else self._host.repository(repo).source
            return add_fact(
                engine, text or "", turn=stated, source=source, scope=scope, supersedes=supersedes
            )

        found = await self._host.run(stored)
        known = await self._host.run(lambda: facts_of(engine).list())
        return Reply(f"Remembered:\n\n{_fact_lines(found, known)}", {"fact": self._fact(found)})

    async def forget(self, progress: Progress, fact: str, scope: FactScope | None = None) -> Reply:
        """Delete a confirmed fact, or reject a proposed one, so that it is not proposed again."""
        engine = self._host.engine

        def forgotten() -> tuple[Fact, str]:
            known = facts_of(engine).fact(fact, scope=scope)
            if known.state == "proposed":
                return reject_fact(engine, known.id), "Rejected"
            return forget_fact(engine, known.id, scope=scope), "Forgot"

        gone, done = await self._host.run(forgotten)
        return Reply(f"{done}: {gone.text}", {"fact": self._fact(gone)})

    async def facts(
        self,
        progress: Progress,
        repo: str | None = None,
        state: FactState = "confirmed",
        at: str | None = None,
        scope: FactScope | None = None,
        check: bool = True,
        limit: int = 50,
    ) -> Reply:
        """Return the newest facts, oldest first, with the freshness of their lines if they are checked."""
        engine = self._host.engine
        one = self._host.repository(repo) if repo is not None or at is not None else None

        def wanted() -> tuple[int, list[Fact]]:
            known, location = facts_of(engine), one.source.location if one else None
            if at is None or one is None:
                every = known.list(location, state=state, scope=scope)
            else:
                every = facts_at(engine, known.all(location, scope=scope), [one.source], at)
            found = every[-limit:]
            offered = [each.source for each in self._host.repositories()]
            return len(every), check_facts(engine, found, offered) if check else found

        total, found = await self._host.run(wanted)
        text = "\n".join(_fact_lines(fact, found) for fact in found) or f"There are no {state} facts."
        if total > len(found):
            text = f"The newest {len(found)} of {total} facts:\n\n{text}"
        return Reply(text, {"facts": [self._fact(fact) for fact in found], "total": total})

    async def check_turns(
        self, progress: Progress, conversation: str | None = None, ref: str | None = None
    ) -> Reply:
        """Return the freshness of the answers of a conversation, by default the last one."""
        engine = self._host.engine

        def one() -> Conversation:
            return engine.find_conversation(conversation) if conversation else engine.last_conversation()

        found = await self._host.run(one)
        names = {each.source: each.name for each in self._host.repositories()}
        sources = [source for source in found.sources if source in names]
        if ref is not None:
            opened = [await self._host.opened(names[source], ref, progress) for source in sources]
            sources = [repository.source for repository in opened]

        def compared() -> list[DialogTurn]:
            turns = engine.turns.turns(found.id, namespace=engine.settings.namespace)
            return checked(engine, turns, sources)

        turns = await self._host.run(compared)
        pairs = [About(turn, tuple(zip(turn.citations, turn.checks, strict=True))) for turn in turns]
        return self._checked(pairs, nothing="The conversation has no turns.")

    async def turns_about(
        self,
        progress: Progress,
        repository: Repository,
        path: str | None = None,
        line: int | None = None,
        symbol: str | None = None,
        limit: int = 10,
    ) -> Reply:
        """Return the newest answers that cite a file, a line of it, or the definitions of a symbol."""
        if (path is None) == (symbol is None) or (line is not None and path is None):
            raise ConfigError("pass either `path`, with or without `line`, or `symbol`")
        engine = self._host.engine

        def found() -> list[About]:
            if path is not None:
                inside = repository_path(repository, path)
                return turns_about(engine, repository.source, inside, lines=(line, line) if line else None)
            return turns_about_symbol(engine, repository.source, repository.store, symbol or "")

        about = await self._host.run(found)
        what = path if path is not None else symbol
        return self._checked(about[-limit:], nothing=f"No answer cites {what}.")

    def _fact(self, fact: Fact) -> Json:
        """Return the JSON of a fact; `repository` is the name that it is offered under, or None."""
        names = {one.source.location: one.name for one in reversed(self._host.repositories())}
        written = to_json(fact) | {"repository": names.get(fact.location)}
        pairs = zip(fact.citations, written["citations"], strict=True)
        return written | {"citations": [placed(self._host, of, one) for of, one in pairs]}

    def _checked(self, about: Sequence[About], *, nothing: str) -> Reply:
        lines, turns = [], []
        for turn, pairs, wrote in about:
            state = worst(check for _, check in pairs).state if pairs else "no sources"
            by = f"; {turn.model} wrote this" if wrote else ""
            lines += [f"{turn.question}  [{state}]", f"   turn {turn.id} of {turn.conversation_id}{by}"]
            lines += [f"   [{citation.n}] {citation.place}  {check}" for citation, check in pairs]
            written = zip(pairs, checked_citations(pairs), strict=True)
            cited = [placed(self._host, citation, one) for (citation, _), one in written]
            turns.append(checked_turn(turn, ()) | {"citations": cited} | _writer(wrote))
        return Reply("\n".join(lines) or nothing, {"turns": turns})


def _writer(wrote: bool | None) -> Json:
    return {} if wrote is None else {"wrote": wrote}


def _fact_lines(fact: Fact, known: Sequence[Fact]) -> str:
    """Return a fact as text: its id and sentence, what it rests on, and what it may replace."""
    state = f"  [{fact.freshness.state}]" if fact.freshness else ""
    lines = [f"- {fact.id}  {fact.text}{state}", *([f"   {', '.join(fact.places)}"] if fact.places else [])]
    lines += [f"   {fact.note}"] if fact.note else []
    alike = [one for one in known if one.id in fact.may_supersede]
    lines += [f"   on the same subject: {one.id}  {one.text}" for one in alike]
    return "\n".join(lines)
