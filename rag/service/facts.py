"""Facts with their freshness, and adding them from conversations."""

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
    """Return the facts of the engine's namespace."""
    return Facts(engine.turns, namespace=engine.settings.namespace)


def check_facts(
    engine: Engine, facts: Sequence[Fact], sources: Collection[Source], *, as_of: str | None = None
) -> list[Fact]:
    """Check facts against the current repositories, or those at `as_of`.

    Raises:
        RefNotFound: the only source has no `as_of`.
    """
    cited = {citation.location for fact in facts for citation in fact.citations}
    needed = [source for source in sources if source.location in cited]
    return fresh_facts(facts, states(engine, needed, as_of=as_of))


def add_fact(engine: Engine, text: str, *, turn: DialogTurn | None, source: Source | None) -> Fact:
    """Store a fact that a user states, with the citations of a turn; return it as stored.

    The citations replace those of an existing equal fact.

    Raises:
        ConfigError: neither turn nor source names a repository, or the text is empty.
        NotFound: the turn's conversation is deleted.
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
    """Delete the fact whose id starts with `beginning`, and the files that only it cited.

    Raises:
        NotFound: there is none, or more than one.
    """
    known = facts_of(engine)
    fact = known.fact(beginning)
    if not known.delete(fact):
        raise NotFound(f"the fact {fact.id} was already deleted")
    KeptFiles(engine.turns, engine.settings.namespace).release(c.blob for c in fact.citations)
    return fact


def consolidate_conversation(
    engine: Engine, conversation: Conversation, *, keep_recent: int = 0
) -> Consolidated:
    """Add the turns that are not in a conversation's summary yet to it; the turns are kept.

    A model writes the summary and extracts facts; without one the summary is extractive.

    Args:
        engine: provides the store and the model.
        conversation: the conversation to summarize.
        keep_recent: the number of newest turns to leave out.

    Raises:
        ProviderError: the model failed; batches that were finished before are stored.
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
