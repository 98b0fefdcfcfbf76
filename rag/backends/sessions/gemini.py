"""Sessions of Gemini CLI: `~/.gemini/tmp/PROJECT/chats/session-….json` (or `.jsonl`, a message per line).

A project is named after a hash of its folder, or has a file that names the folder. Versions without such
sessions have only the checkpoints that the user saved: `~/.gemini/tmp/PROJECT/checkpoint-….json`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rag.backends.sessions.recordings import (
    Json,
    files_in,
    json_file,
    json_lines,
    modified,
    moment,
    objects,
    part,
    text_in,
)
from rag.backends.sessions.tool_calls import file_events, typed
from rag.ports import RecordedSession, SessionEvent, Skip
from rag.resources import read_regular

_MAX_FOLDERS = 20_000
_MAX_PATH_BYTES = 4096
_CONTENTS = "--- Content from referenced files ---"
"""Comes before the files that a request names with @."""


class Gemini:
    """Reads the sessions of Gemini CLI."""

    agent = "gemini"

    def folder(self, home: Path, repository: Path) -> Path:
        """Return the folder of all projects."""
        return home / ".gemini" / "tmp"

    def sessions(self, place: Path, repository: Path, skip: Skip) -> Iterator[RecordedSession]:
        """Yield the sessions, and the checkpoints of projects without sessions."""
        hashes = _hashes(repository)
        paths = [path for ending in (".json", ".jsonl") for path in files_in(place, ending, skip)]
        recorded = {_project(path) for path in paths if "chats" in path.parts[-3:-1]}
        for path in paths:
            project = _project(path)
            folder = _named_folder(project) or hashes.get(project.name, "")
            if "chats" in path.parts[-3:-1]:
                parent = "" if path.parent.name == "chats" else path.parent.name
                yield RecordedSession(path.stem, folder, partial(self._events, path, skip), parent)
            elif path.name.startswith("checkpoint") and project not in recorded:
                yield RecordedSession(f"{project.name}/{path.stem}", folder, partial(self._saved, path, skip))

    def _events(self, path: Path, skip: Skip) -> Iterator[SessionEvent]:
        lines = json_lines(path, skip) if path.suffix == ".jsonl" else objects([json_file(path, skip)])
        messages: dict[str, Json] = {}  # a message is written again when it has grown
        for line in lines:
            for one in objects(line["messages"]) if "messages" in line else (line,):
                messages[text_in(one, "id") or str(len(messages))] = one
        for id_, one in messages.items():
            time, text = moment(one.get("timestamp")), _text(one.get("content"))
            if one.get("type") == "user" and (asked := _asked(text)):
                yield SessionEvent("request", time, asked, id=id_)
            elif one.get("type") == "gemini":
                if text.strip():
                    yield SessionEvent("reply", time, text)
                for call in objects(one.get("toolCalls")):
                    if call.get("status") not in ("error", "cancelled"):
                        yield from _called(call, time)

    def _saved(self, path: Path, skip: Skip) -> Iterator[SessionEvent]:
        saved, time = json_file(path, skip), modified(path)
        for one in objects(saved.get("history") if isinstance(saved, dict) else saved):
            text = _text(one.get("parts"))
            is_reply = one.get("role") == "model"
            if said := text.strip() if is_reply else _asked(text):
                yield SessionEvent("reply" if is_reply else "request", time, said)
            for piece in objects(one.get("parts")):
                if isinstance(call := piece.get("functionCall"), dict):
                    yield from _called(call, time)


def _called(call: Json, time: Any) -> Iterator[SessionEvent]:
    return file_events(text_in(call, "name"), part(call, "args"), time, offset_base=0)


def _asked(text: str) -> str:
    return typed(text.partition(_CONTENTS)[0])


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(filter(None, (text_in(one, "text") for one in objects(content))))


def _project(path: Path) -> Path:
    return next((one.parent for one in path.parents if one.name == "chats"), path.parent)


def _named_folder(project: Path) -> str:
    try:
        found = read_regular(project / ".project_root", max_bytes=_MAX_PATH_BYTES)
    except OSError:
        return ""
    return found.decode("utf-8", "replace").strip()


def _hashes(repository: Path) -> dict[str, str]:
    """Return the folders of a repository by the names of their projects."""
    found: dict[str, str] = {}
    for folder, names, _ in os.walk(repository):
        names[:] = [name for name in names if name != ".git"]
        found[hashlib.sha256(folder.encode("utf-8", "surrogateescape")).hexdigest()] = folder
        if len(found) > _MAX_FOLDERS:
            break
    return found
