"""Sessions of Claude Code: `~/.claude/projects/FOLDER/SESSION.jsonl`, a message per line.

A sub-agent's messages are marked as a side chain, in the file of its session or in one that is called
`agent-….jsonl`. The summary of a compacted session is a message of the user, with a mark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from rag.backends.sessions.recordings import Json, files_in, json_lines, moment, objects, part, text_in
from rag.backends.sessions.tool_calls import file_events, typed
from rag.ports import RecordedSession, SessionEvent, Skip

_HEAD_LINES = 50


class ClaudeCode:
    """Reads the sessions of Claude Code."""

    agent = "claude-code"

    def folder(self, home: Path, repository: Path) -> Path:
        """Return the folder of all projects; CLAUDE_CONFIG_DIR moves it."""
        return Path(os.environ.get("CLAUDE_CONFIG_DIR") or home / ".claude", "projects")

    def sessions(self, place: Path, repository: Path, skip: Skip) -> Iterator[RecordedSession]:
        """Yield a session for each file; the file of a sub-agent is a session of its own."""
        for path in files_in(place, ".jsonl", skip):
            head = list(islice(json_lines(path, lambda _: None), _HEAD_LINES))
            folder = next(filter(None, (text_in(line, "cwd") for line in head)), "")
            id_ = next(filter(None, (text_in(line, "sessionId") for line in head)), path.stem)
            is_part = path.name.startswith("agent-")
            events = partial(self._events, path, skip)
            yield RecordedSession(
                f"{id_}/{path.stem}" if is_part else id_, folder, events, id_ if is_part else ""
            )

    def _events(self, path: Path, skip: Skip) -> Iterator[SessionEvent]:
        lines = list(json_lines(path, skip))
        failed = {
            text_in(block, "tool_use_id")
            for line in lines
            for block in objects(part(line, "message", "content"))
            if block.get("is_error") is True
        }
        for line in lines:
            yield from self._of_line(line, failed)

    def _of_line(self, line: Json, failed: set[str]) -> Iterator[SessionEvent]:
        time, content = moment(line.get("timestamp")), part(line, "message", "content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [*objects(content)]
        is_side = line.get("isSidechain") is True
        texts = [text_in(one, "text") for one in blocks if one.get("type") == "text" and not is_side]
        if line.get("type") == "user":
            text = "\n\n".join(filter(None, map(typed, texts)))
            if text and not (line.get("isMeta") or line.get("isCompactSummary")):
                yield SessionEvent("request", time, text, id=text_in(line, "uuid"))
        elif line.get("type") == "assistant":
            is_synthetic = part(line, "message", "model") == "<synthetic>"
            is_error = is_synthetic or line.get("isApiErrorMessage") is True
            for text in filter(str.strip, () if is_error else texts):
                yield SessionEvent("reply", time, text)
            for one in blocks:
                if one.get("type") == "tool_use" and text_in(one, "id") not in failed:
                    yield from file_events(text_in(one, "name"), one.get("input"), time)
