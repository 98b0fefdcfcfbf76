"""What the benchmarks share: their inputs, how they print, and how they say that something is not there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rag.cli.evaluate import print_summary
from rag.cli.terminal import out, table
from rag.evaluation.summary import Summary, machine

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
QUESTIONS = CHECKOUT / "tools" / "questions"


class NotMeasured(Exception):
    """Something that a benchmark needs is not here; the message says what, and where it comes from."""


@dataclass(frozen=True)
class Bench:
    """Where benchmarks find and leave things.

    `cache` holds downloaded repositories, `peers` the other systems, `results` the JSON and HTML written; the
    report of all lies beside `results`. `pairs` is a file of questions to measure the answer cache with.
    """

    cache: Path
    peers: Path
    results: Path
    pairs: Path | None = None


PARTS: list[dict[str, Any]] = []
"""What the benchmark at work has shown so far, as JSON values, for the report."""


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table under its title and the machine's name. The report has it too."""
    out(f"\n{title}\n{where()}")
    table("", columns, rows)
    cells = [[str(cell) for cell in row] for row in rows]
    PARTS.append({"table": title, "columns": [*columns], "rows": cells})


def show_quality(title: str, summary: Summary, saved: str = "") -> None:
    """Print what a summary says; the report draws it.

    With its questions, if the evaluation was saved as `saved`.json among the results.
    """
    out(f"\n{title}\n{where()}")
    print_summary(summary)
    PARTS.append({"quality": title, "summary": asdict(summary), "saved": saved})


def draw(
    title: str,
    axes: tuple[str, str],
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    log: bool = False,
) -> None:
    """Curves of (x, y) for the report; nothing is printed. See `rag.display.svg.curves`."""
    PARTS.append({"curves": title, "axes": [*axes], "series": {**series}, "log": log})


def not_measured(reason: object) -> None:
    """Say that something that a part of a benchmark needs is not here; the rest goes on."""
    out(f"not measured: {reason}")
    PARTS.append({"missing": str(reason)})


def where() -> str:
    """The machine and what else it has to do."""
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"[{machine()}{_processor()}{load}]"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next(
        (", " + line.partition(":")[2].strip() for line in lines if line.startswith("model name")), ""
    )


@dataclass(frozen=True)
class Finished:
    """A process that has ended. CPU is its own and that of the processes it waited for."""

    wall_s: float
    cpu_s: float
    peak_rss_mb: float
    output: str


def run_process(command: Sequence[str], environment: Mapping[str, str]) -> Finished:
    """Run a command to its end.

    Raises:
        NotMeasured: it fails; the message ends with what it said.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=errors, env=dict(environment))
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            said = errors.read().decode(errors="replace").strip()[-800:]
            raise NotMeasured(f"{' '.join(command)} ended with {process.returncode}: {said}")
        text = output.read().decode()
    peak_mb = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
    return Finished(wall_s, usage.ru_utime + usage.ru_stime, peak_mb, text)


def resident_mb(pid: int | str = "self") -> float:
    """Memory of a process that lies in RAM, in MB; NaN where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return float("nan")
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024 / 1e6


def cpu_s(pid: int) -> float:
    """Processor time that a running process and its ended children took; NaN where nobody tells."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def percentiles_ms(seconds: Sequence[float]) -> str:
    """`p50 / p95` in milliseconds."""
    p50, p95 = np.percentile(np.array(seconds) * 1000, [50, 95])
    return f"{p50:.2f} / {p95:.2f}"
