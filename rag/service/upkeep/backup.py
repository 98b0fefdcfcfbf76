"""Backup of a memory to one file, and restore into any memory backend."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from rag import backends
from rag.backends.sqlite import backup as sqlite_backup
from rag.errors import ConfigError, ConversationMismatch, StoreError, StoreUnwritable
from rag.ports import Grouping, MemoryStore
from rag.resources import sync_to_disk
from rag.service.repositories.engine import Engine
from rag.service.upkeep.namespaces import copied_namespaces
from rag.types import Backup, now_utc


def back_up(engine: Engine, file: Path, *, force: bool = False) -> Backup:
    """Write all namespaces of the engine's memory to a file, verify it, and return its contents.

    The file is written atomically: to a temporary file that is fsynced, verified and renamed. Others may
    write to the memory during the backup; that of a SQLite memory is a consistent snapshot.

    Raises:
        ConfigError: the file exists and `force` is off, or it is the memory's own file.
        StoreError: the memory cannot be read, or the file cannot be written.
    """
    file = file.absolute()
    own = getattr(engine.turns, "path", None)
    if own is not None and _is_same(file, own):
        raise ConfigError(f"{file} is the memory itself; name another file")
    if file.exists() and not (force and file.is_file()):
        advice = "choose another name, or overwrite it with --force" if file.is_file() else "name a file"
        raise ConfigError(f"{file} already exists; {advice}")
    with _temporary(file) as temporary:
        if own is not None:
            sqlite_backup.copy_database(own, temporary)
        else:
            _copy(engine, temporary)
        temporary.chmod(0o600)
        sqlite_backup.seal(temporary, now_utc())
        sync_to_disk(temporary)
        held = sqlite_backup.verify(temporary)
        temporary.replace(file)
        sync_to_disk(file.parent)
    return held


def restore_backup(engine: Engine, file: Path) -> tuple[Backup, int]:
    """Restore a backup into the engine's memory; items that already exist there are kept unchanged.

    The keys of servers are restored only where there are none.

    Returns:
        The contents of the backup, and the number of its conversations that are new.

    Raises:
        ConfigError: there is no such file.
        StoreError: it is not a backup, is damaged, or has a newer version; nothing was restored.
        ConversationMismatch: a name is taken by another conversation. A SQLite memory was then not changed;
            in others, the namespaces before that one were restored.
    """
    if not file.is_file():
        raise ConfigError(f"there is no file {file} to restore from")
    held = sqlite_backup.verify(file)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "backup.db"  # opening an older version upgrades it
        try:
            shutil.copyfile(file, copy)
        except OSError as error:
            raise ConfigError(f"cannot read {file}: {error.strerror}") from error
        with closing(_opened(engine, copy)) as source:
            return held, _restore(source, engine.turns)


def _restore(source: MemoryStore, target: MemoryStore) -> int:
    new = 0
    with target.together() if isinstance(target, Grouping) else nullcontext():
        for namespace in copied_namespaces(source, target):
            try:
                new += target.restore(source.dump(namespace=namespace), namespace=namespace)
            except ConversationMismatch as error:
                done = (
                    "nothing was restored" if isinstance(target, Grouping) else f"{new} others were restored"
                )
                which = f" of the namespace {namespace!r}" if namespace else ""
                raise StoreError(f"the conversations{which} cannot be restored: {error}; {done}") from error
    return new


def _copy(engine: Engine, target: Path) -> None:
    with closing(_opened(engine, target)) as store:
        for namespace in copied_namespaces(engine.turns, store):
            store.restore(engine.turns.dump(namespace=namespace), namespace=namespace)


def _opened(engine: Engine, file: Path) -> MemoryStore:
    return backends.open_turn_store(replace(engine.settings, memory=f"sqlite:///{file}"))


@contextmanager
def _temporary(file: Path) -> Iterator[Path]:
    """Return a temporary path in the folder of a file; removed at the end."""
    try:
        with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as folder:
            yield Path(folder) / "backup.db"
    except OSError as error:
        why = error.strerror or str(error)
        raise StoreUnwritable(path=str(file), why=why, fix="choose another place") from error


def _is_same(file: Path, own: Path) -> bool:
    return file.exists() and own.exists() and file.samefile(own)
