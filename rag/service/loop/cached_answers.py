"""Reuses earlier answers as long as the code that they are based on has not changed.

Two things are checked:

    the sources shown for it   the bytes of every file that was shown, used or not, are read from disk; if one
                               differs (or the index has other bytes), the entry is removed
    the sources shown now      the same if the index is unchanged; if not, the question is prepared, and the
                               entry is used only if there is no new source among the first ones, or before
                               one that the answer refers to; what the model has read in a look comes last;
                               what its other steps alone have found is used only with an unchanged index

So a new or changed file that answers better is noticed at once, and a question about unchanged code needs no
search. Everything else that an answer depends on is the scope of its entry: namespace, repositories with refs
and filters, model, prompt templates, preferences, facts with their freshness, and every setting that is not
known to have no effect.

A follow-up is looked up by its standalone question if a model wrote one, else by its words and the whole
history, so that no other conversation gets its answer. An answer is cached if it is complete, refers to a
source, came without a warning, and its sources support its statements, so that asking again gives another
one; it is removed together with the turn that it was first given in.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rag.answer_cache.cache import AnswerCache, CachedAnswer, CacheStats, Outcome, normalised
from rag.errors import NotFound, StoreError
from rag.lines import whole_lines_of
from rag.ports import TextGenerator
from rag.prompt.templates import load_template
from rag.resources import shipped
from rag.retrieval.question import parse_question
from rag.service.loop.dialog import Dialog
from rag.service.loop.rewording import rewording_of
from rag.service.repositories.engine import Engine
from rag.service.repositories.repository import Repository, current_bytes
from rag.service.tools.definition_history import NO_HISTORY
from rag.settings import Settings
from rag.types import (
    Answer,
    Citation,
    DialogTurn,
    Hit,
    NumberedSource,
    Prepared,
    Prompt,
    Usage,
    blob_id,
    now_utc,
)

__all__ = ["CacheHit", "CacheStats", "LookUp", "answers_of", "is_wanted", "look_up"]

_WITHOUT_EFFECT = frozenset(
    """home api_key embedding_api_key git_token memory shared namespace project team scope timeout_s
    git_timeout_s model_concurrency storage_cap_bytes stores stores_cache_bytes groups cache template
    steps""".split()
)
"""Settings that do not change answers; the template, whose text is hashed instead; and the steps, which are
those of the dialog.
"""
_OTHER_STATE = {"look recall_turns", "look changed_since"}
"""Steps whose results depend on more than the files."""
_OF_ONE_FILE = {"look", "look read"}
"""Steps whose results a new file does not change, and the end of a look."""

_NUMBERING = "by first reference"
"""How the citations of an answer are numbered; cached answers with another numbering are not reused."""
_FIRST = 3
"""The number of sources that an answer certainly uses; lower ranks shift with changes elsewhere."""


class CacheHit(NamedTuple):
    """A cached answer, ready to be returned again."""

    prepared: Prepared
    answer: Answer


def is_wanted(settings: Settings) -> bool:
    """Whether answers are cached: as set, else if there is a model.

    The extractive answer takes no longer than a look-up, so without a model caching is off by default.
    """
    return settings.has_model if settings.cache is None else settings.cache


def answers_of(engine: Engine) -> AnswerCache:
    """Return the answer cache of the engine's namespace."""
    return AnswerCache(engine.turns, namespace=engine.settings.namespace)


def look_up(dialog: Dialog, question: str, standalone: str, generator: TextGenerator) -> LookUp | None:
    """Return the look-up of a question; None if caching is not possible for it.

    Args:
        dialog: the conversation.
        question: the question as typed.
        standalone: its standalone form, written by a model; "" for none.
        generator: the generator of the answer.
    """
    locations = [repository.source.location for repository in dialog.repositories]
    if not question.strip() or dialog.only or len(set(locations)) < len(locations):
        return None  # citations cannot distinguish two versions of a repository
    return LookUp(dialog, question, standalone, generator)


class LookUp:
    """The cache look-up of one question; stores its answer on a miss."""

    def __init__(self, dialog: Dialog, question: str, standalone: str, generator: TextGenerator) -> None:
        self._dialog, self._question = dialog, question.strip()
        # A question in another language is answered in it; its English form must not share the entry.
        alone = standalone and not parse_question(standalone).dependent and not dialog.is_foreign(question)
        self._standalone = standalone if alone else None
        self._cache = AnswerCache(
            dialog.engine.turns,
            namespace=dialog.engine.settings.namespace,
            alike=partial(normalised, is_symbol=self._is_symbol),
        )
        context = "" if self._standalone else _context(dialog.past())
        self._in_context = bool(context)
        self._scope = _scope(dialog, generator, context)
        self._index = json.dumps([repository.store.header["id"] for repository in dialog.repositories])
        self._began = time.perf_counter()
        self._waiting: CacheHit | None = None
        self._found: CachedAnswer | None = None
        self._has_only_read = False

    def unchanged(self) -> CacheHit | None:
        """Return the cached answer if nothing at all has changed since; no search is needed then."""
        self._found = self._cache.find(self._asked, scope=self._scope)
        if self._found is None:
            return self._finish("miss")
        texts = _texts_of(self._found.citations, self._dialog.repositories)
        turn = self._kept_turn(self._found)
        if texts is None or turn is None:
            return self._finish("stale")
        self._has_only_read = {step.name for step in turn.trace if step.is_look} <= _OF_ONE_FILE
        self._waiting = self._again(self._found, turn, texts)
        return self._finish("hit") if self._found.index == self._index else None

    def still(self, prepared: Prepared) -> CacheHit | None:
        """Return the cached answer if the sources for the question are the same now, except further down."""
        if self._waiting is None or self._found is None:
            return None
        shown = {(c.location, c.path, c.blob) for c in self._found.citations}
        rests_on = {(c.location, c.path, c.blob) for c in self._found.citations if c.used}
        hits = [one.hit for one in prepared.prompt.sources]
        files = [(hit.location, hit.path, hit.blob) for hit in hits]
        # Places of one line are further down.
        now = [file for file, hit in zip(files, hits, strict=True) if hit.end > hit.start]
        doubtful = prepared.confidence is not None and not prepared.confidence.is_sure
        if doubtful or not (self._has_only_read or rests_on <= set(files)):
            return self._finish("stale")
        depth = max(_FIRST, *(1 + now.index(one) if one in now else len(now) for one in rests_on))
        return self._finish("hit" if shown.issuperset(now[:depth]) else "stale")

    def keep(self, prepared: Prepared, answer: Answer) -> None:
        """Cache a new answer, after its turn is stored. A failure is only reported as a notice."""
        asked = (self._standalone or "").strip()
        in_context = bool(asked) and prepared.standalone_question.strip() != asked
        sources = answer.sources
        known = all(citation.blob and citation.location for citation in sources)
        if (
            in_context
            or answer.cut
            or prepared.warning
            or (answer.support and (answer.support.unsupported or answer.support.unknown_names))
            or _lacks_history(answer)
            or any(step.name in _OTHER_STATE for step in answer.trace)
            or not (answer.complete and answer.found and answer.citations and known)
        ):
            return
        try:
            self._cache.put(
                self._asked,
                answer.text,
                scope=self._scope,
                citations=sources,
                model=answer.model,
                turn=answer.turn_id,
                index=self._index,
                metadata={
                    "prompt_hash": answer.prompt_hash,
                    "standalone_question": prepared.standalone_question,
                },
            )
        except StoreError as error:
            self._dialog.engine.notice(f"this answer could not be cached ({error})")

    def _is_symbol(self, word: str) -> bool:
        return any(repository.store.defining(word) for repository in self._dialog.repositories)

    @property
    def _asked(self) -> str:
        return self._standalone or self._question

    def _finish(self, outcome: Outcome) -> CacheHit | None:
        """Count the outcome; return the answer if it is a hit."""
        given, self._waiting = self._waiting, None
        if outcome == "stale" and self._found is not None:
            self._cache.drop(self._found)
        self._cache.count(outcome)
        return given if outcome == "hit" else None

    def _kept_turn(self, entry: CachedAnswer) -> DialogTurn | None:
        """Return the turn of the answer; None if it was deleted or has another answer now."""
        engine = self._dialog.engine
        try:
            turn = engine.turns.turn(entry.turn, namespace=engine.settings.namespace)
        except NotFound:
            return None
        return turn if turn.answer == entry.answer else None

    def _again(self, entry: CachedAnswer, turn: DialogTurn, texts: Mapping[tuple[str, str], str]) -> CacheHit:
        """Return the answer with the current commits and without cost."""
        opened = {repository.source.location: repository for repository in self._dialog.repositories}
        sources = tuple(
            replace(c, span=replace(c.span, commit=opened[c.location].checkout.commit))
            for c in entry.citations
        )
        hits = tuple(
            _hit(c, texts[c.location, c.path], opened[c.location].store.file_language(c.path))
            for c in sources
        )
        numbered = tuple(NumberedSource(c.n, hit) for c, hit in zip(sources, hits, strict=True))
        hits = tuple(sorted(hits, key=lambda hit: -hit.score))
        rewording = rewording_of(turn)
        if self._standalone:
            rewording = replace(rewording, standalone=self._standalone)
        searched = str(entry.metadata["standalone_question"]) if self._in_context else self._asked
        prepared = Prepared(
            question=self._question,
            standalone_question=searched,
            conversation=self._dialog.conversation,
            hits=hits,
            prompt=Prompt(text="", sources=numbered, turns=(), tokens=0, answer_tokens=0),
            seconds={"cache": time.perf_counter() - self._began},
            rewording=rewording,
        )
        answer = Answer(
            text=entry.answer,
            question=self._question,
            standalone_question=searched,
            sources=sources,
            hits=hits,
            model=entry.model,
            usage=Usage(estimated=False, cost_usd=0.0),
            notes=(_note(entry),),
            prompt_hash=str(entry.metadata["prompt_hash"]),
            seconds=prepared.seconds,
            cached=entry.turn,
            support=turn.support,
        )
        return CacheHit(prepared, answer)


def _scope(dialog: Dialog, generator: TextGenerator, context: str) -> dict[str, Any]:
    """Return what an answer depends on besides the question and the files.

    All but repositories and model is hashed, as preferences and settings are private.
    """
    settings = dialog.engine.settings
    rest = {
        "generator": getattr(generator, "fingerprint", type(generator).__name__),
        "templates": _templates(settings),
        "said_before": context,
        "known": dialog.known().variables(),
        "numbering": _NUMBERING,
        "steps": dialog.steps,
        "settings": {
            field.name: getattr(settings, field.name)
            for field in fields(settings)
            if field.name not in _WITHOUT_EFFECT
        },
    }
    return {
        "repositories": [
            [r.source.location, r.source.ref, *map(list, asdict(r.source.filters).values())]
            for r in dialog.repositories
        ],
        "model": generator.model,
        "rest": hashlib.sha256(json.dumps(rest, sort_keys=True, default=repr).encode()).hexdigest(),
    }


def _templates(settings: Settings) -> str:
    """Return a hash of all prompt templates."""
    chosen = load_template(settings.template, settings.home)
    files = [
        Path(chosen.origin),
        *(settings.home / "templates").glob("*.j2"),
        *shipped("templates").glob("*.j2"),
    ]
    texts = [(settings.template or "").encode()]
    texts += [file.read_bytes() for file in sorted(set(files)) if file.is_file()]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


def _context(turns: Sequence[DialogTurn]) -> str:
    """Return a hash of the turns before a question and the freshness of their sources; "" for none."""
    history = [
        [
            turn.question,
            turn.answer,
            [[c.location, c.place, c.blob, c.used] for c in turn.citations],
            [[check.state, check.place] for check in turn.checks],
        ]
        for turn in turns
    ]
    return hashlib.sha256(json.dumps(history).encode()).hexdigest() if history else ""


def _texts_of(
    citations: Sequence[Citation], repositories: Sequence[Repository]
) -> dict[tuple[str, str], str] | None:
    """Return the text of every cited file; None if one differs from the cited bytes, on disk or indexed."""
    opened = {repository.source.location: repository for repository in repositories}
    texts: dict[tuple[str, str], str] = {}
    for citation in citations:
        place, repository = (citation.location, citation.path), opened[citation.location]
        if place in texts:
            continue
        content = current_bytes(repository, citation.path)
        indexed = repository.store.file_text(citation.path)
        if content is None or indexed is None or not blob_id(content) == indexed[1] == citation.blob:
            return None
        texts[place] = indexed[0]
    return texts


def _lacks_history(answer: Answer) -> bool:
    """Whether an answer says that the history is not on this machine, where it may be later."""
    return answer.code_facts is not None and answer.code_facts.note == NO_HISTORY


def _hit(citation: Citation, text: str, language: str) -> Hit:
    lines = whole_lines_of(text)[citation.start - 1 : citation.end]
    return Hit(
        citation.span,
        "".join(lines),
        citation.score,
        language=language,
        dirty=citation.dirty,
        location=citation.location,
    )


def _note(entry: CachedAnswer) -> str:
    minutes = int((now_utc() - entry.created).total_seconds() // 60)
    ago = "just now" if minutes < 1 else f"{minutes} min ago" if minutes < 120 else f"{minutes // 60} h ago"
    return (
        f"answered {ago}, and its sources are unchanged; without the answer cache (`cache`) it is asked again"
    )
