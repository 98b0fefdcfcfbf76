"""The database: users, tokens, links and clicks in one SQLite file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from snip.errors import Conflict

SCHEMA_FOLDER = Path(__file__).resolve().parent.parent / "schema"


@dataclass(frozen=True)
class User:
    """Somebody who may make links."""

    id: int
    name: str
    password_hash: str


@dataclass(frozen=True)
class Link:
    """A short code and where it leads. `expires` is in unix seconds; None means never."""

    id: int
    code: str | None
    url: str
    owner: int
    created: int
    expires: int | None
    clicks: int


class Storage:
    """All reads and writes. One connection, used by one thread at a time."""

    def __init__(self, database: str) -> None:
        self._db = sqlite3.connect(database, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA foreign_keys = ON")
        self._db.execute("PRAGMA journal_mode = WAL")
        self.migrate()

    def migrate(self) -> int:
        """Apply the SQL files in `schema/` that are newer than the database; return how many."""
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        pending = sorted(SCHEMA_FOLDER.glob("*.sql"))[version:]
        for number, script in enumerate(pending, start=version + 1):
            self._db.executescript(
                f"BEGIN; {script.read_text(encoding='utf-8')} PRAGMA user_version = {number}; COMMIT;"
            )
        return len(pending)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    # -- users and tokens

    def add_user(self, name: str, password_hash: str) -> User:
        """Store a user. Raises Conflict when the name is taken."""
        try:
            row = self._db.execute(
                "INSERT INTO user (name, password_hash) VALUES (?, ?) RETURNING id, name, password_hash",
                (name, password_hash),
            ).fetchone()
        except sqlite3.IntegrityError as error:
            raise Conflict(f"the name {name!r} is taken") from error
        return User(*row)

    def user_by_name(self, name: str) -> User | None:
        """The user of this name, if there is one."""
        return self._user("SELECT id, name, password_hash FROM user WHERE name = ?", name)

    def user_by_id(self, user_id: int) -> User | None:
        """The user with this id, if there is one."""
        return self._user("SELECT id, name, password_hash FROM user WHERE id = ?", user_id)

    def user_by_token(self, token_hash: str) -> User | None:
        """The user who holds the token with this hash, unless it was revoked."""
        return self._user(
            "SELECT user.id, name, password_hash FROM user JOIN token ON token.user_id = user.id "
            "WHERE token.hash = ? AND NOT token.revoked",
            token_hash,
        )

    def add_token(self, user_id: int, token_hash: str, label: str) -> None:
        """Store the hash of a token."""
        self._db.execute(
            "INSERT INTO token (hash, user_id, label) VALUES (?, ?, ?)", (token_hash, user_id, label)
        )

    def revoke_tokens(self, user_id: int, label: str) -> int:
        """Revoke the user's tokens of this label; return how many."""
        return self._db.execute(
            "UPDATE token SET revoked = 1 WHERE user_id = ? AND label = ? AND NOT revoked", (user_id, label)
        ).rowcount

    # -- links and clicks

    def add_link(self, owner: int, url: str, expires: int | None = None) -> int:
        """Store a link without a code yet; return its id, which the code is made from."""
        row = self._db.execute(
            "INSERT INTO link (url, owner, created, expires) VALUES (?, ?, ?, ?) RETURNING id",
            (url, owner, int(time.time()), expires),
        ).fetchone()
        return int(row[0])

    def set_code(self, link_id: int, code: str) -> None:
        """Give a link its short code. Raises Conflict when the code is taken."""
        try:
            self._db.execute("UPDATE link SET code = ? WHERE id = ?", (code, link_id))
        except sqlite3.IntegrityError as error:
            self._db.execute("DELETE FROM link WHERE id = ? AND code IS NULL", (link_id,))
            raise Conflict(f"the code {code!r} is taken") from error

    def link_by_code(self, code: str) -> Link | None:
        """The link with this code, expired or not."""
        row = self._db.execute(
            "SELECT id, code, url, owner, created, expires, clicks FROM link WHERE code = ?", (code,)
        ).fetchone()
        return Link(*row) if row else None

    def links_of(self, owner: int) -> list[Link]:
        """A user's links, the newest first."""
        rows = self._db.execute(
            "SELECT id, code, url, owner, created, expires, clicks FROM link WHERE owner = ? ORDER BY id DESC",
            (owner,),
        )
        return [Link(*row) for row in rows]

    def add_clicks(self, counts: Iterable[tuple[str, int]]) -> None:
        """Add many clicks in one transaction."""
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(
            "UPDATE link SET clicks = clicks + ? WHERE code = ?", [(count, code) for code, count in counts]
        )
        self._db.execute("COMMIT")

    def purge_expired(self, now: int) -> int:
        """Delete links that expired before `now`; return how many."""
        return self._db.execute("DELETE FROM link WHERE expires IS NOT NULL AND expires < ?", (now,)).rowcount

    def _user(self, query: str, key: object) -> User | None:
        row = self._db.execute(query, (key,)).fetchone()
        return User(*row) if row else None
