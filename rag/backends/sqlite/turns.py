"""Turns, messages and records in a SQLite file: the default memory. `schema` describes the tables.

When a call returns, its data survives `kill -9` and a power failure (see `file`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rag.backends.sqlite.file import SqliteFile
from rag.backends.sqlite.schema import APPLICATION_ID, MIGRATIONS
from rag.backends.sqlite.storage import SqliteStorage
from rag.ports import Clock
from rag.turns.storage import Scope
from rag.turns.store import StoredTurns
from rag.types import now_utc


class SqliteTurnStore(StoredTurns):
    """A `MemoryStore` in one file. It is pickled as its path; several may have the same file open.

    Args:
        path: the file, created if missing.
        clock: the source of times and expiries.
        busy_timeout_s: how long to wait for another process that writes.

    Raises:
        StoreCorrupt, StoreTooNew, StoreUnwritable, StoreBusy: see `SqliteFile`; also from every method.
    """

    def __init__(self, path: Path, *, clock: Clock = now_utc, busy_timeout_s: float = 30.0) -> None:
        self._file = SqliteFile(
            Path(path), application_id=APPLICATION_ID, migrations=MIGRATIONS, busy_timeout_s=busy_timeout_s
        )
        self._sqlite = SqliteStorage(self._file)
        super().__init__(self._sqlite, clock)

    def __repr__(self) -> str:
        return f"SqliteTurnStore({str(self.path)!r})"

    def __reduce__(self) -> tuple[type[SqliteTurnStore], tuple[Path]]:
        return SqliteTurnStore, (self.path,)

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._file.path

    @contextmanager
    def together(self) -> Iterator[None]:
        """Implements `rag.ports.Grouping`: one transaction, with one wait for the disk.

        Expired conversations are removed once, at the start.
        """
        with self._file.together():
            if not self._sqlite.is_swept:
                with self._writing(Scope("")):
                    pass
            with nullcontext() if self._sqlite.is_swept else self._sqlite.swept():
                yield
