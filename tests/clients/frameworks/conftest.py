"""A home of its own and a copy of the sample repository, in the folder that a test runs in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

SAMPLE = Path(__file__).resolve().parents[3] / "data" / "sample_repo"
QUESTION = "Where is a token checked?"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_HOME", str(tmp_path / "rag-home"))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SAMPLE, tmp_path / "data" / "sample_repo")
    return tmp_path


def check_chunks(found: list[tuple[str, dict]]) -> None:
    """Texts and metadata are true of the files, best first."""
    assert found
    for text, about in found:
        lines = (SAMPLE / about["path"]).read_text().splitlines()
        assert "\n".join(lines[about["start_line"] - 1 : about["end_line"]]).rstrip() == text.rstrip()
        assert about["source"] == f"{about['path']}:{about['start_line']}-{about['end_line']}"
        assert len(about["blob"]) == 40
        assert "commit" in about
    scores = [about["score"] for _, about in found]
    assert scores == sorted(scores, reverse=True)
    assert found[0][1]["path"] == "snip/auth.py"
