"""What the benchmarks share: their inputs, how they print, and how they say that something is not there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rag.cli.evaluate import print_summary
from rag.cli.terminal import out, table
from rag.evaluation.summary import Summary, machine

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
QUESTIONS = CHECKOUT / "tools" / "questions"
_LOOK_EVERY_S = 0.2


class NotMeasured(Exception):
    """Something that a benchmark needs is not here; the message says what, and where it comes from."""


@dataclass(frozen=True)
class Bench:
    """Where benchmarks find and leave things.

    `cache` holds downloaded repositories, `peers` the other systems, `results` the JSON written.
    """

    cache: Path
    peers: Path
    results: Path


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table under its title and the machine's name."""
    out(f"\n{title}\n{where()}")
    table("", columns, rows)


def show_quality(title: str, summary: Summary) -> None:
    """Print what a summary says."""
    out(f"\n{title}\n{where()}")
    print_summary(summary)


def not_measured(reason: object) -> None:
    """Say that something that a part of a benchmark needs is not here; the rest goes on."""
    out(f"not measured: {reason}")


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
    """A process that has ended. CPU is its own and that of the processes it waited for.

    `peak_mb` is the peak of its own memory, or with `family`, of it and the processes that it started.
    """

    wall_s: float
    cpu_s: float
    peak_mb: float
    output: str


def run_process(command: Sequence[str], environment: Mapping[str, str], *, family: bool = False) -> Finished:
    """Run a command to its end.

    With `family` the memory of all its processes is looked at a few times a second; pages that they share
    count once.

    Raises:
        NotMeasured: it fails; the message ends with what it said.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=errors, env=dict(environment))
        with _PeakOfFamily(process.pid if family else None) as watched:
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
    return Finished(wall_s, usage.ru_utime + usage.ru_stime, watched.peak_mb or peak_mb, text)


class _PeakOfFamily:
    """Watches the memory of a process and of those it started, until it is left; None watches nothing."""

    def __init__(self, pid: int | None) -> None:
        self.peak_mb = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(pid,)) if pid is not None else None

    def __enter__(self) -> _PeakOfFamily:
        if self._thread:
            self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ended.set()
        if self._thread:
            self._thread.join()

    def _watch(self, pid: int) -> None:
        while True:
            self.peak_mb = max(self.peak_mb, sum(map(proportional_mb, family(pid))))
            if self._ended.wait(_LOOK_EVERY_S):
                return


def family(pid: int) -> list[int]:
    """A process and those that its threads started and that still run."""
    children: list[str] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it has ended meanwhile
            children += thread.read_text().split()
    return [pid, *(each for child in children for each in family(int(child)))]


def proportional_mb(pid: int) -> float:
    """Memory of a process in RAM, in MB, where a page of n processes counts as 1/n; 0 for none that runs."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6


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
