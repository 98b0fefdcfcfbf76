"""`rag jobs`, `rag worker` and `rag index --list-file`, as a person uses them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import rag, rag_process
from conftest import git

from tests.servers.postgres import LocalPostgres


@pytest.fixture
def url(postgres: LocalPostgres) -> Iterator[str]:
    with postgres.database("jobs") as address:
        yield address


@pytest.fixture
def repositories(tmp_path: Path, sample_repo: Path) -> Path:
    """Three repositories and one that is not there, in a list with a comment."""
    folder = tmp_path / "repositories"
    folder.mkdir()
    for name in ("a", "b"):
        git(sample_repo, "clone", "--quiet", str(sample_repo), str(folder / name))
        (folder / name / f"own_{name}.py").write_text(f"def own_{name}():\n    return 1\n")
    git(folder / "b", "tag", "first")
    listed = tmp_path / "list.txt"
    listed.write_text(
        "# ours\nrepositories/a\n\nrepositories/missing\nrepositories/b\nrepositories/b\tfirst\n"
    )
    return listed


def test_a_list_is_indexed_and_failures_are_named(repositories: Path) -> None:
    done = rag_process("index", "--list-file", repositories, "--slots", "2")
    assert done.code == 2
    assert done.out.startswith("failed\trepositories/missing\t") and done.out.count("\n") == 1
    assert "3 indexed, 1 failed" in done.err and "overhead per repository" in done.err
    names = [row["source"] for row in rag("index", "--list", "--json").json]
    assert len(names) == 3 and sum("@first" in name or "first" in name for name in names) == 1


def test_a_second_run_continues_an_unfinished_one(repositories: Path, tmp_path: Path) -> None:
    assert rag_process("index", "--list-file", repositories).code == 2
    again = rag_process("index", "--list-file", repositories, "--json")
    assert again.code == 2
    assert [one["skipped"] for one in again.json["repositories"]].count(True) == 3
    (tmp_path / "repositories" / "missing").mkdir()
    (tmp_path / "repositories" / "missing" / "found.py").write_text("def found():\n    return 1\n")
    whole = rag_process("index", "--list-file", repositories)
    assert whole.code == 0 and "1 indexed, 0 failed, 3 done by an earlier run" in whole.err
    fresh = rag_process("index", "--list-file", repositories)  # the run before was complete
    assert fresh.code == 0 and "4 indexed, 0 failed in" in fresh.err


@pytest.mark.parametrize("again", [(), ("--again",)])
def test_a_home_that_cannot_be_written_is_one_error_at_once(
    repositories: Path, again: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_HOME", "/proc/self/home")
    done = rag_process("index", "--list-file", repositories, *again)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert "cannot write /proc/self/home/lists" in line and "RAG_HOME" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("index", "--slots", "2"), "need --list-file"),
        (("index", ".", "--list-file", "list.txt"), "either"),
        (("index", "--list-file", "nowhere.txt"), "cannot be read"),
        (("index", "--list-file", "empty.txt"), "lists 0 repositories"),
        (("jobs", "list"), "RAG_SHARED"),
        (("worker",), "RAG_SHARED"),
        (("worker", "--shared", "redis://user:pw-of-mine@host"), "Postgres"),
        (("jobs", "list", "--shared", "postgresql://u:pw-of-mine@/x?host=/nowhere"), "cannot be reached"),
    ],
)
def test_what_is_missing_is_named(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("# nothing\n")
    (tmp_path / "list.txt").write_text("a\n")
    done = rag(*arguments, cwd=tmp_path)
    assert done.code == 2 and message in done.err
    assert "pw-of-mine" not in done.err + done.out


def test_jobs_are_added_run_shown_and_cancelled(url: str, sample_repo: Path) -> None:
    shared = ("--shared", url)
    added = rag("jobs", "add", sample_repo, *shared)
    assert (added.code, added.out) == (0, "job 1 is waiting\n")
    assert rag("jobs", "add", sample_repo, *shared).out == added.out  # the same
    other = rag("jobs", "add", sample_repo, "--rebuild", *shared, "--json").json
    listed = rag("jobs", "list", *shared, "--json").json
    assert [(job["id"], job["state"]) for job in listed] == [
        (other["id"], "waiting"),
        (1, "waiting"),
    ]
    assert rag("jobs", "cancel", other["id"], *shared).out == f"job {other['id']} is cancelled\n"
    assert rag("jobs", "cancel", other["id"], *shared).code == 2
    worker = rag_process("worker", "--drain", "--json", *shared)
    assert (worker.code, worker.json) == (0, {"done": 1}), worker.err
    assert str(sample_repo) in worker.err and "done after" in worker.err
    shown = rag("jobs", "show", "1", *shared, "--json").json
    assert shown["state"] == "done" and shown["result"]["report"]["action"] == "built"
    assert "built" in rag("jobs", "show", "1", *shared).out
    assert rag("jobs", "show", "77", *shared).code == 2
    assert rag("search", sample_repo, "shorten a link", "--no-refresh").code == 0


def test_workers_index_a_list(url: str, repositories: Path) -> None:
    from threading import Thread

    from rag.backends.queue.postgres import PostgresJobs
    from rag.settings import Settings, default_home
    from rag.worker.loop import Worker

    queue = PostgresJobs(url)
    worker = Worker(queue, Settings(home=default_home()), poll_s=0.05)
    thread = Thread(target=worker.run)
    thread.start()
    try:
        done = rag("index", "--list-file", repositories, "--shared", url, "--json")
    finally:
        worker.stop()
        thread.join(60)
        queue.close()
    assert done.code == 2
    found = {one["source"]: one["error"] for one in done.json["repositories"]}
    assert [bool(error) for error in found.values()].count(True) == 1 and found["repositories/missing"]
    assert json.dumps(done.json["overhead_s"]) == "null"
    assert worker.ended["done"] == 3
