"""Fixtures of the fuzz tests: a worker process for each module, so that two cores have something to do.

Fresh inputs differ with each commit, but not in CI, where chance does not decide what lands. A failure names
the seed, the target and the number that repeat it. `make fuzz` tries a hundred times as many.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tools.fuzz.pool import Worker

FRESH = 1_000
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def fuzz_worker() -> Iterator[Worker]:
    from tools.fuzz.pool import Worker

    running = Worker()
    yield running
    running.close()


@pytest.fixture(scope="session")
def fuzz_seed() -> str:
    """The commit; a fixed one in CI, as Hypothesis has it there, and where there is no git."""
    if os.environ.get("CI"):
        return "ci"
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()[:12] or "0"


@pytest.fixture
def check_fresh_inputs(fuzz_worker: Worker, fuzz_seed: str) -> Callable[[str], None]:
    """Runs what a target gets of the fresh inputs."""
    from tools.fuzz.__main__ import planned
    from tools.fuzz.worker import Order

    def check(target: str) -> None:
        for number in range(planned(FRESH)[target]):
            outcome = fuzz_worker.run(Order(target, number, fuzz_seed))
            again = f"python -m tools.fuzz --seed {fuzz_seed} repeat {target} {number}"
            assert outcome.kind == "passed", f"{outcome}; {again}"

    return check
