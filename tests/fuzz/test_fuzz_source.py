"""Fresh inputs of the largest target: the source files of strangers."""

from __future__ import annotations

from collections.abc import Callable


def test_fresh_files_pass(check_fresh_inputs: Callable[[str], None]) -> None:
    check_fresh_inputs("source")
