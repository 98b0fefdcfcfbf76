"""A model's server in a child process: started by the first question, stopped after a while without one.

The child listens on loopback at a free port and accepts only a random key, which it gets through its input.
It ends with this process, even when this one is killed, see `rag.backends.llama.child`.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import re
import secrets
import select
import signal
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rag import processes
from rag.errors import BackendMissing, ProviderBroke, SettingsError

PACKAGE = "xllamacpp"
IDLE_S = 300.0
"""After this long without a question the model is unloaded."""
_LOADING_S = 600.0
_ENDING_S = 5.0
_DYING_S = 0.2
"""A connection breaks a moment before its process has ended."""
_MAX_THREADS = 16
_MAX_MESSAGES = 20_000
_CONTEXT_STEP = 256
_INSTRUCTIONS = ("avx2", "fma", "f16c", "bmi2")
"""The extensions of x86 processors that the wheel is compiled for; other processors list none of their flags
under this name.
"""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a running model answers."""

    base_url: str
    key: str


class LlamaServer:
    """Serves one model file while somebody uses it. Safe to share between threads.

    Args:
        path: the GGUF file.
        context_tokens: what prompt and answer may take together; decides about the memory.
        idle_s: how long the model stays loaded after its last use.
    """

    def __init__(self, path: Path, context_tokens: int, idle_s: float = IDLE_S) -> None:
        self.path, self.name = path, path.stem
        self._context_tokens = -(-context_tokens // _CONTEXT_STEP) * _CONTEXT_STEP
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._users = 0
        self._timer: threading.Timer | None = None

    @property
    def pid(self) -> int | None:
        """The running child, if there is one."""
        child = self._child
        return child.process.pid if child is not None and child.process.poll() is None else None

    def begin(self) -> ServerAddress:
        """Return where the model answers, after loading it if necessary; every call is followed by `end`.

        Raises:
            BackendMissing: xllamacpp is not installed.
            SettingsError: the file is no usable model, or needs more memory than there is.
        """
        with self._lock:
            self._stop_waiting()
            if self._child is not None and self._child.process.poll() is not None:
                self._end()
            if self._child is None:
                self._child = _started(self.path, self.name, self._context_tokens)
            self._users += 1
            return self._child.address

    def end(self) -> None:
        """Note that one use is over. After the last one the model is unloaded when `idle_s` have passed."""
        with self._lock:
            self._users -= 1
            if not self._users and self._child is not None:
                self._timer = threading.Timer(self._idle_s, self._unload)
                self._timer.daemon = True
                self._timer.start()

    def broken(self, received: int) -> ProviderBroke | None:
        """Return the error for a child that died in the middle of a question; None if it lives.

        `received` is the number of characters of the answer that arrived.
        """
        child = self._child
        if child is None:
            return None
        try:
            code = child.process.wait(_DYING_S)
        except processes.TimeoutExpired:
            return None
        so_far = f" after {received:,} characters of the answer" if received else ""
        why = _signal_name(code) if code < 0 else f"exit code {code}"
        return ProviderBroke(
            f"the local model {self.name} ended{so_far} ({why}); ask again, which loads it again. If it "
            "ends again, lower --context-tokens or choose a smaller model",
            provider=self.name,
            retryable=True,
        )

    def close(self) -> None:
        """Unload the model now. It is loaded again by the next use."""
        with self._lock:
            self._stop_waiting()
            self._end()

    def _unload(self) -> None:
        with self._lock:
            if not self._users:
                self._end()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


@dataclass(frozen=True, slots=True)
class _Child:
    """A running child; `messages` is what it wrote to stderr."""

    process: processes.Process[bytes]
    messages: IO[bytes]
    address: ServerAddress

    def end(self) -> None:
        _end_process(self.process)
        self.messages.close()


_servers: dict[tuple[Path, int], LlamaServer] = {}
_servers_lock = threading.Lock()


def server_of(path: Path, context_tokens: int) -> LlamaServer:
    """Return this process's server of a model file, the same one for the same arguments."""
    with _servers_lock:
        server = _servers.get((path, context_tokens))
        if server is None:
            server = _servers[path, context_tokens] = LlamaServer(path, context_tokens)
        return server


@atexit.register
def close_all() -> None:
    """Unload every model of this process."""
    for server in list(_servers.values()):
        server.close()


def check_installed() -> None:
    """Raise BackendMissing if the package that runs models is not installed."""
    if importlib.util.find_spec(PACKAGE) is None:
        raise BackendMissing(backend="a model file", missing=PACKAGE, extra="local")


def check_file(path: Path) -> None:
    """Raise SettingsError if there is no such file. Whether it holds a model is found by loading it."""
    if not path.is_file():
        raise SettingsError(f"there is no model file {path}; name the file of a GGUF model, or a --base-url")


def missing_instructions() -> list[str]:
    """Return what the package is built for and this processor lacks; [] if nothing, or not known."""
    with suppress(OSError):
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        if flags is not None:
            return [name for name in _INSTRUCTIONS if name not in flags[1].split()]
    return []


def _started(path: Path, name: str, context_tokens: int) -> _Child:
    """Start a child and wait until its model is loaded."""
    check_installed()
    check_file(path)
    key = secrets.token_urlsafe(32)
    messages = tempfile.TemporaryFile()  # noqa: SIM115 - open while the child runs
    process = processes.start(
        processes.python_command("rag.backends.llama.child"),
        environment=processes.closed_environment({"OMP_WAIT_POLICY": "passive"}),
        limits=processes.Limits(memory_bytes=processes.share_of_memory()),
        stdin=processes.PIPE,
        stdout=processes.PIPE,
        stderr=messages,
        buffered=False,
    )
    try:
        wanted = {
            "path": str(path),
            "name": name,
            "context_tokens": context_tokens,
            "threads": _threads(),
            "key": key,
        }
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and the reason follows
            process.stdin.write(json.dumps(wanted).encode() + b"\n")
        line = _first_line(process)
        if not line:
            raise SettingsError(
                f"the model {path} cannot be loaded: {_why(process, messages)}; see `rag doctor`, or "
                "download the file again and compare its sha256"
            )
        base_url = f"{json.loads(line)['address']}/v1"
        return _Child(process, messages, ServerAddress(base_url, key))
    except BaseException:
        _end_process(process)
        messages.close()
        raise


def _first_line(process: processes.Process[bytes]) -> bytes:
    """Return the line that the child prints when it is ready; b"" if it ended, or takes too long."""
    assert process.stdout is not None
    line, deadline = b"", time.monotonic() + _LOADING_S
    while not line.endswith(b"\n"):
        ready = select.select([process.stdout], [], [], max(deadline - time.monotonic(), 0.0))[0]
        piece = os.read(process.stdout.fileno(), 4096) if ready else b""
        if not piece:
            return b""
        line += piece
    return line


def _why(process: processes.Process[bytes], messages: IO[bytes]) -> str:
    """Return the reason why a child did not become ready."""
    try:
        code = process.wait(_ENDING_S)
    except processes.TimeoutExpired:
        return f"it was not loaded within {_LOADING_S:g} s"
    messages.seek(0)
    text = messages.read(_MAX_MESSAGES).decode("utf-8", "replace")
    if code < 0:
        return _signal_name(code)
    logged = re.search(r"^[\d.]+ E +\w+: (?:error loading model: )?(.+)$", text, re.MULTILINE)
    last = next(reversed(text.strip().splitlines()), f"exit code {code}")
    return logged[1].strip() if logged else last


_SIGNALS = {
    signal.SIGKILL: "killed, probably because the memory was used up; lower --context-tokens or choose "
    "a smaller model",
    signal.SIGILL: "this processor lacks instructions that the package needs",
}


def _signal_name(code: int) -> str:
    number = signal.Signals(-code)
    return _SIGNALS.get(number, f"it crashed ({number.name})")


def _end_process(process: processes.Process[bytes]) -> None:
    """End a child: it ends itself when its input is closed, else it is killed."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
    try:
        process.wait(_ENDING_S)
    except processes.TimeoutExpired:
        process.kill()
        process.wait()


def _threads() -> int:
    """Return how many threads compute: one for each processor that this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, _MAX_THREADS)
