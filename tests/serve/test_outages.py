"""Servers whose database goes away: clear errors within a bound, nothing acknowledged is lost, no restart."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from live_server import IndexedSample, Reply, Served, serving

from rag.backends.postgres import connection
from rag.backends.postgres.server import PostgresServer
from tests.servers import postgres as servers
from tests.servers.cut import Cut
from tests.servers.postgres import LocalPostgres

QUESTION = {"question": "Where is a short code made?", "repositories": ["sample"], "conversation": "codes"}
MARGIN_S = 30.0
"""What a busy machine may take for everything but waiting."""


@pytest.fixture(scope="module")
def database() -> Iterator[LocalPostgres]:
    """A server with few connections, which tests may stop."""
    if why := servers.missing():
        pytest.skip(why)
    with LocalPostgres(max_connections="20") as server:
        yield server


@contextmanager
def served_from(url: str, home: Path, indexed: IndexedSample) -> Iterator[Served]:
    repositories = (("sample", indexed.put_into(home)),)
    with serving(home, engine={"shared": url, "memory": url}, repositories=repositories) as server:
        yield server.ready()


def asked(server: Served) -> Reply:
    return server.post("/api/ask", QUESTION)


def until_answered(server: Served) -> float:
    """Ask until an answer is acknowledged; return how long that took."""
    began = time.monotonic()
    server.wait_until(lambda: asked(server).status == 200)
    return time.monotonic() - began


def stored(server: Served, conversation: str) -> list[str]:
    return [turn["id"] for turn in server.get(f"/api/conversations/{conversation}").json["all_turns"]]


@pytest.mark.parametrize("outage", ["refuse", "silence"])
def test_a_server_that_is_cut_off_from_its_database(
    outage: str,
    database: LocalPostgres,
    indexed_sample: IndexedSample,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "SILENT_S", 1.0)
    connect_s = 2
    bound_s = connection.SILENT_S + connect_s + MARGIN_S
    with ExitStack() as stack:
        direct = stack.enter_context(database.database(outage))
        cut = stack.enter_context(Cut(database.folder / ".s.PGSQL.5432"))
        address = f"postgresql://postgres@127.0.0.1:{cut.port}/{outage}?connect_timeout={connect_s}"
        server = stack.enter_context(served_from(address, tmp_path, indexed_sample))
        before = asked(server)
        assert before.status == 200, before.body
        getattr(cut, outage)()
        for _ in range(3):
            began = time.monotonic()
            refused = asked(server)
            took_s = time.monotonic() - began
            print(f"\n{outage}: {refused.status} after {took_s:.1f} s (bound {bound_s:.0f} s)")
            assert took_s < bound_s
            error = refused.json["error"]
            assert refused.status == 503 and "cannot be reached" in error["message"], refused.body
            assert error["request_id"]
        assert server.get("/health", timeout_s=bound_s).status == 200
        cut.heal()
        print(f"{outage}: answered {until_answered(server):.1f} s after the database was back")
        with psycopg.connect(direct) as db:
            present = db.execute("SELECT count(*) FROM rag.conversation").fetchone()
        assert present == (1,)
        turns = stored(server, before.json["conversation"])
        assert before.json["turn"] in turns and len(turns) == len(set(turns))


def test_a_slow_statement_is_no_outage(database: LocalPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SILENT_S", 0.1)
    with database.database("slow") as url, closing(PostgresServer(url)) as server:
        for query in ("SELECT pg_sleep(1), 7", "SELECT 0, 7"):
            with server.reading(lambda db, query=query: db.execute(query)) as (_, found):
                assert found.fetchone() == ("" if "sleep" in query else 0, 7)


def test_a_database_that_restarts_during_questions_loses_nothing(
    database: LocalPostgres, indexed_sample: IndexedSample, tmp_path: Path
) -> None:
    acknowledged: list[str] = []
    refused: dict[int, Any] = {}
    stop = threading.Event()
    with database.database("restarted") as url, served_from(url, tmp_path, indexed_sample) as server:
        conversation = asked(server).json["conversation"]

        def ask() -> None:
            while not stop.is_set():
                reply = asked(server)
                if reply.status == 200:
                    acknowledged.append(reply.json["turn"])
                else:
                    refused[reply.status] = reply.json["error"]["message"]

        clients = [threading.Thread(target=ask) for _ in range(2)]
        for client in clients:
            client.start()
        try:
            server.wait_until(lambda: len(acknowledged) >= 5)
            database.kill()
            server.wait_until(lambda: refused)
            database.start()
            began, before = time.monotonic(), len(acknowledged)
            server.wait_until(lambda: len(acknowledged) > before)
            took_s = time.monotonic() - began
            server.wait_until(lambda: len(acknowledged) > before + 5)
        finally:
            stop.set()
            for client in clients:
                client.join()
        present = stored(server, conversation)
        lost = set(acknowledged) - set(present)
        print(
            f"\nanswered {took_s:.2f} s after the database was back (bound {MARGIN_S:.0f} s); "
            f"{len(acknowledged)} answers acknowledged, {len(lost)} lost, refused meanwhile: {refused}"
        )
        assert not lost and took_s < MARGIN_S
        assert set(refused) == {503} and "cannot be reached" in refused[503]


def test_a_database_without_free_connections(
    database: LocalPostgres, indexed_sample: IndexedSample, tmp_path: Path
) -> None:
    with database.database("full") as url, served_from(url, tmp_path, indexed_sample) as server:
        before = asked(server)
        with ExitStack() as others:
            first = others.enter_context(psycopg.connect(url, autocommit=True))
            first.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rag'"
            )
            with pytest.raises(psycopg.OperationalError, match="too many clients"):
                while True:
                    others.enter_context(psycopg.connect(url))
            began = time.monotonic()
            refused = asked(server)
            took_s = time.monotonic() - began
        message = refused.json["error"]["message"]
        print(f"\nno free connection: 503 after {took_s:.1f} s (bound {MARGIN_S:.0f} s): {message}")
        assert refused.status == 503 and "too many clients" in message and took_s < MARGIN_S
        until_answered(server)
        assert before.json["turn"] in stored(server, before.json["conversation"])
