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
    """The persistence of every node of a server, including the replicas of a cluster."""

    _server: RedisServer

    @property
    def server(self) -> RedisServer:
        """The server."""
        return self._server

    def persistence(self) -> list[Persistence]:
        """Return the persistence of each node, see `PersistentStore`."""
        return [self._persistence(node) for node in self._server.nodes()]

    def set_persistence(self, kind: PersistenceKind) -> list[str]:
        """Set the persistence of every node, see `PersistentStore`."""
        snapshots, log, sync = _SETTINGS[kind]
        given = {"appendfsync": sync, "appendonly": "yes" if log else "no", "save": snapshots}
        passing = []
        for node in self._server.nodes():
            for name, value in given.items():
                self._server.command("CONFIG", "SET", name, value, node=node)
            if log:
                self._await_log(node)
            try:
                self._server.command("CONFIG", "REWRITE", node=node)
            except StoreError:
                passing.append(_named(node))
        return passing

    def save(self, *, background: bool) -> None:
        """Write a snapshot on every node, see `PersistentStore`."""
        for node in self._server.nodes():
            self._server.command(*(("BGSAVE", "SCHEDULE") if background else ("SAVE",)), node=node)

    def _await_log(self, node: tuple[str, int]) -> None:
        """Wait until a new log contains all existing data, which a crash would lose before."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            reply = self._server.command("INFO", "persistence", node=node)
            if not int(reply["aof_rewrite_in_progress"]) and not int(reply.get("aof_rewrite_scheduled", 0)):
                break
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{_named(node)} has been writing its first AOF for {_PATIENCE_S:g} s; see its log"
                )
            time.sleep(0.02)
        if reply["aof_last_bgrewrite_status"] != "ok":
            raise StoreError(
                f"{_named(node)} could not write its first AOF; free space on its disk, and see its log"
            )

    def _persistence(self, node: tuple[str, int]) -> Persistence:
        def setting(name: str) -> str:
            return _pairs(self._server.command("CONFIG", "GET", name, node=node)).get(name, "")

        reply: Any = self._server.command("INFO", "persistence", node=node)
        logs = setting("appendonly") == "yes"
        return Persistence(
            node=_named(node),
            snapshots=setting("save"),
            log=setting("appendfsync") if logs else "",
            unsaved=int(reply["rdb_changes_since_last_save"]),
            saved=datetime.fromtimestamp(int(reply["rdb_last_save_time"]), UTC),
            busy=bool(int(reply["rdb_bgsave_in_progress"]) or int(reply["aof_rewrite_in_progress"])),
            failed=reply["rdb_last_bgsave_status"] != "ok"
            or reply.get("aof_last_write_status", "ok") != "ok",
        )


def _named(node: tuple[str, int]) -> str:
    return f"{node[0]}:{node[1]}"


def _pairs(reply: Any) -> dict[str, str]:
    """Return names and values as text, from any version of the client library."""
    if isinstance(reply, list):
        reply = dict(zip(reply[::2], reply[1::2], strict=True))
    return {_text(name): _text(value) for name, value in reply.items()}


def _text(reply: Any) -> str:
    return reply.decode() if isinstance(reply, bytes) else str(reply)
