"""A file system without space: what was acknowledged stays, the old index answers, and each error says so."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from command import Ran, rag, rag_process
from live_server import serving

from rag.backends.queue.postgres import PostgresJobs
from rag.job_queue import Jobs
from rag.service import Engine, locate
from rag.service.repositories.jobs import index_request
from rag.settings import Settings
from rag.worker.loop import Worker
from tests.servers.postgres import LocalPostgres

QUESTION = "How are sessions signed?"
SIZE_MB = 24


class SmallDisk:
    """A file system of a few MB, with a file that fills it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._ballast = folder, folder / "ballast"

    def fill(self) -> None:
        with pytest.raises(OSError, match="No space left"), self._ballast.open("wb", buffering=0) as file:
            while file.write(b"\0" * 4096):
                pass

    def free(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    """The data folder of the commands is on it; temporary files are elsewhere."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    monkeypatch.setenv("RAG_HOME", str(folder / "home"))
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def change(repository: Path) -> None:
    (repository / "walrus.py").write_text("def walrus():\n    return 'tusks'\n")


def questions() -> list[str]:
    return [turn["question"] for turn in rag("turns", "show", "--json").json]


def no_room(done: Ran, code: int) -> bool:
    """Whether a command failed with this code, for want of space, and said what to do."""
    last = done.err.splitlines()[-1]
    is_named = any(words in last.lower() for words in ("no space", "disk is full", "disk i/o error"))
    return done.code == code and is_named and ("free some disk space" in last or "make room" in last)


def test_what_was_stored_is_read_and_asked_while_nothing_can_be_written(
    disk: SmallDisk, sample_repo: Path, tmp_path: Path
) -> None:
    assert rag_process("ask", sample_repo, QUESTION).code == 0
    change(sample_repo)
    disk.fill()
    assert no_room(rag_process("index", sample_repo), 2)
    found = rag_process("search", sample_repo, QUESTION, "--json")
    assert found.code == 0 and "as it is" in found.err and "1 file differs" in found.err
    assert found.json["coverage"][0]["not_indexed"] == ["walrus.py"]
    asked = rag_process("ask", "And when do they expire?", "-c")
    assert "sessions.py" in asked.out and no_room(asked, 2)
    assert questions() == [QUESTION]
    assert rag_process("turns", "backup", tmp_path / "kept.db").code == 0
    assert rag_process("turns", "backup", disk.folder / "home" / "kept.db").code == 2
    doctor = rag_process("doctor")
    assert doctor.code != 0 and "MB free" in doctor.out
    disk.free()
    assert rag("index", sample_repo, "--json").json["changed"] == 1
    assert rag_process("ask", "And when do they expire?", "-c").code == 0
    assert questions() == [QUESTION, "And when do they expire?"]
    assert [path for path in disk.folder.rglob("*") if "tmp" in path.name] == []


def test_a_publication_that_does_not_fit_changes_nothing(
    disk: SmallDisk, sample_repo: Path, tmp_path: Path
) -> None:
    stores = disk.folder / "stores"
    stores.mkdir()
    here = {"RAG_HOME": str(tmp_path / "publisher"), "RAG_STORES": str(stores)}
    assert rag_process("index", sample_repo, "--publish-as", "app", env=here).code == 0
    before = rag_process("storage", "shared", "--json", env=here).json
    change(sample_repo)
    disk.fill()
    assert no_room(rag_process("index", sample_repo, "--publish-as", "app", env=here), 2)
    assert rag_process("storage", "shared", "--json", env=here).json == before
    disk.free()
    assert rag_process("index", sample_repo, "--publish-as", "app", env=here).code == 0
    after = rag_process("storage", "shared", "--json", env=here).json
    assert after != before and not list(stores.rglob("*.tmp"))


def test_a_worker_without_space_gives_the_job_back_and_does_it_later(
    disk: SmallDisk, sample_repo: Path, postgres: LocalPostgres
) -> None:
    with (
        postgres.database("disk") as url,
        closing(PostgresJobs(url, first_backoff_s=0.01, max_attempts=2)) as jobs,
    ):
        _fail_then_succeed(jobs, disk, sample_repo)


def _fail_then_succeed(jobs: Jobs, disk: SmallDisk, sample_repo: Path) -> None:
    settings = Settings(home=disk.folder / "home")
    job = index_request(locate(str(sample_repo)), settings).enqueue(jobs)
    disk.fill()
    notices: list[str] = []
    Worker(jobs, settings, notice=notices.append, poll_s=0.05).run(drain=True)
    failed = jobs.job(job.id)
    assert failed.state == "failed" and failed.attempts == 2
    assert "no space" in failed.error.lower() and "free some disk space" in failed.error
    disk.free()
    index_request(locate(str(sample_repo)), settings).enqueue(jobs)
    assert Worker(jobs, settings, poll_s=0.05).run(drain=True)["done"] == 1


def test_a_server_answers_on_and_stores_nothing_that_it_does_not_acknowledge(
    disk: SmallDisk, sample_repo: Path
) -> None:
    source = locate(str(sample_repo))
    with closing(Engine(Settings(home=disk.folder / "rag-home"))) as engine:
        engine.repository(source)
    with serving(disk.folder, repositories=(("app", source),)) as server:
        server.ready()
        body = {"question": QUESTION, "repositories": ["app"], "conversation": "about"}
        assert server.post("/api/ask", body).status == 200
        disk.fill()
        sent = [server.post("/api/ask", body) for _ in range(40)]
        acknowledged = 1 + sum(reply.status == 200 for reply in sent)
        refused = [reply for reply in sent if reply.status != 200]
        print(f"\n{acknowledged} acknowledged, {len(refused)} refused: {refused[-1].json if refused else ''}")
        assert refused and all("free some disk space" in str(reply.json) for reply in refused)
        search = {"question": QUESTION, "repositories": ["app"]}
        assert server.post("/api/search", search).json["hits"]
        seen = server.get("/api/conversations/about").json["all_turns"]
        assert len(seen) == acknowledged
        disk.free()
        assert server.post("/api/ask", body).status == 200
        assert len(server.get("/api/conversations/about").json["all_turns"]) == acknowledged + 1


def test_a_read_only_disk_is_read_and_an_answer_says_that_it_is_not_stored(
    disk: SmallDisk, sample_repo: Path
) -> None:
    assert rag("ask", sample_repo, QUESTION, "--conversation", "k").code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(disk.folder)], check=True)
    again = rag("ask", sample_repo, "Where is a token checked?", "--conversation", "k")
    assert (again.code, "authenticate" in again.out) == (0, True)
    assert "not stored" in again.err
    assert "read-only" in again.err
    assert questions() == [QUESTION]
    for command in ("turns list", "turns search signed", "turns check", "facts list"):
        shown = rag(*command.split())
        assert (shown.code, bool(shown.out)) == (0, True), command
    assert rag("search", sample_repo, "token").code == 0
