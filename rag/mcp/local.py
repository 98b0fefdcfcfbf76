"""The repositories of `rag mcp`: opened, indexed and updated in this process, like those of `rag ask`."""

from __future__ import annotations

import asyncio
import time
from asyncio import to_thread
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

from rag.errors import ConfigError, ConversationMismatch, RagError, StoreCorrupt
from rag.forges import permalink
from rag.hints import for_callers
from rag.mcp.host import OfferedRepository, OnStep, Progress
from rag.schema import Json
from rag.service import Dialog, Engine, Repository, aconverse
from rag.service.repositories.groups import ALL, MAX_SELECTED, is_group, selected
from rag.settings import Steps
from rag.types import Answer, Checkout, Citation, CodeFact, Hit, Source, TraceStep
from rag.wiki import WikiStructure
from rag.wiki.pages.known_structures import Structures

_REPORT_EVERY_S = 0.25
Result = TypeVar("Result")


class LocalHost:
    """Offers repositories to the one client of this process.

    Args:
        engine: opens them; they are updated from their folders before each use.
        sources: the repositories by the names that the client uses.
    """

    def __init__(self, engine: Engine, sources: Sequence[tuple[str, Source]]) -> None:
        self.engine, self._sources = engine, dict(sources)
        self._repositories: dict[Source, Repository] = {}
        self._opening = asyncio.Lock()
        self._structures = Structures()

    def repositories(self) -> Sequence[OfferedRepository]:
        """Return the repositories of the command line."""
        return [
            OfferedRepository(name, source, self._state(source)) for name, source in self._sources.items()
        ]

    def repository(self, name: str | None) -> OfferedRepository:
        """Return the repository of a name, also as `NAME@REF`; without a name the only one."""
        known = ", ".join(self._sources)
        if name is None:
            if len(self._sources) != 1:
                raise ConfigError(f"no repository is named; name one of: {known}")
            name = known
        base, _, ref = (name, "", "") if name in self._sources else name.partition("@")
        if base not in self._sources:
            raise ConfigError(f"there is no repository of that name; there are: {known}")
        return OfferedRepository(name, _at(self._sources[base], ref or None))

    async def opened(self, name: str | None, ref: str | None, progress: Progress) -> Repository:
        """Open a repository; index what has changed first."""
        offered = self.repository(name)
        return await self._opened(offered.name, _at(offered.source, ref), progress)

    async def dialog(
        self,
        names: Sequence[str],
        question: str,
        *,
        ref: str | None,
        conversation: str | None,
        about: str | None,
        steps: Steps | None,
        progress: Progress,
    ) -> Dialog:
        """Return a conversation about repositories; of the group of all, about those that are asked about."""
        sources, remark = await to_thread(self._chosen, names, question, ref)
        found = (
            await to_thread(self.engine.find_conversation, conversation, sources) if conversation else None
        )
        if found is not None and not sources:
            sources = list(found.sources)
        sources = sources or [self.repository(None).source]
        names_of = {source.location: name for name, source in self._sources.items()}
        if found is not None and (other := [one for one in sources if one.location not in names_of]):
            raise ConversationMismatch(
                conversation=found.name or found.id,
                about=other[0].name,
                asked=", ".join(names_of.values()),
            )
        opened = [await self._opened(names_of[one.location], one, progress) for one in sources]
        dialog = Dialog(self.engine, opened, found)
        dialog.remarks = (remark,) if remark else ()
        if about:
            await to_thread(dialog.about, about)
        if steps is not None:
            dialog.steps = steps
        return dialog

    async def answered(self, dialog: Dialog, question: str, on_step: OnStep) -> Answer:
        """Answer a question, and store the turn."""
        generator = await to_thread(self.engine.answering_generator)
        cache = bool(self.engine.settings.cache)
        async with aclosing(aconverse(dialog, question, generator, cache=cache)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Answer):
                    return piece
                if isinstance(piece, TraceStep):
                    await on_step(piece)
        raise AssertionError("a conversation ends with its answer")

    async def run(self, work: Callable[..., Result], *arguments: Any, is_long: bool = False) -> Result:
        """Run a function in a thread."""
        return await to_thread(work, *arguments)

    async def repaired(self, damage: StoreCorrupt) -> bool:
        """Rebuild a damaged index."""
        async with self._opening:
            await to_thread(self.engine.rebuilt, list(self._repositories.values()), damage)
        return True

    def wiki(self, repository: Repository) -> WikiStructure:
        """Return the pages of a repository's wiki."""
        return self._structures.of(repository)

    def shown_as(self, of: Citation | Hit | CodeFact) -> tuple[str, str]:
        """Return the name of the repository of a place, and its address at a forge."""
        names = (name for name, source in self._sources.items() if source.location == of.location)
        return next(names, of.repo), permalink(of, self._checkout(of.location))

    def sent(self, written: Json) -> Json:
        """Return JSON as it is: the client is the user's own."""
        return written

    def message(self, error: RagError) -> str:
        """Return an error's message, with hints that an agent can follow."""
        return for_callers(str(error), "mcp")

    def _state(self, source: Source) -> str:
        checkout = self._checkout(source.location)
        return f"ready at {checkout.commit[:10]}" if checkout and checkout.commit else "ready"

    def _checkout(self, location: str) -> Checkout | None:
        """Return the checkout of a repository that was opened, the latest one."""
        found = (
            one.checkout for one in reversed(self._repositories.values()) if one.source.location == location
        )
        return next(found, None)

    def _chosen(self, names: Sequence[str], question: str, ref: str | None) -> tuple[list[Source], str]:
        """Return the repositories of names, and a sentence on those of a group that were left out."""
        groups = [name for name in names if is_group(name)]
        if len(names) > MAX_SELECTED:
            raise ConfigError(
                f"{len(names)} repositories were named, the limit is {MAX_SELECTED}; name fewer, or {ALL}"
            )
        if not groups:
            return [_at(self.repository(name).source, ref) for name in names], ""
        if ref is not None or set(groups) != {ALL}:
            raise ConfigError(f"the only group is {ALL}, and it has no ref; name a repository")
        found = selected(self.engine, list(self._sources.values()), question)
        return list(found.sources), found.note

    async def _opened(self, name: str, source: Source, progress: Progress) -> Repository:
        loop, reported = asyncio.get_running_loop(), 0.0

        def report(stage: str, done: int, total: int) -> None:
            nonlocal reported
            if stage != "scan" and time.monotonic() - reported >= _REPORT_EVERY_S:
                reported = time.monotonic()
                sending = progress(float(done), float(total) or None, stage or "indexing")
                asyncio.run_coroutine_threadsafe(sending, loop)

        async def open_it() -> Repository:
            async with self._opening:
                self.engine.progress = report
                known = self._repositories.get(source)
                if known is not None and not source.is_url:
                    return await to_thread(self.engine.current, known)
                return await to_thread(self.engine.repository, source, else_old=True)

        # A call that is cancelled leaves its thread at work, and the next call must wait for it.
        found = await asyncio.shield(open_it())
        self._repositories.pop(source, None)
        self._repositories[source] = found
        return replace(found, coverage=replace(found.coverage, repository=name))


def _at(source: Source, ref: str | None) -> Source:
    return replace(source, ref=ref) if ref else source
