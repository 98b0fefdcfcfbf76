"""Indexing, opening, asking and updating Django 5.2, by us and by the peers."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rag.errors import RagError
from rag.evaluation.questions import read_questions
from rag.evaluation.repositories import EvaluationRepository, obtain
from rag.evaluation.systems import OURS, Running, System
from tools.benchmarks.bench import (
    QUESTIONS,
    Bench,
    Finished,
    NotMeasured,
    cpu_s,
    not_measured,
    percentiles_ms,
    resident_mb,
    run_process,
    show,
)
from tools.benchmarks.peer_systems import peer_systems

DJANGO = EvaluationRepository(
    name="django",
    language="python",
    source="pypi",
    package="Django",
    version="5.2",
    archive="Django-5.2.tar.gz",
    sha256="1a47f7a7a3d43ce64570d350e008d2949abe8c7e21737b351b6a1611277c6d89",
    licence="BSD-3-Clause",
)
TOUCHED = "django/contrib/sessions/backends/base.py"
QUESTION = "Where are session cookies signed?"
COLD_RUNS = 5
K = 10


def index(bench: Bench) -> None:
    """Django 5.2 indexed, opened, asked and updated: time, memory, disk."""
    try:
        sources = obtain(DJANGO, bench.cache)
    except RagError as error:
        raise NotMeasured(f"Django 5.2: {error}") from error
    with TemporaryDirectory(prefix="rag-bench-") as workplace:
        root, home = Path(workplace) / "django", Path(workplace) / "home"
        shutil.copytree(sources, root)
        _ours(root, home)
        _side_by_side(bench, sources)


def _ours(root: Path, home: Path) -> None:
    environment = {**os.environ, "RAG_HOME": str(home)}
    script = Path(sys.executable).with_name("rag")  # what a user types; `python -m` takes 40 ms more
    rag = [str(script)] if script.is_file() else [sys.executable, "-m", "rag"]
    built = run_process([*rag, "index", str(root)], environment)
    store_mb = sum(file.stat().st_size for file in home.rglob("*.pkl*")) / 1e6
    search = [*rag, "search", str(root), QUESTION]
    cold = [run_process(search, environment) for _ in range(COLD_RUNS)]
    probe = run_process(
        [sys.executable, "-m", "tools.benchmarks.open_probe", str(root), TOUCHED], environment
    )
    seen = json.loads(probe.output)
    touched = root / TOUCHED
    touched.write_text(touched.read_text() + "\n# touched\n")
    updated = run_process([*rag, "index", str(root)], environment)
    rows = [
        ("build with embedding, wall", f"{built.wall_s:.2f} s", "≤ 12 s"),
        ("build, CPU", f"{built.cpu_s:.2f} s", ""),
        ("build, peak memory", f"{built.peak_mb:.0f} MB", ""),
        ("chunks", f"{seen['chunks']:,}", ""),
        ("store on disk", f"{store_mb:.1f} MB", "≤ 40 MB"),
        ("open → first answer, warm process", f"{seen['reopen_s'] * 1000:.1f} ms", "≤ 20 ms"),
        ("the same, after looking for changes", f"{seen['reopen_with_scan_s'] * 1000:.0f} ms", ""),
        ("cold `rag search` process, wall, median of 5", f"{_median_wall(cold):.3f} s", "≤ 0.35 s"),
        ("memory added at the first answer", f"{seen['added_mb']:.1f} MB", "≤ 60 MB"),
        ("one file changed, scan and update, in process", f"{seen['update_s'] * 1000:.0f} ms", "≤ 300 ms"),
        ("one file changed, `rag index` process, wall", f"{updated.wall_s:.2f} s", ""),
    ]
    show("Django 5.2, rag", ["measure", "value", "aim"], rows)


def _median_wall(runs: list[Finished]) -> float:
    return statistics.median(run.wall_s for run in runs)


def _side_by_side(bench: Bench, root: Path) -> None:
    """Every system builds from nothing, then answers the same questions over its pipe."""
    texts = [q.text for q in read_questions([QUESTIONS / "dev.jsonl"], {"newcomer", "first"})]
    systems = [OURS]
    try:
        systems += peer_systems(bench.peers)
    except NotMeasured as reason:
        not_measured(reason)
    rows = [_asked(system, root, texts) for system in systems]
    columns = ["system", "chunks", "start → ready s", "CPU s", "RSS at first answer MB", "query p50 / p95 ms"]
    show(f"Django 5.2, built from nothing, then {len(texts)} questions, k={K}", columns, rows)


def _asked(system: System, root: Path, texts: list[str]) -> list[object]:
    with (
        TemporaryDirectory(prefix="rag-bench-home-") as home,
        Running(system, root, {**os.environ, "RAG_HOME": home}) as running,
    ):
        took = cpu_s(running.pid)
        first = running.ask(0, texts[0], [], K)
        memory = resident_mb(running.pid)
        seconds = [running.ask(n, text, [], K).seconds for n, text in enumerate(texts[1:], 1)]
    return [
        system.name,
        f"{running.chunks:,}",
        f"{running.ready_s:.2f}",
        f"{took:.2f}",
        f"{memory:.0f}",
        percentiles_ms([first.seconds, *seconds]),
    ]
