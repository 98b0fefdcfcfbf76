"""What removes or rewrites turns names them first, and never removes a turn that another process added."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command import command, rag, rag_process

FIRST, SECOND = "How are sessions signed?", "And when do they expire?"


@pytest.fixture
def asked(sample_repo: Path, tmp_path: Path) -> Iterator[Path]:
    """Two turns about the sample repository, then one about another repository."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "jokes.py").write_text("def joke():\n    return 'Why did the session expire?'\n")
    assert rag("ask", sample_repo, FIRST, "--conversation", "login").code == 0
    assert rag("ask", SECOND, "--conversation", "login").code == 0
    assert rag("ask", other, "Where is the joke?", "--conversation", "jokes", "--no-gate").code == 0
    yield other


def questions(conversation: str) -> list[str]:
    return [turn["question"] for turn in rag("turns", "show", "--conversation", conversation, "--json").json]


def test_a_command_that_names_none_means_the_repository_it_runs_in(asked, sample_repo, tmp_path):
    done = rag("turns", "undo", "--json", cwd=sample_repo / "snip")
    assert done.json["taken_back"] == 1
    assert "remove turn 2 of login (about sample_repo)" in done.err and SECOND in done.err
    assert (questions("login"), len(questions("jokes"))) == ([FIRST], 1)
    assert "1. " + FIRST in rag("turns", "show", cwd=sample_repo).out
    outside = rag("turns", "undo", cwd=tmp_path)
    assert outside.out == "removed 1 turn of jokes\n" and "of jokes (about other)" in outside.err


def test_an_indexed_repository_that_nothing_was_asked_of_has_no_last_conversation(asked, tmp_path):
    third = tmp_path / "third"
    third.mkdir()
    (third / "a.py").write_text("def a():\n    return 1\n")
    assert rag("index", third).code == 0
    for words in (("undo",), ("delete", "1"), ("rewind", "0", "--yes"), ("edit", "1", "--answer", "no")):
        done = rag("turns", *words, cwd=third)
        assert done.code == 2 and f"no conversation about {third}" in done.err, done
    assert len(questions("login")) == 2 and len(questions("jokes")) == 1


def test_what_is_removed_or_corrected_is_named_first(asked, sample_repo):
    done = rag("turns", "edit", "2", "--answer", "Never.", cwd=sample_repo)
    assert "correct turn 2 of login (about sample_repo)" in done.err and SECOND in done.err
    done = rag("turns", "delete", "1", cwd=sample_repo)
    assert "delete turn 1 of login" in done.err and FIRST in done.err
    done = rag("turns", "delete", "--conversation", "login", "--yes")
    assert "delete turn 2 of login" in done.err and SECOND in done.err


def test_a_fork_without_a_turn_of_its_own_is_not_taken_for_the_last_conversation(asked, sample_repo):
    rag("turns", "fork", "1", "--conversation", "login", "--name", "other-way")
    for words in (("undo",), ("delete", "1"), ("rewind", "0", "--yes"), ("rename", "new")):
        done = rag("turns", *words, cwd=sample_repo)
        assert done.code == 2 and done.err.endswith("other-way, or its parent: --conversation login\n"), done
    assert questions("other-way") == [FIRST] and len(questions("login")) == 2
    rag("turns", "delete", "--conversation", "login", "--yes")
    orphan = rag("turns", "undo", cwd=sample_repo)
    assert orphan.code == 2 and orphan.err.endswith("name the conversation: --conversation other-way\n"), (
        orphan
    )
    assert rag("turns", "undo", "--conversation", "other-way").code == 0


@contextmanager
def on_a_terminal(*words: str) -> Iterator[tuple[subprocess.Popen[bytes], int, list[bytes]]]:
    """The command with a terminal as stdin, once it has asked; its other end, and what it printed."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command(*words), stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        os.close(theirs)
        printed: list[bytes] = []
        assert process.stderr is not None
        while b"[y/N]" not in b"".join(printed):
            more = process.stderr.read1()
            assert more, printed
            printed.append(more)
        yield process, ours, printed
        process.wait(timeout=60)
    os.close(ours)


@pytest.mark.parametrize(
    "words",
    [
        ("undo", "--conversation", "login"),
        ("rewind", "0", "--conversation", "login"),
        ("delete", "--conversation", "login"),
    ],
)
def test_a_turn_that_another_process_adds_is_never_removed(asked, words):
    with on_a_terminal("turns", *words) as (process, terminal, printed):
        assert SECOND.encode() in b"".join(printed)
        assert rag_process("ask", "Is there a test for it?", "--conversation", "login").code == 0
        os.write(terminal, b"y\n")
        assert process.wait(timeout=60) == 2
        assert process.stderr is not None
        assert b"has changed" in process.stderr.read()
    assert questions("login") == [FIRST, SECOND, "Is there a test for it?"]


def test_on_a_terminal_nothing_is_removed_without_a_yes(asked):
    for words in (("turns", "undo"), ("turns", "delete", "1", "--conversation", "login"), ("cache", "clear")):
        with on_a_terminal(*words) as (process, terminal, _):
            os.write(terminal, b"n\n")
            assert process.wait(timeout=60) == 2
    assert len(questions("login")) == 2 and len(questions("jokes")) == 1
    with on_a_terminal("turns", "undo", "--conversation", "login") as (process, terminal, _):
        os.write(terminal, b"y\n")
        assert process.wait(timeout=60) == 0
    assert questions("login") == [FIRST]
