"""Keys for servers of tests, in the turn store that a server uses too: `serve(engine={"memory": memory})`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from rag import backends
from rag.serve.access import key_changes
from rag.serve.access.keys import Key, KeyRecords
from rag.settings import Settings

Result = TypeVar("Result")


def memory_in(folder: Path) -> str:
    """Return the address of a turn store in a folder."""
    return f"sqlite:///{folder}/turns-of-the-server.db"


def with_keys(memory: str, work: Callable[[KeyRecords], Result]) -> Result:
    """Return the result of `work` on the keys in a turn store."""
    with closing(backends.open_turn_store(Settings(memory=memory))) as store:
        return work(KeyRecords(store))


def add_key(memory: str, name: str, *more: Any, **rights: Any) -> str:
    """Create a key in a turn store, see `new_key`."""
    return with_keys(memory, lambda keys: key_changes.new_key(keys, name, *more, **rights))


def read_keys(memory: str) -> tuple[Key, ...]:
    """Return the keys in a turn store."""
    return with_keys(memory, lambda keys: keys.read().keys)
