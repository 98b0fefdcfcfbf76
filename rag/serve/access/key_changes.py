"""Adding, renewing, replacing and removing keys, in a file or for all servers of a database."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from rag.decoding import text_of
from rag.errors import NotFound, SettingsError
from rag.parsing import parse_toml
from rag.ports import SharedState
from rag.quoting import string_literal
from rag.resources import make_private
from rag.serve.access.keys import NAME, Sharing, key_hash, keys_of

Entry = Mapping[str, Any]
_ALONE = Sharing()
_HEAD = re.compile(r"(?m)^(?=\[\[\s*key\s*\]\])")


class KeyStore(Protocol):
    """Where entries of keys are stored, by name.

    Raises:
        SettingsError, StoreError: from every method, if the place cannot be read or written.
    """

    def entries(self) -> dict[str, Entry]:
        """Return all entries."""
        ...

    def add(self, name: str, entry: Entry) -> bool:
        """Store an entry; False if the name is taken."""
        ...

    def replace(self, name: str, old: Entry, new: Entry) -> bool:
        """Replace an entry that is still `old`; False if it is not."""
        ...

    def remove(self, name: str) -> bool:
        """Remove an entry; False if there was none."""
        ...


class SharedKeys(KeyStore):
    """The keys of all servers of a database."""

    def __init__(self, state: SharedState) -> None:
        self._state = state

    def entries(self) -> dict[str, Entry]:
        return self._state.keys()

    def add(self, name: str, entry: Entry) -> bool:
        return self._state.add_key(name, entry)

    def replace(self, name: str, old: Entry, new: Entry) -> bool:
        return self._state.replace_key(name, old, new)

    def remove(self, name: str) -> bool:
        return self._state.remove_key(name)


class FileKeys(KeyStore):
    """The keys in a TOML file. Entries that are not changed, and comments, stay as they are."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def entries(self) -> dict[str, Entry]:
        try:
            return _entries(text_of(self._path.read_bytes()))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise SettingsError(f"cannot read the keys in {self._path}: {error}; fix or remove it") from error

    def add(self, name: str, entry: Entry) -> bool:
        with self._locked():
            return name not in self.entries() and self._write(name, entry)

    def replace(self, name: str, old: Entry, new: Entry) -> bool:
        with self._locked():
            return self.entries().get(name) == old and self._write(name, new)

    def remove(self, name: str) -> bool:
        with self._locked():
            return name in self.entries() and self._write(name, None)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from changing the file in the block; it is created if it is missing."""
        try:
            make_private(self._path.parent)
            handle = self._lock()
        except OSError as error:
            raise SettingsError(f"cannot write {self._path}: {error.strerror}") from error
        try:
            yield
        finally:
            os.close(handle)

    def _lock(self) -> int:
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(handle), self._path.stat()):
                return handle
            os.close(handle)  # another process has replaced the file

    def _write(self, name: str, entry: Entry | None) -> bool:
        """Write one entry, or remove it; the file is replaced at once."""
        wanted = {**{key: one for key, one in self.entries().items() if key != name}}
        wanted |= {} if entry is None else {name: entry}
        try:
            text = self._changed(name, entry)
            is_kept = _entries(text) == wanted
        except ValueError:
            is_kept = False
        if not is_kept:
            raise SettingsError(f"{self._path} cannot be changed without losing something; edit it yourself")
        temporary = ""
        try:
            handle, temporary = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(handle)
            Path(temporary).replace(self._path)
        except OSError as error:
            Path(temporary).unlink(missing_ok=True)
            raise SettingsError(f"cannot write {self._path}: {error.strerror}") from error
        return True

    def _changed(self, name: str, entry: Entry | None) -> str:
        """Return the text of the file with this entry instead of the one of that name. Raises ValueError."""
        head, *blocks = _HEAD.split(text_of(self._path.read_bytes()))
        parts, new = [head], "" if entry is None else _block(entry)
        for block in blocks:
            if name not in _entries(block):
                parts.append(block.rstrip() + "\n\n")
                continue
            comments = [line for line in block.splitlines() if line.lstrip().startswith("#")]
            parts += [new, *(f"{line}\n" for line in comments)]
            new = ""
        return "".join([*parts, new])


def _entries(text: str) -> dict[str, Entry]:
    return {str(entry.get("name", "")): entry for entry in parse_toml(text).get("key", [])}


def _block(entry: Entry) -> str:
    lines = [f"{name} = {_toml(value)}\n" for name, value in entry.items()]
    return "".join(["[[key]]\n", *lines, "\n"])


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return string_literal(value)
    return json.dumps(value) if isinstance(value, bool | int) else str(value)


def new_key(
    store: KeyStore,
    name: str,
    namespace: str | None = None,
    shared: Sharing = _ALONE,
    expires: datetime | None = None,
) -> str:
    """Create a key, store its hash, and return it. It cannot be recovered later.

    Raises:
        SettingsError: the name is taken or invalid.
    """
    namespace = name if namespace is None else namespace
    if not NAME.fullmatch(name) or not (NAME.fullmatch(namespace) or namespace == ""):
        raise SettingsError(
            f"{name!r} is not a valid key name; use letters, digits, '.', '_', '-', '@' and '+', at most 64 "
            "characters"
        )
    entry = {"name": name, "namespace": namespace, "project": shared.project, "team": shared.team}
    entry |= {"writes": shared.writes} if shared != Sharing() else {}
    entry |= {"expires": "" if expires is None else expires.isoformat(timespec="seconds")}
    key = _secret()
    entry = {name: value for name, value in entry.items() if value or name == "namespace"}
    if not store.add(name, {**entry, "sha256": key_hash(key)}):
        raise SettingsError(
            f"a key named {name} exists; choose another name, or use `rag keys rotate {name}` or "
            f"`rag keys remove {name}`"
        )
    return key


def renew_key(store: KeyStore, name: str, expires: datetime | None) -> None:
    """Let a key expire at another time, or never.

    Raises:
        NotFound: there is no such key.
        SettingsError: another process has changed it at the same time.
    """
    old = _found(store, name)
    new = {key: value for key, value in old.items() if key != "expires"}
    if expires is not None:
        new["expires"] = expires.isoformat(timespec="seconds")
    _replace(store, name, old, new)


def rotate_key(
    store: KeyStore, name: str, *, previous_until: datetime | None, expires: datetime | None = None
) -> str:
    """Replace a key by a new one with the same name and rights, and return it.

    Args:
        store: where it is stored.
        name: its name.
        previous_until: until when the previous key is accepted too; None refuses it at once.
        expires: when the new one expires; None keeps the time of the previous one.

    Raises:
        NotFound, SettingsError: as `renew_key`.
    """
    old = _found(store, name)
    key = _secret()
    new = {field: value for field, value in old.items() if not field.startswith("previous_")}
    new["sha256"] = key_hash(key)
    if expires is not None:
        new["expires"] = expires.isoformat(timespec="seconds")
    if previous_until is not None:
        new["previous_sha256"] = old["sha256"]
        new["previous_until"] = previous_until.isoformat(timespec="seconds")
    _replace(store, name, old, new)
    return key


def remove_key(store: KeyStore, name: str) -> None:
    """Remove a key. Raises NotFound if there is none."""
    if not store.remove(name):
        raise _unknown(name)


def add_key(
    path: Path,
    name: str,
    namespace: str | None = None,
    shared: Sharing = _ALONE,
    expires: datetime | None = None,
) -> str:
    """Create a key in a file, see `new_key`."""
    return new_key(FileKeys(path), name, namespace, shared, expires)


def _secret() -> str:
    return f"rag-{secrets.token_urlsafe(32)}"


def _found(store: KeyStore, name: str) -> Entry:
    entry = store.entries().get(name)
    if entry is None:
        raise _unknown(name)
    return entry


def _replace(store: KeyStore, name: str, old: Entry, new: Entry) -> None:
    try:
        keys_of(new)
    except (ValueError, TypeError, AttributeError) as error:
        raise SettingsError(f"the key {name} is damaged: {error}; remove it and add it again") from error
    if not store.replace(name, old, new):
        raise SettingsError(f"another process has just changed the key {name}; try again")


def _unknown(name: str) -> NotFound:
    return NotFound(f"there is no key named {name!r}; `rag keys list` lists the keys")
