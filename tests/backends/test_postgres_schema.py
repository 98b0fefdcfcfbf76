"""Databases of the earlier versions of the schema are migrated.

`postgres_schema_3.sql` is a database that version 3 wrote, and `postgres_schema_3.json` its exports.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rag.backends.memory.turns import MemoryTurnStore
from rag.backends.postgres.schema import MIGRATIONS
from rag.backends.postgres.turns import PostgresTurnStore
from rag.ports import MemoryStore
from tests.contracts.clock import SteppedClock
from tests.contracts.sample_turns import add_turns
from tests.contracts.store_moves import over_json
from tests.servers.postgres import LocalPostgres

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
TO_VERSION_2 = "DROP TABLE rag.tally; ALTER TABLE rag.origin DROP COLUMN tallied"
TO_VERSION_1 = """
    ALTER TABLE rag.posting DROP CONSTRAINT posting_pkey, ADD PRIMARY KEY (space, term, number, item)
"""
STEPS_BACK = {3: (), 2: (TO_VERSION_2,), 1: (TO_VERSION_2, TO_VERSION_1)}


@pytest.fixture
def url(postgres: LocalPostgres) -> Iterator[str]:
    """The address of an empty database."""
    with postgres.database("old") as url:
        yield url


@pytest.fixture
def exports() -> dict[str, Any]:
    return json.loads((GOLDEN / "postgres_schema_3.json").read_text())


def _write_version(url: str, version: int) -> None:
    with psycopg.connect(url) as db:
        db.execute((GOLDEN / "postgres_schema_3.sql").read_bytes())
        for step in STEPS_BACK[version]:
            db.execute(step)
        db.execute("UPDATE rag.schema_version SET version = %s", [version])


def _in_memory(lines: list[Any], namespace: str) -> MemoryTurnStore:
    store = MemoryTurnStore(clock=SteppedClock())
    store.restore(lines, namespace=namespace)
    return store


def _agree(store: MemoryStore, expected: MemoryStore, namespace: str) -> None:
    where = {"namespace": namespace}
    assert store.conversations(**where) == expected.conversations(**where)
    for each in expected.conversations(**where):
        assert store.turns(each.id, **where) == expected.turns(each.id, **where)
        assert store.messages(each.id, **where) == expected.messages(each.id, **where)
        for turn in expected.turns(each.id, **where):
            assert store.versions(turn.id, **where) == expected.versions(turn.id, **where)
    for sought in (["北京", "text"], ["word3", "yes"], []):
        assert store.matching(sought, **where) == expected.matching(sought, **where)
    assert store.citing(**where) == expected.citing(**where) != []


@pytest.mark.parametrize("version", STEPS_BACK)
def test_a_database_of_an_earlier_version_is_migrated(
    version: int, url: str, exports: dict[str, Any]
) -> None:
    _write_version(url, version)
    with closing(PostgresTurnStore(url, clock=SteppedClock())) as store:
        assert store.namespaces() == sorted(exports)
        for namespace, lines in exports.items():
            _agree(store, expected := _in_memory(lines, namespace), namespace)
            moved = _in_memory(list(store.dump(namespace=namespace)), namespace)
            assert over_json(moved.dump(namespace=namespace)) == over_json(expected.dump(namespace=namespace))
    with psycopg.connect(url) as db:
        assert db.execute("SELECT version FROM rag.schema_version").fetchone() == (len(MIGRATIONS),)


def test_a_migrated_database_goes_on(url: str, exports: dict[str, Any]) -> None:
    _write_version(url, 3)
    clock = SteppedClock()
    with closing(PostgresTurnStore(url, clock=clock)) as store:
        for namespace, lines in exports.items():
            expected = _in_memory(lines, namespace)
            for each in expected.conversations(namespace=namespace):
                orders = [
                    add_turns(one, each.id, "next", namespace=namespace)[0].order for one in (store, expected)
                ]
                assert orders[0] == orders[1]
                assert store.rewind(each.id, to=1, namespace=namespace) == expected.rewind(
                    each.id, to=1, namespace=namespace
                )
            assert (
                store.matching(["text"], namespace=namespace).holders
                == expected.matching(["text"], namespace=namespace).holders
            )
            for each in expected.conversations(namespace=namespace):
                store.delete_conversation(each.id, namespace=namespace)
        clock.advance(6000)
        store.delete_records(shelf="s")
        assert store.namespaces() == []
        with psycopg.connect(url) as db:
            for table in ("item", "version", "cited", "posting", "pending", "viewer", "conversation"):
                assert db.execute(f"SELECT count(*) FROM rag.{table}").fetchone() == (0,), table
