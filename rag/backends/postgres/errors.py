"""Translates Postgres errors to ours.

Errors of the server are mapped by their SQLSTATE; errors of the client library without one (no route, wrong
password, broken connection) mean that the server is unreachable. Our messages do not contain the address as
given, and so no password.
"""

from __future__ import annotations

import psycopg

from rag.errors import StoreBusy, StoreCorrupt, StoreError, StoreTooNew, StoreUnreachable, StoreUnwritable

_BUSY = ("40001", "40P01", "53300", "55006", "55P03", "57014", "23505")
_UNREACHABLE = ("08", "28", "3D", "57", "25P03", "25P04", "0P", "2D", "38", "39")
_UNWRITABLE = ("25006", "42501", "53", "54", "58", "55", "72")
_PASSING = ("the database system is", "too many clients", "connection slots", "terminating connection")
"""Refusals of a server that starts, stops, or is full."""
_FIX_UNWRITABLE = (
    "free space on the server, grant the user its rights (CREATE on the database, once), "
    "or name the server that accepts writes"
)
_FIX_CORRUPT = "was its schema changed by another program? Restore a backup, or name another database"
_FIX_TOO_NEW = "or point --memory (RAG_MEMORY) or --shared (RAG_SHARED) at another database"


def translated(error: psycopg.Error, *, path: str, waited_s: float) -> StoreError:
    """Translate any error of psycopg."""
    why = _first_line(error)
    state = error.sqlstate
    if state is None:
        if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
            return StoreUnreachable(path=path, why=why)
        return StoreCorrupt(path=path, why=why, fix=_FIX_CORRUPT)
    if state in _BUSY:
        return StoreBusy(path=path, waited_s=waited_s, doing="writing")
    if state.startswith(_UNREACHABLE):
        return StoreUnreachable(path=path, why=why)
    if state.startswith(_UNWRITABLE):
        return StoreUnwritable(path=path, why=why, fix=_FIX_UNWRITABLE)
    return StoreCorrupt(path=path, why=why, fix=_FIX_CORRUPT)


def is_refused(error: psycopg.OperationalError) -> bool:
    """Return whether a server refused a connection for good, for example because of a wrong password.

    A refusal has no SQLSTATE in libpq, so it is recognized by its text. In other languages than English it is
    not recognized.
    """
    return is_answer(error) and not any(state in str(error) for state in _PASSING)


def is_answer(error: psycopg.OperationalError) -> bool:
    """Return whether an error of connecting is the answer of a server, and no sign that there is none."""
    return "FATAL:" in str(error)


def foreign_schema(path: str, schema: str) -> StoreCorrupt:
    """Return the error for a schema that is not ours."""
    why = f'its schema "{schema}" is another program\'s'
    return StoreCorrupt(path=path, why=why, fix="nothing was changed; name another database")


def too_new(path: str, found: int, supported: int) -> StoreTooNew:
    """Return the error for tables of a newer version of rag."""
    return StoreTooNew(path=path, found=found, supported=supported, fix=_FIX_TOO_NEW)


def _first_line(error: psycopg.Error) -> str:
    message = error.diag.message_primary or str(error) or type(error).__name__
    return message.strip().splitlines()[0] if message.strip() else type(error).__name__
