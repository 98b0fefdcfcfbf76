"""Our error for each of Postgres's.

What a server reports goes by its SQLSTATE; what the client library finds without one (no route, a password
refused, a connection that broke) is a server that cannot be reached. No message of ours holds the address as
it was given, so no password.
"""

from __future__ import annotations

import psycopg

from rag.errors import StoreBusy, StoreCorrupt, StoreError, StoreTooNew, StoreUnreachable, StoreUnwritable

_BUSY = ("40001", "40P01", "53300", "55006", "55P03", "57014", "23505")
_UNREACHABLE = ("08", "28", "3D", "57", "25P03", "25P04", "0P", "2D", "38", "39")
_UNWRITABLE = ("25006", "42501", "53", "54", "58", "55", "72")
_MEND_UNWRITABLE = (
    "free some room on the server, give the user its rights (CREATE on the database, once), "
    "or name the server that takes writes"
)
_MEND_CORRUPT = "was its schema changed by another program? Put a backup back, or name another database"
_MEND_TOO_NEW = "or point --memory or RAG_MEMORY at another database"


def translated(error: psycopg.Error, *, path: str, waited_s: float) -> StoreError:
    """Our error for one of psycopg's, whatever it is."""
    why = _first_line(error)
    state = error.sqlstate
    if state is None:
        if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
            return StoreUnreachable(path=path, why=why)
        return StoreCorrupt(path=path, why=why, fix=_MEND_CORRUPT)
    if state in _BUSY:
        return StoreBusy(path=path, waited_s=waited_s, doing="writing")
    if state.startswith(_UNREACHABLE):
        return StoreUnreachable(path=path, why=why)
    if state.startswith(_UNWRITABLE):
        return StoreUnwritable(path=path, why=why, fix=_MEND_UNWRITABLE)
    return StoreCorrupt(path=path, why=why, fix=_MEND_CORRUPT)


def foreign_schema(path: str, schema: str) -> StoreCorrupt:
    """The schema is there, and is not ours."""
    why = f'its schema "{schema}" is another program\'s'
    return StoreCorrupt(path=path, why=why, fix="name another database, nothing was changed")


def too_new(path: str, found: int, supported: int) -> StoreTooNew:
    """A newer version of rag made the tables."""
    return StoreTooNew(path=path, found=found, supported=supported, fix=_MEND_TOO_NEW)


def _first_line(error: psycopg.Error) -> str:
    message = error.diag.message_primary or str(error) or type(error).__name__
    return message.strip().splitlines()[0] if message.strip() else type(error).__name__
