"""What shared jobs cost, and how long a killed worker delays one: a Postgres queue and real workers."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg

from rag.backends.queue.postgres import PostgresJobs, queue_of
from rag.job_queue import Jobs, QueuedJob
from rag.processes import Process, closed_environment, python_command, start
from rag.service import locate
from rag.service.jobs import index_request
from rag.settings import Settings
from tests.servers import postgres
from tests.servers.postgres import LocalPostgres
from tools.benchmarks.bench import Bench, NotMeasured, show

JOBS, BACKLOG, REPOSITORIES, KILLS = 300, 10_000, 20, 3
MANY, LEASES = 100_000, 20
_PATIENCE_S = 180.0


def jobs(bench: Bench) -> None:
    """Jobs per second of the queue, the overhead of a worker per job, and the delay by a killed worker."""
    if why := postgres.missing():
        raise NotMeasured(why)
    with LocalPostgres(durable=True) as server:
        _rates(server)
        _many_waiting(server)
        _overhead(server)
        _killed(server)


def _rates(server: LocalPostgres) -> None:
    rows = []
    for backlog in (0, BACKLOG):
        for threads in (1, 4):
            with server.database(f"rates{backlog}_{threads}") as url, closing(PostgresJobs(url)) as queue:
                _fill(queue, backlog)
                added_s = _timed(_fill, queue, JOBS, "asked")
                leases: list[float] = []
                took_s = _timed(_empty, queue, threads, leases)
                rows.append(
                    (
                        f"{backlog:,}",
                        threads,
                        f"{JOBS / added_s:,.0f}",
                        f"{JOBS / took_s:,.0f}",
                        f"{statistics.median(leases) * 1000:.1f}",
                    )
                )
    columns = ("others waiting", "threads", "added/s", "leased, reported, completed/s", "lease p50 ms")
    show(f"the queue alone: {JOBS} jobs that do nothing, in 5 namespaces", columns, rows)


def _many_waiting(server: LocalPostgres) -> None:
    """Lease from a queue in which many jobs wait, before and after Postgres has collected statistics."""
    rows = []
    for namespaces in (1, 50):
        with server.database(f"many{namespaces}") as url, closing(PostgresJobs(url)) as queue:
            queue.lease("bench")  # creates the tables
            add_waiting_jobs(url, MANY, namespaces)
            before_ms = statistics.median(_timed(queue.lease, "bench") * 1000 for _ in range(LEASES))
            with psycopg.connect(url, autocommit=True) as db:
                db.execute("ANALYZE")
            after_ms = statistics.median(_timed(queue.lease, "bench") * 1000 for _ in range(LEASES))
            rows.append((f"{MANY:,}", namespaces, f"{before_ms:.1f}", f"{after_ms:.1f}"))
    columns = ("waiting", "namespaces", "lease p50 ms, no statistics", "with statistics")
    show("leases from a long queue", columns, rows)


def add_waiting_jobs(url: str, count: int, namespaces: int) -> None:
    """Add jobs that wait in the namespaces n0, n1 …; much faster than one by one."""
    queues = [queue_of(f"n{number}") for number in range(namespaces)]
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SET search_path = rag_jobs")
        db.execute(
            "WITH added AS (INSERT INTO procrastinate_jobs (queue_name, task_name, lock, queueing_lock) "
            "SELECT (%(queues)s::text[])[1 + g %% %(n)s], 'rag.index', g::text, g::text "
            "FROM generate_series(1, %(count)s) g RETURNING id, lock) "
            "INSERT INTO rag_job (id, kind, key, namespace, asked) "
            "SELECT id, 'index', lock, 'n' || lock::int %% %(n)s, false FROM added",
            {"queues": queues, "n": namespaces, "count": count},
        )


def _fill(queue: Jobs, count: int, kind: str = "backlog") -> None:
    for number in range(count):
        queue.enqueue(f"{kind} {number}", {}, namespace=f"n{number % 5}", asked=kind == "asked")


def _empty(queue: Jobs, threads: int, leases: list[float]) -> None:
    def work(count: int) -> None:
        for _ in range(count):
            began = time.perf_counter()
            job = queue.lease("bench")
            leases.append(time.perf_counter() - began)
            assert job is not None
            queue.report(job, "embed", 1, 2)
            queue.complete(job, {})

    workers = [threading.Thread(target=work, args=[JOBS // threads]) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _overhead(server: LocalPostgres) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder, server.database("overhead") as url:
        sources = [_repository(Path(folder) / f"r{number}", 4) for number in range(REPOSITORIES)]
        settings = Settings(home=Path(folder) / "home", shared=url)
        with closing(PostgresJobs(url)) as queue:
            for what in ("first index", "nothing changed"):
                asked = [index_request(locate(str(source)), settings).enqueue(queue) for source in sources]
                worker = _worker(settings, "--drain")
                took_s = _timed(worker.wait, _PATIENCE_S)
                reports = [queue.job(job.id).result["report"] for job in asked]
                inside_s = sum(report["seconds"] for report in reports)
                rows.append((what, REPOSITORIES, f"{took_s:.1f}", f"{inside_s:.1f}", _ms(took_s, inside_s)))
    columns = ("", "repositories", "rag worker --drain, s", "indexing itself, s", "overhead per job, ms")
    show("a worker on small repositories, with its start", columns, rows)


def _ms(took_s: float, inside_s: float) -> str:
    return f"{(took_s - inside_s) / REPOSITORIES * 1000:.0f}"


def _killed(server: LocalPostgres) -> None:
    rows = []
    for number in range(KILLS):
        with tempfile.TemporaryDirectory() as folder, server.database(f"killed{number}") as url:
            settings = Settings(home=Path(folder) / "home", shared=url)
            source = _repository(Path(folder) / "repository", 3000)
            with closing(PostgresJobs(url)) as queue:
                job = index_request(locate(str(source)), settings).enqueue(queue)
                first, second = _worker(settings), None
                try:
                    _until(lambda job: job.stage not in ("", "starting", "scan"), queue, job.id)
                    second = _worker(settings)
                    first.kill()
                    killed = time.monotonic()
                    _until(lambda job: job.attempts == 1, queue, job.id)
                    noticed_s = time.monotonic() - killed
                    _until(lambda job: job.has_ended, queue, job.id)
                    done = queue.job(job.id)
                finally:
                    for worker in filter(None, (first, second)):
                        worker.kill()
                        worker.wait()
            rows.append(
                (
                    number + 1,
                    done.state,
                    f"{noticed_s:.1f}",
                    f"{time.monotonic() - killed:.1f}",
                    f"{done.result['report']['seconds']:.1f}",
                )
            )
    columns = ("kill", "state", "noticed after s", "done after s", "build s")
    show("kill -9 of a worker in mid-build; another worker runs", columns, rows)


def _repository(folder: Path, files: int) -> Path:
    folder.mkdir(parents=True)
    for number in range(files):
        functions = "".join(
            f"def function_{number}_{n}(value):\n    'Return {n}.'\n    return value\n\n" for n in range(20)
        )
        (folder / f"module{number}.py").write_text(functions)
    return folder


def _worker(settings: Settings, *arguments: str) -> Process[bytes]:
    environment = closed_environment({"RAG_HOME": str(settings.home), "RAG_SHARED": settings.shared})
    with Path("/dev/null").open("ab") as nowhere:
        return start(python_command("rag", "worker", *arguments), environment=environment, stderr=nowhere)


def _timed(call: Callable[..., object], *arguments: object) -> float:
    began = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - began


def _until(wanted: Callable[[QueuedJob], bool], queue: Jobs, job_id: int) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not wanted(queue.job(job_id)):
        if time.monotonic() > deadline:
            raise NotMeasured("the workers did not get that far in time")
        threading.Event().wait(0.05)
