"""The fixture `postgres`: a real Postgres server for the whole test session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.postgres import LocalPostgres, missing


@pytest.fixture(scope="session")
def postgres() -> Iterator[LocalPostgres]:
    """A server on a Unix socket; `.url()` is its address. Skipped where none can be started."""
    if lacking := missing():
        pytest.skip(lacking)
    with LocalPostgres() as server:
        yield server
