"""`rag serve` under load: Django 5.2, extractive answers, every turn stored, clients in another process."""

from __future__ import annotations

import json
import os
import pickle
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rag.database.store import Store
from rag.errors import RagError
from tools.benchmarks.bench import Bench, NotMeasured, cpu_s, family, resident_mb, show
from tools.benchmarks.django import DJANGO
from tools.benchmarks.repositories import obtain

CLIENTS, STREAMS = 32, 200
QUESTIONS = 600
WARM, EARLY, LATE = 200, 2_000, 10_000
_MESSAGES = 3


def serve(bench: Bench) -> None:
    """Questions a second at 32 clients, 200 streams at once, memory over 10,000, DeepWiki's way beside it."""
    try:
        sources = obtain(DJANGO, bench.cache)
    except RagError as error:
        raise NotMeasured(f"Django 5.2: {error}") from error
    with TemporaryDirectory(prefix="rag-bench-serve-") as workplace:
        home = Path(workplace)
        environment = {**os.environ, "RAG_HOME": str(home / "home"), "RAG_CACHE": "off"}
        with running_server(sources, home, [sys.executable, "-m", "rag"], environment) as (port, pid):
            store = store_of(home / "home", "")
            job = {"port": port, "repository": "django", "questions": questions_about(store), "stream": False}
            load(job, CLIENTS, WARM)
            early = load(job, CLIENTS, EARLY - WARM)
            rss = [_rss_mb(pid)]
            cpu = _cpu_s(pid)
            late = load(job, CLIENTS, LATE - EARLY)
            cpu = _cpu_s(pid) - cpu
            rss.append(_rss_mb(pid))
            streams = load({**job, "stream": True}, STREAMS, STREAMS * 5)
        per_message = _deepwikis_way(store, home)
    rows = [_row(f"{CLIENTS} clients, to {EARLY:,}", early), _row(f"{CLIENTS} clients, to {LATE:,}", late)]
    rows.append(_row(f"{STREAMS} streams", streams))
    columns = ("load", "requests", "failed", "asks/s", "p50 ms", "p95 ms", "first byte p95 ms", "client CPU")
    show("rag serve, Django 5.2, extractive", columns, rows)
    growth = f"{(rss[1] / rss[0] - 1) * 100:+.1f} %"
    show(
        "rag serve: memory, CPU, and one message DeepWiki's way",
        ("what", "how much"),
        [
            (f"RSS after {EARLY:,}", f"{rss[0]:.0f} MB"),
            (f"RSS after {LATE:,}", f"{rss[1]:.0f} MB ({growth})"),
            ("CPU of the server a question", f"{cpu / (LATE - EARLY) * 1000:.1f} ms"),
            ("unpickle, build, search: one message", f"{per_message:.2f} s"),
            ("asks/s against that", f"{late['per_second'] * per_message:,.0f} ×"),
        ],
    )


def _row(name: str, seen: dict[str, Any]) -> tuple[object, ...]:
    figures = (f"{seen[key]:.0f}" for key in ("per_second", "p50_ms", "p95_ms", "first_p95_ms"))
    return (name, f"{seen['requests']:,}", seen["failed"], *figures, f"{seen['cpu_share'] * 100:.0f} %")


@contextmanager
def running_server(
    sources: Path, home: Path, rag: Sequence[str], environment: Mapping[str, str]
) -> Iterator[tuple[int, int]]:
    """A server that has the repository ready: its port and process id. Its log is written to `home`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*rag, "serve", "--repo", f"django={sources}", "--port", str(port)]
    with (home / "log").open("wb") as log:
        running = subprocess.Popen(command, env=dict(environment), stderr=log)
    try:
        while not _is_ready(port):
            if running.poll() is not None:
                raise NotMeasured(f"the server ended: {(home / 'log').read_text()[-500:]}")
            time.sleep(0.2)
        yield port, running.pid
    finally:
        running.terminate()
        running.wait(60)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
            return True
    except OSError:
        return False


def load(job: dict[str, Any], clients: int, requests: int) -> dict[str, Any]:
    """Send requests to a server; return what the clients saw."""
    told = json.dumps({**job, "clients": clients, "requests": requests})
    command = [sys.executable, "-m", "tools.benchmarks.load"]
    done = subprocess.run(command, input=told, capture_output=True, text=True, check=True)
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def store_of(home: Path, name: str) -> Store:
    """Return the store of a repository in a home."""
    return Store.open(max((home / "stores").glob(f"{name}*.pkl")))


def questions_about(store: Store) -> list[str]:
    """Different questions about names of the repository, the same every time."""
    chosen = random.Random(0)
    forms = ("How does {} work?", "Where is {} used?", "What does {} return?", "Why would {} fail?")
    names = sorted({symbol for symbol, _ in store.names(np.arange(len(store)))} - {""})
    return [chosen.choice(forms).format(name) for name in chosen.sample(names, QUESTIONS)]


def _rss_mb(pid: int) -> float:
    """Memory of the server and its children; pages that they share count for each."""
    return sum(resident_mb(each) for each in family(pid))


def _cpu_s(pid: int) -> float:
    return sum(cpu_s(each) for each in family(pid))


def _deepwikis_way(store: Store, home: Path) -> float:
    """Seconds of one message as DeepWiki answers it: unpickle all chunks, build the index, search it.

    The pickle holds what its data base does: texts, metadata, and vectors as lists of floats. Making the
    RAG object, the prompt and the answer are left out.
    """
    import faiss

    chunks = [
        {"text": store.hit(n, 0.0, {}).text, "meta": {"n": n}, "vector": np.asarray(store.vector(n)).tolist()}
        for n in range(len(store))
    ]
    file = home / "documents.pkl"
    file.write_bytes(pickle.dumps(chunks))
    query = np.asarray(chunks[0]["vector"], np.float32)[None]
    del chunks
    took = []
    for _ in range(_MESSAGES):
        began = time.perf_counter()
        loaded = pickle.loads(file.read_bytes())
        vectors = np.asarray([one["vector"] for one in loaded], np.float32)
        index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(vectors)
        index.search(query, 20)
        took.append(time.perf_counter() - began)
        del loaded
    return sorted(took)[len(took) // 2]
