"""How many files this process may have open, and how many of them open stores may take.

An open store keeps one file descriptor for each of its two files, for as long as it is mapped.
"""

from __future__ import annotations

import resource
from contextlib import suppress

_RESERVED = 128
"""Descriptors for connections, the turn store, children and what the interpreter itself has open."""
_FILES_OF_STORE = 2
_FEWEST, _MOST = 4, 500


def raise_limit() -> None:
    """Let this process open as many files as it may allow itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # some systems name a hard limit that they do not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def most_open_stores() -> int:
    """How many stores may be open at once in this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    return max(_FEWEST, min(_MOST, (soft - _RESERVED) // _FILES_OF_STORE))
