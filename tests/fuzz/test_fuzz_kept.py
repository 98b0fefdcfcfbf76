"""The inputs that are kept: in time, in bounded memory, without a traceback."""

from __future__ import annotations

import pytest

from tools.fuzz.__main__ import KEPT
from tools.fuzz.case import Case, kept_cases
from tools.fuzz.pool import Worker
from tools.fuzz.worker import Order

CASES = kept_cases(KEPT)


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[why for why, _ in CASES])
def test_kept_inputs_pass(fuzz_worker: Worker, case: Case) -> None:
    outcome = fuzz_worker.run(Order(case.target, case=case))
    assert outcome.kind == "passed", outcome
