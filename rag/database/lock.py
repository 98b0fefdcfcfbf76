"""A lock that allows one builder at a time per store."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag.errors import StoreBusy, StoreUnwritable
from rag.resources import make_private

_POLL_S = 0.05


@contextmanager
def building(path: Path, *, wait_s: float) -> Iterator[bool]:
    """Hold the write lock of the store at `path`; yields whether it waited for another builder.

    The kernel releases the lock when its process ends for any reason.

    Raises:
        StoreBusy: another process held it for more than `wait_s` seconds.
        StoreUnwritable: the folder is not writable.
    """
    lock = path.with_suffix(".lock")
    try:
        make_private(lock.parent)
        file = lock.open("a")
    except OSError as error:
        raise StoreUnwritable.of(lock, error) from error
    with file:
        deadline = time.monotonic() + wait_s
        waited = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited = True
                if time.monotonic() >= deadline:
                    raise StoreBusy(path=str(path), waited_s=wait_s) from None
                time.sleep(_POLL_S)
        yield waited
