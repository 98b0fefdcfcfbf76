"""Holders of a word are counted right in Postgres, whether they were tallied beforehand or not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from rag.analysis import terms
from rag.backends.postgres import turns as postgres_turns
from rag.backends.postgres.schema import MIGRATIONS
from rag.backends.postgres.turns import PostgresTurnStore
from rag.errors import NotFound
from rag.testing.sample_turns import add_turns, new_turn
from rag.testing.turn_search import TurnSearchContract, counted, everything
from rag.types import DialogTurn, Message
from tests.servers.postgres import LocalPostgres

_WORDS = [f"word{n}" for n in range(40)]
_SOUGHT = list(dict.fromkeys(terms(" ".join([*_WORDS[::7], "yes", "missing"]))))
_TALLIED = """
    SELECT o.key, t.term, count(*) FROM rag.origin o
    JOIN rag.item i ON i.origin = o.key AND i.number < o.tallied, unnest(i.terms) AS t (term)
    GROUP BY o.key, t.term
"""


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_turns, "STEP", 3)


@pytest.fixture
def url(postgres: LocalPostgres) -> Iterator[str]:
    """The address of an empty database."""
    with postgres.database("tallied") as url:
        yield url


@pytest.fixture
def store(url: str) -> Iterator[PostgresTurnStore]:
    with closing(PostgresTurnStore(url)) as store:
        yield store


class TestPostgresTurnStoreThatTallies(TurnSearchContract):
    """Finding words and citations keeps its promises."""


def _some(chance: random.Random, count: int) -> list[DialogTurn]:
    texts = (" ".join(chance.choices(_WORDS, weights=range(1, 41), k=5)) for _ in range(count))
    return [new_turn(text) for text in texts]


def _agree(url: str, store: PostgresTurnStore, *conversations: str) -> None:
    """What is found is what is counted; what is tallied is what there is, and nothing else."""
    for each in conversations:
        shown = everything(store, each)
        for limit in (1, 10, 1000):
            assert store.matching(_SOUGHT, conversation=each, limit=limit) == counted(shown, _SOUGHT, limit)
    with psycopg.connect(url) as db:
        tallied = db.execute("SELECT origin, term, holders FROM rag.tally").fetchall()
        assert sorted(tallied) == sorted(db.execute(_TALLIED).fetchall())


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
        assert db.execute("SELECT count(*) FROM rag.tally").fetchone() == (0,)


def test_a_restored_conversation_is_tallied(url: str, store: PostgresTurnStore) -> None:
    here = store.create_conversation().id
    store.extend(_some(random.Random(3), 20), conversation=here)
    lines = list(store.dump())
    store.delete_conversation(here)
    assert store.restore(lines) == 1
    _agree(url, store, here)
    with psycopg.connect(url) as db:
        assert db.execute("SELECT tallied FROM rag.origin").fetchone() == (20,)


def test_those_who_add_edit_and_delete_at_once_leave_a_right_tally(
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


def test_what_version_2_kept_is_tallied(url: str, store: PostgresTurnStore) -> None:
    here = store.create_conversation().id
    store.extend(_some(random.Random(4), 20), conversation=here)
    store.add_messages([Message("word7")], conversation=here)
    store.close()
    with psycopg.connect(url) as db:
        db.execute("DROP TABLE rag.tally")
        db.execute("ALTER TABLE rag.origin DROP COLUMN tallied")
        db.execute("UPDATE rag.schema_version SET version = 2")
    with closing(PostgresTurnStore(url)) as opened:
        _agree(url, opened, here)
        with psycopg.connect(url) as db:
            assert db.execute("SELECT version FROM rag.schema_version").fetchone() == (len(MIGRATIONS),)
            assert db.execute("SELECT tallied FROM rag.origin").fetchone() == (21,)
        add_turns(opened, here, *_WORDS[:4])
        _agree(url, opened, here)
