"""Values that rag does not write, in a memory that somebody else made, are damage, whatever the memory."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rag.backends.redis.values import Brief, conversations_of, item_of, lasting_part, stored_conversation
from rag.backends.sqlite.turns import SqliteTurnStore
from rag.errors import RagError, StoreCorrupt
from rag.schema import to_json, turn_record
from rag.turns.model import ConversationRecord, TurnSpan, stored_turn
from rag.types import Conversation, Message
from tests.contracts.sample_turns import full_turn, new_turn

Damaged = Callable[[str], Iterator[SqliteTurnStore]]
EARLIEST, LATEST = "0001-01-01T00:00:00.000000+14:00", "9999-12-31T23:59:59.000000-14:00"
"""Times that do not exist in UTC."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("memory") / "turns.db"
    with closing(SqliteTurnStore(file)) as store:
        here = store.create_conversation(name="login", ttl_s=1e6, keep_last=50)
        store.edit_turn(store.append(full_turn(), conversation=here.id))
        store.extend([new_turn("later"), new_turn("more")], conversation=here.id)
        store.fork(here.id, at=1, name="fork")
        store.add_messages([Message("hello there")], conversation=here.id)
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return file


def read(store: SqliteTurnStore) -> None:
    for conversation in store.conversations():
        values = [conversation, *store.turns(conversation.id, mark=("HINT",)), *store.turns(conversation.id)]
        for value in (*values, *store.messages(conversation.id)):
            to_json(value)


def write(store: SqliteTurnStore) -> None:
    for conversation in store.conversations():
        for turn in store.turns(conversation.id):
            store.versions(turn.id)
            store.edit_turn(turn)
        store.extend([new_turn("new")], conversation=conversation.id)
        store.rename(conversation.id, f"{conversation.name} 2")


def find(store: SqliteTurnStore) -> None:
    store.ranked(["later", "hello"])
    store.matching(["later"])


def of_each(name: str, **arguments: Any) -> Callable[[SqliteTurnStore], None]:
    def run(store: SqliteTurnStore) -> None:
        for conversation in store.conversations():
            getattr(store, name)(conversation.id, **arguments)

    return run


OPERATIONS: list[Callable[[SqliteTurnStore], Any]] = [
    *(read, write, find, lambda store: list(store.dump())),
    *(of_each("rewind", to=0), of_each("fork"), of_each("clear"), of_each("delete_conversation")),
]


def in_record(place: str, value: str) -> str:
    return f"record = json_set(record, '$.{place}', {value})"


HUGE = 2**62 - 1
CONVERSATION = [
    f"updated = '{EARLIEST}'",
    f"updated = '{LATEST}'",
    in_record("created", f"'{EARLIEST}'"),
    f"length = {HUGE}",
    "turns = -3",
    f"key = {HUGE} WHERE name = 'fork'",
    in_record("ttl_s", "1e999"),
    "record = replace(record, '1000000.0', 'Infinity')",
    "record = replace(record, '1000000.0', 'NaN')",
    "record = replace(record, ': 50', ': Infinity')",
    in_record("keep_last", "2.5"),
    in_record("first", "json('{}')"),
    in_record("forked_at", "1e300"),
    in_record("parent", "5"),
    in_record("sources", """json('[{"location": 5}]')"""),
    in_record("spans[0][0]", "5"),
]
ITEM = [
    f"length = {HUGE}",
    "length = -7",
    "marks = '[[1]]'",
    "marks = '[1, null]'",
    f"key = key + {2**61}",
    "key = -key",
    *(in_record("version", value) for value in ("json('[]')", "'x'", "1e300", "-1")),
    *(in_record(name, "5") for name in ("id", "question", "answer", "standalone_question", "model")),
    in_record("asked", f"'{EARLIEST}'"),
    in_record("usage.prompt_tokens", "'x'"),
    in_record("usage.cost_usd", "1e999"),
    *(in_record("citations[0].path", value) for value in ("5", "'a' || char(0)")),
    *(in_record(f"citations[0].{name}", "'x'") for name in ("n", "start_line", "score", "used")),
    in_record("trace[0].name", "5"),
    in_record("subject.start_line", "'x'"),
    in_record("state", "json('[]')"),
    *(in_record("metadata", value) for value in ("5", """json('{"a": 1e999}')""")),
]


@pytest.fixture
def damaged(filled: Path, tmp_path: Path) -> Damaged:
    def damaged(change: str) -> Iterator[SqliteTurnStore]:
        for number in range(len(OPERATIONS)):
            file = tmp_path / f"{number}.db"
            shutil.copy(filled, file)
            with closing(sqlite3.connect(file, isolation_level=None)) as database:
                database.execute(f"UPDATE {change}")
            with closing(SqliteTurnStore(file)) as store:
                yield store

    return damaged


@pytest.mark.parametrize(
    "change", [*(f"conversation SET {one}" for one in CONVERSATION), *(f"item SET {one}" for one in ITEM)]
)
def test_every_operation_on_a_hostile_value_works_or_says_what_is_wrong(
    damaged: Damaged, change: str
) -> None:
    failed = 0
    for operation, store in zip(OPERATIONS, damaged(change), strict=True):
        try:
            operation(store)
        except RagError as error:
            failed += isinstance(error, StoreCorrupt)
    assert failed or change == "conversation SET turns = -3"  # a count that is only shown


def test_a_turn_whose_values_are_not_those_of_a_turn_is_damage() -> None:
    record = turn_record(full_turn()) | {"conversation": "c", "order": 0}
    assert stored_turn(record).question == full_turn().question
    for name, value in {"version": [], "question": 5, "asked": LATEST, "citations": [{}]}.items():
        with pytest.raises(StoreCorrupt):
            stored_turn({**record, name: value})


def test_a_turn_that_could_not_be_read_again_is_not_stored(filled: Path, tmp_path: Path) -> None:
    shutil.copy(filled, tmp_path / "turns.db")
    with closing(SqliteTurnStore(tmp_path / "turns.db")) as store:
        login = store.conversation("login")
        wrong: Any = 5
        for turn in (new_turn("a", model=wrong), new_turn("b", user_id=wrong)):
            with pytest.raises(TypeError):
                store.append(turn, conversation=login.id)
        assert store.conversation("login") == login


def test_a_server_whose_values_are_not_those_of_rag_is_damaged() -> None:
    conversation = Conversation("c", ttl_s=10.0, keep_last=5)
    spans, numbers = [TurnSpan("c", 0, None)], {"c": 1}
    stored = stored_conversation(ConversationRecord(conversation, spans, numbers=numbers))
    totals = [b"1", b"0", b"9"]
    assert next(conversations_of([b"c", stored, *totals], "")).conversation.keep_last == 5
    lasting = lasting_part(stored)
    head, record = stored.removesuffix(lasting), json.loads(lasting)
    wrong = {"ttl_s": float("inf"), "keep_last": [5], "first": {}, "spans": [], "created": EARLIEST}
    broken = [stored.replace(b" 0 ", b" %d " % 10**30, 1), stored.replace(b" 0 ", b" x ", 1)]
    broken += [head + json.dumps({**record, name: value}).encode() for name, value in wrong.items()]
    for value in broken:
        with pytest.raises(StoreCorrupt):
            next(conversations_of([b"c", value, *totals], ""))
    with pytest.raises(StoreCorrupt):
        next(conversations_of([b"c", stored, b"1", b"0", b"9" * 30], ""))
    for length, marks in ((5, b"[[1]]"), (2**62, None)):
        with pytest.raises(StoreCorrupt):
            item_of(b"\0" * 8, Brief(length, "0", 0, "i"), b"{}", marks, "c")
