"""Objects as files in a folder, for example one that several machines mount.

A file is written to a temporary name, synced and renamed. `swap` holds a lock of the folder, which NFS
version 4 and local file systems support.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from rag.backends.shelf.objects import ObjectContent, ObjectMissing, ObjectState
from rag.errors import ShelfFull, ShelfRefused, ShelfUnreachable

_BLOCK = 1 << 20
_VERSIONED = 2 << 20
_POLL_S = 0.02
_TO_LOCK = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
"""No link is followed: it would create a file elsewhere."""
_TEMPORARY = ".tmp"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


class FolderObjects:
    """Implements `rag.backends.shelf.objects.Objects`.

    Args:
        folder: must exist, so that a missing mount is noticed.
        timeout_s: how long `swap` waits for the lock.
    """

    def __init__(self, folder: Path, *, timeout_s: float) -> None:
        self._folder, self._timeout_s = folder, timeout_s

    @property
    def name(self) -> str:
        """The path of the folder."""
        return str(self._folder)

    def read(self, name: str, *, max_bytes: int) -> ObjectContent | None:
        """Return a small object; its version is a hash of its bytes."""
        with self._translated():
            try:
                with _opened(self._folder / name) as file:
                    return ObjectContent(file.read(max_bytes + 1), _version(file))
            except FileNotFoundError:
                self._check_folder()
                return None

    def swap(self, name: str, content: bytes, *, version: str | None) -> bool:
        """Write an object if it still has this version."""
        with self._translated(), self._locked():
            try:
                with _opened(self._folder / name) as file:
                    found: str | None = _version(file)
            except FileNotFoundError:
                found = None
            if found != version:
                return False
            with self._written(name) as written:
                written.write(content)
        return True

    def upload(self, name: str, file: Path) -> None:
        """Copy a file."""
        with file.open("rb") as source, self._translated():
            self._check_folder()
            with self._written(name) as copy:
                shutil.copyfileobj(source, copy, _BLOCK)

    def download(self, name: str, *, size_bytes: int) -> Iterator[bytes]:
        """Yield the bytes of an object."""
        left = size_bytes + 1
        with self._translated():
            try:
                file = _opened(self._folder / name)
            except FileNotFoundError as error:
                self._check_folder()
                raise ObjectMissing(name) from error
            with file:
                while left > 0 and (block := file.read(min(_BLOCK, left))):
                    left -= len(block)
                    yield block

    def state(self, name: str) -> ObjectState | None:
        """Return the state of an object."""
        with self._translated():
            try:
                status = (self._folder / name).stat()
            except FileNotFoundError:
                self._check_folder()
                return None
        return ObjectState(name, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

    def list(self, prefix: str) -> Iterator[ObjectState]:
        """Yield the objects in a folder and those below, with what killed writers have left."""
        with self._translated():
            self._check_folder()
            for folder, _, names in os.walk(self._folder / prefix):
                for name in names:
                    path = Path(folder, name)
                    with suppress(FileNotFoundError):
                        status = path.stat()
                        modified = datetime.fromtimestamp(status.st_mtime, UTC)
                        yield ObjectState(str(path.relative_to(self._folder)), status.st_size, modified)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files."""
        with self._translated():
            for name in names:
                (self._folder / name).unlink(missing_ok=True)

    def _check_folder(self) -> None:
        if not self._folder.is_dir():
            raise ShelfRefused(
                shelf=self.name,
                why="there is no such folder",
                fix=f"create or mount it (`mkdir -p {self._folder}`), or correct RAG_STORES",
            )

    @contextmanager
    def _written(self, name: str) -> Iterator[IO[bytes]]:
        """Yield a temporary file that gets this name at the end."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name[:80]}.{uuid.uuid4().hex}{_TEMPORARY}")
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the folder, which the kernel releases when a process ends."""
        self._check_folder()
        with _opened(self._folder / ".lock", _TO_LOCK) as lock:
            deadline = time.monotonic() + self._timeout_s
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        why = f"another process has held its lock for more than {self._timeout_s:.0f} s"
                        raise ShelfUnreachable(shelf=self.name, why=why) from None
                    time.sleep(_POLL_S)
            yield

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = error.strerror or str(error)
            if error.errno in _REFUSED:
                raise ShelfRefused(
                    shelf=self.name, why=why, fix="let this user read and write it, or correct RAG_STORES"
                ) from error
            if error.errno in _FULL:
                raise ShelfFull(shelf=self.name) from error
            raise ShelfUnreachable(shelf=self.name, why=why) from error


def _opened(path: Path, flags: int = os.O_RDONLY) -> IO[bytes]:
    """Open a file. A pipe or a device in its place is an error, and is not waited for."""
    file = os.fdopen(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666), "wb" if flags else "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, f"{path.name} is no regular file")
    return file


def _version(file: IO[bytes]) -> str:
    """Return an id of the content of an open file, of which much is read only where it is invalid anyway."""
    file.seek(0)
    return f"{hashlib.sha256(file.read(_VERSIONED)).hexdigest()}-{os.fstat(file.fileno()).st_size}"
