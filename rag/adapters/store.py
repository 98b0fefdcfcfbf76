"""The store of an adapter."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from rag.ports import MemoryStore, TokenCounter
from rag.service import Engine
from rag.settings import Settings, load_settings

IN_PROCESS = "memory:"
"""An in-memory store, which is lost with its object and does not use the user's settings."""


StoreAddress = str | os.PathLike[str] | MemoryStore
"""The store of an adapter, as it is given."""


class OpenedStore:
    """A store that is opened on first use. Thread-safe.

    Args:
        memory: the URL of a store, the path of an SQLite file (`Path`, not text), "" for the store of the
            user's settings, or an open store, which is not closed here.

    Raises:
        TypeError: it is none of these.
        SettingsError: the URL is not valid; raised when it is opened.
    """

    def __init__(self, memory: StoreAddress = IN_PROCESS) -> None:
        if isinstance(memory, os.PathLike):
            memory = f"sqlite:///{Path(memory).absolute()}"
        if not (isinstance(memory, str) or hasattr(memory, "create_conversation")):
            raise TypeError(f"a memory is a URL, a path or an open store, not {type(memory).__name__}")
        self._memory: str | MemoryStore = memory
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """The URL of the store without its password; "memory:" for an open store."""
        if not isinstance(self._memory, str):
            return IN_PROCESS
        parts = urlsplit(self._memory)
        if not parts.netloc:
            return self._memory
        if "@" not in parts.netloc and "@" in self._memory:  # the password contains a delimiter
            return f"{parts.scheme}://{self._memory.rpartition('@')[2]}"
        public = [pair for pair in parse_qsl(parts.query) if not pair[0].lower().endswith("password")]
        user = f"{parts.username}@" if parts.username else ""
        host = user + parts.netloc.rpartition("@")[2]
        return parts._replace(netloc=host, query=urlencode(public)).geturl()

    @property
    def store(self) -> MemoryStore:
        """The open store."""
        return self._memory if not isinstance(self._memory, str) else self._opened().turns

    @property
    def counter(self) -> TokenCounter:
        """Counts tokens for the model of the user's settings, or slightly high."""
        return self._opened().counter

    def close(self) -> None:
        """Close the store if it was opened here and is not in memory; it is reopened on the next use."""
        with self._lock:
            if self._engine is not None and self._memory != IN_PROCESS:
                self._engine.close()
                self._engine = None

    def _opened(self) -> Engine:
        with self._lock:
            if self._engine is None:
                url = self._memory if isinstance(self._memory, str) else IN_PROCESS
                self._engine = Engine(Settings(memory=url) if url else load_settings())
            return self._engine
