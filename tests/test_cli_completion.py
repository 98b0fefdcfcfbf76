"""Completion in a real bash, with the script that `rag --show-completion` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")

_SCRIPT = """
eval "$(_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1 rag --show-completion bash)"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_rag_completion rag
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(*words: object) -> list[str]:
    """What bash offers for the last word; nothing is printed besides."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", _SCRIPT, "bash", "rag", *map(str, words)],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_complete() -> None:
    assert completed("tur") == ["turns"]
    assert completed("turns", "unm") == ["unmark"]
