"""What conftest promises every other test."""

import os
import socket
from pathlib import Path

import pytest
from conftest import git


def test_only_loopback_can_be_reached() -> None:
    with pytest.raises(AssertionError, match=r"192\.0\.2\.1"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
    with pytest.raises(AssertionError, match=r"example\.org"):
        socket.socket().connect(("example.org", 80))
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()[:2]):
        pass


def test_no_setting_of_the_machine_is_seen(tmp_path: Path) -> None:
    assert Path(os.environ["HOME"]).is_relative_to(tmp_path)
    assert [name for name in os.environ if name.startswith(("RAG_", "OPENAI_"))] == ["RAG_HOME", "RAG_REWORD"]


def test_the_sample_repository_is_the_same_every_time(sample_repo: Path) -> None:
    assert git(sample_repo, "status", "--porcelain") == ""
    assert git(sample_repo, "log", "--format=%an %aI") == "Sample Author 2026-01-01T12:00:00+00:00"
