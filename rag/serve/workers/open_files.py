"""The limit of open files of this process, and the part of it that open stores may use.

An open store uses one file descriptor for each of its two files while it is mapped.
"""

from __future__ import annotations

import resource
from contextlib import suppress

_RESERVED = 128
"""Descriptors for connections, the turn store, child processes and the interpreter."""
_FILES_OF_STORE = 2
_MIN_STORES, _MAX_STORES = 4, 500


def raise_limit() -> None:
    """Raise this process's limit of open files to its hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # some systems report a hard limit that they do not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def max_open_stores() -> int:
    """Return how many stores this process may have open at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MAX_STORES
    return max(_MIN_STORES, min(_MAX_STORES, (soft - _RESERVED) // _FILES_OF_STORE))
