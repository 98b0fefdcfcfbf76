"""A data folder that may be read and not written: what is stored is shown, and answers say what is not."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest
from command import Ran, rag_process

QUESTION = "How are sessions signed?"
_CAPBSET_DROP, _DAC_OVERRIDE = 24, 1


def without_privilege() -> None:
    """Let permissions count for root too, in the program that this process executes next."""
    if not os.getuid() and ctypes.CDLL(None).prctl(_CAPBSET_DROP, _DAC_OVERRIDE, 0, 0, 0):
        raise OSError("the privilege cannot be dropped")


class Home:
    """A data folder, and the repository that it is about."""

    def __init__(self, folder: Path, repository: Path) -> None:
        self.folder, self.repository = folder, repository

    def __call__(self, *arguments: object) -> Ran:
        env = {"RAG_HOME": str(self.folder)}
        return rag_process(*arguments, env=env, preexec_fn=without_privilege)

    def freeze(self) -> None:
        self._permit(0o555, 0o444)

    def thaw(self) -> None:
        self._permit(0o755, 0o644)

    def _permit(self, folder: int, file: int) -> None:
        for path in [self.folder, *self.folder.rglob("*")]:
            path.chmod(folder if path.is_dir() else file)


@pytest.fixture
def home(tmp_path: Path, sample_repo: Path) -> Home:
    (tmp_path / "kept").mkdir()
    home = Home(tmp_path / "kept", sample_repo)
    try:
        home("--version")
    except OSError:
        pytest.skip("root ignores permissions here")
    return home


def test_everything_is_read_and_an_answer_says_that_it_is_not_stored(home: Home) -> None:
    assert home("ask", home.repository, QUESTION, "--conversation", "k").code == 0
    home.freeze()
    asked = home("ask", home.repository, "Where is a token checked?", "--conversation", "k")
    assert (asked.code, "authenticate" in asked.out) == (0, True)
    assert "not stored" in asked.err and "set RAG_HOME to a writable folder" in asked.err
    assert "disk space" not in asked.err
    for command in ("turns list", "turns search signed", "turns show --conversation k", "facts list"):
        shown = home(*command.split())
        assert (shown.code, bool(shown.out)) == (0, True), command
    refused = home("turns", "delete", "--conversation", "k", "--yes")
    assert refused.code == 2 and "read-only" in refused.err
    turns = home("turns", "show", "--conversation", "k", "--json").json
    assert [turn["question"] for turn in turns] == [QUESTION]


def test_an_index_alone_is_enough_for_answers(home: Home) -> None:
    assert home("index", home.repository).code == 0
    home.freeze()
    asked = home("ask", home.repository, "Where is a token checked?")
    assert (asked.code, "authenticate" in asked.out, "not stored" in asked.err) == (0, True, True)
    assert "no conversations yet" in home("turns", "list").err
    assert sorted(path.name for path in home.folder.iterdir()) == ["stores"]


def test_without_an_index_the_error_says_what_to_do(home: Home) -> None:
    home.freeze()
    for command in ("ask", "search"):
        asked = home(command, home.repository, QUESTION)
        assert (asked.code, asked.out) == (2, "")
        assert asked.err.rstrip().endswith("Permission denied; set RAG_HOME to a writable folder")


def test_what_the_owner_writes_meanwhile_is_read(home: Home) -> None:
    assert home("ask", home.repository, QUESTION, "--conversation", "k").code == 0
    home.freeze()
    assert len(home("turns", "show", "--conversation", "k", "--json").json) == 1
    home.thaw()
    assert home("ask", home.repository, QUESTION, "--conversation", "k").code == 0
    home.freeze()
    assert len(home("turns", "show", "--conversation", "k", "--json").json) == 2
