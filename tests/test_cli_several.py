"""Conversations about several repositories, and about a part of one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command import rag

SIGNED = "How are sessions signed?"


@pytest.fixture
def copy(sample_repo: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample_repo, tmp_path / "copy"))


@pytest.mark.parametrize("words", ["show", "check"])
def test_a_turn_about_several_repositories_says_which_holds_what(
    sample_repo: Path, copy: Path, words: str
) -> None:
    rag("ask", "-r", sample_repo, "-r", copy, SIGNED)
    cited = [line.strip() for line in rag("turns", words).out.splitlines() if line.strip().startswith("[")]
    assert {place.split()[1].split(":")[0] for place in cited} == {"sample_repo", "copy"}
    rag("ask", copy, SIGNED)
    assert "copy:" not in rag("turns", words).out


def test_what_a_conversation_leaves_out_has_not_to_be_said_again(sample_repo: Path) -> None:
    rag("ask", sample_repo, SIGNED, "--include", "snip/**", "--conversation", "part")
    for more in (["--conversation", "part"], ["-c"]):
        done = rag("ask", sample_repo, "And is there a test?", *more, "--json")
        assert done.code in (0, 1), done.err
        assert all(source["path"].startswith("snip/") for source in done.json["sources"])
    other = rag("ask", sample_repo, SIGNED, "--include", "docs/**", "--conversation", "part")
    assert (other.code, "choose another name" in other.err) == (2, True)
