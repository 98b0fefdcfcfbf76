"""Sessions of OpenCode: `~/.local/share/opencode`, in `opencode.db` or in `storage`, a JSON file per part."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from rag.backends.sessions.recordings import (
    Json,
    files_in,
    is_own,
    json_file,
    json_object,
    moment,
    part,
    rows,
    text_in,
)
from rag.backends.sessions.tool_calls import file_events, typed
from rag.ports import RecordedSession, SessionEvent, Skip

_SESSIONS = "SELECT id, parent_id, directory FROM session"
_Message = tuple[Json, Sequence[Json]]
"""A message and its parts."""


class OpenCode:
    """Reads the sessions of OpenCode."""

    agent = "opencode"

    def folder(self, home: Path, repository: Path) -> Path:
        """Return the folder of OpenCode's data."""
        return Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share", "opencode")

    def sessions(self, place: Path, repository: Path, skip: Skip) -> Iterator[RecordedSession]:
        """Yield the sessions of the database, and those of files that it does not have."""
        known = set()
        for path in [place] if place.is_file() else [place / "opencode.db"]:
            if path.is_file() and is_own(path):
                for id_, parent, folder in rows(path, _SESSIONS, (), skip):
                    known.add(str(id_))
                    events = partial(_events, partial(_in_database, path, str(id_), skip))
                    yield RecordedSession(str(id_), str(folder or ""), events, str(parent or ""))
        storage = place / "storage" if (place / "storage").is_dir() else place
        for path in files_in(storage / "session", ".json", skip) if storage.is_dir() else ():
            info = json_file(path, skip)
            if (id_ := text_in(info, "id")) and id_ not in known and "/" not in id_:
                events = partial(_events, partial(_in_files, storage, id_, skip))
                yield RecordedSession(id_, text_in(info, "directory"), events, text_in(info, "parentID"))


def _in_database(path: Path, session: str, skip: Skip) -> Iterator[_Message]:
    parts: dict[str, list[Json]] = {}
    for message, data in rows(
        path, "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY id", (session,), skip
    ):
        parts.setdefault(str(message), []).append(json_object(data, skip))
    query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
    for id_, data in rows(path, query, (session,), skip):
        yield json_object(data, skip) | {"id": str(id_)}, parts.get(str(id_), [])


def _in_files(storage: Path, session: str, skip: Skip) -> Iterator[_Message]:
    for path in files_in(storage / "message" / session, ".json", skip):
        message = json_file(path, skip)
        if isinstance(message, dict):
            found = (json_file(one, skip) for one in files_in(storage / "part" / path.stem, ".json", skip))
            yield message | {"id": path.stem}, [one for one in found if isinstance(one, dict)]


def _events(messages: partial[Iterator[_Message]]) -> Iterator[SessionEvent]:
    for message, parts in messages():
        time = moment(part(message, "time", "created"))
        own = [one for one in parts if not (one.get("synthetic") or one.get("ignored"))]
        texts = [text_in(one, "text") for one in own if one.get("type") == "text"]
        if message.get("role") == "user":
            if text := "\n\n".join(filter(None, map(typed, texts))):
                yield SessionEvent("request", time, text, id=text_in(message, "id"))
        elif message.get("summary") is not True:  # the summary of a compacted session
            for one in own:
                state = one.get("state")
                if one.get("type") == "text" and text_in(one, "text").strip():
                    yield SessionEvent("reply", time, text_in(one, "text"))
                elif one.get("type") == "tool" and text_in(state, "status") != "error":
                    at = moment(part(state, "time", "start")) or time
                    yield from file_events(text_in(one, "tool"), part(state, "input"), at, offset_base=0)
