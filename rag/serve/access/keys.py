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
a request names none: by default the team, else the project, else the user's own. `expires` is a time after
which the key is refused. A key that was replaced is accepted until `previous_until`, by `previous_sha256`.

Instead of a key, a trusted proxy may name the caller (`rag.serve.access.identity`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from time import monotonic
from typing import Any

from rag.decoding import text_of
from rag.errors import SettingsError
from rag.parsing import parse_toml
from rag.ports import Clock, SharedState
from rag.serve.errors import KeyExpired, Unauthorized
from rag.settings import FactScope
from rag.types import now_utc

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
"""Names of keys, identities, namespaces, projects and teams."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MIN_UNGUESSABLE = 22
"""A plain-text key of at least this length counts as random: 128 bits in base 64."""
_NEVER = datetime.max.replace(tzinfo=UTC)
_DAY_CHARS = len("2026-12-31")
_COMPARE_EVERY_S = 1.0


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
    """A known key, as a hash. One without a name of its own (`is_named`) gives nobody its rights by name."""

    name: str
    namespace: str
    sha256: str
    guessable: bool = False
    sharing: Sharing = Sharing()
    expires: datetime | None = None
    is_named: bool = True

    @property
    def caller(self) -> Caller:
        """Who uses it."""
        return Caller(self.name, self.namespace, self.guessable, self.sharing)


class Keyring:
    """The keys that a server accepts.

    Args:
        keys: if empty, every request is accepted, unless `required`.
        default: the caller of all requests when there are no keys.
        required: whether callers need a key, or a proxy that names them, even if there are no keys.
        clock: the source of times.
    """

    def __init__(
        self,
        keys: Sequence[Key],
        *,
        default: Caller | None = None,
        required: bool = False,
        clock: Clock = now_utc,
    ) -> None:
        self._default, self._required, self._clock = default or Caller(), required, clock
        self.replace(keys)

    def replace(self, keys: Sequence[Key]) -> None:
        """Accept these keys from now on. May be called from any thread."""
        self._keys = {key.sha256: key for key in keys}

    @property
    def anonymous(self) -> Caller:
        """The caller of public paths: with keys, a caller without any conversations."""
        return Caller("public", "public:none") if self.has_keys else self._default

    @property
    def namespaces(self) -> set[str]:
        """The namespaces of the keys, and that of callers without a key."""
        return {self._default.namespace, *(key.namespace for key in self._keys.values())}

    @property
    def has_keys(self) -> bool:
        """Whether a key is required."""
        return self._required or bool(self._keys)

    def caller(self, authorization: str | None) -> Caller:
        """Return the caller of an `Authorization` header. Without keys, always the default caller.

        Raises:
            Unauthorized: the header has no known key.
            KeyExpired: the key is known, but has expired.
        """
        if not self.has_keys:
            return self._default
        scheme, _, key = (authorization or "").strip().partition(" ")
        if not key.strip():
            raise Unauthorized("a key is needed; send it as `Authorization: Bearer KEY`")
        # Hashes are compared, so the time of the comparison reveals nothing about the key.
        known = self._keys.get(key_hash(key.strip())) if scheme.lower() == "bearer" else None
        if known is None:
            raise Unauthorized("the key is unknown; ask the operator of this server for a key")
        return self._valid(known).caller

    def named(self, name: str) -> Caller | None:
        """Return the caller of the key of this name; None if there is none.

        Raises:
            KeyExpired: it has expired.
        """
        found = [key for key in self._keys.values() if key.is_named and key.name == name]
        if not found:
            return None
        return self._valid(max(found, key=lambda key: key.expires or _NEVER)).caller

    def _valid(self, key: Key) -> Key:
        if key.expires is not None and key.expires <= self._clock():
            raise KeyExpired(
                f"the key {key.name} expired at {key.expires.astimezone(UTC):%Y-%m-%d %H:%M} UTC; ask the "
                f"operator of this server to renew it (`rag keys renew {key.name}`)"
            )
        return key


def key_hash(key: str) -> str:
    """Return the SHA-256 of a key, as it is stored."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def read_keys(path: Path) -> tuple[Key, ...]:
    """Return the keys in a file; none when there is no file.

    Raises:
        SettingsError: the file cannot be read, or an entry is incomplete.
    """
    try:
        entries = parse_toml(text_of(path.read_bytes())).get("key", [])
        return tuple(key for entry in entries for key in keys_of(entry))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise SettingsError(f"cannot read the keys in {path}: {error}; fix or remove it") from error


class KeysFile:
    """A file of keys that is read again after it has changed.

    Args:
        path: the file; None for none.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._state = self._stat()
        self._keys = read_keys(path) if path else ()
        self._compare_at = 0.0

    def keys(self) -> tuple[Key, ...]:
        """Return the keys that were read last."""
        return self._keys

    def has_changed(self) -> bool:
        """Read the file again if it has changed, and return whether it had; at most once a second.

        Raises:
            SettingsError: it has changed and cannot be read.
        """
        now = monotonic()
        if self._path is None or now < self._compare_at:
            return False
        self._compare_at = now + _COMPARE_EVERY_S
        state = self._stat()
        if state == self._state:
            return False
        self._state = state
        self._keys = read_keys(self._path)
        return True

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat() if self._path else None
        except OSError:
            return None
        return found and (found.st_mtime_ns, found.st_size, found.st_ino)


def keys_of(entry: Mapping[str, Any]) -> list[Key]:
    """Return the key of an entry, and the one that it has replaced.

    Raises:
        ValueError: the entry is incomplete or invalid.
    """
    name = entry.get("name", "")
    namespace, sha256 = entry.get("namespace", name), entry.get("sha256", "")
    if not (NAME.fullmatch(name) and isinstance(namespace, str) and _SHA256.fullmatch(sha256)):
        raise ValueError(f"the key {name!r} needs a name and the SHA-256 of the key in 64 digits")
    shared = sharing(entry.get("project", ""), entry.get("team", ""), entry.get("writes"))
    expires = _moment(name, entry.get("expires"))
    found = [Key(name, namespace, sha256, sharing=shared, expires=expires)]
    previous, until = entry.get("previous_sha256"), _moment(name, entry.get("previous_until"))
    if previous is not None and until is not None and _SHA256.fullmatch(previous):
        until = until if expires is None else min(until, expires)
        found.append(Key(name, namespace, previous, sharing=shared, expires=until))
    return found


def _moment(name: str, value: Any) -> datetime | None:
    """Return a time of an entry; a day ends in UTC. Raises ValueError."""
    if value is None:
        return None
    if isinstance(value, str):
        value = datetime.fromisoformat(value) if len(value) > _DAY_CHARS else date.fromisoformat(value)
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime.combine(value, time.max, UTC)
    raise ValueError(f"the key {name!r} has an invalid time: {value!r}")


def sharing(project: str = "", team: str = "", writes: str | None = None) -> Sharing:
    """Return with whom a key shares facts; by default they are added to the widest scope that it names.

    Raises:
        ValueError: a name is invalid, or `writes` is a scope that is not named.
    """
    for name in (project, team):
        if name and not (isinstance(name, str) and NAME.fullmatch(name)):
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
        Key(f"key-{n}", namespace, key_hash(key), len(key) < _MIN_UNGUESSABLE, shared, is_named=False)
        for n, key in enumerate(keys, start=1)
    )


def shared_keys(state: SharedState) -> tuple[Key, ...]:
    """Return the keys that all servers of a database accept.

    Raises:
        SettingsError: an entry is incomplete.
        StoreError: the database cannot be used.
    """
    try:
        return tuple(key for entry in state.keys().values() for key in keys_of(entry))
    except (ValueError, TypeError, AttributeError) as error:
        raise SettingsError(f"cannot read the shared keys: {error}; remove that key") from error
