"""Facts beside the code as it is now, and what of a conversation becomes one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rag.errors import ConfigError, NotFound
from rag.memory.consolidate import Consolidated, consolidate, fact_from_turn, watermark
from rag.memory.facts import Fact, Facts, fresh_facts
from rag.ports import CompletingGenerator
from rag.prompt.templates import render_consolidate
from rag.service.engine import Engine
from rag.service.freshness import checked
from rag.service.retention import KeptFiles
from rag.service.snapshots import states
from rag.types import Conversation, DialogTurn, Source


def facts_of(engine: Engine) -> Facts:
    """The facts of the engine's namespace."""
    return Facts(engine.turns, namespace=engine.settings.namespace)


def check_facts(
    engine: Engine, facts: Sequence[Fact], sources: Collection[Source], *, as_of: str | None = None
) -> list[Fact]:
    """The facts beside the repositories as they are now, or were `as_of`.

    Raises:
        RefNotFound: the only source has no `as_of`.
    """
    cited = {citation.location for fact in facts for citation in fact.citations}
    needed = [source for source in sources if source.location in cited]
    return fresh_facts(facts, states(engine, needed, as_of=as_of))


def add_fact(engine: Engine, text: str, *, turn: DialogTurn | None, source: Source | None) -> Fact:
    """Keep a fact that a person states, with the lines that a turn cites for it; return it as it is kept.

    One that is there already rests on the lines of this turn from then on.

    Raises:
        ConfigError: neither turn nor source names a repository, or the fact says nothing.
        NotFound: the turn's conversation is gone.
    """
    if not text.strip():
        raise ConfigError("a fact needs words; say, for instance, what a function does")
    found: list[Fact] = []
    if turn is not None and turn.conversation_id:
        found = fact_from_turn(text, turn, engine.conversation_of(turn))
    elif source is not None:
        found = [Fact(text, source.location)]
    if not found:
        raise ConfigError("say which repository the fact is about, or which turn states it (--turn)")
    known = facts_of(engine)
    before = known.same_as(found[0])
    known.add(found)
    if before is not None:
        KeptFiles(engine.turns, engine.settings.namespace).release(c.blob for c in before.citations)
    return known.same_as(found[0]) or found[0]


def forget_fact(engine: Engine, beginning: str) -> Fact:
    """Forget the fact whose id begins like this, and the files that only it rested on.

    Raises:
        NotFound: there is none, or more than one.
    """
    known = facts_of(engine)
    fact = known.fact(beginning)
    if not known.delete(fact):
        raise NotFound(f"the fact {fact.id} is gone already")
    KeptFiles(engine.turns, engine.settings.namespace).release(c.blob for c in fact.citations)
    return fact


def consolidate_conversation(
    engine: Engine, conversation: Conversation, *, keep_recent: int = 0
) -> Consolidated:
    """Take the turns of a conversation that are not in its summary yet into it; they stay as they are.

    With a model it writes the summary and names facts, without one the summary is a digest.

    Args:
        engine: whose store and model.
        conversation: whose turns.
        keep_recent: how many of the newest turns are left for later.

    Raises:
        ProviderError: the model failed; what was consolidated before it did is kept.
    """
    turns = engine.turns.turns(
        conversation.id, namespace=conversation.namespace, after=watermark(engine.turns, conversation)
    )
    turns = turns[: max(len(turns) - keep_recent, 0)]
    generator = engine.generator()
    writer = None
    if isinstance(generator, CompletingGenerator):
        turns = checked(engine, turns, conversation.sources)

        def writer(summary: str, new: Sequence[DialogTurn]) -> str:
            prompt = render_consolidate(
                engine.settings.home, summary=summary, turns=new, language=engine.settings.language
            )
            return generator.complete(prompt)

    return consolidate(engine.turns, conversation, turns, counter=engine.counter, writer=writer)
