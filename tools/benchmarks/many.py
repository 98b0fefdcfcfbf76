"""`rag serve` with 1,000 indexed repositories in a process that may open 256 files."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from rag.service import Engine
from rag.settings import Settings
from rag.types import Source
from tools.benchmarks.bench import Bench, family, resident_mb, show

REPOSITORIES, OPEN_FILES, FILES, ASKED, ASKED_OF_ALL = 1_000, 256, 3, 200, 50
_STARTS_WITHIN_S = 60.0


def many(bench: Bench) -> None:
    """First answers of 1,000 repositories after a restart under `ulimit -n 256`, and how soon it stops."""
    with TemporaryDirectory(prefix="rag-bench-many-") as workplace:
        home = Path(workplace)
        began = time.perf_counter()
        named = _indexed(home)
        indexed_s = time.perf_counter() - began
        with (home / "log").open("wb") as log, socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            free.close()
            running = _started(named, home, port, log)
            try:
                chosen = random.Random(0).sample(list(named), ASKED)
                took = [_asked(port, name) for name in chosen]
                of_all = sorted(_asked(port, name, group="@all") for name in chosen[:ASKED_OF_ALL])
                files = len(list(Path(f"/proc/{running.pid}/fd").iterdir()))
                memory = sum(resident_mb(pid) for pid in family(running.pid))
                waiting = _ready(port)["indexing"]
                stopped = time.perf_counter()
                running.terminate()
                running.wait(60)
                stopped = time.perf_counter() - stopped
            finally:
                running.kill()
                running.wait()
        refused = (home / "log").read_text(errors="replace").count("open files")
    took.sort()
    rows = [
        ("indexed before, in all", f"{indexed_s:.0f} s"),
        (f"first answer, {ASKED} repositories in turn: p50", f"{took[len(took) // 2] * 1000:.0f} ms"),
        ("p95", f"{took[int(len(took) * 0.95)] * 1000:.0f} ms"),
        ("slowest", f"{took[-1] * 1000:.0f} ms"),
        (f"{ASKED_OF_ALL} questions to @all: p50", f"{of_all[len(of_all) // 2] * 1000:.0f} ms"),
        ("slowest", f"{of_all[-1] * 1000:.0f} ms"),
        ("descriptors of the server", f"{files} of {OPEN_FILES}"),
        ("messages about too many open files", refused),
        ("RSS with children", f"{memory:.0f} MB"),
        (f"stopped, {waiting} jobs waiting or running", f"{stopped:.1f} s"),
    ]
    show(f"rag serve, {REPOSITORIES:,} repositories, ulimit -n {OPEN_FILES}", ("what", "how much"), rows)


def _indexed(home: Path) -> dict[str, Source]:
    """Small repositories, each with an index on disk."""
    engine = Engine(Settings(home=home / "home"))
    named = {}
    for number in range(REPOSITORIES):
        name = f"r{number:04}"
        root = home / "repositories" / name
        root.mkdir(parents=True)
        for file in range(FILES):
            text = f"def handler_{number}_{file}(request):\n    return request.path + '{file}'\n"
            (root / f"part{file}.py").write_text(text)
        named[name] = Source(str(root.resolve()))
        engine.repository(named[name])
        engine.release(named[name])
    return named


def _started(named: dict[str, Source], home: Path, port: int, log: BinaryIO) -> subprocess.Popen[bytes]:
    """The server, as soon as it takes questions."""
    listed = [part for name, source in named.items() for part in ("--repo", f"{name}={source.location}")]
    command = [sys.executable, "-P", "-m", "rag", "serve", *listed, "--port", str(port)]
    limited = ["sh", "-c", f'ulimit -n {OPEN_FILES} && exec "$@"', "sh", *command]
    running = subprocess.Popen(limited, env={**os.environ, "RAG_HOME": str(home / "home")}, stderr=log)
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < deadline:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        threading.Event().wait(0.02)
    return running


def _asked(port: int, name: str, *, group: str = "") -> float:
    """Seconds of an answer, which must be from the repository; it is named, or chosen from a group."""
    question = f"What does handler_{int(name[1:])}_1 return?"
    body = json.dumps({"question": question, "repositories": [group or name], "k": 1}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/search", body, {"Content-Type": "application/json"}
    )
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as response:
        (hit,) = json.load(response)["hits"]
    if (hit["path"], hit["repository"]) != ("part1.py", name):
        raise AssertionError(f"{name} was answered from {hit['repository']}:{hit['path']}")
    return time.perf_counter() - began


def _ready(port: int) -> dict[str, int]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=10) as response:
        told: dict[str, int] = json.load(response)
        return told
