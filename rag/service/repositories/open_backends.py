"""Opens the backends that the settings name, each on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

from rag import backends
from rag.errors import ProviderError
from rag.memory.turn_vectors import TurnVectorCache
from rag.ports import Embedder, MemoryStore, Reranker, TextGenerator, TokenCounter
from rag.resources import make_private
from rag.settings import Settings
from rag.types import Prepared, Usage

Notice = Callable[[str], None]


class OpenBackends:
    """The embedder, models and conversations of the settings; each is opened on first use and stays open.

    Args:
        settings: what to open.
        notice: called with a sentence for the user that needs no action.
    """

    def __init__(self, settings: Settings, *, notice: Notice = lambda text: None) -> None:
        self.settings, self.notice = backends.fitted(settings), notice

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder that the settings name."""
        self._name_receiver(backends.remote_embedder_host(self.settings), "questions and the code")
        return backends.open_embedder(self.settings)

    @cached_property
    def reranker(self) -> Reranker | None:
        """The second stage of the search that the settings name, if any."""
        return backends.open_reranker(self.settings)

    @cached_property
    def fused_reranker(self) -> Reranker | None:
        """The second stage of what several phrasings find together."""
        return self.reranker or backends.open_reranker(self.settings, fused=True)

    @cached_property
    def turns(self) -> MemoryStore:
        """The conversation store that the settings name."""
        return backends.open_turn_store(self.settings)

    @cached_property
    def turn_vectors(self) -> TurnVectorCache:
        """A cache of the vectors of the last conversations searched."""
        return TurnVectorCache(self.turns)

    @cached_property
    def counter(self) -> TokenCounter:
        """Counts tokens like the model, or slightly high."""
        return backends.open_token_counter(self.settings)

    @property
    def asks_this_machine(self) -> bool:
        """Whether the model is on this machine, where it often handles one prompt at a time."""
        return self.settings.has_model and backends.remote_model_host(self.settings) is None

    def generator(self) -> TextGenerator:
        """Return the generator: the configured model, else the extractive answerer."""
        if not self.settings.has_model:
            from rag.answer.extract import ExtractiveGenerator

            return ExtractiveGenerator()
        generator = backends.open_generator(self.settings)
        self._name_receiver(backends.remote_model_host(self.settings), "questions and excerpts of the code")
        return generator

    def answering_generator(self) -> TextGenerator:
        """Return the generator, or one that raises the error on use if the model is not available.

        The question is then still searched, and the error contains the quotes.
        """
        try:
            return self.generator()
        except ProviderError as error:
            return FailedGenerator(self.settings.shown_model, error)

    def _name_receiver(self, host: str | None, what: str) -> None:
        """Notify the user where text is sent, on the first use of a host; None is this machine."""
        known_file = self.settings.home / "told_hosts"
        try:
            known = known_file.read_text(encoding="utf-8").splitlines()
        except OSError:
            known = []
        if host is None or host in known:
            return
        self.notice(f"{what} are sent to {host}; this notice is shown once")
        try:
            make_private(known_file.parent)
            known_file.write_text("".join(f"{name}\n" for name in [*known, host]), encoding="utf-8")
        except OSError as error:
            self.notice(f"the notice will be shown again: cannot write {known_file} ({error.strerror})")

    def close(self) -> None:
        """Close the turn store. Closing twice is allowed."""
        if "turns" in self.__dict__:
            self.turns.close()


class FailedGenerator:
    """A placeholder for a model that could not be opened; raises the error on use."""

    usage: Usage | None = None

    def __init__(self, model: str, error: ProviderError) -> None:
        self.model, self._error = model, error

    def stream(self, prepared: Prepared) -> Iterator[str]:
        """Raise the error."""
        raise self._error
