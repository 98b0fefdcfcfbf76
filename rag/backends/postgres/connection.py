"""A connection that notices that its server is cut off.

TCP reports a server that was lost only after minutes, and never one that was stopped or is behind a proxy
that holds the connection. So a call that has waited a while for an answer tries to connect to the same server
again: if that works, the server is only slow, and the call goes on waiting, however long a statement takes.
If not, the connection is closed and the call fails.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import make_conninfo

from rag.backends.postgres import errors as failed

SILENT_S = 5.0
"""How long a call waits for an answer before it checks, again and again, that the server can be reached."""
Result = TypeVar("Result")


class ServerSilent(psycopg.OperationalError):
    """The server of a connection did not answer, and cannot be connected to."""


class WatchedConnection(psycopg.Connection[Any]):
    """A connection whose calls end when its server cannot be reached."""

    options: dict[str, Any]
    """Those it was opened with."""

    def wait(self, gen: Generator[Any, Any, Result], *arguments: Any, **named: Any) -> Result:
        """Run a generator of psycopg to its end, see `psycopg.Connection.wait`."""
        return super().wait(self._watched(gen), *arguments, **named)

    def _watched(self, gen: Generator[Any, Any, Result]) -> Generator[Any, Any, Result]:
        """Pass a generator on, and check the server while nothing arrives."""
        silent_since = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now = time.monotonic()
                if ready:
                    silent_since = now
                elif now - silent_since > SILENT_S:
                    self._check_server(now - silent_since)
                    silent_since = time.monotonic()
                wanted = gen.send(ready)
        except StopIteration as ended:
            result: Result = ended.value
            return result

    def _check_server(self, silent_s: float) -> None:
        """Raise ServerSilent, and close this connection, if a new one to its server cannot be opened."""
        given = self.options | {
            "host": self.info.host,
            "port": self.info.port,
            "target_session_attrs": "any",
        }
        if "hostaddr" in given:  # of several hosts, only that of this one
            given["hostaddr"] = self.info.hostaddr
        began = time.monotonic()
        try:
            psycopg.connect(make_conninfo(**given)).close()
        except psycopg.OperationalError as error:
            if failed.is_answer(error):
                return
            self.pgconn.finish()
            waited_s = silent_s + time.monotonic() - began
            why = f"it has not answered for {waited_s:.0f} s, nor accepts connections"
            raise ServerSilent(why) from error
