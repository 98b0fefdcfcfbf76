"""A TCP proxy on loopback before a server, which can be cut off: refused, or silent as behind a lost route.

with Cut(server.folder / ".s.PGSQL.5432") as cut:
    cut.refuse()      # connections end, and new ones are refused
    cut.silence()     # nothing is passed on in either direction, and nobody is told
    cut.heal()        # what was held back by `silence` is passed on, as TCP does after an outage
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path


class Cut:
    """The proxy; it passes everything on until it is cut.

    Args:
        target: the server, a Unix socket or a port of loopback.
    """

    def __init__(self, target: Path | int) -> None:
        self._target = target
        self._passing, self._ended = threading.Event(), False
        self._passing.set()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Cut:
        self._accepting()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ended = True
        self.refuse()
        self._passing.set()

    def refuse(self) -> None:
        """End all connections and refuse new ones."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes up `accept`
        self._listener.close()
        with self._lock:
            ending, self._open = self._open, set()
        for each in ending:
            _end(each)

    def silence(self) -> None:
        """Pass nothing on; new connections are accepted and get no answer."""
        self._passing.clear()

    def heal(self) -> None:
        """Pass on again, on the same port."""
        if self._listener.fileno() < 0:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self._accepting()
        self._passing.set()

    def _accepting(self) -> None:
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                threading.Thread(target=self._join, args=[listener.accept()[0]], daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        """Connect a client with the target."""
        self._passing.wait()
        try:
            if isinstance(self._target, int):
                server = socket.create_connection(("127.0.0.1", self._target))
            else:
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._target))
        except OSError:
            _end(client)
            return
        with self._lock:
            self._open |= {client, server}
        if self._listener.fileno() < 0:  # it was cut meanwhile
            self.refuse()
        threading.Thread(target=self._pass, args=[server, client], daemon=True).start()
        self._pass(client, server)

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self._passing.wait()
                sink.sendall(data)
        for each in (source, sink):
            _end(each)
        with self._lock:
            self._open -= {source, sink}


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
