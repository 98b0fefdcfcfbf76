"""Postgres keeps the promises of every turn store, across processes, kills and full disks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import psycopg
import pytest
from answers_given import AnswersContract
from hypothesis import HealthCheck, settings
from hypothesis.stateful import rule, run_state_machine_as_test
from remembering import RememberingContract

from rag.backends.postgres import words as postgres_words
from rag.backends.postgres.turns import PostgresTurnStore
from rag.ports import MemoryStore
from tests.contracts.clock import SteppedClock
from tests.contracts.memory_store import MemoryStoreContract
from tests.contracts.turn_machine import MemoryStoreMachine
from tests.servers.postgres import LocalPostgres


class TestPostgresTurnStore(MemoryStoreContract, RememberingContract, AnswersContract):
    @pytest.fixture
    def store(self, schema: str, postgres: LocalPostgres, clock: SteppedClock) -> Iterator[MemoryStore]:
        store = PostgresTurnStore(postgres.url(), schema=schema, clock=clock)
        yield store
        store.close()

    @pytest.fixture
    def other_store(self, postgres: LocalPostgres, clock: SteppedClock) -> Iterator[MemoryStore]:
        store = PostgresTurnStore(postgres.url(), schema="other", clock=clock)
        yield store
        store.close()
        _drop(postgres, "other")

    @pytest.fixture
    def schema(self, postgres: LocalPostgres) -> Iterator[str]:
        yield "rag"
        _drop(postgres, "rag")


def _drop(postgres: LocalPostgres, schema: str) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as db:
        db.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


# ---------------------------------------------------------------- any use: the store is plain lists


@pytest.fixture(scope="module")
def emptied(postgres: LocalPostgres) -> Iterator[str]:
    """The address of a database of this module's own."""
    with postgres.database("machine") as url:
        yield url


def test_the_store_is_lists(emptied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_words, "GATHERED", 60)  # some is packed, some is not

    class PostgresMachine(MemoryStoreMachine):
        """In a schema that is emptied before each use; connections are closed in between."""

        def make_store(self) -> MemoryStore:
            schema = f"rag{next(numbers) % 2}"  # the other is the one moved from
            with psycopg.connect(emptied, autocommit=True) as db:
                tables = db.execute(
                    "SELECT string_agg(format('%%I.%%I', schemaname, tablename), ', ') FROM pg_tables "
                    "WHERE schemaname = %s AND tablename <> 'schema_version'",
                    [schema],
                ).fetchone()
                if tables and tables[0]:
                    db.execute(f"TRUNCATE {tables[0]}")
            return PostgresTurnStore(emptied, schema=schema, clock=self.clock)

        @rule()
        def reopen(self) -> None:
            assert isinstance(self.store, PostgresTurnStore)
            self.store.close()
            self.store = PostgresTurnStore(emptied, schema=self.store._server.schema, clock=self.clock)

    numbers = count()
    run_state_machine_as_test(
        PostgresMachine,
        settings=settings(
            max_examples=6, stateful_step_count=16, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
