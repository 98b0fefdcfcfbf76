"""Search systems as child processes with a JSON lines protocol: rag itself, and others through a small
wrapper.

A system is a command. It indexes the folder that replaces `{path}` in it, prints

    {"ready": true, "chunks": 1234, "history": false}

and then answers each line `{"id", "query", "history": [earlier questions], "k"}` with one line `{"id",
"results": [{"path", "start_line", "end_line", "symbol", "score"}, …]}` (`start` and `end` in 0.1), best
first, paths relative to the folder. A system with `"history": false` gets no history. Our own is
asked once more, untimed, with `"confidence": true`, and adds `"first_right"` to its answer: the probability
that its first place is right. The stderr of a system is shown when it fails.
"""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from rag.errors import ProviderBroke, SettingsError
from rag.evaluation.metrics import LineSpan
from rag.parsing import parse_json
from rag.processes import (
    NEUTRAL_FOLDER,
    PIPE,
    Limits,
    TimeoutExpired,
    closed_environment,
    python_command,
    share_of_memory,
    start,
    users_environment,
)
from rag.schema import with_new_names

READY_TIMEOUT_S = 1800.0
REPLY_TIMEOUT_S = 120.0
_PATH = "{path}"
_NAMED = re.compile(r"([\w.+-]+)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class System:
    """A search system: its name, and its command, in which `{path}` is replaced by the folder.

    A command that is not `ours` is the user's own: it runs in the user's folder, with the user's variables.
    `variables` are added to its environment: the settings, if it is `ours`.
    """

    name: str
    command: tuple[str, ...]
    ours: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)

    def on(self, root: Path) -> list[str]:
        """Return the command for one folder."""
        return [part.replace(_PATH, str(root)) for part in self.command]


OURS = System("rag", tuple(python_command("rag", "search", _PATH, "--batch")), ours=True)


def read_systems(texts: Sequence[str], *, first: Sequence[System] = (OURS,)) -> list[System]:
    """Return `first`, then the systems of the texts, `NAME=command` or `command`; their names are unique.

    Raises:
        SettingsError: a text is not a command, or lacks `{path}`.
    """
    systems = [*first]
    for text in texts:
        named = _NAMED.fullmatch(text.strip())
        name, line = named.groups() if named else ("", text)
        try:
            command = tuple(shlex.split(line))
        except ValueError as error:
            raise SettingsError(f"the system {text!r} is not a command: {error}") from error
        if not any(_PATH in part for part in command):
            raise SettingsError(f"the system {text!r} has no place for the folder: add {{path}}")
        systems.append(System(name or _short(command), command))
    seen: Counter[str] = Counter()
    return [_numbered(system, seen) for system in systems]


def _numbered(system: System, seen: Counter[str]) -> System:
    seen[system.name] += 1
    count = seen[system.name]
    return system if count == 1 else System(f"{system.name}-{count}", system.command)


def _short(command: Sequence[str]) -> str:
    """Return the script's name where a script is run, else the program's."""
    script = next((part for part in command if part.endswith((".py", ".sh", ".js"))), command[0])
    return Path(script).stem or "system"


@dataclass(frozen=True, slots=True)
class SystemReply:
    """The places found for one question, best first, and the time of the answer including the pipe."""

    results: tuple[LineSpan, ...]
    seconds: float


class Running:
    """A system that has indexed a folder and answers questions, one after another.

    Attributes:
        chunks: the number of chunks it reports; 0 when it reports none.
        history: whether it uses earlier questions.
        ready_s: from the start of the process to its first line.
    """

    def __init__(self, system: System, root: Path, environment: Mapping[str, str] | None = None) -> None:
        """Start the system and wait until it is ready. `environment` holds variables to add.

        Raises:
            SettingsError: the command cannot be started.
            ProviderBroke: it exited, printed nothing for READY_TIMEOUT_S, or printed something else.
        """
        self._system, self._root = system, root.resolve()
        self._buffer = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        began = time.perf_counter()
        try:
            self._process = start(
                system.on(self._root),
                environment=(closed_environment if system.ours else users_environment)(environment),
                folder=NEUTRAL_FOLDER if system.ours else Path.cwd(),
                limits=Limits(memory_bytes=share_of_memory()) if system.ours else None,
                stdin=PIPE,
                stdout=PIPE,
                stderr=self._errors,
                buffered=False,
            )
        except OSError as error:
            self._errors.close()
            raise SettingsError(
                f"cannot start the system {system.name!r}: {error}; check --system"
            ) from error
        try:
            ready = self._read(READY_TIMEOUT_S)
            self.ready_s = time.perf_counter() - began
            if ready.get("ready") is not True:
                raise self._broke(f'began with {ready!r}, expected {{"ready": true, …}}')
        except ProviderBroke:
            self.close()
            raise
        self.chunks, self.history = int(ready.get("chunks") or 0), bool(ready.get("history"))

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def ask(self, number: object, question: str, history: Sequence[str], k: int) -> SystemReply:
        """Ask one question; `history` is not sent to a system that does not use it.

        Raises:
            ProviderBroke: no valid answer to this question arrived within REPLY_TIMEOUT_S.
        """
        began = time.perf_counter()
        reply = self._reply({"id": number, "query": question, "history": self._given(history), "k": k})
        seconds = time.perf_counter() - began
        return SystemReply(tuple(self._span(result) for result in reply["results"][:k]), seconds)

    def first_right(self, number: object, question: str, history: Sequence[str], k: int) -> float | None:
        """Return the probability, as the system sees it, that its first place is right; None if it has none.

        Raises:
            ProviderBroke: as `ask`.
        """
        if not self._system.ours:
            return None
        request = {"id": number, "query": question, "history": self._given(history), "k": k}
        value = self._reply({**request, "confidence": True}).get("first_right")
        return float(value) if isinstance(value, (int, float)) else None

    def _given(self, history: Sequence[str]) -> list[str]:
        return [*history] if self.history else []

    def _reply(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            self._write(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise self._broke(f"does not read its questions any more ({error})") from error
        reply = self._read(REPLY_TIMEOUT_S)
        if reply.get("id") != request["id"] or not isinstance(reply.get("results"), list):
            raise self._broke(f"answered {str(reply)[:300]} to the question {request['id']!r}")
        return reply

    def close(self) -> None:
        """End the system by closing its input; kill it if it continues."""
        assert self._process.stdin and self._process.stdout
        if self._errors.closed:
            return
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _write(self, line: bytes) -> None:
        assert self._process.stdin
        while line:
            line = line[self._process.stdin.write(line) or 0 :]

    def _read(self, timeout_s: float) -> dict[str, Any]:
        """Return the next line that it prints, a JSON object."""
        assert self._process.stdout
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([self._process.stdout], [], [], left_s)[0]:
                self._process.kill()
                raise self._broke(f"printed nothing for {timeout_s:.0f} s")
            piece = os.read(self._process.stdout.fileno(), 1 << 16)
            if not piece:
                raise self._broke(f"ended with exit code {self._process.wait()}")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            value = parse_json(line.decode())
        except ValueError as error:
            raise self._broke(f"printed invalid JSON: {line[:300]!r}") from error
        if not isinstance(value, dict):
            raise self._broke(f"printed something other than a JSON object: {line[:300]!r}")
        return value

    def _span(self, result: Any) -> LineSpan:
        try:
            result = with_new_names(result)
            path, start, end = str(result["path"]), int(result["start_line"]), int(result["end_line"])
        except (KeyError, TypeError, ValueError) as error:
            raise self._broke(f"gave a result without path, start_line and end_line: {result!r}") from error
        if Path(path).is_absolute():
            path = os.path.relpath(os.path.realpath(path), self._root)
        return LineSpan(path.replace(os.sep, "/").removeprefix("./"), start, end)

    def _broke(self, what: str) -> ProviderBroke:
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 2000))
        stderr = self._errors.read().decode("utf-8", errors="replace").strip()
        name = self._system.name
        message = f"the system {name!r} {what} on {self._root}" + (f"; stderr:\n{stderr}" if stderr else "")
        return ProviderBroke(message, provider=name, retryable=False)
