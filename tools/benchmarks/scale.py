"""How indexing and searching grow with a real tree: parts of Linux 6.1, five thousand to a million chunks.

A step that an earlier run of the same code has measured is not measured again, and what later steps need is
kept until all are done. `SCALE_SIZES=5000,25000` chooses sizes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from rag.cli.terminal import out
from rag.errors import RagError
from tools.benchmarks.bench import (
    CHECKOUT,
    Bench,
    Finished,
    NotMeasured,
    run_process,
    show,
)
from tools.benchmarks.linux_tree import LINUX, SIZES, change, plant, questions
from tools.benchmarks.repositories import obtain

EXPONENT_AIM = 0.6
ASKED = 150
Figures = dict[str, Any]


def scale(bench: Bench) -> None:
    """Linux, 5,000 to a million chunks: build, memory, disk, questions, changes."""
    try:
        linux = obtain(LINUX, bench.cache)
    except RagError as error:
        raise NotMeasured(f"Linux 6.1: {error}") from error
    chosen = os.environ.get("SCALE_SIZES")
    sizes = tuple(map(int, chosen.split(","))) if chosen else SIZES
    rows = [_measured(bench.results, linux, size) for size in sizes]
    _show_stores(rows)
    _show_changes(rows)


def kept_of(results: Path, size: int) -> dict[str, Figures]:
    """Return the figures of a size, by step, as far as a run of the same code has measured them."""
    files = sorted(_folder(results, size).glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def _folder(results: Path, size: int) -> Path:
    code = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD:rag"],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    return results / "scale" / f"{size}-{code}"


def _measured(results: Path, linux: Path, size: int) -> dict[str, Figures]:
    """Measure one size, step by step; return the figures of each step."""
    kept = _folder(results, size)
    folder = kept.with_name(f"{kept.name}.data")
    steps = _steps(linux, folder, size) | _steps_of_a_change(folder)
    kept.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, measure in steps.items():
        file = kept / f"{name}.json"
        if not file.is_file():
            figures = measure()
            part = file.with_suffix(".part")
            part.write_text(json.dumps(figures), encoding="utf-8")
            part.replace(file)
            out(f"{size:,}: {name} measured")
        found[name] = json.loads(file.read_text(encoding="utf-8"))
    shutil.rmtree(folder, ignore_errors=True)
    return found


def _steps(linux: Path, folder: Path, size: int) -> dict[str, Callable[[], Figures]]:
    """The first steps, in order; each needs what those before it have left in `folder`."""
    tree = folder / "linux"

    def planted() -> Figures:
        shutil.rmtree(folder, ignore_errors=True)
        plant(linux, tree, size)
        asked = [astuple(question) for question in questions(tree, ASKED)]
        (folder / "questions.json").write_text(json.dumps(asked))
        return {"questions": len(asked)}

    return {
        "planted": planted,
        "built": lambda: _index(folder),
        "unchanged": lambda: _index(folder),
        "asked": lambda: _probe(folder),
    }


def _steps_of_a_change(folder: Path) -> dict[str, Callable[[], Figures]]:
    return {
        "changed": lambda: {"files": change(folder / "linux")},
        "updated": lambda: _index(folder),
        "asked-again": lambda: _probe(folder),
    }


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "RAG_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}


def _index(folder: Path) -> Figures:
    command = [sys.executable, "-m", "rag", "index", str(folder / "linux"), "--json"]
    done = run_process(command, _environment(folder), family=True)
    figures: Figures = json.loads(done.output)
    return figures | _usage(done)


def _probe(folder: Path) -> Figures:
    probe = [sys.executable, "-m", "tools.benchmarks.scale_probe", folder / "home", folder / "questions.json"]
    done = run_process(list(map(str, probe)), _environment(folder), family=True)
    figures: Figures = json.loads(done.output)
    return figures | _usage(done)


def _usage(done: Finished) -> Figures:
    return {"wall_s": done.wall_s, "cpu_s": done.cpu_s, "peak_mb": done.peak_mb}


def _show_stores(rows: Sequence[Mapping[str, Figures]]) -> None:
    columns = ["chunks", "files", "build CPU s", "wall s", "peak MB", "store MB", "unchanged CPU s"]
    columns += ["question p50 / p95 CPU ms", "without rules p50", "asked again p50"]
    columns += ["first answer ms / MB", "right file in 10"]
    table = [
        [
            f"{asked['chunks']:,}",
            f"{asked['files']:,}",
            f"{built['cpu_s']:.1f}",
            f"{built['wall_s']:.0f}",
            f"{built['peak_mb']:,.0f}",
            f"{built['size_bytes'] / 1e6:.0f}",
            f"{row['unchanged']['cpu_s']:.2f}",
            f"{asked['p50_ms']:.1f} / {asked['p95_ms']:.0f}",
            f"{asked['first_stage_p50_ms']:.1f}",
            f"{asked['again_p50_ms']:.1f}",
            f"{asked['ready_ms']:.0f} / {asked['added_mb']:.0f}",
            f"{asked['right']:.3f}",
        ]
        for row in rows
        for asked, built in [(row["asked"], row["built"])]
    ]
    show(f"Parts of Linux {LINUX.version}, {ASKED} questions, k=10", columns, table)
    forms = list(rows[0]["asked"]["forms"])
    by_form = [
        [f"{row['asked']['chunks']:,}", *("{:.1f} / {:.0f}".format(*row["asked"]["forms"][f]) for f in forms)]
        for row in rows
    ]
    show("CPU ms by the form of the question, p50 / p95", ["chunks", *forms], by_form)
    if len(rows) < 2:
        return
    lines = {
        "build CPU s": [(row["asked"]["chunks"], row["built"]["cpu_s"]) for row in rows],
        "peak MB": [(row["asked"]["chunks"], row["built"]["peak_mb"]) for row in rows],
        "store MB": [(row["asked"]["chunks"], row["built"]["size_bytes"] / 1e6) for row in rows],
        "question p50": [(row["asked"]["chunks"], row["asked"]["p50_ms"]) for row in rows],
    }
    slopes = [(name, f"{exponent(points):.2f}") for name, points in lines.items()]
    show(
        f"Slopes: the power of the chunks (aim ≤ {EXPONENT_AIM} for a question)", ["measure", "power"], slopes
    )


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of log y over log x by least squares: 1 is linear growth, 0 none."""
    x, y = np.log(np.asarray(points, float)).T
    return float(np.polyfit(x, y, 1)[0])


def _show_changes(rows: Sequence[Mapping[str, Figures]]) -> None:
    columns = ["chunks before", "files changed", "update CPU s", "peak MB", "question p50 / p95 CPU ms"]
    columns += ["times that before", "without rules", "segments", "recall@10 of the vectors before / after"]
    table = [
        [
            f"{before['chunks']:,}",
            f"{row['changed']['files']:,}",
            f"{row['updated']['cpu_s']:.1f}",
            f"{row['updated']['peak_mb']:,.0f}",
            f"{after['p50_ms']:.1f} / {after['p95_ms']:.0f}",
            f"{after['p50_ms'] / before['p50_ms']:.2f}",
            f"{after['first_stage_p50_ms'] / before['first_stage_p50_ms']:.2f}",
            f"{before['segments']} → {after['segments']}",
            f"{before['recall']:.3f} / {after['recall']:.3f}",
        ]
        for row in rows
        for before, after in [(row["asked"], row["asked-again"])]
    ]
    show("A quarter of the files changed", columns, table)
