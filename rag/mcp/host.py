"""What a program provides for the tools: its repositories, answers, and how values are shown to a client.

There are two: `rag mcp` (`rag.mcp.local`), and the HTTP server for each of its callers (`rag.serve.mcp`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rag.types import Answer, Citation, CodeFact, Hit, Source, TraceStep

if TYPE_CHECKING:
    from rag.errors import RagError, StoreCorrupt
    from rag.schema import Json
    from rag.service import Dialog, Engine, Repository
    from rag.settings import Steps
    from rag.wiki import WikiStructure

Progress = Callable[[float, float | None, str], Coroutine[Any, Any, None]]
"""Called with done, total and a message."""
OnStep = Callable[[TraceStep], Awaitable[None]]
"""Receives a step of a second look as soon as it was made."""
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class OfferedRepository:
    """A repository of a client; `state` says in words whether it can be asked."""

    name: str
    source: Source
    state: str = "ready"
    can_answer: bool = True


class Host(Protocol):
    """The repositories and conversations of one client."""

    @property
    def engine(self) -> Engine:
        """The client's conversations and facts, and the shared stores."""

    def repositories(self) -> Sequence[OfferedRepository]:
        """Return the repositories that the client may use."""

    def repository(self, name: str | None) -> OfferedRepository:
        """Return the repository of a name; without a name the only one. Raises ConfigError: there is none."""

    async def opened(self, name: str | None, ref: str | None, progress: Progress) -> Repository:
        """Open a repository at a branch, tag or commit; index it first if necessary.

        Raises:
            ConfigError, SourceError, StoreError: it is not offered, or cannot be read or indexed.
        """

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
        """Return a conversation about repositories or groups of these names; none is the only one.

        Raises:
            ConfigError, NotFound, ConversationMismatch: there is no such repository, conversation or subject.
        """

    async def answered(self, dialog: Dialog, question: str, on_step: OnStep) -> Answer:
        """Answer a question, and store the turn. Raises ProviderError, ConfigError."""

    async def run(self, work: Callable[..., Result], *arguments: Any, is_long: bool = False) -> Result:
        """Run a function in a thread. `is_long` says that it may take seconds."""

    async def repaired(self, damage: StoreCorrupt) -> bool:
        """Rebuild a damaged index, and return whether the call can be repeated at once."""

    def wiki(self, repository: Repository) -> WikiStructure:
        """Return the pages of a repository's wiki, which are computed once for a state of its index."""

    def shown_as(self, of: Citation | Hit | CodeFact) -> tuple[str, str]:
        """Return the name of the repository of a place, and the URL of its lines, "" for none."""

    def sent(self, written: Json) -> Json:
        """Return JSON as the client may read it."""

    def message(self, error: RagError) -> str:
        """Return an error's message as the client may read it."""
