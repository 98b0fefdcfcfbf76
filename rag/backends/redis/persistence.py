"""The persistence of a Redis or Valkey server: show it, set it, save now."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from rag.backends.redis.server import RedisServer
from rag.errors import StoreError
from rag.ports import Persistence, PersistenceKind

_PATIENCE_S = 600.0
_SNAPSHOTS = "3600 1 300 100 60 10000"  # the server's own default
_SETTINGS: dict[PersistenceKind, tuple[str, bool, str]] = {
    "none": ("", False, "everysec"),
    "rdb": (_SNAPSHOTS, False, "everysec"),
    "aof": ("", True, "everysec"),
    "aof-always": ("", True, "always"),
    "rdb+aof": (_SNAPSHOTS, True, "everysec"),
    "rdb+aof-always": (_SNAPSHOTS, True, "always"),
}


class RedisPersistence:
    """The persistence of a server."""

    _server: RedisServer

    @property
    def server(self) -> RedisServer:
        """The server."""
        return self._server

    def persistence(self) -> Persistence:
        """Return the persistence of the server, see `PersistentStore`."""
        reply: Any = self._server.command("INFO", "persistence")
        return Persistence(
            server=str(self._server.address),
            snapshots=self._setting("save"),
            log=self._setting("appendfsync") if self._setting("appendonly") == "yes" else "",
            unsaved=int(reply["rdb_changes_since_last_save"]),
            saved=datetime.fromtimestamp(int(reply["rdb_last_save_time"]), UTC),
            busy=bool(int(reply["rdb_bgsave_in_progress"]) or int(reply["aof_rewrite_in_progress"])),
            failed=reply["rdb_last_bgsave_status"] != "ok"
            or reply.get("aof_last_write_status", "ok") != "ok",
        )

    def set_persistence(self, kind: PersistenceKind) -> bool:
        """Set the persistence of the server, see `PersistentStore`."""
        snapshots, log, sync = _SETTINGS[kind]
        given = {"appendfsync": sync, "appendonly": "yes" if log else "no", "save": snapshots}
        for name, value in given.items():
            self._server.command("CONFIG", "SET", name, value)
        if log:
            self._await_log()
        try:
            self._server.command("CONFIG", "REWRITE")
        except StoreError:
            return False
        return True

    def save(self, *, background: bool) -> None:
        """Write a snapshot, see `PersistentStore`."""
        self._server.command(*(("BGSAVE", "SCHEDULE") if background else ("SAVE",)))

    def _await_log(self) -> None:
        """Wait until a new log contains all existing data, which a crash would lose before."""
        deadline, where = time.monotonic() + _PATIENCE_S, self._server.address
        while True:
            reply = self._server.command("INFO", "persistence")
            if not int(reply["aof_rewrite_in_progress"]) and not int(reply.get("aof_rewrite_scheduled", 0)):
                break
            if time.monotonic() > deadline:
                raise StoreError(f"{where} has been writing its first AOF for {_PATIENCE_S:g} s; see its log")
            time.sleep(0.02)
        if reply["aof_last_bgrewrite_status"] != "ok":
            raise StoreError(
                f"{where} could not write its first AOF; free space on its disk, and see its log"
            )

    def _setting(self, name: str) -> str:
        return _pairs(self._server.command("CONFIG", "GET", name)).get(name, "")


def _pairs(reply: Any) -> dict[str, str]:
    """Return names and values as text, from any version of the client library."""
    if isinstance(reply, list):
        reply = dict(zip(reply[::2], reply[1::2], strict=True))
    return {_text(name): _text(value) for name, value in reply.items()}


def _text(reply: Any) -> str:
    return reply.decode() if isinstance(reply, bytes) else str(reply)
