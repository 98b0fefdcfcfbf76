"""Digest files with several processes.

The workers are plain child processes of the same Python that exchange pickles over their pipes. Unlike a
`multiprocessing` pool they need no `if __name__ == "__main__"` in the user's script, do not fork a process
that has threads, and work in notebooks and servers alike. They exit with their parent, whose end closes their
input.
"""

from __future__ import annotations

import os
import pickle
import select
import struct
import sys
import traceback
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

from rag.database.digest import Digest, GivenUp, digest
from rag.errors import RagError
from rag.isolation import MAX_LOST, begun_calls, call_in_process, reason_of_exit, resident_bytes
from rag.processes import PIPE, Limits, collect_garbage_rarely, python_command, share_of_memory, start
from rag.types import FileEntry

_BATCH_BYTES = 1_500_000
_MIN_BYTES_FOR_PROCESSES = 3_000_000
"""Below this a second process takes longer to start than it saves."""
_MAX_PROCESSES = 8
_MOST_WAITING = 16
"""Batches that are digested before the caller takes them."""
_MAX_CPU_S = 4 * 3600
_POLL_MS = 50
_LARGE_BYTES, _LARGE_TIMES = 1 << 30, 1_200
"""A worker with more memory than this, and this many times its largest file, is killed."""
_MOST_BETWEEN_BYTES = 300 << 20
"""A worker that holds more than this after a batch is replaced: what it cached and freed adds up."""


def digest_all(
    root: Path,
    entries: Sequence[FileEntry],
    *,
    max_chars: int,
    progress: Callable[[int, int], None],
    processes: int | None = None,
    given_up: GivenUp | None = None,
) -> Generator[Digest]:
    """Yield the digests of all files, in order, made with one process per core.

    No more than a few batches are digested before their turn, so that they need little memory. `progress` is
    called with files done and files in all, always from the calling thread. `given_up` names the texts that
    are not parsed again.
    """
    batches = list(_batches(entries))
    count = min(processes or os.cpu_count() or 1, len(batches), _MAX_PROCESSES)
    if count < 2 or sum(entry.size_bytes for entry in entries) < _MIN_BYTES_FOR_PROCESSES:
        digests = (digest(root, batch, max_chars=max_chars, given_up=given_up) for batch in batches)
        yield from _counted(digests, batches, progress)
        return
    with ExitStack() as stack:
        workers = [stack.enter_context(_Worker()) for _ in range(count)]
        pool = ThreadPoolExecutor(count)
        stack.callback(pool.shutdown, cancel_futures=True)
        idle = list(workers)

        def run(batch: Sequence[FileEntry]) -> Digest:
            worker = idle.pop()
            try:
                return worker.digest(root, batch, max_chars, given_up)
            finally:
                idle.append(worker)

        yield from _counted(_in_order(pool, run, batches), batches, progress)


def _in_order(
    pool: ThreadPoolExecutor,
    run: Callable[[Sequence[FileEntry]], Digest],
    batches: Sequence[Sequence[FileEntry]],
) -> Iterator[Digest]:
    waiting: deque[Future[Digest]] = deque()
    for batch in batches:
        waiting.append(pool.submit(run, batch))
        if len(waiting) > _MOST_WAITING:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _counted(
    digests: Iterator[Digest], batches: Sequence[Sequence[FileEntry]], progress: Callable[[int, int], None]
) -> Iterator[Digest]:
    total, done = sum(map(len, batches)), 0
    for batch, result in zip(batches, digests, strict=True):
        done += len(batch)
        progress(done, total)
        yield result


def _batches(entries: Sequence[FileEntry]) -> Iterator[list[FileEntry]]:
    batch: list[FileEntry] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += entry.size_bytes + 2_000
        if size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Worker:
    """A child process that digests batches. It is replaced when a text crashes it (`rag.isolation`)."""

    def __enter__(self) -> _Worker:
        self._start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end()

    def _start(self) -> None:
        limits = Limits(memory_bytes=share_of_memory(), cpu_s=_MAX_CPU_S)
        command = python_command("rag.database.workers")
        self._process = start(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, limits=limits)
        assert self._process.stderr is not None
        self._journal = self._process.stderr.fileno()
        os.set_blocking(self._journal, False)

    def _end(self) -> int:
        """End the process, if it has not ended; return its exit code."""
        self._process.terminate()
        with (
            self._process,
            suppress(BrokenPipeError),
        ):  # the unread input of a dead worker is discarded
            if self._process.stdin is not None:
                self._process.stdin.close()
        return self._process.returncode

    def digest(
        self, root: Path, entries: Sequence[FileEntry], max_chars: int, given_up: GivenUp | None
    ) -> Digest:
        """Send a batch, wait for its digest. An error in the worker is raised here.

        A text that crashes the worker is cut by lines, and the batch is digested again without parsing it;
        after `MAX_LOST` crashes nothing else of the batch is parsed.
        """
        lost: dict[int, str] = {}
        until = None
        if resident_bytes(self._process.pid) > _MOST_BETWEEN_BYTES:
            self._end()
            self._start()
        while True:
            begun_calls(self._journal)
            try:
                result = self._request((root, list(entries), max_chars, given_up, lost, until), entries)
                break
            except (BrokenPipeError, EOFError) as error:
                begun, code = begun_calls(self._journal), self._end()
                self._start()
                number = _last_begun(begun, lost)
                if number is None or until is not None:
                    raise RagError(
                        f"a worker process ended with status {code} while reading {len(entries)} files from "
                        f"{entries[0].path} on; check the free memory, then run it again"
                    ) from error
                lost[number] = reason_of_exit(code)
                until = number + 1 if len(lost) == MAX_LOST else None
        if not isinstance(result, Digest):
            raise RuntimeError(f"a worker process failed:\n{result}")
        return result

    def _request(self, request: Any, entries: Sequence[FileEntry]) -> Any:
        """Return the answer to a request. A worker that uses too much memory for its files is killed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        _send(self._process.stdin, request)
        most_bytes = _LARGE_BYTES + _LARGE_TIMES * max(entry.size_bytes for entry in entries)
        poller = select.poll()
        poller.register(self._process.stdout, select.POLLIN)
        while not poller.poll(_POLL_MS):
            if resident_bytes(self._process.pid) > most_bytes:
                self._process.kill()
        return _receive(self._process.stdout)


def _last_begun(begun: int, lost: Collection[int]) -> int | None:
    """Return the number of the last call that began, not counting the calls in `lost`; None for none."""
    number = -1
    for _ in range(begun):
        number += 1
        while number in lost:
            number += 1
    return number if begun else None


def _send(pipe: IO[bytes], value: Any) -> None:
    data = pickle.dumps(value, protocol=5)
    pipe.write(struct.pack("<Q", len(data)))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError
    (size,) = struct.unpack("<Q", head)
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)  # from our own parent or child, over a private pipe


def _serve() -> None:
    """Run the worker's loop: batches in, digests out, until the input ends."""
    receive, send = sys.stdin.buffer, sys.stdout.buffer
    in_process = call_in_process()
    collect_garbage_rarely()
    while True:
        try:
            root, entries, max_chars, given_up, lost, until = _receive(receive)
        except (EOFError, KeyboardInterrupt):
            return
        in_process.expect(lost, until)
        try:
            result: Digest | str = digest(root, entries, max_chars=max_chars, given_up=given_up)
        except KeyboardInterrupt:
            return
        except Exception:  # noqa: BLE001 - a process boundary: the parent raises it again
            result = traceback.format_exc()
        _send(send, result)


if __name__ == "__main__":
    _serve()
