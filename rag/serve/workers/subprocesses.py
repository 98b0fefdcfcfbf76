"""Processes of the server's own, each a module of ours that is talked to over its standard input and output.

They are not started by the event loop. uvloop forks, and a library below numpy ends its threads before each
fork: while another thread computes, that waits for ever, and nobody is served any more. `subprocess` uses
vfork, which tells no library anything.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping

from rag.processes import Limits, Process, closed_environment, python_command, share_of_memory, start

_LIMIT = 1 << 16
_LOOKED_S = 0.01
_ENDS_WITHIN_S = 5.0


class Child:
    """A process under way. What is written to `stdin` it reads, what it writes is read from `stdout`.

    Both are one socket, so that no thread waits for either; it ends for the child when the server does.
    """

    def __init__(
        self, process: Process[bytes], stdout: asyncio.StreamReader, stdin: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self.stdout, self.stdin = stdout, stdin

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """What it ended with; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    async def wait(self) -> int:
        """What it ends with, once it has."""
        while (code := self._process.poll()) is None:
            await asyncio.sleep(_LOOKED_S)  # no thread of the server's few waits for it
        return code

    async def end(self) -> None:
        """End it, and what it started: the input's end reaches its own children.

        It is asked to; one that takes longer than 5 seconds, or is waited for no more, is killed.
        """
        self._process.terminate()
        try:
            await asyncio.wait_for(self.wait(), _ENDS_WITHIN_S)
        except TimeoutError:
            self._process.kill()
            await self.wait()
        finally:
            self.stdin.close()
            if self.returncode is None:
                self._process.kill()


async def started(
    module: str,
    *,
    environment: Mapping[str, str] | None = None,
    limit: int = _LIMIT,
    niceness: int = 0,
) -> Child:
    """A process that runs `python -m module`, away from the current folder and bounded in its memory.

    Args:
        module: one of ours.
        environment: variables beside those that every child gets.
        limit: the longest line that is read from it.
        niceness: how much less urgent it is than this process.

    Raises:
        OSError: it cannot be started.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = start(
                python_command(module),
                environment=closed_environment(environment),
                limits=Limits(memory_bytes=share_of_memory(), niceness=niceness),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
            )
    except OSError:
        ours.close()
        raise
    try:
        return Child(process, *await asyncio.open_unix_connection(sock=ours, limit=limit))
    except BaseException:  # nobody waits for it any more
        ours.close()
        process.kill()
        process.wait()
        raise
