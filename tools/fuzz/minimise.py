"""A failing input made shorter while it still fails in the same way (Zeller's ddmin, bounded in time)."""

from __future__ import annotations

import time
from dataclasses import replace

from tools.fuzz.case import Case
from tools.fuzz.pool import Worker
from tools.fuzz.worker import Order, Outcome

MOST_S = 8.0


def signature(outcome: Outcome) -> str:
    """What two failures of one fault have in common."""
    return outcome.why.rpartition(" (")[2] if outcome.kind == "raised" else outcome.kind


def minimised(worker: Worker, case: Case, outcome: Outcome, *, most_s: float = MOST_S) -> Case:
    """The shortest input that was found in time."""
    deadline = time.monotonic() + most_s
    wanted, parts = signature(outcome), 2
    while len(case.content) > 1 and time.monotonic() < deadline:
        size = max(1, len(case.content) // parts)
        for start in range(0, len(case.content), size):
            if time.monotonic() > deadline:
                return case
            shorter = replace(case, content=case.content[:start] + case.content[start + size :])
            found = worker.run(Order(case.target, case=shorter))
            if found.kind != "passed" and signature(found) == wanted:
                case, parts = shorter, max(2, parts - 1)
                break
        else:
            if size == 1:
                return case
            parts = min(2 * parts, len(case.content))
    return case
