"""Facts with their freshness: proposed, stated, confirmed and superseded, in the scopes that a user reads.

A user reads the facts of up to three scopes, each stored in a namespace (`Settings.fact_namespaces`), and
writes to one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import get_args

from rag.corpus.secrets import find_secret
from rag.errors import ConfigError, NotFound, SourceError
from rag.memory.asked import is_settled
from rag.memory.consolidate import Consolidated, consolidate, watermark
from rag.memory.facts import NOT_BOUND, Fact, Facts, FactState, fresh_facts, held_at, the_fact
from rag.memory.stated_facts import fact_of, sources_used
from rag.memory.statements import on_same_subject
from rag.ports import CompletingGenerator
from rag.prompt.templates import render_consolidate
from rag.service.checks.bindings import bound
from rag.service.checks.freshness import checked
from rag.service.checks.snapshots import CommitHistory, FolderState, history_of, states
from rag.service.repositories.engine import Engine
from rag.service.upkeep.retention import KeptFiles
from rag.settings import FactScope
from rag.types import Conversation, DialogTurn, Source

SCOPES: tuple[FactScope, ...] = get_args(FactScope)


class ScopedFacts:
    """The facts that a user reads: those of all scopes, each marked with its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._namespaces = engine, engine.settings.fact_namespaces

    def namespace(self, scope: FactScope | None = None) -> str:
        """Return the namespace of a scope; of the one that the settings write to for None.

        Raises:
            ConfigError: the settings name no such project or team.
        """
        wanted = scope or self._engine.settings.scope
        if wanted not in SCOPES:
            raise ConfigError(f"there is no scope {wanted!r}; the scopes are {', '.join(SCOPES)}")
        if wanted not in self._namespaces:
            raise ConfigError(f"there is no {wanted} to share facts with; name it in RAG_{wanted.upper()}")
        return self._namespaces[wanted]

    def of(self, scope: FactScope | None = None) -> Facts:
        """Return the facts of one scope, to write to. Raises ConfigError like `namespace`."""
        return Facts(self._engine.turns, namespace=self.namespace(scope))

    def all(self, location: str | None = None, *, scope: FactScope | None = None) -> list[Fact]:
        """Return what is stored in every state, in one scope or in all (None), oldest first.

        Raises:
            ConfigError: like `namespace`, for a scope that is named.
        """
        read: Iterable[FactScope] = self._namespaces
        if scope is not None:
            self.namespace(scope)
            read = (scope,)
        found = [replace(fact, scope=one) for one in read for fact in self.of(one).all(location)]
        return sorted(found, key=lambda fact: (fact.created, fact.id))

    def fact(self, beginning: str, *, scope: FactScope | None = None) -> Fact:
        """Return the only fact whose id starts with `beginning`.

        Of the same fact in several scopes, the first one: user, project, team.

        Raises:
            NotFound: there is none, or there are several.
        """
        order = {one: n for n, one in enumerate(SCOPES)}
        return the_fact(sorted(self.all(scope=scope), key=lambda fact: order[fact.scope]), beginning)

    def with_candidates(self, fact: Fact, every: Sequence[Fact] | None = None) -> Fact:
        """Return a fact with the ids of those that hold about the same subject, oldest first."""
        holding = [one for one in (self.all(fact.location) if every is None else every) if one.holds]
        return replace(fact, may_supersede=tuple(one.id for one in on_same_subject(fact, holding)))

    def list(
        self,
        location: str | None = None,
        *,
        state: FactState = "confirmed",
        scope: FactScope | None = None,
        closed: bool = False,
    ) -> list[Fact]:
        """Return the facts in a state, oldest first; superseded ones only if `closed`.

        Proposed facts name those of the same subject in `may_supersede`.
        """
        every = self.all(location, scope=scope)
        found = [fact for fact in every if fact.state == state and (closed or not fact.superseded_by)]
        return found if state != "proposed" else [self.with_candidates(fact, every) for fact in found]


def facts_of(engine: Engine) -> ScopedFacts:
    """Return the facts that the engine's user reads."""
    return ScopedFacts(engine)


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


def facts_at(engine: Engine, facts: Sequence[Fact], sources: Sequence[Source], ref: str) -> list[Fact]:
    """Return the confirmed facts that held at a branch, tag or commit, oldest first.

    A fact held there if the commit at which it was stated is an ancestor, and that of the fact which
    superseded it is not. A fact whose commit is unknown, or is not in git any more, is compared by its time
    with that of the commit.

    Args:
        engine: provides the clones.
        facts: all facts, in every state.
        sources: the repositories that they are about.
        ref: the branch, tag or commit; facts of repositories without it are left out.

    Raises:
        NotFound: there are no sources.
        RefNotFound: no repository has it.
    """
    found: list[Fact] = []
    missing: SourceError | None = None
    has_any = False
    for source in sources:
        try:
            history = history_of(engine, source, ref)
        except SourceError as error:
            missing = error
            continue
        has_any = True
        about = [fact for fact in facts if fact.location == source.location]
        found += _held(about, history)
    if not has_any:
        raise missing or NotFound(f"there is no repository to look for {ref!r} in")
    return sorted(found, key=lambda fact: (fact.created, fact.id))


def _held(facts: Sequence[Fact], history: CommitHistory) -> list[Fact]:
    return held_at(facts, lambda fact: history.is_before(fact.commit, fact.created))


def bind(engine: Engine, fact: Fact, source: Source | None = None) -> tuple[Fact, dict[str, bytes]]:
    """Return a fact that also cites the places its text names, and the bytes that must be stored for them.

    Bytes with a likely secret are not among them, nor those of files that are named without lines.
    """
    state = states(engine, [source or Source(fact.location)]).get(fact.location)
    if not isinstance(state, FolderState):
        return fact, {}
    cited = {(one.path, line) for one in fact.citations for line in range(one.start, one.end + 1)}
    paths = {path for path, _ in cited}
    named = [
        one
        for one in bound(state, fact.text)
        if (one.path not in paths if not one.start else (one.path, one.start) not in cited)
    ]
    first = max((one.n for one in fact.citations), default=0) + 1
    numbered = tuple(replace(one, n=n) for n, one in enumerate(named, start=first))
    contents = state.contents({one.blob for one in named if one.start})
    names = {one.blob: one.path for one in named}
    kept = {
        blob: content
        for blob, content in contents.items()
        if find_secret(content.decode("utf-8", "replace"), names.get(blob, "")) is None
    }
    return replace(fact, citations=(*fact.citations, *numbered)), kept


def add_fact(
    engine: Engine,
    text: str,
    *,
    turn: DialogTurn | None = None,
    source: Source | None = None,
    scope: FactScope | None = None,
    supersedes: Sequence[str] = (),
) -> Fact:
    """Store a fact that a user states, with the places it names and the citations of a turn; return it.

    The citations replace those of an existing equal fact. The returned fact names those that it may replace.

    Args:
        engine: provides the store and the repository.
        text: the sentence.
        turn: the turn that states it.
        source: the repository, where no turn states it.
        scope: where to store it; None is the scope of the settings.
        supersedes: the ids of facts that it replaces, which it closes.

    Raises:
        ConfigError: neither turn nor source names a repository, the text is empty, or there is no such scope.
        NotFound: the turn's conversation is deleted, or there is no fact to replace.
    """
    if not text.strip():
        raise ConfigError("a fact needs words; say, for instance, what a function does")
    found: Fact | None = None
    if turn is not None and turn.conversation_id:
        locations = [one.location for one in engine.conversation_of(turn).sources]
        found = fact_of(text, "", sources_used(turn), turn, locations)
    elif source is not None:
        found = Fact(text, source.location)
    if found is None:
        raise ConfigError("say which repository the fact is about, or which turn states it (--turn)")
    every = facts_of(engine)
    replaced = [every.fact(one) for one in supersedes]
    fact = found if found.commit else replace(found, valid_from=_commit_of(engine, found, source))
    fact, contents = bind(engine, replace(fact, valid_from=fact.commit), source)
    return _stored(engine, fact, scope, replaced, contents)


def confirm_fact(
    engine: Engine,
    beginning: str,
    *,
    scope: FactScope | None = None,
    supersedes: Sequence[str] = (),
) -> Fact:
    """Confirm a proposed or rejected fact, or repeat a confirmed one; return it as stored.

    It is stored in a scope (None: that of the settings) and removed from where it was proposed.

    Raises:
        ConfigError: there is no such scope.
        NotFound: there is no such fact, or none to replace.
    """
    every = facts_of(engine)
    fact = every.fact(beginning)
    if fact.superseded_by:
        raise ConfigError(f"the fact {fact.id} was superseded by {fact.superseded_by}; add it again instead")
    replaced = [every.fact(one) for one in supersedes]
    target = fact.scope if fact.state == "confirmed" and scope is None else scope or engine.settings.scope
    contents: dict[str, bytes] = {}
    if not fact.citations:
        fact, contents = bind(engine, fact)
    confirmed = _stored(engine, replace(fact, state="confirmed"), target, replaced, contents)
    if fact.scope != target and fact.state != "confirmed":
        _remove(engine, fact)
    return confirmed


def reject_fact(engine: Engine, beginning: str) -> Fact:
    """Reject a proposed fact, so that it is not proposed again; return it.

    Raises:
        NotFound: there is no such fact.
        ConfigError: it is already confirmed.
    """
    every = facts_of(engine)
    fact = every.fact(beginning)
    if fact.state == "confirmed":
        raise ConfigError(f"the fact {fact.id} is confirmed; `rag facts forget` deletes it")
    return replace(every.of(fact.scope).decide(fact, "rejected"), scope=fact.scope)


def forget_fact(engine: Engine, beginning: str, *, scope: FactScope | None = None) -> Fact:
    """Delete the fact whose id starts with `beginning`, and the files that only it cited.

    Facts that it superseded hold again, or are superseded by its own successor.

    Raises:
        NotFound: there is none, or more than one.
    """
    fact = facts_of(engine).fact(beginning, scope=scope)
    _remove(engine, fact)
    return fact


def _remove(engine: Engine, fact: Fact) -> None:
    every = facts_of(engine)
    if not every.of(fact.scope).delete(fact):
        raise NotFound(f"the fact {fact.id} was already deleted")
    if fact.state == "confirmed":
        for scope in engine.settings.fact_namespaces:
            every.of(scope).reopen(fact)
    kept = KeptFiles(engine.turns, every.namespace(fact.scope))
    kept.release(citation.blob for citation in fact.citations)


def _stored(
    engine: Engine,
    fact: Fact,
    scope: FactScope | None,
    replaced: Sequence[Fact],
    contents: Mapping[str, bytes],
) -> Fact:
    """Store a confirmed fact in a scope with the bytes that it cites, and close those that it replaces."""
    every = facts_of(engine)
    wanted = scope or engine.settings.scope
    target = every.of(wanted)
    before = target.same_as(fact)
    target.add([fact])
    stored = target.same_as(fact) or fact
    kept = KeptFiles(engine.turns, every.namespace(wanted))
    missing = kept.missing({citation.blob for citation in stored.citations})
    kept.keep({blob: content for blob, content in contents.items() if blob in missing})
    if wanted != "user":
        own = KeptFiles(engine.turns, engine.settings.namespace)
        kept.keep(own.contents(kept.missing({citation.blob for citation in stored.citations})))
    if before is not None:
        kept.release(citation.blob for citation in before.citations)
    for old in replaced:
        if old.id == stored.id and old.scope == wanted:
            raise ConfigError("a fact cannot supersede itself")
        every.of(old.scope).supersede(old, stored)
    note = "" if stored.citations else NOT_BOUND
    return every.with_candidates(replace(stored, scope=wanted, note=note))


def _commit_of(engine: Engine, fact: Fact, source: Source | None) -> str:
    """Return the current commit of a fact's repository; "" if it has none, or cannot be read."""
    try:
        return history_of(engine, source or Source(fact.location), None).commit
    except SourceError:
        return ""


def sources_of(engine: Engine, facts: Iterable[Fact]) -> list[Source]:
    """Return the repositories of facts, with the names that conversations use."""
    known = {
        source.location: source
        for conversation in engine.turns.conversations(namespace=engine.settings.namespace)
        for source in conversation.sources
    }
    return [known.get(place, Source(place)) for place in dict.fromkeys(fact.location for fact in facts)]


def consolidate_conversation(
    engine: Engine, conversation: Conversation, *, keep_recent: int = 0
) -> Consolidated:
    """Add the turns that are not in a conversation's summary yet to it; the turns are kept.

    The first turn that is being answered, and those after it, are left for the next time.

    A model writes the summary and proposes facts; without one the summary is extractive.

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
    turns = list(takewhile(is_settled, turns[: max(len(turns) - keep_recent, 0)]))
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
