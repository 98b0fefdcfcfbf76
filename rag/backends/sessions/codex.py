"""Sessions of Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-….jsonl`, an item per line.

The first line describes the session. Files are read with shell commands, and edited with `apply_patch`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from rag.backends.sessions.recordings import (
    Json,
    files_in,
    json_lines,
    json_object,
    moment,
    objects,
    part,
    text_in,
)
from rag.backends.sessions.tool_calls import command_events, file_events, typed
from rag.ports import RecordedSession, SessionEvent, Skip

_HEAD_LINES = 20


class Codex:
    """Reads the sessions of Codex."""

    agent = "codex"

    def folder(self, home: Path, repository: Path) -> Path:
        """Return the folder of all sessions; CODEX_HOME moves it."""
        return Path(os.environ.get("CODEX_HOME") or home / ".codex", "sessions")

    def sessions(self, place: Path, repository: Path, skip: Skip) -> Iterator[RecordedSession]:
        """Yield a session for each file."""
        for path in files_in(place, ".jsonl", skip):
            head = [_payload(one) for one in islice(json_lines(path, lambda _: None), _HEAD_LINES)]
            folder = next(filter(None, (text_in(one, "cwd") for one in head)), "")
            first = head[0] if head else {}
            parent = text_in(first, "source", "subagent", "thread_spawn", "parent_thread_id")
            events = partial(self._events, path, skip)
            yield RecordedSession(text_in(first, "id") or path.stem, folder, events, parent)

    def _events(self, path: Path, skip: Skip) -> Iterator[SessionEvent]:
        for line in json_lines(path, skip):
            time, item = moment(line.get("timestamp")), _payload(line)
            kind = item.get("type")
            if kind == "message":
                texts = [text_in(one, "text") for one in objects(item.get("content"))]
                if item.get("role") == "assistant" and (text := "\n\n".join(filter(str.strip, texts))):
                    yield SessionEvent("reply", time, text)
                elif item.get("role") == "user" and (text := "\n\n".join(filter(None, map(typed, texts)))):
                    yield SessionEvent("request", time, text)
            elif kind == "custom_tool_call":
                yield from file_events(text_in(item, "name"), {"input": item.get("input")}, time)
            elif kind == "function_call":
                given = json_object(text_in(item, "arguments"), skip)
                command = given.get("command") or given.get("cmd")
                if command:
                    yield from command_events(command, time)
                else:
                    yield from file_events(text_in(item, "name"), given, time)
            elif kind == "local_shell_call":
                yield from command_events(part(item, "action", "command"), time)


def _payload(line: Json) -> Json:
    """Return the item of a line; lines of early versions are the items."""
    found = line.get("payload", line)
    return found if isinstance(found, dict) else {}
