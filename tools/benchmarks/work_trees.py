"""Ten work trees of one commit: what the first costs, each further one, a changed file, a branch switch."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from rag.errors import RagError
from rag.evaluation.repositories import EvaluationRepository, obtain
from tools.benchmarks.bench import Bench, Finished, not_measured, run_process, show
from tools.benchmarks.django import DJANGO
from tools.benchmarks.linux_tree import LINUX, change, commit, git, plant

TREES = 10
LINUX_SIZE = 25_000


def trees(bench: Bench) -> None:
    """Ten work trees of Django, and of a part of Linux: time, CPU and disk of each, a change, a switch."""
    for repository in (DJANGO, LINUX):
        try:
            sources = obtain(repository, bench.cache)
        except RagError as error:
            not_measured(f"{repository.name}: {error}")
            continue
        with TemporaryDirectory(prefix="rag-bench-trees-") as workplace:
            _measured(repository, sources, Path(workplace))


def _measured(repository: EvaluationRepository, sources: Path, folder: Path) -> None:
    main = folder / "main"
    if repository is LINUX:
        plant(sources, main, LINUX_SIZE)
    else:
        shutil.copytree(sources, main)
        git(main, "init", "--quiet")
        commit(main)
    home = folder / "home"
    first = _indexed(main, home)
    start_cost = _indexed(main, home)
    start = start_cost[0].cpu_s
    rows = [
        _row("the first", [first], first, 0.0),
        _row("the first again, unchanged", [start_cost], first, start),
    ]
    further = []
    for number in range(1, TREES):
        tree = folder / f"tree{number}"
        git(main, "worktree", "add", "--quiet", "--detach", str(tree))
        further.append(_indexed(tree, home))
    rows.append(_row(f"each of {len(further)} more, the median", further, first, start))
    touched = next(path for path in sorted(tree.rglob("*")) if path.suffix in (".py", ".c"))
    touched.write_text(touched.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    rows.append(_row("one file changed", [_indexed(tree, home)], first, start))
    git(tree, "checkout", "--quiet", "-f", "-b", "other")
    files = change(tree)
    rows.append(_row(f"a branch with {files:,} changed files", [_indexed(tree, home)], first, start))
    git(tree, "checkout", "--quiet", "--detach", "HEAD~1")
    rows.append(_row("back to the first commit", [_indexed(tree, home)], first, start))
    title = f"{TREES} work trees of {repository.name} {repository.version}, one commit"
    columns = [
        "work tree",
        "wall s",
        "CPU s",
        "of the first",
        "without the start",
        "added MB",
        "of the first",
    ]
    show(title, columns, rows)


Cost = tuple[Finished, float]
"""A finished `rag index`, and the MB that it added on disk."""


def _indexed(tree: Path, home: Path) -> Cost:
    before = _disk_mb(home)
    environment = {**os.environ, "RAG_HOME": str(home)}
    done = run_process([sys.executable, "-m", "rag", "index", str(tree)], environment)
    return done, _disk_mb(home) - before


def _disk_mb(home: Path) -> float:
    """What the files take; one that has several names counts once."""
    states = [path.stat() for path in home.rglob("*") if path.is_file()]
    return sum({state.st_ino: state.st_size for state in states}.values()) / 1e6


def _row(name: str, costs: Sequence[Cost], first: Cost, start_s: float) -> list[str]:
    """A row of the table; to start and find nothing changed takes `start_s` of CPU time."""
    wall, cpu = (median(getattr(done, field) for done, _ in costs) for field in ("wall_s", "cpu_s"))
    added = median(mb for _, mb in costs)
    shares = [f"{s / first[0].cpu_s:.1%}" for s in (cpu, cpu - start_s)]
    return [name, f"{wall:.2f}", f"{cpu:.2f}", *shares, f"{added:.2f}", f"{added / first[1]:.1%}"]
