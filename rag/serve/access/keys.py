"""Keys: who is asking, and whose conversations they see.

A key is shown once, when it is made; what is kept is its SHA-256, which is enough for 256 random bits.
The file is TOML, readable by its owner only:

    [[key]]
    name = "ci"
    namespace = "ci"
    sha256 = "…"
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rag.errors import SettingsError
from rag.parsing import parse_toml
from rag.resources import make_private
from rag.serve.errors import Unauthorized

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MIN_UNGUESSABLE = 22
"""Characters of a key in the clear from which on it is taken for random: 128 bits in base 64."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the name goes into logs, the namespace is whose turns are seen.

    `guessable` says that the key is short, so that each request with it counts as a guess that is right.
    """

    name: str = "local"
    namespace: str = ""
    guessable: bool = False


@dataclass(frozen=True, slots=True)
class Key:
    """A key that is known, by its hash."""

    name: str
    namespace: str
    sha256: str
    guessable: bool = False


class Keyring:
    """The keys a server knows.

    Args:
        keys: none means that everyone is let in.
        anyone: who those without a key are, where there are no keys.
    """

    def __init__(self, keys: Sequence[Key], *, anyone: Caller | None = None) -> None:
        self._callers = {key.sha256: Caller(key.name, key.namespace, key.guessable) for key in keys}
        self._anyone = anyone or Caller()

    @property
    def nobody(self) -> Caller:
        """Who calls what is open to all: without keys anyone, else someone who owns nothing."""
        return Caller("public", "public:none") if self._callers else self._anyone

    def __len__(self) -> int:
        return len(self._callers)

    @property
    def has_keys(self) -> bool:
        """Whether only those who have a key are served."""
        return bool(self._callers)

    def caller(self, authorization: str | None) -> Caller:
        """Who sends this `Authorization` header. Without keys, anyone, whatever the header says.

        Raises:
            Unauthorized: there are keys, and this is none of them.
        """
        if not self._callers:
            return self._anyone
        scheme, _, key = (authorization or "").strip().partition(" ")
        if not key.strip():
            raise Unauthorized("a key is needed; send it as `Authorization: Bearer KEY`")
        # What is compared is a hash: how long that takes tells nothing about the key.
        caller = self._callers.get(key_hash(key.strip())) if scheme.lower() == "bearer" else None
        if caller is None:
            raise Unauthorized("the key is not known here; ask whoever runs this server for one")
        return caller


def key_hash(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def read_keys(path: Path) -> tuple[Key, ...]:
    """The keys in a file; none when there is no file.

    Raises:
        SettingsError: it cannot be read, or an entry is not complete.
    """
    try:
        entries = parse_toml(path.read_text(encoding="utf-8")).get("key", [])
        return tuple(_key(entry) for entry in entries)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise SettingsError(f"cannot read the keys in {path}: {error}; mend or remove it") from error


def _key(entry: dict[str, str]) -> Key:
    name = entry.get("name", "")
    namespace, sha256 = entry.get("namespace", name), entry.get("sha256", "")
    if not (_NAME.fullmatch(name) and isinstance(namespace, str) and _SHA256.fullmatch(sha256)):
        raise ValueError(f"the key {name!r} needs a name and the SHA-256 of the key in 64 digits")
    return Key(name, namespace, sha256)


def named_keys(keys: Sequence[str], namespace: str) -> tuple[Key, ...]:
    """Keys that were given in the clear; all of one namespace."""
    return tuple(
        Key(f"key-{n}", namespace, key_hash(key), guessable=len(key) < _MIN_UNGUESSABLE)
        for n, key in enumerate(keys, start=1)
    )


def add_key(path: Path, name: str, namespace: str | None = None) -> str:
    """Make a key, keep its hash in the file, and return it: it cannot be had again.

    Raises:
        SettingsError: the name is taken or cannot be used, or the file cannot be written.
    """
    namespace = name if namespace is None else namespace
    if not _NAME.fullmatch(name) or not (_NAME.fullmatch(namespace) or namespace == ""):
        raise SettingsError(f"{name!r} cannot name a key; letters, digits, '.', '_' and '-' can, up to 64")
    if any(key.name == name for key in read_keys(path)):
        raise SettingsError(
            f"there is a key called {name} in {path}; remove that entry, or choose another name"
        )
    key = f"rag-{secrets.token_urlsafe(32)}"
    entry = f'[[key]]\nname = "{name}"\nnamespace = "{namespace}"\nsha256 = "{key_hash(key)}"\n\n'
    try:
        make_private(path.parent)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
            file.write(entry)
    except OSError as error:
        raise SettingsError(f"cannot write {path}: {error.strerror}") from error
    return key
