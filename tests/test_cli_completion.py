"""Completion in a real bash, with the script that `rag --show-completion` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import rag

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


def test_conversations_marks_and_repositories_complete(sample_repo: Path) -> None:
    asked = ("ask", sample_repo, "How are sessions signed?", "--conversation")
    for name in ("login", "logout", "a name with spaces"):
        assert rag(*asked, name).code == 0
    assert rag("turns", "mark", "important", "--conversation", "login").code == 0
    assert completed("ask", "--conversation", "log") == ["logout", "login"]
    assert completed("turns", "show", "--conversation", "") == ["logout", "login"]
    assert completed("turns", "show", "--mark", "i") == ["important"]
    assert completed("turns", "unmark", "") == ["important"]
    assert completed("ask", str(sample_repo)[:-3]) == [str(sample_repo)]
    assert completed("ask", sample_repo, "Wh") == []
    assert completed("tur") == ["turns"]
    assert completed("turns", "unm") == ["unmark"]


def test_an_indexed_repository_completes_before_anything_is_asked(sample_repo: Path) -> None:
    assert rag("index", sample_repo).code == 0
    assert completed("chat", "") == [str(sample_repo)]


@pytest.mark.parametrize("memory", ["", "a file that is not a database", "redis://127.0.0.1:1"])
def test_nothing_is_printed_where_nothing_can_be_read(
    memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if memory.startswith("a file"):
        (tmp_path / "turns.db").write_text(memory)
        memory = f"sqlite:///{tmp_path / 'turns.db'}"
    monkeypatch.setenv("RAG_MEMORY", memory)
    monkeypatch.setenv("RAG_CONTEXT_TOKENS", "not a number")
    assert completed("ask", "--conversation", "") == []
    assert not (tmp_path / "rag-home" / "turns.db").exists()
