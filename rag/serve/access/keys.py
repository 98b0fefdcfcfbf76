"""API keys: they identify the caller and the caller's namespace of conversations.

A key is shown once, when it is created; only its SHA-256 is stored, which is safe for 256 random bits.
The file is TOML, readable by its owner only:

    [[key]]
    name = "ci"
    namespace = "ci"
    project = "shop"
    team = "backend"
    writes = "team"
    sha256 = "…"

The facts of `project` and `team` are read with this key too. `writes` is the scope to which it adds facts if
a request names none: by default the team, else the project, else the user's own.
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
from rag.ports import SharedState
from rag.resources import make_private
from rag.serve.errors import Unauthorized
from rag.settings import FactScope

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MIN_UNGUESSABLE = 22
"""A plain-text key of at least this length counts as random: 128 bits in base 64."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """With whom facts are shared: the names of a project and a team ("" for none), and where new ones go."""

    project: str = ""
    team: str = ""
    writes: FactScope = "user"


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: `name` is logged, `namespace` selects the visible conversations.

    `guessable` means that the key is short; requests with it are limited like failed attempts. `sharing` says
    whose facts are read and written too.
    """

    name: str = "local"
    namespace: str = ""
    guessable: bool = False
    sharing: Sharing = Sharing()


@dataclass(frozen=True, slots=True)
class Key:
    """A known key, as a hash."""

    name: str
    namespace: str
    sha256: str
    guessable: bool = False
    sharing: Sharing = Sharing()


class Keyring:
    """The keys that a server accepts.

    Args:
        keys: if empty, every request is accepted.
        default: the caller of all requests when there are no keys.
    """

    def __init__(self, keys: Sequence[Key], *, default: Caller | None = None) -> None:
        self._default = default or Caller()
        self.replace(keys)

    def replace(self, keys: Sequence[Key]) -> None:
        """Accept these keys from now on. May be called from any thread."""
        self._callers = {
            key.sha256: Caller(key.name, key.namespace, key.guessable, key.sharing) for key in keys
        }

    @property
    def anonymous(self) -> Caller:
        """The caller of public paths: with keys, a caller without any conversations."""
        return Caller("public", "public:none") if self._callers else self._default

    def __len__(self) -> int:
        return len(self._callers)

    @property
    def has_keys(self) -> bool:
        """Whether a key is required."""
        return bool(self._callers)

    def caller(self, authorization: str | None) -> Caller:
        """Return the caller of an `Authorization` header. Without keys, always the default caller.

        Raises:
            Unauthorized: the header has no known key.
        """
        if not self._callers:
            return self._default
        scheme, _, key = (authorization or "").strip().partition(" ")
        if not key.strip():
            raise Unauthorized("a key is needed; send it as `Authorization: Bearer KEY`")
        # Hashes are compared, so the time of the comparison reveals nothing about the key.
        caller = self._callers.get(key_hash(key.strip())) if scheme.lower() == "bearer" else None
        if caller is None:
            raise Unauthorized("the key is unknown; ask the operator of this server for a key")
        return caller


def key_hash(key: str) -> str:
    """Return the SHA-256 of a key, as it is stored."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def read_keys(path: Path) -> tuple[Key, ...]:
    """Return the keys in a file; none when there is no file.

    Raises:
        SettingsError: the file cannot be read, or an entry is incomplete.
    """
    try:
        entries = parse_toml(path.read_text(encoding="utf-8")).get("key", [])
        return tuple(_key(entry) for entry in entries)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise SettingsError(f"cannot read the keys in {path}: {error}; fix or remove it") from error


def _key(entry: dict[str, str]) -> Key:
    name = entry.get("name", "")
    namespace, sha256 = entry.get("namespace", name), entry.get("sha256", "")
    if not (_NAME.fullmatch(name) and isinstance(namespace, str) and _SHA256.fullmatch(sha256)):
        raise ValueError(f"the key {name!r} needs a name and the SHA-256 of the key in 64 digits")
    return Key(name, namespace, sha256, sharing=_sharing(entry))


def _sharing(entry: dict[str, str]) -> Sharing:
    project, team = entry.get("project", ""), entry.get("team", "")
    return sharing(project, team, entry.get("writes"))


def sharing(project: str = "", team: str = "", writes: str | None = None) -> Sharing:
    """Return with whom a key shares facts; by default they are added to the widest scope that it names.

    Raises:
        ValueError: a name is invalid, or `writes` is a scope that is not named.
    """
    for name in (project, team):
        if name and not (isinstance(name, str) and _NAME.fullmatch(name)):
            raise ValueError(f"{name!r} is not a valid name of a project or team")
    named: dict[str, FactScope] = {"user": "user"}
    named |= {"project": "project"} if project else {}
    named |= {"team": "team"} if team else {}
    if writes is not None and writes not in named:
        raise ValueError(f"writes is one of {', '.join(named)}, not {writes!r}")
    return Sharing(project, team, named[writes or list(named)[-1]])


def named_keys(keys: Sequence[str], namespace: str, shared: Sharing = Sharing()) -> tuple[Key, ...]:
    """Return the keys given in plain text, all of one namespace."""
    return tuple(
        Key(f"key-{n}", namespace, key_hash(key), len(key) < _MIN_UNGUESSABLE, shared)
        for n, key in enumerate(keys, start=1)
    )


def _new_key(name: str, namespace: str | None, shared: Sharing) -> tuple[str, dict[str, str]]:
    """Return a new key, and its entry. Raises SettingsError if a name is invalid."""
    namespace = name if namespace is None else namespace
    if not _NAME.fullmatch(name) or not (_NAME.fullmatch(namespace) or namespace == ""):
        raise SettingsError(
            f"{name!r} is not a valid key name; use letters, digits, '.', '_' and '-', at most 64 characters"
        )
    key = f"rag-{secrets.token_urlsafe(32)}"
    lines = {"name": name, "namespace": namespace, "project": shared.project, "team": shared.team}
    lines |= {"writes": shared.writes} if shared != Sharing() else {}
    lines |= {"sha256": key_hash(key)}
    return key, {name: value for name, value in lines.items() if value or name == "namespace"}


def shared_keys(state: SharedState) -> tuple[Key, ...]:
    """Return the keys that all servers of a database accept.

    Raises:
        SettingsError: an entry is incomplete.
        StoreError: the database cannot be used.
    """
    try:
        return tuple(_key(dict(entry)) for entry in state.keys().values())
    except (ValueError, TypeError, AttributeError) as error:
        raise SettingsError(f"cannot read the shared keys: {error}; remove that key") from error


def add_shared_key(
    state: SharedState, name: str, namespace: str | None = None, shared: Sharing = Sharing()
) -> str:
    """Create a key for all servers of a database, like `add_key`.

    Raises:
        SettingsError: the name is taken or invalid.
        StoreError: the database cannot be used.
    """
    key, entry = _new_key(name, namespace, shared)
    if not state.add_key(name, entry):
        raise SettingsError(f"a shared key named {name} exists; remove it, or choose another name")
    return key


def add_key(path: Path, name: str, namespace: str | None = None, shared: Sharing = Sharing()) -> str:
    """Create a key, store its hash in the file, and return it. It cannot be recovered later.

    Raises:
        SettingsError: the name is taken or invalid, or the file cannot be written.
    """
    key, entry_lines = _new_key(name, namespace, shared)
    if any(known.name == name for known in read_keys(path)):
        raise SettingsError(f"a key named {name} exists in {path}; remove that entry, or choose another name")
    kept = "".join(f'{name} = "{value}"\n' for name, value in entry_lines.items())
    entry = f"[[key]]\n{kept}\n"
    try:
        make_private(path.parent)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
            file.write(entry)
    except OSError as error:
        raise SettingsError(f"cannot write {path}: {error.strerror}") from error
    return key
