"""Child processes of the server, each running one of our modules, with pipes for input and output.

They are not started by the event loop: uvloop forks, and a library used by numpy stops its threads before a
fork. If another thread computes at that moment, the fork never returns and the server hangs. `subprocess`
uses vfork, which does not run these handlers.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping

from rag.processes import Process, start_module

_LIMIT = 1 << 16
_POLL_S = 0.01
_EXIT_TIMEOUT_S = 5.0


class Child:
    """A running child process, with its `stdin` to write to and its `stdout` to read from.

    Both are one socket, so that no thread waits for them; the child sees it close when the server ends.
    """

    def __init__(
        self, process: Process[bytes], stdout: asyncio.StreamReader, stdin: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self.stdout, self.stdin = stdout, stdin

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._process.poll()

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    async def wait(self) -> int:
        """Wait for the process to end, and return its exit code."""
        while (code := self._process.poll()) is None:
            await asyncio.sleep(_POLL_S)  # polling, so that none of the few threads is blocked
        return code

    async def end(self) -> None:
        """Terminate the process; its own children end when their input is closed.

        It is killed after 5 seconds, or when this call is cancelled.
        """
        self._process.terminate()
        try:
            await asyncio.wait_for(self.wait(), _EXIT_TIMEOUT_S)
        except TimeoutError:
            self._process.kill()
            await self.wait()
        finally:
            self.stdin.close()
            if self.returncode is None:
                self._process.kill()


async def start_child(
    module: str,
    *,
    environment: Mapping[str, str] | None = None,
    limit: int = _LIMIT,
    niceness: int = 0,
) -> Child:
    """Start `python -m module` in another folder than the current one, with a memory limit.

    Args:
        module: one of our modules.
        environment: variables in addition to those that every child gets.
        limit: the longest line that can be read from it.
        niceness: added to this process's niceness.

    Raises:
        OSError: it could not be started.
    """
    own, child = socket.socketpair()
    try:
        with child:
            pipe = child.fileno()
            process = start_module(
                module, environment=environment, niceness=niceness, stdin=pipe, stdout=pipe
            )
    except OSError:
        own.close()
        raise
    try:
        return Child(process, *await asyncio.open_unix_connection(sock=own, limit=limit))
    except BaseException:  # the caller gets no Child to end
        own.close()
        process.kill()
        process.wait()
        raise
