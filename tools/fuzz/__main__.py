"""`python -m tools.fuzz`: run, repeat one input, run the kept ones."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue

from tools.fuzz.case import Case, is_text, kept_cases
from tools.fuzz.minimise import minimised, signature
from tools.fuzz.pool import Worker
from tools.fuzz.state import BLOCK, Progress, State
from tools.fuzz.targets import TARGETS
from tools.fuzz.worker import Order, Outcome

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests" / "fuzz" / "corpus" / "cases.json"
TOTAL = 100_000
SEED = "1"
_WRITTEN = 1
"""So many failures of one kind are minimised and written; the others are counted."""


def main() -> int:
    """Read the command line and do what it names; 1 when an input failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".fuzz", help="where state and failures are kept"
    )
    parser.add_argument("--seed", default=SEED, help="another seed makes other inputs and begins anew")
    parser.add_argument("--count", type=int, default=TOTAL, help="inputs in all; with --target, of it")
    parser.add_argument("--target", choices=sorted(TARGETS), help="only this one")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="stop after so long; the next run continues"
    )
    commands = parser.add_subparsers(dest="command")
    repeat = commands.add_parser("repeat", help="run one input again")
    repeat.add_argument("name", choices=sorted(TARGETS))
    repeat.add_argument("number", type=int)
    repeat.add_argument("--save", type=Path, help="write the input to a file")
    commands.add_parser("kept", help="run the kept inputs")
    given = parser.parse_args()
    if given.command == "repeat":
        return _repeat(Order(given.name, given.number, given.seed), given.save)
    if given.command == "kept":
        return _kept()
    return Run(given).run()


def planned(count: int, target: str | None = None) -> dict[str, int]:
    """How many inputs each target gets of `count`."""
    if target is not None:
        return {target: count}
    shares = sum(kind.share for kind in TARGETS.values())
    return {name: max(1, round(count * kind.share / shares)) for name, kind in TARGETS.items()}


class Run:
    """A run over all inputs, with several workers."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.folder: Path = given.folder if given.target is None else given.folder / given.target
        self.state = State(self.folder, given.seed, planned(given.count, given.target))
        self.workers: int = given.workers
        self.deadline = time.monotonic() + 60 * given.minutes
        self.queue: SimpleQueue[tuple[str, int]] = SimpleQueue()

    def run(self) -> int:
        """Run what is left, print the result; 1 when an input failed."""
        began, seconds = time.monotonic(), self.state.seconds
        for block in self.state.blocks():
            self.queue.put(block)
        threads = [threading.Thread(target=self._work) for _ in range(self.workers)]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                time.sleep(1)
                self.state.seconds = seconds + time.monotonic() - began
        except KeyboardInterrupt:
            self.deadline = 0.0
        for thread in threads:
            thread.join()
        self.state.save()
        self._print()
        return 1 if self.state.failures else 0

    def _work(self) -> None:
        worker = Worker()
        try:
            while time.monotonic() < self.deadline:
                try:
                    name, block = self.queue.get_nowait()
                except Empty:
                    return
                self._block(worker, name, block)
        finally:
            worker.close()

    def _block(self, worker: Worker, name: str, block: int) -> None:
        counted = Progress(0)
        for number in range(block * BLOCK, min((block + 1) * BLOCK, self.state.targets[name].planned)):
            if time.monotonic() > self.deadline:
                return
            order = Order(name, number, self.state.seed)
            outcome = worker.run(order)
            counted.count(outcome, outcome.cpu_s / TARGETS[name].bounds.cpu_s(outcome.size))
            if outcome.kind != "passed":
                self._note(worker, order, outcome)
        self.state.finish(name, block, counted)

    def _note(self, worker: Worker, order: Order, outcome: Outcome) -> None:
        kind = f"{order.target} {_kind_of(outcome)} {signature(outcome)}"
        with self.state.lock:
            alike = sum(row["kind"] == kind for row in self.state.failures)
            row = {"kind": kind, "number": order.number, "label": outcome.label[:200], "size": outcome.size}
            row |= {"why": outcome.why[:500]}
            if not any(r["kind"] == kind and r["number"] == order.number for r in self.state.failures):
                self.state.failures.append(row)
        what = f"{outcome.label[:60]!r} {outcome.size} B: {outcome.kind}: {outcome.why}"
        print(f"{order.target} {order.number} {what}", flush=True)
        if alike < _WRITTEN:
            case = minimised(worker, worker.case(order), outcome)
            write_case(self.folder / "failures", f"{order.target}-{order.number}", case, outcome)

    def _print(self) -> None:
        total = sum(progress.run for progress in self.state.targets.values())
        for name, progress in self.state.targets.items():
            rate = progress.run / progress.cpu_s if progress.cpu_s else 0.0
            print(
                f"{name:12} {progress.run:7,} of {progress.planned:7,}  {progress.failed:5,} failed  "
                f"{progress.size_bytes / 1e6:8.1f} MB  {progress.cpu_s:8.1f} s CPU  {rate:5.0f}/s  "
                f"slowest {progress.slowest:.0%} of its time"
            )
        seconds = self.state.seconds
        rate = total / max(seconds, 1)
        print(f"{total:,} inputs in {seconds / 60:.1f} min ({rate:.0f}/s), seed {self.state.seed}")


def _kind_of(outcome: Outcome) -> str:
    """What tells failures of a target apart; where something is raised, the place says it better."""
    return (
        outcome.kind if outcome.kind == "raised" else f"{outcome.kind} {outcome.label.partition('?')[0][:60]}"
    )


def write_case(folder: Path, name: str, case: Case, outcome: Outcome) -> None:
    """Write a failing input and what became of it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.input").write_bytes(case.content)
    note = f"{case.target}\n{case.label}\n{outcome.kind}: {outcome.why}\n"
    note += repr(case.text[:2_000]) if is_text(case.content) else repr(case.content[:2_000])
    (folder / f"{name}.txt").write_text(note + "\n", encoding="utf-8", errors="backslashreplace")


def _repeat(order: Order, save: Path | None) -> int:
    worker = Worker()
    case = worker.case(order)
    if save is not None:
        save.write_bytes(case.content)
    outcome = worker.run(order)
    worker.close()
    print(f"{case.label!r}, {len(case.content)} bytes: {case.text[:200]!r}")
    print(outcome)
    return 0 if outcome.kind == "passed" else 1


def _kept() -> int:
    worker, failed = Worker(), 0
    for why, case in kept_cases(KEPT):
        outcome = worker.run(Order(case.target, case=case))
        failed += outcome.kind != "passed"
        cost = f"{outcome.cpu_s:6.2f} s {outcome.peak_bytes / 1e6:7.1f} MB"
        print(f"{outcome.kind:8} {cost}  {case.target} {case.label}: {why} {outcome.why}", flush=True)
    worker.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
