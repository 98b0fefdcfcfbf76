"""`rag jobs` and `rag worker`, as a person uses them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command import rag, rag_process

from tests.servers.postgres import LocalPostgres


@pytest.fixture
def url(postgres: LocalPostgres) -> Iterator[str]:
    with postgres.database("jobs") as address:
        yield address


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("jobs", "list"), "RAG_SHARED"),
        (("worker",), "RAG_SHARED"),
        (("worker", "--shared", "redis://user:pw-of-mine@host"), "Postgres"),
        (("jobs", "list", "--shared", "postgresql://u:pw-of-mine@/x?host=/nowhere"), "cannot be reached"),
    ],
)
def test_what_is_missing_is_named(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
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
