"""A repository of an open process is current at every question, and an unchanged one costs no `git`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rag.answer.extract import ExtractiveGenerator
from rag.service import Dialog, Engine, Repository, converse, locate
from rag.service.repositories.background_budget import Allowance
from rag.settings import Settings
from rag.types import Answer

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel has no inotify")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        yield engine


@pytest.fixture
def current(engine: Engine, sample_repo: Path) -> Repository:
    return engine.current(engine.repository(locate(str(sample_repo))))


@pytest.fixture
def no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


def commit(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *who, "commit", "-q", "-m", "more", *arguments], cwd=root, check=True)


def test_a_question_about_an_unchanged_repository_starts_no_git(
    engine: Engine, current: Repository, no_git: None
) -> None:
    dialog = Dialog(engine, [engine.current(current)])
    answer = list(converse(dialog, "Where is a short code made?", ExtractiveGenerator()))[-1]
    assert isinstance(answer, Answer)
    assert answer.sources
    assert answer.coverage[0].checked_ago_s == 0.0


def test_an_unchanged_repository_is_the_same_one(engine: Engine, current: Repository) -> None:
    assert engine.current(current) is current


def test_a_change_is_in_the_next_answer(engine: Engine, current: Repository, sample_repo: Path) -> None:
    (sample_repo / "snip" / "fresh.py").write_text("def brand_new_thing() -> int:\n    return 1\n")
    now = engine.current(current)
    assert "snip/fresh.py" in now.store.files()
    assert now.checkout.dirty
    assert engine.current(now) is now
    assert "snip/fresh.py" in engine.current(current).store.files(), "whichever version is given"


def test_a_commit_that_changes_no_file_is_seen(
    engine: Engine, current: Repository, sample_repo: Path
) -> None:
    commit(sample_repo, "--allow-empty")
    now = engine.current(current)
    assert now.checkout.commit != current.checkout.commit
    assert engine.current(current).checkout == now.checkout, "also for who still has the earlier one"


def test_a_rebuilt_index_replaces_the_one_before(engine: Engine, current: Repository) -> None:
    rebuilt = engine.repository(current.source, rebuild=True)
    assert engine.current(current).store.header["id"] == rebuilt.store.header["id"]


def test_a_ref_is_not_watched_and_compared_as_long_as_there_is_time(
    engine: Engine, sample_repo: Path
) -> None:
    allowance = Allowance(0.0, 60.0)
    at_head = engine.current(engine.repository(locate(str(sample_repo), "HEAD")), allowance)
    commit(sample_repo, "--allow-empty")
    allowance.spend(60.0)
    assert engine.current(at_head, allowance) is at_head
    assert engine.current(at_head).checkout.commit != at_head.checkout.commit
