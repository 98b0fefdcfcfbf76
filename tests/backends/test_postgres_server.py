"""Postgres across processes, kills, full disks, and servers that are not there or let nobody in."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import quote

import psycopg
import pytest
from command import rag
from psycopg import errors

from rag import backends
from rag.backends.memory.turns import MemoryTurnStore
from rag.backends.postgres import words as postgres_words
from rag.backends.postgres.errors import translated
from rag.backends.postgres.schema import MIGRATIONS
from rag.backends.postgres.server import Db, PostgresServer
from rag.backends.postgres.storage import PostgresTransaction
from rag.backends.postgres.turns import PostgresTurnStore
from rag.backends.sqlite.turns import SqliteTurnStore
from rag.errors import (
    BackendMissing,
    NotFound,
    SettingsError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreTooNew,
    StoreUnreachable,
    StoreUnwritable,
)
from rag.settings import Settings
from tests.contracts.clock import SteppedClock
from tests.contracts.sample_turns import add_turns, full_turn, new_turn
from tests.contracts.store_moves import filled, over_json
from tests.servers.postgres import LocalPostgres, missing

SECRET = "pa/ss:w@rd"


@pytest.fixture
def url(postgres: LocalPostgres) -> Iterator[str]:
    """The address of an empty database."""
    with postgres.database("fresh") as url:
        yield url


@pytest.fixture
def store(url: str) -> Iterator[PostgresTurnStore]:
    store = PostgresTurnStore(url)
    yield store
    store.close()


@pytest.fixture
def own_server() -> Iterator[LocalPostgres]:
    """A server that a test may kill; what is committed is forced to the disk."""
    if lacking := missing():
        pytest.skip(lacking)
    with LocalPostgres(durable=True) as server:
        yield server


def rows(url: str, *tables: str) -> list[int]:
    """How many rows some tables have."""
    with psycopg.connect(url) as db:
        return [db.execute(f"SELECT count(*) FROM rag.{table}").fetchone()[0] for table in tables]


# ---------------------------------------------------------------- opening


def test_a_closed_store_opens_again_with_everything(url: str, store: PostgresTurnStore) -> None:
    here = store.create_conversation(name="demo")
    turn = store.append(full_turn(), conversation=here.id)
    copy = pickle.loads(pickle.dumps(store))
    assert copy.turns(here.id) == [turn]
    copy.close()
    store.close()
    with pytest.raises(ValueError, match="closed"):
        store.turn(turn.id)
    again = backends.open_turn_store(Settings(memory=url))
    assert again.turns(again.conversation("demo").id) == [turn]
    again.close()


def test_nothing_connects_before_the_first_call() -> None:
    store = PostgresTurnStore(f"postgresql://ada:{quote(SECRET, safe='')}@127.0.0.1:1/turns")
    assert repr(store) == "PostgresTurnStore('postgresql://ada@127.0.0.1:1/turns')"
    with pytest.raises(StoreUnreachable, match=r"postgresql://ada@127\.0\.0\.1:1/turns.*refused"):
        store.conversations()
    store.close()


def test_many_that_open_at_once_make_the_tables_once(url: str) -> None:
    def opened(_: int) -> str:
        store = PostgresTurnStore(url)
        made = store.create_conversation().id
        store.close()
        return made

    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(opened, range(8)))
    assert rows(url, "schema_version", "conversation") == [1, len(made)] == [1, 8]


def test_a_newer_schema_is_left_alone(url: str, store: PostgresTurnStore) -> None:
    store.namespaces()
    with psycopg.connect(url) as db:
        db.execute("UPDATE rag.schema_version SET version = version + 1")
    with pytest.raises(StoreTooNew, match="upgrade rag") as caught:
        PostgresTurnStore(url).namespaces()
    assert (caught.value.found, caught.value.supported) == (len(MIGRATIONS) + 1, len(MIGRATIONS))


def test_the_schema_of_another_program_is_named_and_left_alone(url: str, store: PostgresTurnStore) -> None:
    with psycopg.connect(url) as db:
        db.execute("CREATE SCHEMA rag")
        db.execute("CREATE TABLE rag.bookmarks (url text)")
    with pytest.raises(StoreCorrupt, match="another program"):
        store.namespaces()
    with psycopg.connect(url) as db:
        found = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'rag'").fetchall()
    assert found == [("bookmarks",)]


def test_an_address_that_cannot_be_read_is_not_repeated() -> None:
    for bad in ("ada:%ZZ@host/turns", f"ada:{SECRET}@host:5432/turns", "ada:se/cret@host/turns"):
        with pytest.raises(SettingsError, match="special characters") as caught:
            PostgresTurnStore(f"postgresql://{bad}")
        assert "w@rd" not in str(caught.value) and "cret" not in str(caught.value)


def test_a_missing_package_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("rag.backends.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(BackendMissing, match=r"psycopg.*pip install '\.\[postgres\]'"):
        backends.open_turn_store(Settings(memory="postgresql://localhost/turns"))


# ---------------------------------------------------------------- what a server refuses


def test_every_error_of_postgres_is_one_of_ours() -> None:
    expected = {
        "08006": StoreUnreachable,
        "28P01": StoreUnreachable,
        "3D000": StoreUnreachable,
        "57P01": StoreUnreachable,
        "57P03": StoreUnreachable,
        "53100": StoreUnwritable,
        "53200": StoreUnwritable,
        "42501": StoreUnwritable,
        "25006": StoreUnwritable,
        "53300": StoreBusy,
        "55P03": StoreBusy,
        "40P01": StoreBusy,
        "42P01": StoreCorrupt,
        "XX001": StoreCorrupt,
    }
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    known = {kind.sqlstate: kind for kind in classes if issubclass(kind, psycopg.Error) and kind.sqlstate}
    assert len(known) > 200
    for sqlstate, kind in known.items():
        ours = translated(kind("why"), path="postgresql://h/d", waited_s=1)
        assert isinstance(ours, StoreError) and "postgresql://h/d" in str(ours)
        assert type(ours) is expected.get(sqlstate, type(ours)), sqlstate
    for kind in (psycopg.OperationalError, psycopg.InterfaceError):
        assert isinstance(translated(kind("why"), path="p", waited_s=1), StoreUnreachable)


def test_a_user_without_the_right_password_is_told_so(postgres: LocalPostgres, url: str) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as db:
        db.execute(f"CREATE USER locked PASSWORD '{SECRET}'")
    wrong = PostgresTurnStore(postgres.url("fresh", user="locked", password=SECRET + "!"))
    with pytest.raises(StoreUnreachable, match="password authentication failed") as caught:
        wrong.namespaces()
    right = PostgresTurnStore(postgres.url("fresh", user="locked", password=SECRET))
    with pytest.raises(StoreUnwritable, match=r"permission denied.*CREATE on the database") as refused:
        right.namespaces()
    with psycopg.connect(url) as db:
        db.execute("GRANT CREATE ON DATABASE fresh TO locked")
    assert right.namespaces() == []
    right.close()
    for told_ in (caught, refused):
        assert "w@rd" not in str(told_.value) and "w%40rd" not in str(told_.value)


def test_a_database_that_is_not_there_is_named(postgres: LocalPostgres) -> None:
    with pytest.raises(StoreUnreachable, match=r'/nowhere.*"nowhere" does not exist'):
        PostgresTurnStore(postgres.url("nowhere")).namespaces()


def test_what_can_only_be_read_is_read(url: str, store: PostgresTurnStore) -> None:
    here = store.create_conversation()
    add_turns(store, here.id, "?")
    with psycopg.connect(url) as db:
        db.execute("CREATE ROLE reader LOGIN")
        db.execute("GRANT USAGE ON SCHEMA rag TO reader")
        db.execute("GRANT SELECT ON ALL TABLES IN SCHEMA rag TO reader")
    reader = PostgresTurnStore(url.replace("postgres@", "reader@"))
    assert [turn.question for turn in reader.turns(here.id)] == ["?"]
    with pytest.raises(StoreUnwritable, match="permission denied"):
        add_turns(reader, here.id, "!")
    reader.close()
    standby = PostgresTurnStore(url + "&options=-cdefault_transaction_read_only%3Don")
    assert len(standby.turns(here.id)) == 1
    with pytest.raises(StoreUnwritable, match=r"read-only transaction.*accepts writes"):
        add_turns(standby, here.id, "!")
    standby.close()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("DROP OWNED BY reader")
        db.execute("DROP ROLE reader")


def test_a_full_disk_is_an_error_that_loses_nothing(url: str, store: PostgresTurnStore) -> None:
    here = store.create_conversation()
    kept = add_turns(store, here.id, "kept")
    with psycopg.connect(url) as db:
        db.execute(
            "CREATE FUNCTION rag.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
            "'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$"
        )
        db.execute("CREATE TRIGGER full_disk AFTER INSERT ON rag.pending EXECUTE FUNCTION rag.full_disk()")
    with pytest.raises(StoreUnwritable, match=r"No space left.*free space on the server"):
        add_turns(store, here.id, "lost", "lost, too")
    with psycopg.connect(url) as db:
        db.execute("DROP TRIGGER full_disk ON rag.pending")
    assert store.turns(here.id) == kept
    assert add_turns(store, here.id, "next")[0].order == 1
    assert store.matching(["lost"]).holders == (0,)


def test_a_writer_that_never_ends_is_reported(url: str, store: PostgresTurnStore) -> None:
    here = store.create_conversation()
    other = PostgresTurnStore(url, busy_timeout_s=0.05)
    with psycopg.connect(url) as db:
        db.execute("SELECT 1 FROM rag.conversation FOR UPDATE")
        with pytest.raises(StoreBusy, match="writing"):
            add_turns(other, here.id, "?")
        assert other.turns(here.id) == []  # who reads never waits
    assert add_turns(other, here.id, "?")[0].order == 0
    other.close()


# ---------------------------------------------------------------- connections


def test_connections_are_shared_and_bounded(url: str) -> None:
    store = PostgresTurnStore(url + "&application_name=bounded", max_connections=3)
    here = store.create_conversation()
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda n: add_turns(store, here.id, str(n)), range(60)))
    with psycopg.connect(url) as db:
        counted = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bounded'"
        (before,) = db.execute(counted).fetchone() or (None,)
    assert before is not None and 1 <= before <= 3
    assert len(store.turns(here.id)) == 60
    store.close()


def test_any_number_of_turns_takes_the_same_statements(
    store: PostgresTurnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = store.create_conversation()
    add_turns(store, here.id, "the connection is there")
    sent: list[object] = []
    execute = psycopg.Connection.execute

    def counting(self: psycopg.Connection, query: object, *rest: object, **more: object) -> object:
        sent.append(query)
        return execute(self, query, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(psycopg.Connection, "execute", counting)
    counts = []
    for turns in (1, 200):
        sent.clear()
        store.extend([full_turn() for _ in range(turns)], conversation=here.id)
        counts.append(len(sent))
    assert counts[0] == counts[1] <= 8


# ---------------------------------------------------------------- other processes


APPEND = """
import sys
from rag.backends.postgres.turns import PostgresTurnStore
from tests.contracts.sample_turns import full_turn
store = PostgresTurnStore(sys.argv[1])
while True:
    print(store.append(full_turn(), conversation=sys.argv[2]).id, flush=True)
"""


def test_a_killed_writer_loses_no_acknowledged_turn(url: str, store: PostgresTurnStore) -> None:
    here = store.create_conversation()
    acknowledged: list[str] = []
    for enough in (1, 30):
        child = subprocess.Popen(
            [sys.executable, "-c", APPEND, url, here.id], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        with child.stdout as lines:
            acknowledged += [next(lines).strip() for _ in range(enough)]
            child.send_signal(signal.SIGKILL)
            # What it wrote before it died was acknowledged too; only a cut last line was not.
            acknowledged += [line.strip() for line in lines if line.endswith("\n")]
        assert child.wait() == -signal.SIGKILL
    add_turns(store, here.id, "?")  # waits for what a server process still does for the dead
    turns = store.turns(here.id)
    assert set(acknowledged) <= {turn.id for turn in turns}
    assert len(turns) <= len(acknowledged) + 3
    assert [turn.order for turn in turns] == list(range(len(turns)))


def test_a_killed_server_loses_no_acknowledged_turn(own_server: LocalPostgres) -> None:
    store = PostgresTurnStore(own_server.url())
    here = store.create_conversation()
    acknowledged: list[str] = []

    def write() -> None:
        while True:
            acknowledged.append(store.append(full_turn(), conversation=here.id).id)

    for enough in (20, 40):
        with ThreadPoolExecutor(3) as pool:
            writers = [pool.submit(write) for _ in range(3)]
            while len(acknowledged) < enough:
                assert not any(writer.done() for writer in writers)
            own_server.kill()
            for writer in writers:
                assert isinstance(writer.exception(), StoreUnreachable)
        with pytest.raises(StoreUnreachable):
            store.turns(here.id)
        own_server.start()
        turns = store.turns(here.id)  # the same store goes on
        assert set(acknowledged) <= {turn.id for turn in turns}
        assert [turn.order for turn in turns] == list(range(len(turns)))
        assert store.matching(["text"]).items == len(turns)
    store.close()


def test_commits_wait_for_the_disk_whatever_the_database_says(url: str, store: PostgresTurnStore) -> None:
    with psycopg.connect(url) as db:
        db.execute("ALTER DATABASE fresh SET synchronous_commit = off")
    with store._server.reading(lambda db: db.execute("SHOW synchronous_commit")) as (_, shown):
        assert shown.fetchone() == ("on",)


def test_processes_that_begin_at_once_share_one_database(url: str) -> None:
    code = """
    import sys
    from rag.backends.postgres.turns import PostgresTurnStore
    from rag.errors import ConversationMismatch
    from tests.contracts.sample_turns import new_turn
    store = PostgresTurnStore(sys.argv[1])
    try:
        store.create_conversation(name="demo")
    except ConversationMismatch:
        pass
    here = store.conversation("demo")
    for n in range(0, 400, 20):
        turns = [new_turn(f"{sys.argv[2]}-{k}") for k in range(n, n + 20)]
        if n % 100:
            store.extend(turns, conversation=here.id)
        for turn in turns[: 20 if n % 100 == 0 else 1]:
            store.append(turn, conversation=here.id)  # one just stored is known
    store.close()
    """
    children = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), url, str(n)]) for n in range(4)
    ]
    assert [child.wait() for child in children] == [0, 0, 0, 0]
    store = PostgresTurnStore(url)
    turns = store.turns(store.conversation("demo").id)
    store.close()
    assert [turn.order for turn in turns] == list(range(1600))
    for n in range(4):
        own = [turn.question for turn in turns if turn.question.startswith(f"{n}-")]
        assert own == [f"{n}-{k}" for k in range(400)]


def _append_in_child(store: PostgresTurnStore, conversation: str) -> None:
    for _ in range(5):
        store.append(new_turn("child"), conversation=conversation)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_in_the_middle_of_writing_uses_connections_of_its_own(store: PostgresTurnStore) -> None:
    here = store.create_conversation()
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=_append_in_child, args=(store, here.id), daemon=True) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        written = [pool.submit(store.append, new_turn("parent"), conversation=here.id) for _ in range(100)]
        for child in children:
            child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * 4
    assert len({each.result().id for each in written}) == 100
    assert [turn.order for turn in store.turns(here.id)] == list(range(120))


def test_what_is_forked_and_taken_back_at_once_leaves_nothing_behind(
    url: str, store: PostgresTurnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_words, "GATHERED", 60)
    main = store.create_conversation(keep_last=6)

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for n in range(12):
            here = chance.choice(store.conversations()).id
            act = chance.choice(("tell", "tell", "fork", "fork", "rewind", "delete", "edit"))
            try:
                if act == "tell":
                    add_turns(store, here, f"{seed}-{n}", "token")
                elif act == "fork":
                    add_turns(store, store.fork(here).id, f"fork {seed}-{n}")
                elif act == "rewind":
                    store.rewind(here, to=chance.randrange(-1, 6))
                elif act == "delete" and here != main.id:
                    store.delete_conversation(here)
                elif act == "edit" and (turns := store.turns(here)):
                    store.edit_turn(new_turn("token, edited", id=turns[0].id))
            except NotFound:
                pass  # another was faster

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    shown = {turn.id for one in store.conversations() for turn in store.turns(one.id)}
    found = store.matching(["token"])
    assert rows(url, "item") == [len(shown)] and found.items == len(shown)
    assert {holder.id for holder in found.found} <= shown
    for one in store.conversations():
        assert one.turn_count == len(store.turns(one.id))
        store.delete_conversation(one.id)
    assert rows(url, "item", "posting", "pending", "version", "cited", "viewer", "conversation") == [0] * 7


def test_a_statement_that_a_failed_transaction_would_have_prepared_works_afterwards(url: str) -> None:
    """psycopg prepares a statement at its sixth execution, here in a transaction that fails."""
    server = PostgresServer(url, max_connections=1)

    def ask(db: Db) -> Any:
        return db.execute("SELECT 1 + 1")

    def fail(*, ask_too: bool) -> None:
        with pytest.raises(StoreError), server.writing(lambda db: None) as (db, _):
            db.execute("SELECT 1 / 0")
            if ask_too:
                ask(db)

    fail(ask_too=False)
    for _ in range(5):
        with server.writing(ask):
            pass
    fail(ask_too=True)
    for _ in range(2):
        with server.writing(ask) as (_, asked):
            assert asked.fetchone() == (2,)
    server.close()


# ---------------------------------------------------------------- moving


def test_everything_moves_between_all_kinds_of_store(tmp_path: Path, url: str) -> None:
    clock = SteppedClock()
    stores = [
        SqliteTurnStore(tmp_path / "a.db", clock=clock),
        PostgresTurnStore(url, clock=clock),
        MemoryTurnStore(clock=clock),
        PostgresTurnStore(url, schema="back", clock=clock),
        SqliteTurnStore(tmp_path / "b.db", clock=clock),
    ]
    filled(stores[0], clock)
    first = over_json(stores[0].dump())
    for from_, to in pairwise(stores):
        assert to.restore(from_.dump()) == 5
        assert over_json(to.dump()) == first
        assert to.matching(["北京", "text"]) == stores[0].matching(["北京", "text"])
    assert json.dumps(first)
    for each in stores:
        each.close()


def test_a_migration_that_fails_changes_nothing(url: str) -> None:
    def version(*more: LiteralString) -> object:
        server = PostgresServer(url, migrations=(*MIGRATIONS, *more))
        try:
            with server.reading(lambda db: db.execute("SELECT version FROM schema_version")) as (_, found):
                return found.fetchone()
        finally:
            server.close()

    assert version() == (len(MIGRATIONS),)
    with pytest.raises(StoreError, match="nonsense"):
        version("CREATE TABLE more (x integer)", "nonsense")
    assert version("CREATE TABLE more (x integer)") == (len(MIGRATIONS) + 1,)


def test_a_backup_brings_a_file_into_a_database_and_back(tmp_path: Path, url: str) -> None:
    file = SqliteTurnStore(tmp_path / "a.db")
    here = file.create_conversation(name="demo", namespace="ada")
    file.append(full_turn(), conversation=here.id, namespace="ada")
    file.put_records({"k\udcff": b"\0"}, shelf="s")
    before = {each: over_json(file.dump(namespace=each)) for each in file.namespaces()}
    file.close()
    stores = [f"sqlite:///{tmp_path / 'a.db'}", url, f"sqlite:///{tmp_path / 'b.db'}"]
    for number, (source, target) in enumerate(pairwise(stores)):
        backup = tmp_path / f"backup{number}"
        assert rag("turns", "backup", backup, "--memory", source).code == 0
        assert rag("turns", "restore", backup, "--memory", target).code == 0
    again = SqliteTurnStore(tmp_path / "b.db")
    assert {each: over_json(again.dump(namespace=each)) for each in again.namespaces()} == before
    again.close()


# ---------------------------------------------------------------- several hosts


def _hosts(*folders: Path | str) -> str:
    return f"postgresql://postgres@/postgres?host={','.join(map(str, folders))}"


def test_an_address_of_several_hosts_is_shown_without_secrets() -> None:
    shown = {
        "ada:secret@h1,h2/turns": "ada@h1,h2/turns",
        "ada:secret@h1:1,h2:2/turns": "ada@h1:1,h2:2/turns",
        "[::1]:1,h2:2/turns?target_session_attrs=any": "[::1]:1,h2:2/turns",
        "h1,h2/turns?port=7": "h1:7,h2:7/turns",
    }
    for given, path in shown.items():
        assert repr(PostgresTurnStore(f"postgresql://{given}")) == f"PostgresTurnStore('postgresql://{path}')"


def test_of_several_hosts_the_one_that_accepts_writes_is_used(postgres: LocalPostgres) -> None:
    with LocalPostgres(default_transaction_read_only="on") as standby:
        store = PostgresTurnStore(_hosts(standby.folder, postgres.folder), schema="several")
        here = store.create_conversation()
        add_turns(store, here.id, "?")
        store.close()
        only = PostgresTurnStore(_hosts(standby.folder, standby.folder), busy_timeout_s=0.3)
        with pytest.raises(StoreUnreachable, match="read-only"):
            only.namespaces()
    with psycopg.connect(postgres.url(), autocommit=True) as db:
        assert db.execute("SELECT count(*) FROM several.item").fetchone() == (1,)
        db.execute("DROP SCHEMA several CASCADE")


def test_a_wrong_password_is_reported_at_once(own_server: LocalPostgres) -> None:
    with psycopg.connect(own_server.url(), autocommit=True) as db:
        db.execute("CREATE USER locked PASSWORD 'right'")
    hosts = _hosts(own_server.folder, own_server.folder).replace("postgres@", "locked:wrong@")
    store = PostgresTurnStore(hosts, busy_timeout_s=600)
    with pytest.raises(StoreUnreachable, match="password authentication failed"):
        store.namespaces()
    store.close()


def test_calls_wait_for_another_primary(own_server: LocalPostgres) -> None:
    with LocalPostgres(default_transaction_read_only="on") as standby:
        store = PostgresTurnStore(_hosts(own_server.folder, standby.folder))
        here = store.create_conversation()
        kept = add_turns(store, here.id, "kept")
        own_server.kill()
        with ThreadPoolExecutor(4) as pool:
            waiting = [pool.submit(store.append, new_turn(str(n)), conversation=here.id) for n in range(4)]
            reading = pool.submit(store.turns, here.id, last=1)
            own_server.start()
            assert sorted(each.result().order for each in waiting) == [1, 2, 3, 4]
            assert len(reading.result()) == 1
        assert store.turns(here.id)[0] == kept[0]
        store.close()


def test_a_call_whose_server_is_lost_before_its_commit_is_repeated(own_server: LocalPostgres) -> None:
    store = PostgresTurnStore(_hosts(own_server.folder, own_server.folder))
    here = store.create_conversation()
    lost = iter([True])
    insert = PostgresTransaction.append

    with pytest.MonkeyPatch.context() as patch:

        def append(self: PostgresTransaction, *args: object) -> None:
            insert(self, *args)  # type: ignore[arg-type]
            if next(lost, False):
                own_server.kill()
                own_server.start()
                self.totals("")  # notices it

        patch.setattr(PostgresTransaction, "append", append)
        add_turns(store, here.id, "once")
    assert [turn.question for turn in store.turns(here.id)] == ["once"]
    store.close()
