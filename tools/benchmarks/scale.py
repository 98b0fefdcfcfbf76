"""How build and search grow: a tree of 100,000 files, and stores of up to a million chunks."""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from rag.cli.terminal import out
from rag.errors import RagError
from rag.evaluation.questions import read_questions
from rag.evaluation.repositories import obtain
from tools.benchmarks.bench import QUESTIONS, Bench, NotMeasured, draw, run_process, show
from tools.benchmarks.indexing import DJANGO, QUESTION

SIZES = (100_000, 300_000, 1_000_000)
FILES = 100_000
EXPONENT_AIM = 0.6
_ASKED = 150
_LARGEST_FILE = 8_000
_WORD = re.compile(r"[a-z]{5,}")


def scale(bench: Bench) -> None:
    """100,000 files and a million chunks: build time, memory, disk, query time, recall, fitted exponent."""
    try:
        sources = obtain(DJANGO, bench.cache)
    except RagError as error:
        raise NotMeasured(f"Django 5.2: {error}") from error
    with TemporaryDirectory(prefix="rag-bench-scale-") as workplace:
        folder = Path(workplace)
        _by_chunks(sources, folder)
        _tree(sources, folder)


def _by_chunks(sources: Path, folder: Path) -> None:
    environment = {**os.environ, "RAG_HOME": str(folder / "home")}
    run_process([sys.executable, "-m", "rag", "index", str(sources)], environment)
    (base,) = (folder / "home" / "stores").glob("*.pkl")
    texts = [q.text for q in read_questions([QUESTIONS / "dev.jsonl"], {"newcomer", "first"})]
    asked = folder / "questions.json"
    asked.write_text(json.dumps(random.Random(0).sample(texts, min(_ASKED, len(texts)))))
    probe = [sys.executable, "-m", "tools.benchmarks.scale_probe"]
    rows = []
    for size in SIZES:
        path = folder / f"{size}.pkl"
        made = run_process([*probe, "make", str(base), str(size), str(path)], environment)
        seen = run_process([*probe, "ask", str(path), str(asked)], environment)
        rows.append(json.loads(made.output) | json.loads(seen.output) | {"bytes": path.stat().st_size})
        path.unlink()
    columns = ["chunks", "store MB", "ready ms", "added MB", "query p50 / p95 ms"]
    columns += ["vectors alone: lists / exact ms", "recall@10", "promised", "gathered s"]
    table = [
        [
            f"{row['chunks']:,}",
            f"{row['bytes'] / 1e6:.0f}",
            f"{row['ready_ms']:.1f}",
            f"{row['added_mb']:.0f}",
            f"{row['p50_ms']:.2f} / {row['p95_ms']:.2f}",
            f"{row['lists_ms']:.2f} / {row['exact_ms']:.2f}",
            f"{row['recall']:.3f}",
            f"{row['recall_at_10']:.3f}",
            f"{row['gathered_s']:.1f}",
        ]
        for row in rows
    ]
    show(f"Stores resampled from Django 5.2, {_ASKED} questions, k=10", columns, table)
    points = [(row["chunks"], row["p50_ms"]) for row in rows]
    growth = f"fitted exponent of the query's p50: {exponent(points):.2f} (aim ≤ {EXPONENT_AIM})"
    out(growth)
    (first, start), (last, _) = points[0], points[-1]
    aim = [(first, start), (last, start * (last / first) ** EXPONENT_AIM)]
    draw(growth, ("chunks", "ms"), {"query p50": points, f"exponent {EXPONENT_AIM}": aim}, log=True)


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of log y over log x by least squares: 1 is linear growth, 0 none."""
    x, y = np.log(np.asarray(points, float)).T
    return float(np.polyfit(x, y, 1)[0])


def _tree(sources: Path, folder: Path) -> None:
    """A repository of 100,000 files, each a real one of up to 8 kB with some words changed."""
    root, home = folder / "tree", folder / "tree-home"
    paths = write_tree(sources, root, FILES)
    environment = {**os.environ, "RAG_HOME": str(home)}
    rag = [sys.executable, "-m", "rag"]
    built = run_process([*rag, "index", str(root), "--json"], environment)
    report = json.loads(built.output)
    search = run_process([*rag, "search", str(root), QUESTION], environment)
    paths[0].write_text(paths[0].read_text() + "\n# touched\n")
    updated = run_process([*rag, "index", str(root)], environment)
    rows = [
        ("build with embedding, wall", f"{built.wall_s:.1f} s"),
        ("build, CPU", f"{built.cpu_s:.1f} s"),
        ("build, peak memory of the main process", f"{built.peak_rss_mb:,.0f} MB"),
        ("files / chunks", f"{report['files']:,} / {report['chunks']:,}"),
        ("store on disk", f"{report['size_bytes'] / 1e6:.0f} MB"),
        ("recall@10 measured at build", f"{report['recall_at_10'] or 1:.3f}"),
        ("cold `rag search` process, wall", f"{search.wall_s:.2f} s"),
        ("one file changed, `rag index` process, wall", f"{updated.wall_s:.2f} s"),
    ]
    show(f"A tree of {FILES:,} files", ["measure", "value"], rows)


def write_tree(sources: Path, root: Path, count: int) -> list[Path]:
    """Write `count` files into folders of 500: real ones, each time with five of their words changed."""
    chosen = random.Random(1)
    real = [p for p in sorted(sources.rglob("*.py")) if 0 < p.stat().st_size <= _LARGEST_FILE]
    texts = [(path.stem, path.read_text(encoding="utf-8", errors="replace")) for path in real]
    written = []
    for number in range(count):
        stem, text = chosen.choice(texts)
        words = sorted(set(_WORD.findall(text)))
        for word in chosen.sample(words, min(5, len(words))):
            text = text.replace(word, word[::-1])
        path = root / f"part_{number // 500}" / f"{stem}_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
