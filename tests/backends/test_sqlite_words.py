"""Words are found the same, whether they wait in rows of their own or are in the index of a SQLite file."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from rag.analysis import terms
from rag.backends.sqlite import upgrade as sqlite_upgrade
from rag.backends.sqlite import words as sqlite_words
from rag.backends.sqlite.turns import SqliteTurnStore
from rag.ports import MemoryStore
from rag.searchable import term_counts
from rag.types import DialogTurn, Message
from tests.contracts.clock import SteppedClock
from tests.contracts.memory_store import MemoryStoreContract
from tests.contracts.sample_turns import full_message, full_turn, new_turn
from tests.contracts.turn_search import counted

SCHEMA_4 = Path(__file__).resolve().parent.parent / "golden" / "sqlite_schema_4.sql"
"""The tables that rag 0.2.0 wrote."""


class TestSqliteTurnStoreThatMerges(MemoryStoreContract):
    @pytest.fixture(autouse=True)
    def gathered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sqlite_words, "GATHERED", 60)

    @pytest.fixture
    def store(self, tmp_path: Path, clock: SteppedClock) -> Iterator[MemoryStore]:
        with closing(SqliteTurnStore(tmp_path / "turns.db", clock=clock)) as store:
            yield store

    @pytest.fixture
    def other_store(self, tmp_path: Path, clock: SteppedClock) -> Iterator[MemoryStore]:
        with closing(SqliteTurnStore(tmp_path / "other.db", clock=clock)) as store:
            yield store


_WORDS = [f"word{n}" for n in range(60)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteTurnStore]:
    with closing(SqliteTurnStore(tmp_path / "turns.db")) as store:
        yield store


def _text(chance: random.Random) -> str:
    return " ".join(chance.choices(_WORDS, weights=range(1, 61), k=chance.randrange(300)))


def _agree(store: SqliteTurnStore, *conversations: str) -> None:
    """What is found is what is counted, in each conversation and in all of them; all are indexed once."""
    sought = list(dict.fromkeys(terms(" ".join([*_WORDS[::7], "missing"]))))
    shown = {each: [*store.turns(each), *store.messages(each)] for each in conversations}
    every: dict[tuple[type, str], DialogTurn | Message] = {
        (type(item), item.id): item for items in shown.values() for item in items
    }
    for limit in (2, 1000):
        assert store.matching(sought, limit=limit) == counted(every.values(), sought, limit)
        for each, items in shown.items():
            assert store.matching(sought, conversation=each, limit=limit) == counted(items, sought, limit)
    with closing(sqlite3.connect(store.path)) as db:
        waiting = [row[0] for row in db.execute("SELECT item FROM pending WHERE tokens <> ''")]
        indexed = {row[0] for row in db.execute("SELECT DISTINCT doc FROM posting")}
        assert indexed.isdisjoint(waiting)
        assert len(indexed) + len(waiting) == sum(bool(term_counts(item)) for item in every.values())
        db.execute("INSERT INTO word (word) VALUES ('integrity-check')")


@pytest.mark.parametrize("gathered", [1, 300, 10**9])
def test_words_are_found_as_if_counted_after_any_change(
    store: SqliteTurnStore, monkeypatch: pytest.MonkeyPatch, gathered: int
) -> None:
    monkeypatch.setattr(sqlite_words, "GATHERED", gathered)
    chance = random.Random(gathered)
    first, second = store.create_conversation(), store.create_conversation(keep_last=9)
    for _ in range(6):
        for here in (first.id, second.id):
            store.append(new_turn(_text(chance), _text(chance)), conversation=here)
            store.extend([new_turn(_text(chance)) for _ in range(3)], conversation=here)
            store.add_messages([Message(_text(chance)), Message(b"\0")], conversation=here)
        edited, gone = chance.sample(store.turns(first.id), 2)
        store.edit_turn(replace(edited, user_query=new_turn(_text(chance)).user_query))
        store.delete_turn(gone.id)
        store.append(new_turn("", ""), conversation=first.id)
        wordless = store.append(new_turn("", ""), conversation=first.id)
        store.edit_turn(replace(wordless, user_query=new_turn(_text(chance)).user_query))
        _agree(store, first.id, second.id)
    fork = store.fork(first.id, at=store.turns(first.id)[7].order)
    store.append(new_turn(_text(chance)), conversation=fork.id)
    _agree(store, first.id, second.id, fork.id)
    store.delete_conversation(first.id)
    store.rewind(second.id, to=store.turns(second.id)[4].order or 0)
    _agree(store, second.id, fork.id)


def test_nothing_stays_of_what_is_gone(
    tmp_path: Path, store: SqliteTurnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_words, "GATHERED", 90)
    here = store.create_conversation()
    for n in range(7):
        turn = store.append(full_turn(), conversation=here.id)
        store.add_messages([full_message()], conversation=here.id)
        store.edit_turn(replace(turn, user_query=new_turn(f"edited {n}").user_query))
        store.extend([new_turn("", "") for _ in range(9)], conversation=here.id)
    store.clear(here.id)
    with closing(sqlite3.connect(tmp_path / "turns.db")) as db:
        for table in ("item", "version", "cited", "file", "pending", "posting"):
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table


def test_a_file_of_version_4_opens_with_everything(
    tmp_path: Path, store: SqliteTurnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(3)
    here = store.create_conversation(name="demo", keep_last=40)
    for _ in range(15):
        store.extend([new_turn(_text(chance)), full_turn()], conversation=here.id)
        store.add_messages([Message(_text(chance)), full_message()], conversation=here.id)
    edited = store.turns(here.id)[1]
    store.edit_turn(replace(edited, citations=()))
    old = tmp_path / "old.db"
    _write_version_4(old, store)
    monkeypatch.setattr(sqlite_upgrade, "_AT_ONCE", 7)
    monkeypatch.setattr(sqlite_words, "GATHERED", 600)
    with closing(SqliteTurnStore(old)) as opened:
        assert list(opened.dump()) == list(store.dump())
        assert edited.id in opened.citing(path=edited.citations[0].path) == store.citing()
        assert opened.citing(path="old.py") == []
        assert opened.matching(["old"]).holders == (0,)
        _agree(opened, here.id)
        assert opened.append(new_turn("next"), conversation=here.id).order == 60
        _agree(opened, here.id)


def _write_version_4(path: Path, store: SqliteTurnStore) -> None:
    """Write what a store holds in one conversation as a file of version 4, with an index that is outdated."""
    (here,) = store.conversations()
    lines = list(store.dump())
    with closing(sqlite3.connect(path)) as db:
        db.executescript(SCHEMA_4.read_text())
        db.execute("INSERT INTO space VALUES (1, '')")
        db.execute("INSERT INTO origin (key, id, space) VALUES (7, ?, 1)", (here.id,))
        db.execute("INSERT INTO span VALUES (?, 0, 7, NULL)", (here.id,))
        first = lines[0]["first"]
        row = (here.id, here.name, here.created.isoformat(), here.updated.isoformat(timespec="microseconds"))
        more = (lines[0]["next_order"], here.keep_last, first["turn"], first["message"])
        db.execute(
            "INSERT INTO conversation (id, namespace, name, created, updated, written, next_number,"
            " keep_last, first_turn, first_message) VALUES (?, '', ?, ?, ?, 1, ?, ?, ?, ?)",
            (*row, *more),
        )
        for key, line in enumerate(lines[1:], 1):
            kind = "message" if "message" in line else "turn"
            record = line[kind]
            place = (key, 1, int(kind == "message"), record["id"], 7, record["order"], 0)
            db.execute("INSERT INTO item VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*place, json.dumps(record)))
            for n, version in enumerate(line.get("versions", ()), 1):
                db.execute("INSERT INTO version VALUES (?, ?, ?)", (key, n, json.dumps(version)))
            marks = [(key, mark.encode("utf-8", "surrogatepass")) for mark in record["marks"]]
            db.executemany("INSERT INTO mark VALUES (?, CAST(? AS TEXT))", marks)
        db.execute("INSERT INTO file VALUES (1, 'old.py', '/r', 'b')")
        db.execute("INSERT INTO cited SELECT key, 1 FROM item")
        db.execute("INSERT INTO pending SELECT key, space, 0, number, 1, 'old' FROM item")
        db.commit()


def test_an_append_that_moves_the_waiting_is_undone_whole(
    store: SqliteTurnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = store.create_conversation()
    kept = store.append(new_turn("token"), conversation=here.id)
    monkeypatch.setattr(sqlite_words, "GATHERED", 2)
    with pytest.raises(KeyError), store.together():
        store.append(new_turn("token cookie"), conversation=here.id)
        assert store.matching(["token"]).holders == (2,)
        raise KeyError
    assert [found.id for found in store.matching(["token", "cooki"]).found] == [kept.id]
    store.append(new_turn("token cookie"), conversation=here.id)
    assert store.matching(["token", "cooki"]).holders == (2, 1)
