"""The repositories of a caller of this server, as the tools of `rag.mcp` use them."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rag.errors import RagError, StoreCorrupt
from rag.mcp.host import OfferedRepository, OnStep, Progress
from rag.schema import Json
from rag.serve.access.keys import Caller
from rag.serve.api.rendering import sent
from rag.serve.errors import BadRequest, StillIndexing
from rag.serve.links import citation_url
from rag.serve.repositories.entry import ServedRepository
from rag.serve.service import Service
from rag.service import Dialog, Engine, Repository
from rag.service.repositories.groups import is_group
from rag.settings import Steps
from rag.types import Answer, Citation, CodeFact, Hit
from rag.wiki import WikiStructure
from rag.wiki.pages.known_structures import Structures

Result = TypeVar("Result")


class ServedHost:
    """Offers what the server serves to one caller.

    Args:
        service: the service.
        caller: its conversations are used.
        structures: the wikis that are known, for all callers.
    """

    def __init__(self, service: Service, caller: Caller, structures: Structures) -> None:
        self._service, self._caller, self._structures = service, caller, structures
        self._base = _base(service)

    @property
    def engine(self) -> Engine:
        """The caller's conversations and facts, and the shared stores."""
        return self._service.engine_for(self._caller)

    def repositories(self) -> Sequence[OfferedRepository]:
        """Return the repositories that the caller may use."""
        return [_offered(entry) for entry in self._service.registry.visible_to(self._caller)]

    def repository(self, name: str | None) -> OfferedRepository:
        """Return the repository of a name; without a name the only one."""
        return _offered(self._entry(name))

    async def opened(self, name: str | None, ref: str | None, progress: Progress) -> Repository:
        """Wait until a repository can answer, and report the progress of its index."""
        registry, entry = self._service.registry, self._entry(name, ref)
        while True:
            try:
                return await registry.opened(entry)
            except StillIndexing:
                async for state in registry.events(entry):
                    await progress(float(state.done), float(state.total) or None, state.stage or "indexing")

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
        """Return a conversation about repositories or groups."""
        asked: list[str | ServedRepository] = list(names)
        if ref is not None and any(map(is_group, names)):
            raise BadRequest("a group has no ref; name one repository with it")
        if not any(map(is_group, names)):
            self._service.check_count(len(names))
            only = [None] if not names and (ref is not None or conversation is None) else []
            entries = [self._entry(name, ref) for name in (*names, *only)]
            for entry in entries:
                await self.opened(entry.name, None, progress)
            asked = list(entries)
        return await self._service.dialog(
            self._caller,
            asked,
            conversation=conversation,
            named=False,
            about=about,
            steps=steps,
            question=question,
        )

    async def answered(self, dialog: Dialog, question: str, on_step: OnStep) -> Answer:
        """Answer a question, and store the turn."""
        return await self._service.answered(dialog, question, on_step=on_step)

    async def run(self, work: Callable[..., Result], *arguments: Any, is_long: bool = False) -> Result:
        """Run a function in a thread, within the limits of the server."""
        limiter = self._service.limiter
        async with limiter.long_slot() if is_long else limiter.slot():
            return await to_thread(work, *arguments)

    async def repaired(self, damage: StoreCorrupt) -> bool:
        """Leave it to the message, which says that a damaged index is rebuilt."""
        return False

    def wiki(self, repository: Repository) -> WikiStructure:
        """Return the pages of a repository's wiki."""
        return self._structures.of(repository)

    def shown_as(self, of: Citation | Hit | CodeFact) -> tuple[str, str]:
        """Return the name of the repository of a place, and the URL of its lines."""
        entries = self._service.registry.visible_to(self._caller)
        found = [entry for entry in entries if entry.source.location == of.location]
        name = found[0].name if found else of.repo
        checkout = next((entry.checkout for entry in found if entry.checkout), None)
        url = citation_url(of, checkout, name, self._base)
        return name, "" if url.startswith("/") else url

    def sent(self, written: Json) -> Json:
        """Return JSON as the caller may read it."""
        return sent(self._service, written)

    def message(self, error: RagError) -> str:
        """Return an error's message as the caller may read it."""
        return self._service.public_message(error, "mcp")

    def _entry(self, name: str | None, ref: str | None = None) -> ServedRepository:
        registry = self._service.registry
        name = registry.only_entry().name if name is None else name
        return registry.entry(name, ref, caller=self._caller)


def _offered(entry: ServedRepository) -> OfferedRepository:
    commit = entry.checkout.commit if entry.checkout else None
    state = f"{entry.state} at {commit[:10]}" if commit else entry.state
    return OfferedRepository(entry.name, entry.source, state, entry.is_usable)


def _base(service: Service) -> str:
    """Return the base URL of links: a public name, or the host to listen on, or 127.0.0.1 for a wildcard."""
    settings = service.settings
    host = next(iter(settings.public_hosts), settings.host)
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{host}:{settings.port}" if settings.port else ""
