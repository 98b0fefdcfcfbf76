"""API keys: they identify the caller and the caller's namespace of conversations.

A key is shown once, when it is created; only its SHA-256 is stored, which is safe for 256 random bits.
A key is a record of the turn store, in the namespace `KEYS_NAMESPACE`, which no key can have:

    {"name": "ci", "namespace": "ci", "project": "shop", "team": "backend", "writes": "team", "sha256": "…"}

The facts of `project` and `team` are read with this key too. `writes` is the scope to which it adds facts if
a request names none: by default the team, else the project, else the user's own. `expires` is a time after
which the key is refused. A key that was replaced is accepted until `previous_until`, by `previous_sha256`.

Instead of a key, a trusted proxy may name the caller (`rag.serve.access.identity`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

from rag.errors import SettingsError, StoreError
from rag.parsing import parse_json
from rag.ports import Clock, RecordStore
from rag.serve.errors import KeyExpired, Unauthorized
from rag.settings import KEYS_NAMESPACE, FactScope
from rag.types import now_utc

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
"""Names of keys, identities, namespaces, projects and teams."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MIN_UNGUESSABLE = 22
"""A plain-text key of at least this length counts as random: 128 bits in base 64."""
_NEVER = datetime.max.replace(tzinfo=UTC)
_DAY_CHARS = len("2026-12-31")
Entry = Mapping[str, Any]
_SHELF = "keys"


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
        keys: if empty, every request is accepted, unless `required` or there were keys before.
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
        self._unread: StoreError | None = None
        self.replace(keys)

    def replace(self, keys: Sequence[Key], *, required: bool = False) -> None:
        """Accept these keys from now on; after the first, a key is always required. For any thread."""
        self._required = self._required or required or bool(keys)
        self._keys = {key.sha256: key for key in keys}
        self._unread = None

    def close(self, error: StoreError) -> None:
        """Accept nobody until `replace`: the keys cannot be read, and callers get this error."""
        self._unread = error

    @property
    def is_closed(self) -> bool:
        """Whether nobody is accepted, as the keys were not read yet."""
        return self._unread is not None

    def _check_read(self) -> None:
        if self._unread is not None:
            raise self._unread.with_traceback(None)

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
        """Whether a key is required, or it is not known yet which keys there are."""
        return self._required or self.is_closed

    def caller(self, authorization: str | None) -> Caller:
        """Return the caller of an `Authorization` header. Without keys, always the default caller.

        Raises:
            Unauthorized: the header has no known key.
            KeyExpired: the key is known, but has expired.
            StoreError: the keys could not be read yet.
        """
        self._check_read()
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
            StoreError: the keys could not be read yet.
        """
        self._check_read()
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


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """The keys of a turn store. `damaged` says for each record that is no valid key what is wrong with it."""

    keys: tuple[Key, ...]
    damaged: tuple[str, ...] = ()


class KeyRecords:
    """The keys of all servers that use a turn store: records there, by name. None contains a secret.

    Args:
        store: the turn store.
    """

    def __init__(self, store: RecordStore) -> None:
        self._store = store

    def read(self) -> StoredKeys:
        """Return all keys; one that was replaced follows its successor. Raises StoreError."""
        keys: list[Key] = []
        damaged: list[str] = []
        for name, value in self._store.scan_records(shelf=_SHELF, namespace=KEYS_NAMESPACE):
            try:
                keys += keys_of(_read_entry(name, value))
            except SettingsError as error:
                damaged.append(str(error))
        return StoredKeys(tuple(keys), tuple(damaged))

    def entry(self, name: str) -> Entry | None:
        """Return the entry of a key; None if there is none.

        Raises:
            SettingsError: it is damaged.
            StoreError: the store cannot be used.
        """
        found = self._store.records([name], shelf=_SHELF, namespace=KEYS_NAMESPACE)
        return _read_entry(name, found[name]) if name in found else None

    def swap(self, name: str, old: Entry | None, new: Entry) -> bool:
        """Replace an entry that is still `old` (None for none); False if it is not, and nothing changed."""
        return self._store.swap_record(
            name,
            None if old is None else _encoded(old),
            _encoded(new),
            shelf=_SHELF,
            namespace=KEYS_NAMESPACE,
        )

    def remove(self, name: str) -> bool:
        """Remove an entry, also a damaged one; False if there is none."""
        return bool(self._store.delete_records([name], shelf=_SHELF, namespace=KEYS_NAMESPACE))


def _read_entry(name: str, record: bytes) -> Entry:
    """Return the entry of a record. Raises SettingsError: it is damaged."""
    try:
        entry: Entry = parse_json(record)
        keys_of(entry)
    except (ValueError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"the stored key {name} is damaged: {error}; use `rag keys remove {name}`, and add it again"
        ) from error
    return entry


def _encoded(entry: Entry) -> bytes:
    return json.dumps(entry, sort_keys=True).encode()


def keys_of(entry: Mapping[str, Any]) -> list[Key]:
    """Return the key of an entry, and the one that it has replaced.

    Raises:
        ValueError: the entry is incomplete or invalid.
    """
    if not isinstance(entry, Mapping):
        raise ValueError("it is not a mapping")
    name = entry.get("name", "")
    namespace, sha256 = entry.get("namespace", name), entry.get("sha256", "")
    if not (NAME.fullmatch(name) and isinstance(namespace, str) and _SHA256.fullmatch(sha256)):
        raise ValueError(f"the key {name!r} needs a name and the SHA-256 of the key in 64 digits")
    if namespace == KEYS_NAMESPACE:
        raise ValueError(f"the key {name!r} cannot have the namespace {namespace}")
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
