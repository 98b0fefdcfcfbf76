"""The fuzzer itself, and fresh inputs of all targets but the largest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rag.code.grammars import has_grammar
from rag.code.languages import language_of_path
from tools.fuzz.case import Case, case_of
from tools.fuzz.minimise import minimised
from tools.fuzz.pool import Worker
from tools.fuzz.state import BLOCK, Progress, State
from tools.fuzz.targets import TARGETS, Bounds
from tools.fuzz.targets.files import GRAMMAR_FILES
from tools.fuzz.worker import Order, Outcome


@pytest.mark.parametrize("target", [target for target in TARGETS if target != "source"])
def test_fresh_inputs_pass(check_fresh_inputs: Callable[[str], None], target: str) -> None:
    check_fresh_inputs(target)


def test_every_input_is_repeatable(fuzz_worker: Worker) -> None:
    for target in TARGETS:
        orders = [Order(target, 3, "a"), Order(target, 3, "a"), Order(target, 3, "b")]
        first, same, other = map(fuzz_worker.case, orders)
        assert first == same != other


def test_every_grammar_is_fuzzed() -> None:
    from rag.code import grammars

    fuzzed = {language_of_path(name) for name in GRAMMAR_FILES}
    assert {language for language in fuzzed if language and has_grammar(language)} == set(grammars._MODULES)


@pytest.mark.parametrize(
    ("text", "kind"), [("raise", "raised"), ("slow", "slow"), ("memory", "memory"), ("", "passed")]
)
def test_what_exceeds_a_bound_is_noticed(text: str, kind: str, tmp_path: Path) -> None:
    from tools.fuzz.worker import measured

    class Fault(TARGETS["names"]):  # type: ignore[misc]
        def run(self, case: Case) -> None:
            if case.text == "raise":
                raise KeyError(case.text)
            if case.text == "slow":
                sum(range(3_000_000))
            if case.text == "memory":
                bytearray(b"x" * (20 << 20))

    held = bytearray(31 << 20)  # once it is freed, the C library gives no memory of 20 MB back by itself
    del held
    bounds = Bounds(seconds=0.01 if kind == "slow" else 1.0, memory_bytes=8 << 20)
    assert measured(Fault(tmp_path), case_of("names", "", text), bounds).kind == kind


def test_a_failing_input_is_made_shorter() -> None:
    class Fails(Worker):
        def run(self, order: Order) -> Outcome:
            assert order.case is not None
            return Outcome("slow" if b"<<" in order.case.content else "passed")

    case = case_of("names", "", "a" * 1_000 + "<<" + "b" * 1_000)
    assert minimised(Fails(), case, Outcome("slow")).content == b"<<"


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    state = State(tmp_path, "a", {"names": 3 * BLOCK, "texts": BLOCK})
    assert len(state.blocks()) == 4
    state.finish("names", 1, Progress(0, run=BLOCK))
    assert State(tmp_path, "a", {"names": 3 * BLOCK, "texts": BLOCK}).blocks() == [
        block for block in state.blocks() if block != ("names", 1)
    ]
    assert len(State(tmp_path, "another seed", {"names": BLOCK}).blocks()) == 1
