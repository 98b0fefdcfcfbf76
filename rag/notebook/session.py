"""What `%ask` remembers between cells: the engine, the repositories and the conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from rag.component.rag import RAG
from rag.errors import ConfigError
from rag.service import locate
from rag.settings import Steps, load_settings
from rag.types import Answer, TraceStep


@dataclass(frozen=True, slots=True)
class AskOptions:
    """The options of one `%ask`; what is None stays as it was in the cell before."""

    repositories: tuple[str, ...] = ()
    ref: str | None = None
    conversation: str | None = None
    new: bool = False
    model: str | None = None
    base_url: str | None = None
    steps: Steps | None = None


class AskSession:
    """One `RAG` for the cells of a notebook, made again when the options ask for another.

    Args:
        notice: called with sentences for the person who asks.
    """

    def __init__(self, notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._rag: RAG | None = None
        self._repositories: tuple[str, ...] = ()
        self._ref: str | None = None
        self._model: dict[str, Any] = {}

    @property
    def rag(self) -> RAG | None:
        """The `RAG` that answered last; None before the first question."""
        return self._rag

    def ask(self, question: str, options: AskOptions) -> Iterator[str | TraceStep | Answer]:
        """Yield the pieces of an answer and, at the end, the answer.

        Raises:
            ConfigError, ProviderError: as `RAG.call`; without a repository, a message that names the option.
        """
        rag = self._ready(options)
        with closing(rag.pieces(question)) as pieces:
            yield from pieces

    def _ready(self, options: AskOptions) -> RAG:
        model = {"model": options.model, "base_url": options.base_url, "steps": options.steps}
        self._model |= {name: value for name, value in model.items() if value is not None}
        if options.new or options.conversation is not None or self._rag is None:
            self._rag = self._opened(options.conversation)
        elif any(value is not None for value in model.values()):
            conversation = self._rag.memory.conversation
            self._rag = self._opened(None)
            self._rag.memory.conversation = conversation
        if options.repositories:
            self._repositories, self._ref = options.repositories, options.ref
        elif self._rag.memory.conversation is not None:
            return self._rag  # about what the conversation is about
        if not self._repositories:
            raise ConfigError(
                "no repository is chosen yet; name a folder or git URL once: %ask -r PATH_OR_URL Where is …?"
            )
        self._prepare(self._rag, self._repositories, self._ref)
        return self._rag

    def _opened(self, conversation: str | None) -> RAG:
        settings = load_settings(self._model)
        engine = self._rag.engine.with_settings(**self._model) if self._rag is not None else None
        rag = RAG(settings=settings, engine=engine, conversation=conversation)
        rag.engine.notice = self._notice
        return rag

    def _prepare(self, rag: RAG, repositories: Sequence[str], ref: str | None) -> None:
        wanted = {locate(one, ref) for one in repositories}
        if {repository.source for repository in rag.repositories} == wanted:
            return
        rag.prepare_retriever(repositories[0], ref=ref)
        for more in repositories[1:]:
            rag.add_repository(more, ref=ref)
