"""Proposes facts from turns: by rule when a turn is stored, and by a model on request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rag.errors import StoreError
from rag.memory.facts import Fact, FactKind, Facts, states_the_same
from rag.memory.statements import Statement, is_flagged, kind_of, mentions, stated_by_answer, stated_by_user
from rag.ports import CompletingGenerator
from rag.prompt.templates import render_facts
from rag.service.engine import Engine
from rag.service.facts import bind, facts_of
from rag.service.freshness import checked
from rag.service.repository import Repository
from rag.service.retention import KeptFiles
from rag.types import Citation, Conversation, DialogTurn
from rag.types.answer import QUOTING

_MAX_OF_A_TURN = 5
_BATCH_TURNS = 20
_LINE = re.compile(
    r"^\s*(?:[-*•]\s*)?\[(\d+)\]\s*(?:(decision|convention|constraint|definition)\s*:\s*)?(\S.*)$", re.I
)
_CITED = re.compile(r"(?<!\s)\s*+\[(\d+)(?::\d+(?:-\d+)?)?\]")


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


def by_rule(turn: DialogTurn, locations: Sequence[str], commits: dict[str, str]) -> list[Fact]:
    """Return the facts that a turn states by its words: those of the question first, at most five.

    Args:
        turn: a stored turn.
        locations: the repositories of its conversation; the first one is meant where nothing is cited.
        commits: the commits of repositories, for statements that cite nothing.
    """
    used = [citation for citation in turn.citations if citation.used] or list(turn.citations)
    found = [
        _fact(one, _named_in(one, used), turn, locations, commits) for one in stated_by_user(turn.question)
    ]
    if turn.complete and turn.model != QUOTING:  # quoted lines are code, not statements
        numbered = {citation.n: citation for citation in used}
        for one in stated_by_answer(turn.answer):
            cited = [numbered[n] for n in one.numbers if n in numbered]
            if cited and not is_flagged(one.text, turn.support):
                found.append(_fact(one, cited, turn, locations, commits))
    return [fact for fact in found if fact is not None][:_MAX_OF_A_TURN]


def by_model(reply: str, turns: Sequence[DialogTurn], locations: Sequence[str]) -> list[Fact]:
    """Return the facts in a model's reply: lines such as `[3] decision: Tokens last an hour. [1]`.

    The first number is that of the turn, the others are sources of its answer; without them the fact rests on
    all sources that the answer uses. Other lines are left out, and what the check of the answer has flagged.
    """
    found = []
    for line in reply.splitlines():
        matched = _LINE.match(line)
        turn = next((one for one in turns if matched and one.number == int(matched[1])), None)
        if matched is None or turn is None or is_flagged(matched[3], turn.support):
            continue
        text, numbers = _CITED.sub("", matched[3]).strip(), _CITED.findall(matched[3])
        used = [citation for citation in turn.citations if citation.used] or list(turn.citations)
        cited = [citation for citation in used if str(citation.n) in numbers] or used
        named = (matched[2] or "").lower()
        kind: FactKind = named if named else kind_of(text)  # type: ignore[assignment]
        fact = _fact(Statement(text, kind), cited, turn, locations, {}) if text else None
        found += [fact] if fact is not None else []
    return found


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
        named, kept = (fact, {}) if fact.citations else bind(engine, fact)
        new.append(named)
        contents |= kept
    added = Facts(engine.turns, namespace=namespace).add(new)
    stored = KeptFiles(engine.turns, namespace)
    stored.keep({blob: contents[blob] for blob in stored.missing(contents)})
    return added


def _named_in(one: Statement, citations: Sequence[Citation]) -> list[Citation]:
    """Return the citations whose symbol or file a user's sentence names."""
    return [
        citation
        for citation in citations
        if any(mentions(one.text, name) for name in (citation.span.symbol, citation.path, _file_of(citation)))
    ]


def _file_of(citation: Citation) -> str:
    return citation.path.rpartition("/")[2]


def _fact(
    one: Statement,
    cited: Sequence[Citation],
    turn: DialogTurn,
    locations: Sequence[str],
    commits: dict[str, str],
) -> Fact | None:
    """Return a statement as a fact about the repository that it cites most; None without a repository."""
    most = Counter(citation.location for citation in cited).most_common(1)
    location = most[0][0] if most else next(iter(locations), "")
    if not location:
        return None
    citations = tuple(citation for citation in cited if citation.location == location)
    fact = Fact(one.text, location, turn=turn.id, citations=citations, kind=one.kind)
    return replace(fact, valid_from=fact.commit or commits.get(location, ""))
