"""How build and search grow: a tree of 100,000 files, and stores of up to a million chunks.

What an earlier run of the same commit has measured is not measured again. `SCALE_SIZES=5000,25000` and
`SCALE_FILES=5000` choose other sizes, for a smaller machine.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rag.cli.terminal import out
from rag.errors import RagError
from rag.evaluation.questions import read_questions
from rag.evaluation.repositories import obtain
from tools.benchmarks.bench import CHECKOUT, QUESTIONS, Bench, NotMeasured, draw, run_process, show
from tools.benchmarks.indexing import DJANGO, QUESTION

SIZES = (5_000, 25_000, 100_000, 300_000, 1_000_000)
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
    chosen = os.environ.get("SCALE_SIZES")
    sizes = tuple(map(int, chosen.split(","))) if chosen else SIZES
    files = int(os.environ.get("SCALE_FILES") or FILES)
    kept = bench.results / "scale"
    with TemporaryDirectory(prefix="rag-bench-scale-") as workplace:
        folder = Path(workplace)
        rows = [_resumed(kept, f"chunks-{size}", partial(_store, sources, folder, size)) for size in sizes]
        _show_stores(rows)
        tree = _resumed(kept, f"files-{files}", partial(_tree, sources, folder, files))
        show(f"A tree of {files:,} files", ["measure", "value"], tree)


def _resumed(kept: Path, name: str, measure: Callable[[], Any]) -> Any:
    """Return what this run, or an earlier one of the same commit, has measured."""
    head = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=CHECKOUT, check=True, capture_output=True, text=True
    )
    file = kept / f"{name}-{head.stdout.strip()}.json"
    if not file.is_file():
        found = measure()
        out(f"{name}: measured")
        kept.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(json.dumps(found), encoding="utf-8")
        part.replace(file)
    return json.loads(file.read_text(encoding="utf-8"))


def _store(sources: Path, folder: Path, size: int) -> dict[str, Any]:
    """Measure a store of so many chunks, resampled from the index of `sources`."""
    environment = {**os.environ, "RAG_HOME": str(folder / "home")}
    if not (folder / "home").exists():
        run_process([sys.executable, "-m", "rag", "index", str(sources)], environment)
    (base,) = (folder / "home" / "stores").glob("*.pkl")
    texts = [q.text for q in read_questions([QUESTIONS / "dev.jsonl"], {"newcomer", "first"})]
    asked = folder / "questions.json"
    asked.write_text(json.dumps(random.Random(0).sample(texts, min(_ASKED, len(texts)))))
    probe = [sys.executable, "-m", "tools.benchmarks.scale_probe"]
    path = folder / f"{size}.pkl"
    made = run_process([*probe, "make", str(base), str(size), str(path)], environment)
    seen = run_process([*probe, "ask", str(path), str(asked)], environment)
    found: dict[str, Any] = json.loads(made.output) | json.loads(seen.output)
    found["bytes"] = path.stat().st_size
    path.unlink()
    return found


def _show_stores(rows: Sequence[Mapping[str, Any]]) -> None:
    columns = ["chunks", "store MB", "ready ms", "added MB", "query p50 / p95 CPU ms"]
    columns += ["vectors alone: lists / exact CPU ms", "recall@10", "promised", "gathered s"]
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
    if len(rows) < 2:
        return
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


def _tree(sources: Path, folder: Path, files: int) -> list[tuple[str, str]]:
    """Measure a repository of so many files, each a real one of up to 8 kB with some words changed."""
    root, home = folder / "tree", folder / "tree-home"
    paths = write_tree(sources, root, files)
    environment = {**os.environ, "RAG_HOME": str(home)}
    rag = [sys.executable, "-m", "rag"]
    built = run_process([*rag, "index", str(root), "--json"], environment)
    report = json.loads(built.output)
    search = run_process([*rag, "search", str(root), QUESTION], environment)
    paths[0].write_text(paths[0].read_text() + "\n# touched\n")
    updated = run_process([*rag, "index", str(root)], environment)
    return [
        ("build with embedding, wall", f"{built.wall_s:.1f} s"),
        ("build, CPU", f"{built.cpu_s:.1f} s"),
        ("build, peak memory of the main process", f"{built.peak_rss_mb:,.0f} MB"),
        ("files / chunks", f"{report['files']:,} / {report['chunks']:,}"),
        ("store on disk", f"{report['size_bytes'] / 1e6:.0f} MB"),
        ("recall@10 measured at build", f"{report['recall_at_10'] or 1:.3f}"),
        ("cold `rag search` process, wall", f"{search.wall_s:.2f} s"),
        ("one file changed, `rag index` process, wall", f"{updated.wall_s:.2f} s"),
    ]


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
