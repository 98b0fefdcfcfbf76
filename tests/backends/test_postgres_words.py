"""Words are found in Postgres, whether their items are pending or moved to the postings."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import numpy as np
import psycopg
import pytest

from rag.analysis import terms
from rag.backends.postgres import words as postgres_words
from rag.backends.postgres.turns import PostgresTurnStore
from rag.errors import NotFound
from rag.types import DialogTurn, Message
from tests.contracts.sample_turns import add_turns, new_turn
from tests.contracts.turn_search import TurnSearchContract, counted, everything
from tests.servers.postgres import LocalPostgres

_WORDS = [f"word{n}" for n in range(40)]
_SOUGHT = list(dict.fromkeys(terms(" ".join([*_WORDS[::7], "yes", "missing"]))))


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_words, "GATHERED", 40)
    monkeypatch.setattr(postgres_words, "PART_BYTES", 60)


@pytest.fixture
def url(postgres: LocalPostgres) -> Iterator[str]:
    """The address of an empty database."""
    with postgres.database("words") as url:
        yield url


@pytest.fixture
def store(url: str) -> Iterator[PostgresTurnStore]:
    with closing(PostgresTurnStore(url)) as store:
        yield store


class TestPostgresTurnStoreThatMovesOften(TurnSearchContract):
    """Finding words and citations keeps its promises."""


def _some(chance: random.Random, count: int) -> list[DialogTurn]:
    texts = (" ".join(chance.choices(_WORDS, weights=range(1, 41), k=5)) for _ in range(count))
    return [new_turn(text) for text in texts]


def _agree(url: str, store: PostgresTurnStore, *conversations: str) -> None:
    """What is found is what is counted; what is in the index is what the items contain, once."""
    for each in conversations:
        shown = everything(store, each)
        for limit in (1, 10, 1000):
            assert store.matching(_SOUGHT, conversation=each, limit=limit) == counted(shown, _SOUGHT, limit)
    indexed = []
    with psycopg.connect(url) as db:
        contained = "SELECT term, key, count FROM rag.item, unnest(terms, counts) AS t (term, count)"
        items = db.execute(contained).fetchall()
        waiting = f"{contained} WHERE key IN (SELECT item FROM rag.pending)"
        indexed += db.execute(waiting).fetchall()
        for term, first, last, entries in db.execute("SELECT term, first, last, entries FROM rag.posting"):
            held = np.frombuffer(entries, postgres_words.ENTRY).tolist()
            assert all(first <= key <= last for key, _ in held) and held
            indexed += [(term, key, count) for key, count in held]
    assert sorted(indexed) == sorted(items)


@pytest.mark.parametrize("seed", range(2))
def test_words_are_found_as_if_counted_after_any_change(
    seed: int, url: str, store: PostgresTurnStore
) -> None:
    chance = random.Random(seed)
    main, brief = store.create_conversation().id, store.create_conversation(keep_last=15).id
    here = [main, brief]
    for step in range(5):
        for each in here:
            store.extend(_some(chance, chance.randrange(9)), conversation=each)
            store.add_messages([Message("word7 word14")], conversation=each)
        here.append(store.fork(chance.choice(here)).id)
        for turn in chance.sample(shown := store.turns(chance.choice(here)), min(4, len(shown))):
            if chance.random() < 0.5:
                store.edit_turn(replace(turn, user_query=_some(chance, 1)[0].user_query))
            else:
                store.delete_turn(turn.id)
        if step == 3:
            store.rewind(main, to=9)
            store.update_marks(brief, "old", ids=[turn.id for turn in store.turns(brief)[:3]])
            store.delete_by_mark(brief, "old")
            store.delete_conversation(here.pop(2))
    _agree(url, store, *here)
    other = [
        line for line in store.dump() if "conversation" not in line or line["conversation"]["id"] != main
    ]
    store.delete_turn(store.turns(main)[0].id)
    assert store.restore(other) == 0
    _agree(url, store, *here)
    for each in here:
        store.delete_conversation(each)
    _agree(url, store)
    with psycopg.connect(url) as db:
        assert db.execute("SELECT count(*) FROM rag.posting").fetchone() == (0,)


def test_a_restored_conversation_is_indexed(url: str, store: PostgresTurnStore) -> None:
    here = store.create_conversation().id
    store.extend(_some(random.Random(3), 20), conversation=here)
    lines = list(store.dump())
    store.delete_conversation(here)
    assert store.restore(iter(lines)) == 1
    _agree(url, store, here)


def test_those_who_add_edit_and_delete_at_once_leave_a_right_index(
    url: str, store: PostgresTurnStore
) -> None:
    here = store.create_conversation().id
    add_turns(store, here, *_WORDS[:9])

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for turn in _some(chance, 12):
            store.append(turn, conversation=here)
            one = chance.choice(store.turns(here))
            try:
                if chance.random() < 0.5:
                    store.edit_turn(replace(turn, id=one.id))
                else:
                    store.delete_turn(one.id)
            except NotFound:
                pass  # another was faster

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(work, range(5)))
    _agree(url, store, here)
