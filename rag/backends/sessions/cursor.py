"""Sessions of Cursor: databases with the name `state.vscdb` in the folder `User` of its settings.

The table `cursorDiskKV` of `globalStorage` has a conversation under `composerData:ID`, and its messages under
`bubbleId:ID:MESSAGE`. Which folder a conversation is about is in `workspaceStorage`. No other key is read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from rag.backends.sessions.recordings import (
    Json,
    is_own,
    json_file,
    json_object,
    moment,
    objects,
    part,
    rows,
    text_in,
)
from rag.backends.sessions.tool_calls import diff_edits, file_events, typed
from rag.ports import RecordedSession, SessionEvent, Skip

_STATE = "state.vscdb"
_COMPOSERS = "SELECT key, value FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;'"
_BUBBLES = "SELECT key, value FROM cursorDiskKV WHERE key >= ? AND key < ?"


class Cursor:
    """Reads the sessions of Cursor."""

    agent = "cursor"

    def folder(self, home: Path, repository: Path) -> Path:
        """Return the folder of the user's settings."""
        mac = home / "Library" / "Application Support"
        return (mac if sys.platform == "darwin" else home / ".config") / "Cursor" / "User"

    def sessions(self, place: Path, repository: Path, skip: Skip) -> Iterator[RecordedSession]:
        """Yield the conversations of a database, or of the one in a folder of settings."""
        path = place if place.is_file() else place / "globalStorage" / _STATE
        folders = _folders(place, skip) if place.is_dir() else {}
        for key, value in rows(path, _COMPOSERS, (), skip) if path.is_file() and is_own(path) else ():
            composer, id_ = json_object(value, skip), str(key).partition(":")[2]
            folder = folders.get(id_) or text_in(composer, "workspaceIdentifier", "uri", "fsPath")
            parent = text_in(composer, "subagentInfo", "parentComposerId")
            yield RecordedSession(id_, folder, partial(self._events, path, id_, composer, skip), parent)

    def _events(self, path: Path, id_: str, composer: Json, skip: Skip) -> Iterator[SessionEvent]:
        found = rows(path, _BUBBLES, (f"bubbleId:{id_}:", f"bubbleId:{id_};"), skip)
        stored = {str(key).rpartition(":")[2]: json_object(value, skip) for key, value in found}
        stored |= {text_in(one, "bubbleId"): one for one in objects(composer.get("conversation"))}
        headers = [text_in(one, "bubbleId") for one in objects(composer.get("fullConversationHeadersOnly"))]
        time = moment(composer.get("createdAt"))
        for bubble in headers or list(stored):
            one = stored.get(bubble, {})
            time = moment(one.get("createdAt")) or moment(part(one, "timingInfo", "clientStartTime")) or time
            text = text_in(one, "text").strip()
            if one.get("type") == 1 and typed(text):
                yield SessionEvent("request", time, typed(text), id=bubble)
            elif one.get("type") == 2:
                if text:
                    yield SessionEvent("reply", time, text)
                if isinstance(call := one.get("toolFormerData"), dict):
                    yield from _called(call, time)


def _called(call: Json, time: Any) -> Iterator[SessionEvent]:
    if call.get("status") in ("error", "cancelled"):
        return
    given = {**_object(call.get("params")), **_object(call.get("rawArgs"))}
    path = next((text_in(given, key) for key in ("target_file", "relativeWorkspacePath") if key in given), "")
    chunks = objects(part(_object(call.get("result")), "diff", "chunks"))
    edits = [edit for one in chunks for edit in diff_edits(path, text_in(one, "diffString"), time)]
    yield from edits if path and edits else file_events(text_in(call, "name"), given, time)


def _object(value: Any) -> Json:
    """Return an object, which may be written as text; {} for what is not whole."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _folders(place: Path, skip: Skip) -> dict[str, str]:
    """Return the folder of each conversation that a workspace lists."""
    found = {}
    query = "SELECT value FROM ItemTable WHERE key = 'composer.composerData'"
    for workspace in sorted(place.glob("workspaceStorage/*/workspace.json")):
        state = workspace.with_name(_STATE)
        if not (is_own(workspace) and is_own(state) and state.is_file()):
            continue
        try:
            folder = unquote(urlsplit(text_in(json_file(workspace, skip), "folder")).path)
        except ValueError:
            skip("a workspace without a folder")
            continue
        for (value,) in rows(state, query, (), skip):
            for one in objects(json_object(value, skip).get("allComposers")):
                found[text_in(one, "composerId")] = folder
    return found
