"""A model client for any command that reads a prompt from its standard input and prints an answer.

The command is started without a shell, in an empty folder of its own: an agent that reads the files and
instructions of its folder finds none. It is the leader of a process group, which is ended with the answer:
what the command has started does not survive it. Its output is bounded, and so is its time.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import selectors
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from rag import processes
from rag.adal import adalflow
from rag.backends.openai.bounds import RequestBounds, chat_bytes
from rag.backends.openai.errors import scrubbed
from rag.backends.openai.queue import queue_of
from rag.errors import ProviderBroke
from rag.messages import split_messages

_POLL_S = 0.02
_TICK_S = 0.1
"""How long a command that has ended may leave its output open, in a process that it has left behind."""
_ENDING_S = 2.0
"""How long a command may take to end when it is asked to."""
_PIECE_BYTES = 65_536
_MAX_REASON_BYTES = 4_000
_MAX_REASON_CHARS = 400
_QUEUED_TIMEOUTS = 10


class CommandClient(adalflow.core.model_client.ModelClient):  # type: ignore[misc]
    """Asks the model behind a command line.

    Args:
        command: the program and its arguments, as in a shell.
        timeout_s: an answer may take five times as long, after its place in the queue. `within_s` of a call
            limits both together instead.
        at_once: how many of this process may run at the same time; others wait.

    Raises:
        SettingsError: see `rag.processes.users_command`.
    """

    streams_text = True

    def __init__(self, command: str, timeout_s: float = 120.0, at_once: int = 1) -> None:
        super().__init__()
        self.command, self.timeout_s, self.at_once = command, timeout_s, at_once
        self.arguments = processes.users_command(command)
        self.host = f"the command {Path(self.arguments[0]).name}"

    def convert_inputs_to_api_kwargs(
        self, input: Any = None, model_kwargs: Mapping[str, Any] | None = None, model_type: Any = None
    ) -> dict[str, Any]:
        """Return the text for the command: the system's part of a rendered prompt, then the user's."""
        text = "\n\n".join(message["content"] for message in split_messages(str(input)))
        return {**(model_kwargs or {}), "prompt": text}

    def call(self, api_kwargs: Mapping[str, Any] | None = None, model_type: Any = None) -> Any:
        """Run the command; return its text, or with `stream` a `CommandOutput`."""
        asked, began = api_kwargs or {}, time.monotonic()
        with ExitStack() as turn:
            queue = queue_of(self.command, self.at_once)
            queue.enter(self.host, self._queue_s(asked))
            turn.callback(queue.leave)
            output = CommandOutput(self, asked, began)
            output.turn = turn.pop_all()
        if output.streams:
            return output
        with output:
            return "".join(output)

    async def acall(self, api_kwargs: Mapping[str, Any] | None = None, model_type: Any = None) -> Any:
        """Run the command without blocking the event loop; see `call`."""
        asked, began = api_kwargs or {}, time.monotonic()
        with ExitStack() as turn:
            queue = queue_of(self.command, self.at_once)
            await queue.aenter(self.host, self._queue_s(asked))
            turn.callback(queue.leave)
            output = CommandOutput(self, asked, began)
            output.turn = turn.pop_all()
        pieces = AsyncCommandOutput(output)
        if output.streams:
            return pieces
        try:
            return "".join([piece async for piece in pieces])
        finally:
            await pieces.aclose()

    def _queue_s(self, asked: Mapping[str, Any]) -> float:
        within_s: float | None = asked.get("within_s")
        return _QUEUED_TIMEOUTS * self.timeout_s if within_s is None else within_s

    def parse_chat_completion(self, completion: Any) -> Any:
        """Return the text or its pieces as AdalFlow's GeneratorOutput."""
        return adalflow.core.types.GeneratorOutput(data=None, raw_response=completion)


class CommandOutput(Iterator[str]):
    """The text that a command prints, as it comes. `close` ends its process group and removes its folder.

    Iterating raises ProviderBroke if the command fails, prints nothing or too much, or takes too long.
    """

    usage = None
    finish_reason: str | None = None

    def __init__(self, client: CommandClient, asked: Mapping[str, Any], began: float) -> None:
        self.streams = bool(asked.get("stream"))
        self.turn = ExitStack()
        limit, within_s = asked.get("max_completion_tokens"), asked.get("within_s")
        left_s = None if within_s is None else max(round(began + within_s - time.monotonic(), 2), 0.0)
        self._host = client.host
        self._bounds = RequestBounds(
            client.host, client.timeout_s, chat_bytes(limit), within_s is not None, all_s=left_s
        )
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._bytes, self._characters, self._reason = 0, 0, b""
        with ExitStack() as opened:
            opened.callback(lambda: self.turn.close())
            folder = opened.enter_context(
                tempfile.TemporaryDirectory(prefix="rag-", ignore_cleanup_errors=True)
            )
            prompt = opened.enter_context(tempfile.TemporaryFile())
            prompt.write(str(asked["prompt"]).encode("utf-8", "replace"))
            prompt.seek(0)
            with processes.deferred_signals():
                self._process = opened.enter_context(_started(client, folder, prompt))
                opened.callback(self._end)
            self._selector = opened.enter_context(selectors.DefaultSelector())
            for stream in (self._process.stdout, self._process.stderr):
                assert stream is not None
                self._selector.register(stream, selectors.EVENT_READ)
            self._opened = opened.pop_all()

    def __next__(self) -> str:
        while (text := self.take(_TICK_S)) is None:
            pass
        if not text:
            raise StopIteration
        return text

    def take(self, wait_s: float) -> str | None:
        """Return what was printed next; None if that takes longer than `wait_s`; "" at the end."""
        if self.finish_reason is not None:
            return ""
        left_s = self._bounds.left_s
        if not left_s:
            raise self._bounds.too_long(self._characters)
        data = self._read(min(wait_s, left_s))
        text = self._decoder.decode(data or b"", final=data == b"")
        self._characters += len(text)
        if data == b"" and not text:
            self._check_end()
            self.finish_reason = "stop"
            return ""
        return text or None

    def _read(self, wait_s: float) -> bytes | None:
        """Return the next bytes of the answer; None for none yet; b"" when the command has ended."""
        if not self._selector.get_map():
            with suppress(processes.TimeoutExpired):
                self._process.wait(wait_s)
            return None if self._process.poll() is None else b""
        had_ended = self._process.poll() is not None
        ready = self._selector.select(wait_s)
        for key, _ in ready:
            data = os.read(key.fd, _PIECE_BYTES)
            if not data:
                self._selector.unregister(key.fileobj)
            elif key.fileobj is self._process.stderr:
                self._reason = (self._reason + data)[-_MAX_REASON_BYTES:]
            else:
                return self._counted(data)
        return b"" if had_ended and not ready else None

    def _counted(self, data: bytes) -> bytes:
        self._bytes += len(data)
        if self._bytes > self._bounds.max_bytes:
            raise self._failure(f"printed more than {self._bounds.max_bytes:,} bytes and was stopped")
        return data

    def _check_end(self) -> None:
        """Raise ProviderBroke if the command failed, or has printed nothing."""
        code = self._process.wait()
        so_far = f" after {self._characters:,} characters of the answer" if self._characters else ""
        if code:
            how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
            raise self._failure(f"ended with {how}{so_far}")
        if not self._characters:
            raise self._failure("ended without an answer")

    def _failure(self, what: str) -> ProviderBroke:
        """Return the error with the end of what the command has written to its standard error."""
        said = scrubbed(" ".join(self._reason.decode("utf-8", "replace").split()), "")
        said = said if len(said) <= _MAX_REASON_CHARS else f"…{said[-_MAX_REASON_CHARS:]}"
        why = f": {said}" if said else "; it gave no reason"
        return ProviderBroke(f"{self._host} {what}{why}", provider=self._host, retryable=False)

    def _end(self) -> None:
        """End the command and all that it has started, as far as that has stayed in its group."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            with suppress(processes.TimeoutExpired):
                self._process.wait(_ENDING_S)

    def close(self) -> None:
        """End the command. May be called repeatedly."""
        self._opened.close()

    def __enter__(self) -> CommandOutput:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncCommandOutput(AsyncIterator[str]):
    """A `CommandOutput` for an event loop. It takes no thread while the command runs."""

    usage = None

    def __init__(self, output: CommandOutput) -> None:
        self._output = output

    @property
    def finish_reason(self) -> str | None:
        """Why the answer ended; None before its end."""
        return self._output.finish_reason

    async def __anext__(self) -> str:
        while (text := self._output.take(0.0)) is None:
            await asyncio.sleep(_POLL_S)
        if not text:
            raise StopAsyncIteration
        return text

    async def aclose(self) -> None:
        """End the command. May be called repeatedly."""
        await asyncio.shield(asyncio.to_thread(self._output.close))


def _started(client: CommandClient, folder: str, prompt: Any) -> processes.Process[bytes]:
    """Start the command, without our settings in its environment, which may hold keys and passwords.

    Raises:
        ProviderBroke: the system refuses.
    """
    users = processes.users_environment({"PWD": folder})
    try:
        return processes.start(
            client.arguments,
            environment={name: value for name, value in users.items() if not name.startswith("RAG_")},
            folder=folder,
            stdin=prompt,
            stdout=processes.PIPE,
            stderr=processes.PIPE,
            buffered=False,
            own_group=True,
        )
    except OSError as error:
        message = f"{client.host} cannot be started: {error.strerror or error}"
        raise ProviderBroke(message, provider=client.host, retryable=False) from error
