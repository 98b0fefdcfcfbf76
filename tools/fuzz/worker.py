"""A process that runs inputs one after the other and measures each."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import shutil
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, Literal

from tools.fuzz.case import Case
from tools.fuzz.targets import TARGETS, Bounds, Refused, Target

Kind = Literal["passed", "raised", "slow", "memory", "died"]
_PRIVATE = ("RAG_", "OPENAI_", "AZURE_OPENAI_", "ANTHROPIC_", "XDG_", "GIT_")
_FIELD = re.compile(r"^(\w+):\s+(\d+) kB", re.MULTILINE)
_WARMING, _AGAIN = 3, 2
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an input."""

    kind: Kind
    why: str = ""
    cpu_s: float = 0.0
    peak_bytes: int = 0
    label: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Order:
    """Which input to run: a number of a target's, or a case. `make` returns the case without running it."""

    target: str
    number: int = 0
    seed: str = ""
    case: Case | None = None
    make: bool = False


def make_case(order: Order, target: Target) -> Case:
    """The input that an order names."""
    if order.case is not None:
        return order.case
    return target.make(Random(f"{order.seed}:{order.target}:{order.number}"))


def serve(connection: Connection, folder: Path) -> None:
    """Run what is ordered until the other end closes."""
    _isolate(folder)
    targets: dict[str, Target] = {}
    warm: set[str] = set()
    while True:
        try:
            order: Order = connection.recv()
        except (EOFError, KeyboardInterrupt):
            break
        target = targets.get(order.target)
        if target is None:
            place = folder / order.target
            place.mkdir(exist_ok=True)
            target = targets[order.target] = TARGETS[order.target](place)
        case = make_case(order, target)
        if order.make:
            connection.send(case)
            continue
        if order.target not in warm:
            warm.add(order.target)
            _warm(target)
        connection.send(measured(target, case, target.allowed(case)))
    for target in targets.values():
        target.close()
    shutil.rmtree(folder, ignore_errors=True)


def _warm(target: Target) -> None:
    """Run some inputs that nobody measures, so that what is loaded at first is there."""
    for number in range(_WARMING):
        target.ready()
        with suppress(Exception):  # what they do wrong is no news: all runs begin with the same
            target.run(target.make(Random(f"warm {number}")))


def measured(target: Target, case: Case, bounds: Bounds) -> Outcome:
    """Run a case, and again if it exceeded a bound; it fails if it does so each time."""
    outcome = _run(target, case, bounds)
    for _ in range(_AGAIN):
        if outcome.kind not in ("slow", "memory"):
            break
        outcome = _run(target, case, bounds)
    return outcome


def _run(target: Target, case: Case, bounds: Bounds) -> Outcome:
    target.ready()
    _trim()
    before_s, before = _cpu_s(), _reset_peaks()
    why = ""
    try:
        target.run(case)
    except Refused as error:
        why = str(error)
    except Exception as error:  # noqa: BLE001 - to find what is raised is what this program is for
        why = _frames(error)
    size = len(case.content)
    outcome = Outcome("passed", "", _cpu_s() - before_s, _above(before), case.label, size)
    if why:
        return replace(outcome, kind="raised", why=why)
    if outcome.cpu_s > bounds.cpu_s(size):
        return replace(outcome, kind="slow", why=f"{outcome.cpu_s:.2f} s")
    if outcome.peak_bytes > bounds.peak_bytes(size):
        return replace(outcome, kind="memory", why=f"{outcome.peak_bytes / 1e6:.0f} MB")
    return outcome


def _frames(error: Exception) -> str:
    """The error and the last frames of rag that it came through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/rag/" in f.filename][-2:]
    places = " < ".join(f"{Path(f.filename).name}:{f.name}" for f in reversed(frames))
    return f"{type(error).__name__}: {str(error)[:200]} ({places})"


# ---------------------------------------------------------------- measuring


def descendants(pid: int) -> Iterator[int]:
    """The processes that a process started, and theirs."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(word) for thread in threads for word in (thread / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        yield child
        yield from descendants(child)


def cpu_of(pid: int) -> float:
    """The CPU time of a process and of those of its children that ended; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(ticks) for ticks in fields[11:15]) * _TICK_S


def memory_of(pid: int, field: str = "VmRSS") -> int:
    """Bytes that a process holds (VmRSS) or held at most (VmHWM); 0 when it is gone."""
    try:
        found = dict(_FIELD.findall(Path(f"/proc/{pid}/status").read_text()))
    except OSError:
        return 0
    return int(found.get(field, 0)) * 1024


def _cpu_s() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    running = sum(cpu_of(child) for child in descendants(os.getpid()))
    return time.process_time() + ended.ru_utime + ended.ru_stime + running


def _trim() -> None:
    """Give free memory back to the system: what an input takes of it would not count as new."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def _reset_peaks() -> dict[int, int]:
    """Begin new peaks for this process and those it started; return what each holds now."""
    held = {}
    for pid in (os.getpid(), *descendants(os.getpid())):
        try:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        except OSError:
            continue
        held[pid] = memory_of(pid)
    return held


def _above(before: dict[int, int]) -> int:
    """The highest peak of a process above what it held before; a new one began with what Python needs."""
    pids = (os.getpid(), *descendants(os.getpid()))
    return max(memory_of(pid, "VmHWM") - before.get(pid, before[os.getpid()]) for pid in pids)


def _isolate(folder: Path) -> None:
    """A home of its own, none of the user's settings, and nothing on the outputs."""
    for name in [name for name in os.environ if name.startswith(_PRIVATE)]:
        del os.environ[name]
    os.environ |= {"HOME": str(folder), "RAG_HOME": str(folder / "rag-home"), "GIT_CONFIG_NOSYSTEM": "1"}
    nowhere = os.open(folder / "output.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    sys.stdout = sys.stderr = open(nowhere, "w", closefd=False, errors="replace")  # noqa: SIM115
