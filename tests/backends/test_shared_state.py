"""What servers share in Postgres keeps the promises of the port."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from rag.backends.postgres.shared import PostgresSharedState
from rag.errors import StoreError
from rag.ports import SharedState
from tests.contracts.shared_state import SharedStateContract
from tests.servers.postgres import LocalPostgres


@pytest.fixture(scope="module")
def database(postgres: LocalPostgres) -> Iterator[str]:
    with postgres.database("shared") as url:
        yield url


class TestPostgresSharedState(SharedStateContract):
    @pytest.fixture
    def state(self, database: str) -> Iterator[SharedState]:
        with psycopg.connect(database, autocommit=True) as db:
            db.execute("DROP SCHEMA IF EXISTS rag_shared CASCADE")
        state = PostgresSharedState(database)
        yield state
        state.close()

    @pytest.fixture
    def other(self, state: SharedState, database: str) -> Iterator[SharedState]:
        other = PostgresSharedState(database)
        yield other
        other.close()


def test_a_listener_finds_its_server_again() -> None:
    with LocalPostgres() as server:
        state = PostgresSharedState(server.url())
        assert state.listen(0.01) is None
        server.kill()
        with pytest.raises(StoreError):
            for _ in range(100):
                state.listen(0.1)
        server.start()
        assert state.listen(0.01) is None  # events may have been missed
        state.publish("after")
        assert state.listen(30) == ["after"]
        state.close()
