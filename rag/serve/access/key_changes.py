"""Adding, renewing, replacing and removing the keys of a server."""

from __future__ import annotations

import json
import secrets
from datetime import datetime
from pathlib import Path

from rag.decoding import text_of
from rag.errors import NotFound, SettingsError
from rag.parsing import parse_toml
from rag.serve.access.keys import NAME, KeyRecords, Sharing, key_hash, keys_of
from rag.serve.access.keys import Entry as Entry

_ALONE = Sharing()


def new_key(
    keys: KeyRecords,
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
    if not keys.swap(name, None, {**entry, "sha256": key_hash(key)}):
        raise SettingsError(
            f"a key named {name} exists; choose another name, or use `rag keys rotate {name}` or "
            f"`rag keys remove {name}`"
        )
    return key


def renew_key(keys: KeyRecords, name: str, expires: datetime | None) -> None:
    """Let a key expire at another time, or never.

    Raises:
        NotFound: there is no such key.
        SettingsError: it is damaged, or another process has changed it at the same time.
    """
    old = _found(keys, name)
    new = {key: value for key, value in old.items() if key != "expires"}
    if expires is not None:
        new["expires"] = expires.isoformat(timespec="seconds")
    _replace(keys, name, old, new)


def rotate_key(
    keys: KeyRecords, name: str, *, previous_until: datetime | None, expires: datetime | None = None
) -> str:
    """Replace a key by a new one with the same name and rights, and return it.

    Args:
        keys: the keys of the server.
        name: its name.
        previous_until: until when the previous key is accepted too; None refuses it at once.
        expires: when the new one expires; None keeps the time of the previous one.

    Raises:
        NotFound, SettingsError: as `renew_key`.
    """
    old = _found(keys, name)
    key = _secret()
    new = {field: value for field, value in old.items() if not field.startswith("previous_")}
    new["sha256"] = key_hash(key)
    if expires is not None:
        new["expires"] = expires.isoformat(timespec="seconds")
    if previous_until is not None:
        new["previous_sha256"] = old["sha256"]
        new["previous_until"] = previous_until.isoformat(timespec="seconds")
    _replace(keys, name, old, new)
    return key


def remove_key(keys: KeyRecords, name: str) -> None:
    """Remove a key. Raises NotFound if there is none."""
    if not keys.remove(name):
        raise _unknown(name)


def import_keys(keys: KeyRecords, file: Path) -> list[str]:
    """Add the keys of a file of version 0.2, and rename it; return their names.

    Raises:
        SettingsError: the file cannot be read or renamed, a key in it is damaged, or other keys have their
            names. Nothing was added, except if the file cannot be renamed: then the same call goes on.
    """
    try:
        entries = parse_toml(text_of(file.read_bytes())).get("key", [])
        added = {keys_of(one)[0].name: json.loads(json.dumps(one, default=str)) for one in entries}
        if len(added) < len(entries):
            raise ValueError("two keys have the same name")
        if taken := [name for name, entry in added.items() if keys.entry(name) not in (None, entry)]:
            raise ValueError(f"other keys named {', '.join(taken)} are stored")
        for name, entry in added.items():
            keys.swap(name, None, entry)
        file.rename(file.with_name(f"{file.name}.imported"))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"cannot import the keys in {file}: {error}; correct or remove that key"
        ) from error
    return list(added)


def _secret() -> str:
    return f"rag-{secrets.token_urlsafe(32)}"


def _found(keys: KeyRecords, name: str) -> Entry:
    entry = keys.entry(name)
    if entry is None:
        raise _unknown(name)
    return entry


def _replace(keys: KeyRecords, name: str, old: Entry, new: Entry) -> None:
    if not keys.swap(name, old, new):
        raise SettingsError(f"another process has just changed the key {name}; try again")


def _unknown(name: str) -> NotFound:
    return NotFound(f"there is no key named {name!r}; `rag keys list` lists the keys")
