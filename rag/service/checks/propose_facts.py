"""Proposes facts from turns: by rule when a turn is stored, and by a model on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag.errors import StoreError
from rag.memory.facts import Fact, Facts, states_the_same
from rag.memory.stated_facts import by_model, by_rule
from rag.ports import CompletingGenerator
from rag.prompt.templates import render_facts
from rag.service.checks.facts import bind, facts_of
from rag.service.checks.freshness import checked
from rag.service.repositories.engine import Engine
from rag.service.repositories.repository import Repository
from rag.service.upkeep.retention import KeptFiles
from rag.types import Conversation, DialogTurn

_BATCH_TURNS = 20


def note_statements(engine: Engine, turn: DialogTurn, repositories: Sequence[Repository]) -> list[Fact]:
    """Propose the facts that a stored turn states, by rule; return the new ones.

    A failure is only reported as a notice.
    """
    commits = {one.source.location: one.checkout.commit or "" for one in repositories}
    try:
        return _add(engine, by_rule(turn, list(commits), commits))
    except StoreError as error:
        engine.notice(f"could not store the facts that the turn states ({error})")
        return []


def propose_facts(engine: Engine, conversation: Conversation, turns: Sequence[DialogTurn]) -> list[Fact]:
    """Propose the facts that turns state, by rule and by the model if there is one; return the new ones.

    Sentences that were proposed, confirmed or rejected before are not proposed again.

    Raises:
        ProviderError: the model failed; what was found before is stored.
    """
    locations = [source.location for source in conversation.sources]
    found = _add(engine, [fact for turn in turns for fact in by_rule(turn, locations, {})])
    generator = engine.generator()
    if isinstance(generator, CompletingGenerator):
        answered = [turn for turn in turns if turn.complete]
        for n in range(0, len(answered), _BATCH_TURNS):
            batch = checked(engine, answered[n : n + _BATCH_TURNS], conversation.sources)
            home, language = engine.settings.home, engine.settings.language
            reply = generator.complete(render_facts(home, turns=batch, language=language))
            found += _add(engine, by_model(reply, batch, locations))
    return found


def proposal_note(fact: Fact) -> str:
    """Return the note of an answer about a fact that its turn states."""
    return f"proposed as a fact: {fact.text} (confirm {fact.id[:8]} to keep it)"


def _add(engine: Engine, facts: Sequence[Fact]) -> list[Fact]:
    """Store proposals in the user's own namespace; return the new ones.

    What is known in any scope is left out, and what was superseded, unless another turn states it again.
    """
    if not facts:
        return []
    known = facts_of(engine).all()

    def is_known(fact: Fact) -> bool:
        alike = (other for other in known if states_the_same(fact, other))
        return any(not other.superseded_by or other.turn == fact.turn for other in alike)

    namespace = engine.settings.namespace
    new, contents = [], dict[str, bytes]()
    for fact in (replace(fact, state="proposed") for fact in facts if not is_known(fact)):
        named, kept = bind(engine, fact)
        new.append(named)
        contents |= kept
    added = Facts(engine.turns, namespace=namespace).add(new)
    stored = KeptFiles(engine.turns, namespace)
    stored.keep({blob: contents[blob] for blob in stored.missing(contents)})
    return added
