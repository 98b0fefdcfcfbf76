"""A worker runs jobs of every kind in child processes, and loses none."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import git
from unfinished_index import unfinished

from rag.backends.queue.postgres import PostgresJobs
from rag.job_queue import Jobs, QueuedJob
from rag.processes import Process, python_command, start
from rag.service import Engine, locate
from rag.service.repositories.jobs import index_request, public_error
from rag.settings import Settings, plain_settings
from rag.worker.loop import Worker
from rag.worker.process import JobProcess
from rag.worker.tasks import run
from tests.servers.postgres import LocalPostgres

DEADLINE_S = 300


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def url(postgres: LocalPostgres) -> Iterator[str]:
    with postgres.database("workers") as address:
        yield address


@pytest.fixture
def jobs(url: str) -> Iterator[Jobs]:
    with closing(PostgresJobs(url, first_backoff_s=0.01, max_attempts=3)) as queue:
        yield queue


def drained(jobs: Jobs, settings: Settings, **more: Any) -> list[str]:
    """Run all jobs; return the worker's notices."""
    notices: list[str] = []
    Worker(jobs, settings, notice=notices.append, poll_s=0.05, **more).run(drain=True)
    return notices


def until(found: Callable[[], Any]) -> Any:
    """Wait until something is true."""
    deadline = time.monotonic() + DEADLINE_S
    while not (value := found()):
        assert time.monotonic() < deadline, "it did not happen in time"
        threading.Event().wait(0.02)
    return value


def large(folder: Path, *, files: int = 400) -> Path:
    """A repository that takes a second to index, with more files longer."""
    for number in range(files):
        body = "".join(
            f"def function_{number}_{n}(value):\n    'Return {n} of file {number}.'\n    return value\n\n"
            for n in range(20)
        )
        path = folder / f"package{number % 20}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body + "\n")
    git(folder, "init", "--quiet", "--template=")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Begin")
    return folder


def test_an_index_job_builds_the_store(jobs: Jobs, settings: Settings, sample_repo: Path) -> None:
    source = locate(str(sample_repo))
    job = index_request(source, settings).enqueue(jobs)
    notices = drained(jobs, settings)
    done = jobs.job(job.id)
    assert (done.state, done.attempts) == ("done", 0), done.error
    assert done.result["report"]["action"] == "built" and done.result["report"]["chunks"] > 10
    assert any("done after" in text for text in notices)
    engine = Engine(settings)
    assert engine.stored(source).store.live_count == done.result["report"]["chunks"]
    engine.close()


def test_a_second_job_of_a_store_updates_it(jobs: Jobs, settings: Settings, sample_repo: Path) -> None:
    source = locate(str(sample_repo))
    actions = []
    for rebuild in (False, False, True):
        job = index_request(source, settings, rebuild=rebuild).enqueue(jobs)
        drained(jobs, settings)
        actions.append(jobs.job(job.id).result["report"]["action"])
    assert actions == ["built", "fresh", "rebuilt"]


def test_a_repository_that_is_not_there_is_not_tried_again(
    jobs: Jobs, settings: Settings, tmp_path: Path, sample_repo: Path
) -> None:
    gone = index_request(locate(str(sample_repo)), settings).enqueue(jobs)
    sample_repo.rename(tmp_path / "elsewhere")
    drained(jobs, settings)
    failed = jobs.job(gone.id)
    assert (failed.state, failed.attempts) == ("failed", 1) and str(sample_repo) in failed.error


def test_arguments_of_another_version_are_refused(jobs: Jobs, settings: Settings) -> None:
    wrong = [jobs.enqueue("a", {"source": {"location": "/x"}})]
    wrong.append(jobs.enqueue("b", {}))
    drained(jobs, settings)
    assert [jobs.job(job.id).state for job in wrong] == ["failed", "failed"]
    assert [jobs.job(job.id).attempts for job in wrong] == [1, 1]


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("ext::sh -c 'touch owned'", "cannot be used"),
        ("--upload-pack=touch owned:x", "cannot be used"),
        ("ssh://-oProxyCommand=touch%20owned/x", "cannot be used"),
        ("-x:y", "cannot be used"),
        ("../../etc", "neither an absolute path nor a git URL"),
        ("http://127.0.0.1:9/" + "a" * 3_000_000, "3,000,019 characters"),
    ],
)
def test_a_job_of_a_stranger_is_refused_at_once(
    jobs: Jobs, settings: Settings, location: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = {"location": location, "ref": None, "filters": {"include": [], "exclude": []}}
    job = jobs.enqueue("strange", {"source": source, "embedder": "static"})
    drained(jobs, settings)
    ended = jobs.job(job.id)
    assert (ended.state, ended.attempts) == ("failed", 1) and said in ended.error
    assert not list(tmp_path.rglob("*owned*"))


@pytest.mark.parametrize("args", [{}, {"source": None}, {"name": 1}, {"source": 1, "rebuild": "x"}])
def test_arguments_of_any_shape_end_the_job_and_not_the_process(
    settings: Settings, args: dict[str, Any]
) -> None:
    job = {"kind": "index", "args": args, "settings": plain_settings(settings)}
    error = run(job, lambda message: None)["error"]
    assert error["message"] and error["retry"] is False


@pytest.mark.parametrize("refs", ["main", 5, True, {}, [1]])
def test_refs_of_a_stranger_are_refused_before_anything_is_read(
    settings: Settings, refs: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = {"location": str(tmp_path / "none"), "ref": None, "filters": {"include": [], "exclude": []}}
    args = {"source": source, "refs": refs}
    job = {"kind": "index", "args": args, "settings": plain_settings(settings)}
    error = run(job, lambda message: None)["error"]
    assert error["kind"] == "SettingsError" and not error["retry"]
    assert "no list of patterns" in error["message"]
    assert capfd.readouterr().err == ""


def test_a_long_error_is_one_message(settings: Settings, sample_repo: Path) -> None:
    filters = {"include": [], "exclude": []}
    source = {"location": str(sample_repo), "ref": "x" * 4_000, "filters": filters}
    args = {"source": source, "embedder": "y" * 5_000_000}
    job = {"kind": "index", "args": args, "settings": plain_settings(settings)}
    assert len(run(job, lambda message: None)["error"]["message"]) < 20_000


def test_a_poisoned_repository_holds_no_other_back(
    jobs: Jobs, settings: Settings, sample_repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of one repository dies each time; the other job is done meanwhile."""
    poisoned = jobs.enqueue("poison", {"source": {"location": "/poison"}}, asked=True)
    good = index_request(locate(str(sample_repo)), settings).enqueue(jobs)
    send = JobProcess.send

    def sent(self: JobProcess, job: Any) -> None:
        if job["args"]["source"]["location"] == "/poison":
            os.kill(self.pid, signal.SIGKILL)
        send(self, job)

    monkeypatch.setattr(JobProcess, "send", sent)
    drained(jobs, settings)
    failed = jobs.job(poisoned.id)
    assert (failed.state, failed.attempts) == ("failed", 3) and "ended with -9" in failed.error
    assert jobs.job(good.id).state == "done"


def test_a_running_job_is_cancelled(jobs: Jobs, settings: Settings, sample_repo: Path) -> None:
    source = locate(str(sample_repo))
    job = index_request(source, settings).enqueue(jobs)
    worker = Worker(jobs, settings, poll_s=0.05)
    thread = threading.Thread(target=worker.run, kwargs={"drain": True})
    with unfinished(settings.home, source):
        thread.start()
        until(lambda: jobs.job(job.id).stage not in ("", "starting"))
        assert jobs.cancel(job.id)
        thread.join(DEADLINE_S)
    assert jobs.job(job.id).state == "cancelled" and worker.ended["cancelled"] == 1
    assert not Engine(settings).store_file(source).exists()


def test_a_worker_that_stops_gives_its_job_back(jobs: Jobs, settings: Settings, sample_repo: Path) -> None:
    job = index_request(locate(str(sample_repo)), settings).enqueue(jobs)
    worker = Worker(jobs, settings, poll_s=0.05)
    thread = threading.Thread(target=worker.run)
    with unfinished(settings.home, sample_repo):
        thread.start()
        until(lambda: jobs.job(job.id).stage not in ("", "starting"))
        worker.stop(grace_s=0)
        thread.join(DEADLINE_S)
    waiting = jobs.job(job.id)
    assert (waiting.state, waiting.attempts, worker.ended["released"]) == ("waiting", 0, 1)


SECRETS = [
    ("cannot reach https://user:hunter2-token@example.org/a.git", "hunter2-token"),
    ("the key sk-test-0123456789 was refused", "sk-test-0123456789"),
    ("git said: ghp_" + "Zr8kQ2vXw5TnB7mJc3LpHs9DyFa6GeUo41Ki", "Zr8kQ2vXw5"),
    ("the queue postgresql://rag:s3cret-pass@db/rag is away; s3cret-pass", "s3cret-pass"),
]


@pytest.mark.parametrize(("message", "secret"), SECRETS)
def test_an_error_is_stored_without_secrets(message: str, secret: str, tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path, api_key="sk-test-0123456789", shared="postgresql://rag:s3cret-pass@db/rag"
    )
    assert secret not in public_error(message, settings)
    assert public_error("an ordinary message", settings) == "an ordinary message"


# ---------------------------------------------------------------- real workers on a real server


@pytest.fixture
def started(url: str, settings: Settings) -> Iterator[Callable[[], Process[bytes]]]:
    """Starts `rag worker` as a process."""
    running: list[Process[bytes]] = []

    def begin() -> Process[bytes]:
        from rag.processes import closed_environment

        environment = closed_environment({"RAG_HOME": str(settings.home), "RAG_SHARED": url})
        running.append(
            start(python_command("rag", "worker"), environment=environment, stderr=sys.__stderr__.fileno())
        )
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.wait()


def test_a_worker_killed_in_mid_build_loses_nothing(
    url: str, settings: Settings, tmp_path: Path, started: Callable[[], Process[bytes]]
) -> None:
    lease_s = 4.0
    jobs = PostgresJobs(url, lease_s=lease_s)
    source = locate(str(large(tmp_path / "large", files=1_000)))
    job = index_request(source, settings).enqueue(jobs)
    first = started()
    until(lambda: jobs.job(job.id).stage in ("chunk", "embed"))
    first.kill()
    killed = time.monotonic()
    first.wait()
    notices = drained(jobs, settings)
    took_s = time.monotonic() - killed
    done = jobs.job(job.id)
    assert (done.state, done.attempts) == ("done", 1), notices
    seconds = done.result["report"]["seconds"]
    bound_s = lease_s + 2 * seconds + 30
    print(
        f"\na worker was killed; done {took_s:.1f} s later by another (lease {lease_s:.0f} s, build "
        f"{seconds:.1f} s, bound {bound_s:.1f} s)"
    )
    assert took_s < bound_s
    engine = Engine(settings)
    assert engine.stored(source).store.live_count == done.result["report"]["chunks"]
    engine.close()
    jobs.close()


def test_many_workers_build_each_generation_once(url: str, settings: Settings, sample_repo: Path) -> None:
    """Four workers, twenty requests for four stores at once: each store is built once, never by two."""
    queues = [PostgresJobs(url) for _ in range(4)]
    sources = [locate(str(sample_repo), None)]
    for number in range(3):
        copy = sample_repo.parent / f"copy{number}"
        git(sample_repo, "clone", "--quiet", str(sample_repo), str(copy))
        (copy / "own.py").write_text(f"def own_{number}():\n    return {number}\n")
        sources.append(locate(str(copy)))
    asked: list[QueuedJob] = []
    for number in range(20):
        request = index_request(sources[number % 4], settings, rebuild=number >= 12)
        asked.append(request.enqueue(queues[number % 4], namespace=f"n{number % 3}"))
    overlaps: list[str] = []
    running: set[str] = set()
    lock = threading.Lock()
    workers = []
    for queue in queues:
        worker = Worker(queue, settings, poll_s=0.05)
        leased = queue.lease

        def lease(name: str, leased: Any = leased, **more: Any) -> QueuedJob | None:
            with lock:
                job = leased(name, **more)
                if job is not None:
                    store = job.key.partition(":")[2]
                    states = queues[0].jobs(states=["running"])
                    overlaps.extend(one.key for one in states if one.id != job.id and one.key.endswith(store))
                    running.add(job.key)
                return job

        queue.lease = lease  # type: ignore[method-assign]
        workers.append(worker)
    threads = [threading.Thread(target=worker.run, kwargs={"drain": True}) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    ended = queues[0].jobs(limit=1000)
    assert {job.state for job in ended} == {"done"}
    assert len({job.id for job in asked}) == len(ended) == 8  # four stores, each built and rebuilt
    assert overlaps == [] and len(running) == 8
    for queue in queues:
        queue.close()


def test_a_worker_waits_for_the_server_of_its_queue(
    settings: Settings, sample_repo: Path, tmp_path: Path
) -> None:
    with LocalPostgres() as server:
        jobs = PostgresJobs(server.url())
        jobs.jobs()
        notices: list[str] = []
        worker = Worker(jobs, settings, notice=notices.append, poll_s=0.05)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            server.kill()
            until(lambda: any("the queue cannot be used" in text for text in notices))
            server.start()
            job = index_request(locate(str(sample_repo)), settings).enqueue(jobs)
            until(lambda: jobs.job(job.id).state == "done")
        finally:
            worker.stop(grace_s=0)
            thread.join(DEADLINE_S)
            jobs.close()


def test_a_worker_that_was_silent_gives_up(url: str, settings: Settings, sample_repo: Path) -> None:
    """It was stopped for longer than its lease; when it goes on, another worker has the job."""
    jobs = PostgresJobs(url, lease_s=1.0)
    job = index_request(locate(str(sample_repo)), settings).enqueue(jobs)
    silent = PostgresJobs(url, lease_s=1.0)
    worker = Worker(silent, settings, poll_s=0.05)
    reported, go_on = threading.Event(), threading.Event()
    report = silent.report

    def paused(*arguments: Any) -> QueuedJob:
        if reported.is_set():
            go_on.wait(DEADLINE_S)
        reported.set()
        return report(*arguments)

    silent.report = paused  # type: ignore[method-assign]
    thread = threading.Thread(target=worker.run)
    with unfinished(settings.home, sample_repo):
        thread.start()
        reported.wait(DEADLINE_S)
        other = until(lambda: jobs.lease("other"))
        assert (other.id, other.attempts) == (job.id, 1)
        go_on.set()
        until(lambda: worker.ended["lost"])
    assert jobs.report(other, "embed", 1, 2).worker == "other"
    worker.stop(grace_s=0)
    thread.join(DEADLINE_S)
    jobs.close()
    silent.close()
