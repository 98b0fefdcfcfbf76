"""What a Redis or Valkey writes to its disk, and when: shown, set, done now."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from rag.backends.redis.hash_tags import RedisPlaces
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


class RedisPersistence(RedisPlaces):
    """How long what is written survives the server: of every node of a cluster, also the replicas."""

    def persistence(self) -> list[Persistence]:
        """What each node does now, see `PersistentStore`."""
        return [self._persistence(node) for node in self._server.nodes()]

    def set_persistence(self, kind: PersistenceKind) -> list[str]:
        """Set it on every node, see `PersistentStore`."""
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
        """Until a log that was begun has all that the server held before; a crash would lose that."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            told = self._server.command("INFO", "persistence", node=node)
            if not int(told["aof_rewrite_in_progress"]) and not int(told.get("aof_rewrite_scheduled", 0)):
                break
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{_named(node)} has been writing its first log for {_PATIENCE_S:g} s; see its log"
                )
            time.sleep(0.02)
        if told["aof_last_bgrewrite_status"] != "ok":
            raise StoreError(
                f"{_named(node)} could not write its first log; free room on its disk, see its log"
            )

    def _persistence(self, node: tuple[str, int]) -> Persistence:
        def setting(name: str) -> str:
            return _pairs(self._server.command("CONFIG", "GET", name, node=node)).get(name, "")

        told: Any = self._server.command("INFO", "persistence", node=node)
        logs = setting("appendonly") == "yes"
        return Persistence(
            node=_named(node),
            snapshots=setting("save"),
            log=setting("appendfsync") if logs else "",
            unsaved=int(told["rdb_changes_since_last_save"]),
            saved=datetime.fromtimestamp(int(told["rdb_last_save_time"]), UTC),
            busy=bool(int(told["rdb_bgsave_in_progress"]) or int(told["aof_rewrite_in_progress"])),
            failed=told["rdb_last_bgsave_status"] != "ok" or told.get("aof_last_write_status", "ok") != "ok",
        )


def _named(node: tuple[str, int]) -> str:
    return f"{node[0]}:{node[1]}"


def _pairs(told: Any) -> dict[str, str]:
    """Names and values as text, however this version of the client library gives them."""
    if isinstance(told, list):
        told = dict(zip(told[::2], told[1::2], strict=True))
    return {_text(name): _text(value) for name, value in told.items()}


def _text(told: Any) -> str:
    return told.decode() if isinstance(told, bytes) else str(told)
