"""A worker process for each module of these tests, so that two cores have something to do; fresh inputs.

Fresh inputs differ with each commit; a failure names the seed, the target and the number that repeat it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.fuzz.__main__ import planned
from tools.fuzz.pool import Worker
from tools.fuzz.worker import Order

FRESH = 2_000
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    running = Worker()
    yield running
    running.close()


@pytest.fixture(scope="session")
def seed() -> str:
    """The commit; a fixed one where there is no git."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()[:12] or "0"


@pytest.fixture
def check_fresh_inputs(worker: Worker, seed: str) -> Callable[[str], None]:
    """Runs what a target gets of the fresh inputs."""

    def check(target: str) -> None:
        for number in range(planned(FRESH)[target]):
            outcome = worker.run(Order(target, number, seed))
            again = f"python -m tools.fuzz --seed {seed} repeat {target} {number}"
            assert outcome.kind == "passed", f"{outcome}; {again}"

    return check
