"""Every turn store keeps the same promises; SQLite keeps them across processes, kills and full disks."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from answers_given import AnswersContract
from hypothesis import HealthCheck, settings
from hypothesis.stateful import rule
from remembering import RememberingContract

from rag.backends.memory.turns import MemoryTurnStore
from rag.backends.sqlite import file as sqlite_file
from rag.backends.sqlite import words as sqlite_words
from rag.backends.sqlite.schema import APPLICATION_ID, MIGRATIONS
from rag.backends.sqlite.turns import SqliteTurnStore
from rag.errors import (
    NotFound,
    SettingsError,
    StoreBusy,
    StoreCorrupt,
    StoreTooNew,
    StoreUnwritable,
)
from rag.ports import MemoryStore
from rag.types import Source
from tests.contracts.clock import SteppedClock
from tests.contracts.memory_store import MemoryStoreContract
from tests.contracts.sample_turns import full_turn, new_turn
from tests.contracts.turn_machine import MemoryStoreMachine

SCHEMA_4 = Path(__file__).resolve().parent.parent / "golden" / "sqlite_schema_4.sql"
"""The tables that rag 0.2.0 wrote."""


class TestMemoryTurnStore(MemoryStoreContract, RememberingContract, AnswersContract):
    @pytest.fixture
    def store(self, clock: SteppedClock) -> MemoryStore:
        return MemoryTurnStore(clock=clock)

    @pytest.fixture
    def other_store(self, clock: SteppedClock) -> MemoryStore:
        return MemoryTurnStore(clock=clock)


class TestSqliteTurnStore(MemoryStoreContract, RememberingContract, AnswersContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: SteppedClock) -> Iterator[MemoryStore]:
        store = SqliteTurnStore(tmp_path / "turns.db", clock=clock)
        yield store
        store.close()

    @pytest.fixture
    def other_store(self, tmp_path: Path, clock: SteppedClock) -> Iterator[MemoryStore]:
        store = SqliteTurnStore(tmp_path / "other.db", clock=clock)
        yield store
        store.close()


# ---------------------------------------------------------------- any use: the store is plain lists


class MemoryMachine(MemoryStoreMachine):
    """In this process, also pickled and loaded in between."""

    def make_store(self) -> MemoryStore:
        return MemoryTurnStore(clock=self.clock)

    @rule()
    def pickle(self) -> None:
        self.store = pickle.loads(pickle.dumps(self.store))
        assert isinstance(self.store, MemoryTurnStore)
        self.store._clock = self.clock


class SqliteMachine(MemoryStoreMachine):
    """In a file, which is also closed and opened again in between; its index is written every few items."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(sqlite_words, "GATHERED", 60)
        super().__init__()

    def make_store(self) -> MemoryStore:
        self.path = Path(self.folder.name) / f"{uuid.uuid4()}.db"
        return SqliteTurnStore(self.path, clock=self.clock)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = SqliteTurnStore(self.path, clock=self.clock)

    def teardown(self) -> None:
        super().teardown()
        self.patch.undo()
        self.folder.cleanup()


_machine_settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestMemoryTurnStoreIsLists = MemoryMachine.TestCase
TestMemoryTurnStoreIsLists.settings = _machine_settings
TestSqliteTurnStoreIsLists = SqliteMachine.TestCase
TestSqliteTurnStoreIsLists.settings = _machine_settings


# ---------------------------------------------------------------- both, pickled


def test_the_memory_store_pickles_with_its_turns() -> None:
    store = MemoryTurnStore()
    here = store.create_conversation(name="demo")
    turn = store.append(full_turn(), conversation=here.id)
    copy = pickle.loads(pickle.dumps(store))
    assert copy.turns(here.id) == [turn]
    copy.append(new_turn("?"), conversation=here.id)
    assert store.turns(here.id) == [turn]


# ---------------------------------------------------------------- SQLite: the file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "rag" / "turns.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteTurnStore]:
    store = SqliteTurnStore(path)
    yield store
    store.close()


def test_a_closed_store_opens_again_with_everything(path: Path, store: SqliteTurnStore) -> None:
    here = store.create_conversation(name="demo", sources=[Source("/r\udcff", "main")])
    turn = store.append(full_turn(), conversation=here.id)
    store.close()
    with pytest.raises(ValueError, match="closed"):
        store.turn(turn.id)
    again = SqliteTurnStore(path)
    assert again.conversation("demo").sources == here.sources
    assert again.turns(here.id) == [turn]
    again.close()


def test_it_pickles_as_its_path(store: SqliteTurnStore) -> None:
    here = store.create_conversation(name="demo")
    copy = pickle.loads(pickle.dumps(store))
    assert copy.conversation("demo") == here
    copy.close()


def test_only_this_user_can_read_it(path: Path, store: SqliteTurnStore) -> None:
    store.create_conversation()
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in (path, *path.parent.iterdir())}
    assert modes == {"turns.db": 0o600, "turns.db-wal": 0o600, "turns.db-shm": 0o600}
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent)] == [
        0o700,
        0o700,
    ]


def test_no_citation_outlives_its_turn(path: Path, store: SqliteTurnStore) -> None:
    here, there = store.create_conversation(), store.create_conversation()
    kept = store.append(full_turn(), conversation=here.id)
    store.delete_turn(store.append(full_turn(), conversation=here.id).id)
    store.append(full_turn(), conversation=there.id)
    store.delete_conversation(there.id)
    with sqlite3.connect(path) as db:
        rows = (
            db.execute("SELECT count(*) FROM cited").fetchone(),
            db.execute("SELECT count(*) FROM item").fetchone(),
        )
    db.close()
    assert rows == ((len({cited.path for cited in kept.citations}),), (1,))


def test_nothing_is_acknowledged_into_a_file_that_was_deleted_or_replaced(
    path: Path, store: SqliteTurnStore
) -> None:
    kept = store.create_conversation(name="kept")
    saved = path.with_name("saved.db")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(saved)) as target:
        source.backup(target)
    later = store.create_conversation(name="later")
    saved.replace(path)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    assert [one.id for one in store.conversations()] == [kept.id]
    with pytest.raises(NotFound):
        store.append(full_turn(), conversation=later.id)
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    with pytest.raises(NotFound):
        store.append(full_turn(), conversation=kept.id)
    stored = store.append(full_turn(), conversation=store.create_conversation(name="new").id)
    other = SqliteTurnStore(path)
    assert other.turn(stored.id).question == stored.question
    other.close()


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to look like one " * 40, b"SQLite", b"\0" * 4096]
)
def test_a_foreign_file_is_named_and_left_alone(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt, match=r"turns\.db.*nothing was changed"):
        SqliteTurnStore(path)
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_named_and_left_alone(path: Path) -> None:
    path.parent.mkdir(parents=True)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="another program"):
        SqliteTurnStore(path)
    assert path.read_bytes() == before


def test_a_damaged_file_is_named_and_left_alone(path: Path, store: SqliteTurnStore) -> None:
    here = store.create_conversation()
    for _ in range(50):
        store.append(full_turn(), conversation=here.id)
    store.close()
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:4096] + b"\xff" * 8192 + whole[12288:], whole[:30]):
        path.write_bytes(damaged)
        with pytest.raises(StoreCorrupt, match=r"turns\.db"):
            _read_everything(path)
        assert path.read_bytes() == damaged


def _read_everything(path: Path) -> None:
    store = SqliteTurnStore(path)
    try:
        for conversation in store.conversations():
            store.turns(conversation.id)
    finally:
        store.close()


def test_a_file_from_a_newer_version_is_left_alone(path: Path, store: SqliteTurnStore) -> None:
    store.close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.close()
    with pytest.raises(StoreTooNew, match="upgrade rag") as caught:
        SqliteTurnStore(path)
    assert (caught.value.found, caught.value.supported) == (len(MIGRATIONS) + 1, len(MIGRATIONS))


def _tables(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        named = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        return [name for (name,) in db.execute(named) if not name.startswith("word_")]  # those of FTS5 itself


def _uses(store: SqliteTurnStore, here: str) -> list[Callable[[], Any]]:
    """A call of each kind: what it reads or writes, it needs all tables for."""
    return [
        lambda: store.conversations(),
        lambda: store.create_conversation(name="new"),
        lambda: store.turns(here),
        lambda: store.append(full_turn(), conversation=here),
        lambda: store.matching(["text"]),
        lambda: store.citing(),
        lambda: store.records(["k"], shelf="s"),
        lambda: store.versions("t"),
        lambda: store.update_marks(here, "m"),
        lambda: store.delete_conversation(here),
        lambda: list(store.dump()),
    ]


def test_a_file_of_a_version_between_releases_is_named_whatever_table_it_lacks(path: Path) -> None:
    SqliteTurnStore(path).close()
    for table in _tables(path):
        path.unlink()
        store = SqliteTurnStore(path)
        here = store.create_conversation().id
        store.append(replace(full_turn(), id="t"), conversation=here)
        with store._file.write() as db:
            db.execute(f"ALTER TABLE {table} RENAME TO {table}_of_another_version")
        failed = 0
        for use in _uses(store, here):
            try:
                use()
            except StoreCorrupt as error:
                assert "development version" in str(error) and str(path) in str(error)
                failed += 1
            except NotFound:
                continue
        store.close()
        assert failed, table


def test_migrations_run_once_each_in_order(path: Path) -> None:
    def opened(*migrations: tuple[str, ...]) -> sqlite_file.SqliteFile:
        return sqlite_file.SqliteFile(path, application_id=APPLICATION_ID, migrations=migrations)

    first = ("CREATE TABLE a (x INTEGER) STRICT",)
    second = ("ALTER TABLE a ADD COLUMN y INTEGER", "INSERT INTO a VALUES (1, 2)")
    opened(first).close()
    for _ in range(2):
        file = opened(first, second)
        with file.read() as db:
            assert [tuple(row) for row in db.execute("SELECT x, y FROM a")] == [(1, 2)]
        file.close()
    with pytest.raises(sqlite3.OperationalError):
        opened(first, second, ("INSERT INTO a VALUES (3, 4)", "nonsense"))
    file = opened(first, second)
    with file.read() as db:
        assert db.execute("SELECT count(*) FROM a").fetchone()[0] == 1
    file.close()


@pytest.mark.parametrize(
    "damage",
    [
        "conversation_source SET include = '5'",
        "conversation_source SET exclude = 'null'",
        "conversation SET created = '0001-01-01T00:00:00+14:00'",
        "item SET record = '['",
    ],
)
def test_a_file_of_version_4_with_values_that_rag_does_not_write_is_damaged(path: Path, damage: str) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(SCHEMA_4.read_text())
        db.execute("INSERT INTO space VALUES (1, '')")
        db.execute("INSERT INTO origin (key, id, space) VALUES (7, 'c', 1)")
        db.execute("INSERT INTO span VALUES ('c', 0, 7, NULL)")
        db.execute(
            "INSERT INTO conversation (id, namespace, name, created, updated, written, next_number)"
            " VALUES ('c', '', 'demo', ?, ?, 1, 9)",
            ["2026-01-01T00:00:00.000000+00:00"] * 2,
        )
        db.execute("INSERT INTO conversation_source VALUES ('c', 0, '/r', 'main', '[]', '[]')")
        db.execute("INSERT INTO item VALUES (1, 1, 0, 't', 7, 0, 0, '{}')")
        db.execute(f"UPDATE {damage}")
        db.commit()
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match=f"{path}.*are invalid.*nothing was changed"):
        SqliteTurnStore(path)
    assert path.read_bytes() == before


def test_a_file_of_version_1_was_written_by_a_development_version(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(
            f"PRAGMA user_version = 1; PRAGMA application_id = {APPLICATION_ID};"
            "CREATE TABLE conversation (id TEXT PRIMARY KEY) STRICT; CREATE TABLE turn (id TEXT) STRICT;"
        )
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="written by a development version"):
        SqliteTurnStore(path)
    assert path.read_bytes() == before


def test_an_old_sqlite_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    with pytest.raises(SettingsError, match=r"3\.37\.0"):
        SqliteTurnStore(path)


def test_a_sqlite_without_its_full_text_index_is_named(path: Path) -> None:
    missing = ("CREATE VIRTUAL TABLE word USING fts_missing (tokens)",)
    with pytest.raises(SettingsError, match="without FTS5"):
        sqlite_file.SqliteFile(path, application_id=APPLICATION_ID, migrations=[missing])


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnwritable, match=r"file/turns\.db"):
        SqliteTurnStore(tmp_path / "file" / "turns.db")
    with pytest.raises(StoreUnwritable, match=str(tmp_path)):
        SqliteTurnStore(tmp_path)


def test_a_writer_that_never_ends_is_reported(path: Path, store: SqliteTurnStore) -> None:
    other = SqliteTurnStore(path, busy_timeout_s=0.05)
    with store._file.write(), pytest.raises(StoreBusy, match="writing"):
        other.create_conversation()
    other.create_conversation()
    assert store.conversations() == other.conversations()
    other.close()


def test_a_writer_that_waits_for_another_process_keeps_no_reader_waiting(
    path: Path, store: SqliteTurnStore
) -> None:
    here = store.create_conversation(name="here")
    kept = store.append(new_turn("kept"), conversation=here.id)
    store.put_records({"k": b"v"}, shelf="s")
    with (
        ThreadPoolExecutor(1) as pool,
        closing(sqlite3.connect(path, isolation_level=None)) as another_process,
    ):
        another_process.execute("BEGIN IMMEDIATE")
        waiting = pool.submit(store.append, new_turn("late"), conversation=here.id)
        while _is_free(store._file._writer.lock):  # until it waits
            pass
        began = time.monotonic()
        assert store.turns(here.id) == [kept]
        assert store.conversation("here").turn_count == 1
        assert store.records(["k"], shelf="s") == {"k": b"v"}
        assert store.matching(["kept"]).holders == (1,)
        assert [line for line in store.dump() if "turn" in line]
        assert time.monotonic() - began < 10 and not waiting.done()
        another_process.execute("ROLLBACK")
        late = waiting.result(timeout=60)
    assert store.turns(here.id) == [kept, late]


def _is_free(lock: Any) -> bool:
    if acquired := lock.acquire(blocking=False):
        lock.release()
    return bool(acquired)


def test_calls_made_together_are_kept_together_or_not_at_all(path: Path, store: SqliteTurnStore) -> None:
    here = store.create_conversation()
    other = SqliteTurnStore(path)
    with store.together():
        turn = store.append(new_turn("kept"), conversation=here.id)
        with pytest.raises(NotFound):
            store.append(new_turn("nowhere"), conversation="nowhere")
        store.put_records({"a": b"1"}, shelf="s")
        assert store.turns(here.id) == [turn]
        assert other.turns(here.id) == []
    assert other.turns(here.id) == [turn]
    assert other.records(["a"], shelf="s") == {"a": b"1"}
    with pytest.raises(KeyError), store.together():
        store.append(new_turn("undone"), conversation=here.id)
        raise KeyError
    assert other.turns(here.id) == [turn]
    assert store.append(new_turn("next"), conversation=here.id).order == 1
    other.close()


def test_what_sqlite_undid_is_never_taken_for_kept(store: SqliteTurnStore) -> None:
    here = store.create_conversation()
    with pytest.raises(StoreUnwritable, match="SQLite rolled back"), store.together():
        store.append(new_turn("lost"), conversation=here.id)
        connection = store._file._connected(store._file._writer)
        connection.execute("ROLLBACK")  # as SQLite does by itself when the disk is full
        with pytest.raises(StoreUnwritable):
            store.put_records({"a": b"1"}, shelf="s")
    assert store.turns(here.id) == []
    assert store.count_records(shelf="s") == 0


def test_a_stored_turn_takes_few_statements(store: SqliteTurnStore) -> None:
    here = store.create_conversation()
    files = [replace(one.span, path=f"{n}.py") for n, one in enumerate(full_turn().citations * 4)]
    cited = tuple(replace(full_turn().citations[0], n=n, span=span) for n, span in enumerate(files))
    statements: list[str] = []
    connection = store._file._connected(store._file._writer)
    connection.set_trace_callback(statements.append)
    for most in (12, 10):  # the first one cites new files
        store.append(replace(full_turn(), citations=cited), conversation=here.id)
        assert len(statements) <= most, "\n".join(statements)
        statements.clear()
    with store.together():
        statements.clear()
        store.put_records({"a": b"1"}, shelf="s")
        store.append(replace(full_turn(), citations=cited), conversation=here.id)
    assert len(statements) <= 11 and not any("SAVEPOINT" in one for one in statements)


def test_a_call_that_fails_in_the_middle_leaves_nothing_of_the_group(
    store: SqliteTurnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = store.create_conversation()
    with pytest.raises(StoreUnwritable, match="rolled back"), store.together():
        store.put_records({"a": b"1"}, shelf="s")
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_words, "GATHERED", None)
            with pytest.raises(TypeError):
                store.append(new_turn("half"), conversation=here.id)
        with pytest.raises(StoreUnwritable):
            store.append(new_turn("late"), conversation=here.id)
    assert store.turns(here.id) == [] and store.count_records(shelf="s") == 0
    with store.together():
        with pytest.raises(KeyError), store.together():
            store.append(new_turn("undone"), conversation=here.id)
            raise KeyError
        store.append(new_turn("kept"), conversation=here.id)
    assert [turn.question for turn in store.turns(here.id)] == ["kept"]


# ---------------------------------------------------------------- SQLite: other processes


def run_python(code: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


APPEND = """
import sys
from pathlib import Path
from rag.backends.sqlite import words as sqlite_words
from rag.backends.sqlite.turns import SqliteTurnStore
from tests.contracts.turn_store import full_turn
sqlite_words.GATHERED = 60  # every third append merges
store = SqliteTurnStore(Path(sys.argv[1]))
for _ in range(int(sys.argv[3])):
    print(store.append(full_turn(), conversation=sys.argv[2]).id, flush=True)
"""


def test_a_killed_process_loses_no_acknowledged_turn(path: Path, store: SqliteTurnStore) -> None:
    here = store.create_conversation()
    acknowledged: list[str] = []
    for enough in (1, 7, 30):
        child = subprocess.Popen(
            [sys.executable, "-c", APPEND, str(path), here.id, "1000000"], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        with child.stdout as lines:
            acknowledged += [next(lines).strip() for _ in range(enough)]
            child.send_signal(signal.SIGKILL)
            # What it wrote before it died was acknowledged too; only a cut last line was not.
            acknowledged += [line.strip() for line in lines if line.endswith("\n")]
        assert child.wait() == -signal.SIGKILL
    turns = store.turns(here.id)
    assert set(acknowledged) <= {turn.id for turn in turns}
    assert len(turns) <= len(acknowledged) + 3
    assert [turn.order for turn in turns] == list(range(len(turns)))
    assert all(turn.citations == full_turn().citations for turn in turns)
    assert store.matching(["北京"]).holders == (len(turns),)
    assert store.append(new_turn("?"), conversation=here.id).order == len(turns)


def test_processes_that_begin_at_once_share_one_file(path: Path) -> None:
    code = """
    import sys
    from pathlib import Path
    from rag.backends.sqlite import words as sqlite_words
    from rag.backends.sqlite.turns import SqliteTurnStore
    from rag.errors import ConversationMismatch
    from tests.contracts.turn_store import new_turn
    sqlite_words.GATHERED = 2_000  # postings are merged as often as by four times as many turns
    store = SqliteTurnStore(Path(sys.argv[1]))
    try:
        store.create_conversation(name="demo")
    except ConversationMismatch:
        pass
    here = store.conversation("demo")
    for n in range(0, 250, 5):
        turns = [new_turn(f"{sys.argv[2]}-{k}") for k in range(n, n + 5)]
        if n % 2:
            store.extend(turns, conversation=here.id)
        for turn in turns:
            store.append(turn, conversation=here.id)  # those just stored are known
    store.close()
    """
    children = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), str(path), str(n)]) for n in range(4)
    ]
    assert [child.wait() for child in children] == [0, 0, 0, 0]
    store = SqliteTurnStore(path)
    turns = store.turns(store.conversation("demo").id)
    assert store.matching(["yes"]).holders == (1000,)
    store.close()
    assert [turn.order for turn in turns] == list(range(1000))
    for n in range(4):
        own = [turn.question for turn in turns if turn.question.startswith(f"{n}-")]
        assert own == [f"{n}-{k}" for k in range(250)]


def _append_in_child(store: SqliteTurnStore, conversation: str, inherited: sqlite3.Connection) -> None:
    for _ in range(10):
        store.append(new_turn("child"), conversation=conversation)
    assert store._file._writer.connection is not inherited


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_in_the_middle_of_writing_uses_a_connection_of_its_own(store: SqliteTurnStore) -> None:
    here = store.create_conversation()
    arguments = (store, here.id, store._file._writer.connection)
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=_append_in_child, args=arguments, daemon=True) for _ in range(6)]
    with ThreadPoolExecutor(4) as pool:
        written = [pool.submit(store.append, new_turn("parent"), conversation=here.id) for _ in range(200)]
        for child in children:
            child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * 6
    assert len({each.result().id for each in written}) == 200
    assert [turn.order for turn in store.turns(here.id)] == list(range(260))


def test_a_full_disk_is_an_error_that_loses_nothing(path: Path, store: SqliteTurnStore) -> None:
    here = store.create_conversation()
    turn = store.append(full_turn(), conversation=here.id)
    code = """
    import resource, sys
    from pathlib import Path
    from rag.backends.sqlite.turns import SqliteTurnStore
    from rag.errors import StoreUnwritable
    from tests.contracts.turn_store import full_turn, new_turn
    store = SqliteTurnStore(Path(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    kept = 0
    try:
        while True:
            store.append(new_turn("x" * 20_000), conversation=sys.argv[2])
            kept += 1
    except StoreUnwritable as error:
        print(kept, len(store.turns(sys.argv[2])), error)
    """
    done = run_python(code, str(path), here.id)
    assert done.returncode == 0, done.stderr
    kept, seen, message = done.stdout.split(" ", 2)
    assert int(seen) == int(kept) + 1 and str(path) in message and "free some disk space" in message
    turns = store.turns(here.id)
    assert turns[0] == turn
    assert [each.order for each in turns] == list(range(int(seen)))
    assert store.append(new_turn("?"), conversation=here.id).order == len(turns)


def test_a_folder_without_permission_is_named() -> None:
    code = """
    import os, sys
    from pathlib import Path
    from rag.backends.sqlite.turns import SqliteTurnStore
    from rag.errors import StoreUnwritable
    if os.geteuid() == 0:
        os.setuid(65534)  # file modes do not bind root
    for path in map(Path, sys.argv[1:]):
        try:
            store = SqliteTurnStore(path)
            assert store.namespaces() == []
            store.put_records({"key": b"value"}, shelf="kept")
        except StoreUnwritable as error:
            print(error)
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        there, new = folder / "turns.db", folder / "new" / "turns.db"
        SqliteTurnStore(there).close()
        there.chmod(0o444)
        folder.chmod(0o555)
        done = run_python(code, str(there), str(new))
        folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [
        f"cannot write {there}",
        f"cannot write {new}",
    ]
