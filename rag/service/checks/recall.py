"""Finds what is relevant to a question in the past: older turns, the summary, preferences, facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from rag.errors import NotFound
from rag.memory.extractive_summary import newest_that_fit
from rag.memory.facts import Fact, fresh_facts
from rag.memory.freshness import State
from rag.memory.messages import SUMMARIES
from rag.memory.preferences import LANGUAGE, Preferences
from rag.memory.recall import recall_turns, that_fit
from rag.memory.search import Kind, search_text
from rag.parsing import stored_text
from rag.ports import Recalled, TurnStore, takes_bags
from rag.prompt.background import Known, KnownFact
from rag.service.checks.facts import facts_of
from rag.service.repositories.engine import Engine
from rag.service.repositories.repository import Repository
from rag.types import Conversation, DialogTurn, Message

USER = ""
"""The user whose preferences apply to the answers of a namespace."""

_RECALL_SHARE = 0.1
_FACTS_SHARE = 0.05
_SUMMARY_SHARE = 0.05
_RECALLED = 8
_COVERED = 0.5
"""The minimum share of the question that an older turn must cover in its window."""
_NEAR_BEST = 0.6
"""The minimum score of an older turn relative to the best one, which excludes its neighbours."""


def recall(engine: Engine, query: str, *, conversation: str | None = None, k: int = 10) -> list[DialogTurn]:
    """Return the k turns that match a query best, best first, without messages.

    Raises:
        NotFound: there is no such conversation.
    """
    found = recall_said(engine, query, conversation=conversation, kind="turn", k=k)
    return [said for _, said in found if isinstance(said, DialogTurn)]


def recall_said(
    engine: Engine, query: str, *, conversation: str | None = None, kind: Kind | None = None, k: int = 10
) -> list[tuple[Recalled, DialogTurn | Message]]:
    """Return the k turns and messages that match a query best, best first; of the turns those with an answer.

    Args:
        engine: provides the turn store and the namespace.
        query: any text.
        conversation: search only this one, by id or name; None searches all.
        kind: only turns or only messages; None is both.
        k: at least 1.

    Raises:
        NotFound: there is no such conversation.
    """
    namespace = engine.settings.namespace
    within = engine.find_conversation(conversation).id if conversation else None
    found = search_text(engine.turns, query, namespace=namespace, conversation=within, kind=kind, k=k)
    ids = [one.id for one in found if one.kind == "turn"]
    read = engine.turns.turns_by_id(ids, namespace=namespace)
    turns = {each: turn for each, turn in read.items() if turn.has_answer}
    messages = _messages(engine.turns, [one for one in found if one.kind == "message"], namespace, within)
    both: Mapping[Kind, Mapping[str, DialogTurn | Message]] = {"turn": turns, "message": messages}
    return [(one, both[one.kind][one.id]) for one in found if one.id in both[one.kind]]


def _messages(
    store: TurnStore, found: Sequence[Recalled], namespace: str, within: str | None
) -> dict[str, Message]:
    """Return the messages that were found, by id; each conversation is read at most once.

    A message that its own conversation does not show any more is looked up in forks that may have
    inherited it.
    """
    messages: dict[str, Message] = {}
    left = {one.id: one for one in found}

    def look_in(conversation: str) -> None:
        with suppress(NotFound):  # the conversation was deleted
            for message in store.messages(conversation, namespace=namespace):
                if left.pop(message.id, None):
                    messages[message.id] = message

    origins = {within or one.conversation: None for one in found}
    for conversation in origins:
        look_in(conversation)
    if left and within is None:
        living = {one.id: one for one in store.conversations(namespace=namespace)}
        for fork in living.values():
            if fork.id not in origins and any(_may_inherit(fork, one, living) for one in left.values()):
                look_in(fork.id)
    return messages


def _may_inherit(fork: Conversation, item: Recalled, living: Mapping[str, Conversation]) -> bool:
    """Whether a fork was made after the item, from its conversation or from a deleted one."""
    if fork.forked_at is None or fork.forked_at < item.order:
        return False
    parent = fork.parent
    for _ in living:
        if parent is None or parent == item.conversation or parent not in living:
            break
        parent = living[parent].parent
    return parent is not None


def recall_older(
    engine: Engine,
    conversation: Conversation | None,
    question: str,
    turns: Sequence[DialogTurn],
    shown: Sequence[DialogTurn],
) -> list[DialogTurn]:
    """Return turns before those shown that are relevant to a question, as many as fit, oldest first.

    Does not search if the prompt already shows all turns.

    Args:
        engine: provides the store, the embedder and the budget.
        conversation: the conversation to search; None has no turns.
        question: the standalone question.
        turns: the latest turns of the conversation.
        shown: the latest of them, which the prompt shows.
    """
    before = shown[0].order if shown else None
    if conversation is None or not turns or before == 0:
        return []
    embedder = engine.embedder if takes_bags(engine.embedder) else None
    namespace = engine.settings.namespace
    found = recall_turns(
        engine.turns,
        question,
        embedder=embedder,
        vectors=engine.turn_vectors.of(conversation.id, embedder, namespace=namespace) if embedder else None,
        namespace=namespace,
        conversation=conversation.id,
        before=(turns[-1].order or 0) + 1 if before is None else before,
        at_hand=turns,
        k=_RECALLED,
    )
    return that_fit(
        [one for one in found if one.covered >= _COVERED and one.score >= _NEAR_BEST],
        budget_tokens=int((engine.settings.context_tokens - engine.settings.answer_tokens) * _RECALL_SHARE),
        counter=engine.counter,
    )


def known_of(
    engine: Engine,
    conversation: Conversation | None,
    repositories: Sequence[Repository],
    now: Mapping[str, State | str],
    turns: Sequence[DialogTurn],
    shown: Sequence[DialogTurn],
) -> Known:
    """Return the memory shown in a prompt; the summary only if not all turns are shown."""
    namespace = engine.settings.namespace
    summary = ""
    if conversation is not None and turns and (len(shown) < len(turns) or turns[0].order != 0):
        found = engine.turns.records([conversation.id], shelf=SUMMARIES, namespace=namespace)
        lines = stored_text(found.get(conversation.id, b"")).splitlines()
        room = int(engine.settings.context_tokens * _SUMMARY_SHARE)
        summary = "\n".join(newest_that_fit(lines, budget_tokens=room, counter=engine.counter))
    return Known(
        summary=summary,
        preferences=Preferences(engine.turns, namespace=namespace).get_all(USER),
        facts=[KnownFact(fact.text, fact.freshness) for fact in _facts(engine, repositories, now)],
    )


def language_for(configured: str, known: Known) -> str:
    """Return the language of the answer: the configured one, else the user's preference."""
    preferred = known.preferences.get(LANGUAGE)
    return preferred if configured == "en" and isinstance(preferred, str) and preferred else configured


def _facts(engine: Engine, repositories: Sequence[Repository], now: Mapping[str, State | str]) -> list[Fact]:
    """Return the newest facts about the repositories that fit, oldest first, with their freshness.

    They are those of every scope that the user reads; the same fact of two scopes is one.
    """
    known = facts_of(engine)
    locations = dict.fromkeys(repository.source.location for repository in repositories)
    every = {fact.id: fact for place in locations for fact in known.list(place)}
    facts = sorted(every.values(), key=lambda fact: (fact.created, fact.id))
    left = int(engine.settings.context_tokens * _FACTS_SHARE)
    chosen: list[Fact] = []
    for fact in reversed(facts):
        left -= engine.counter.count(fact.text) + 4
        if left < 0:
            break
        chosen.append(fact)
    return fresh_facts(chosen[::-1], now)
