"""Processes of the server's own."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rag import processes
from rag.serve.workers import subprocesses
from rag.serve.workers.subprocesses import start_child

COMPUTING = """
import asyncio, threading
import numpy as np
import uvloop
from rag.serve.workers.subprocesses import start_child

rows, stopping = np.ones((4_000, 128), np.float32), threading.Event()

def compute():
    while not stopping.is_set():
        rows.T @ rows

async def main():
    threads = [threading.Thread(target=compute) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(40):
        await (await start_child("rag.errors")).end()
    stopping.set()
    for thread in threads:
        thread.join()

uvloop.run(main())
"""


def test_a_child_is_started_while_other_threads_compute():
    # A process that forks there stops for ever; so it is tried in one that can be given up.
    subprocess.run([sys.executable, "-c", COMPUTING], check=True, timeout=60)


def test_a_child_is_talked_to_until_its_input_ends():
    async def run():
        child = await start_child("json.tool", environment={"PYTHONIOENCODING": "utf-8"})
        child.stdin.write(json.dumps({"a": ["é" * 70_000]}).encode())
        child.stdin.write_eof()
        output = await child.stdout.read()
        code = await child.wait()
        await child.end()
        return json.loads(output), code, child.returncode

    assert asyncio.run(run()) == ({"a": ["é" * 70_000]}, 0, 0)


def test_a_killed_child_is_noticed_and_can_be_ended():
    async def run():
        child = await start_child("rag.worker.child")
        assert (child.returncode, child.pid > 0) == (None, True)
        child.kill()
        code = await child.wait()
        assert await child.stdout.read() == b""
        await child.end()
        return code

    assert asyncio.run(run()) == -9


def test_a_worker_s_child_ends_with_a_parent_that_was_killed_before_it_read_everything(tmp_path):
    own, child = socket.socketpair()
    with own, child:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rag.worker.child"], stdin=child, stdout=child
        )
        child.close()
        job = {"kind": "no such job", "settings": {"home": str(tmp_path)}, "args": {}}
        own.sendall(json.dumps(job).encode() + b"\n")
        assert own.recv(1)  # and the rest of the reply is not read
    try:
        assert process.wait(60) in (0, 1)
    finally:
        process.kill()


def test_a_child_that_is_ended_while_it_imports_is_quiet() -> None:
    code = (
        "import os, signal, sys, weakref\n"
        "class Named: pass\n"
        "def ended(reference):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    sum(range(9))\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'rag.worker.tasks':\n"
        "            named = Named()\n"
        "            watched = weakref.ref(named, ended)\n"
        "            del named\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from rag.worker.child import main\n"
        "main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.wait(60) == -signal.SIGTERM
        assert child.stdout is not None and child.stderr is not None
        assert (child.stdout.read(), child.stderr.read()) == (b"", b"")


@pytest.mark.parametrize("gives_up", [False, True])
def test_a_child_that_will_not_end_is_killed_and_nothing_stays_open(gives_up, monkeypatch, tmp_path):
    (tmp_path / "stubborn.py").write_text(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('+', flush=True)\n"
        "while True:\n    time.sleep(1)\n"
    )
    monkeypatch.setattr(subprocesses, "_EXIT_TIMEOUT_S", 60.0 if gives_up else 0.05)

    async def run():
        child = await start_child("stubborn", environment={"PYTHONPATH": str(tmp_path)})
        await child.stdout.readline()
        ending = asyncio.create_task(child.end())
        await asyncio.sleep(0)
        if gives_up:
            ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
        return child.stdin.is_closing(), await child.wait(), ending.cancelled()

    assert asyncio.run(run()) == (True, -9, gives_up)


def test_what_cannot_be_started_is_an_error_that_leaves_nothing_open(monkeypatch):
    monkeypatch.setattr(processes.sys, "executable", "/no/such/python")

    async def run():
        with pytest.raises(OSError):
            await start_child("rag.errors")

    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0
    asyncio.run(run())
    after = len(list(Path("/proc/self/fd").iterdir())) if before else 0
    assert after <= before  # what earlier tests left may be closed meanwhile
