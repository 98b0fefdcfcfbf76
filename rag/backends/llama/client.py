"""The OpenAI-compatible client for a model file: it starts the model's server when a question is asked."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rag.backends.llama.server import LlamaServer, check_file, check_installed, server_of
from rag.backends.openai.client import OpenAICompatibleClient
from rag.backends.openai.streams import Request

_UNUSED_URL = "http://127.0.0.1:1/v1"
"""The address before the server has started."""


class LlamaClient(OpenAICompatibleClient):
    """Asks the model of a GGUF file.

    Args:
        path: the file.
        context_tokens: what prompt and answer may take together.
        limits: `timeout_s`, `first_byte_s` and `at_once` of the base class.

    Raises:
        BackendMissing: xllamacpp is not installed.
        SettingsError: there is no such file.
    """

    def __init__(self, path: Path, context_tokens: int, **limits: Any) -> None:
        super().__init__(_UNUSED_URL, **limits)
        check_installed()
        check_file(path)
        self.path, self.context_tokens = path, context_tokens
        self.host = f"the local model {path.stem}"

    @property
    def _server(self) -> LlamaServer:
        return server_of(self.path, self.context_tokens)

    def opened(self, turn: ExitStack) -> None:
        """Load the model if necessary, and use its present address."""
        address = self._server.begin()
        turn.callback(self._server.end)
        if self.base_url != address.base_url:
            self.base_url, self._key, self.sync_client = address.base_url, address.key, None

    async def aopened(self, turn: ExitStack) -> None:
        """Do the same in a thread. A model whose question was cancelled is loaded, and unloaded when idle."""
        loading = asyncio.ensure_future(asyncio.to_thread(self.opened, turn))
        try:
            await asyncio.shield(loading)
        except asyncio.CancelledError:

            def leave(done: asyncio.Future[None]) -> None:
                if done.exception() is None:
                    turn.close()

            loading.add_done_callback(leave)
            raise

    def pause_s(self, error: Exception, request: Request, received: int = 0) -> float:
        """Return the pause before the next try, or raise; see the base class."""
        if (broken := self._server.broken(received)) is not None:
            raise broken from error
        return super().pause_s(error, request, received)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> LlamaClient:
        """Create a client from `to_dict`."""
        names = ("path", "context_tokens", "timeout_s", "first_byte_s", "at_once")
        return cls(**{name: data["data"][name] for name in names})
