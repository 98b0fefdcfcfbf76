"""Sessions of Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-….jsonl`, an item per line.

The first line describes the session. Files are read with shell commands, and edited with `apply_patch`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
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
_HEAD_CHARS = 200
_EXIT_CODE = re.compile(r"^(?:Exit code: |Process exited with code )(-?\d{1,9})", re.MULTILINE)
_REQUEST = "## My request for Codex:"
_IMAGE = re.compile(r"</?image\b[^<>]*+>")


class Codex:
    """Reads the sessions of Codex."""

    agent = "codex"

    def folder(self, home: Path, repository: Path) -> Path:
        """Return the folder of all sessions; CODEX_HOME moves it."""
        return Path(os.environ.get("CODEX_HOME") or home / ".codex", "sessions")

    def sessions(self, place: Path, repository: Path, skip: Skip) -> Iterator[RecordedSession]:
        """Yield a session for each file."""
        found, forks = [], dict[str, str]()
        for path in files_in(place, ".jsonl", skip):
            head = [_payload(one) for one in islice(json_lines(path, lambda _: None), _HEAD_LINES)]
            folder = next(filter(None, (text_in(one, "cwd") for one in head)), "")
            first = head[0] if head else {}
            parent = text_in(first, "source", "subagent", "thread_spawn", "parent_thread_id")
            id_ = text_in(first, "id") or path.stem
            if forked := text_in(first, "forked_from_id"):
                forks[id_] = forked
            found.append((path, id_, folder, parent))
        for path, id_, folder, parent in found:
            yield RecordedSession(id_, folder, partial(self._events, path, _origin(id_, forks), skip), parent)

    def _events(self, path: Path, origin: str, skip: Skip) -> Iterator[SessionEvent]:
        """Yield the events of a file; a fork repeats the requests of its origin, which get the same ids."""
        failed = {text_in(one, "call_id") for one in _payloads(path) if _is_failed(one)} - {""}
        said = hashlib.sha256(origin.encode())
        for line in json_lines(path, skip):
            time, item = moment(line.get("timestamp")), _payload(line)
            kind = item.get("type")
            if text_in(item, "call_id") in failed:
                yield SessionEvent("tool", time)
            elif kind == "message":
                texts = [text_in(one, "text") for one in objects(item.get("content"))]
                if item.get("role") == "assistant" and (text := "\n\n".join(filter(str.strip, texts))):
                    said.update(text.encode())
                    yield SessionEvent("reply", time, text)
                elif item.get("role") == "user" and (text := "\n\n".join(filter(None, map(_asked, texts)))):
                    said.update(text.encode())
                    yield SessionEvent("request", time, text, id=said.hexdigest())
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


def _asked(text: str) -> str:
    """Return what a user typed, without what an editor adds to it and the tags of images."""
    return _IMAGE.sub("", typed(text.partition(_REQUEST)[2] or text)).strip()


def _origin(session: str, forks: Mapping[str, str]) -> str:
    """Return the session of which one is a fork, or a fork of a fork; itself if it is none."""
    seen = set[str]()
    while session in forks and session not in seen:
        seen.add(session)
        session = forks[session]
    return session


def _is_failed(item: Json) -> bool:
    """Whether an item is the output of a call that was refused, or did not work."""
    if item.get("type") not in ("function_call_output", "custom_tool_call_output"):
        return False
    output = item.get("output")
    if isinstance(output, str) and output.startswith("{"):
        output = json_object(output, lambda _: None) or output
    code, text = part(output, "metadata", "exit_code"), output if isinstance(output, str) else ""
    head = (text or text_in(output, "output") or text_in(output, "content"))[:_HEAD_CHARS]
    if type(code) is not int and (found := _EXIT_CODE.search(head)):
        code = int(found[1])
    if type(code) is int:
        return code != 0
    return part(output, "success") is False or any(word in head.lower() for word in ("rejected", "failed"))


def _payloads(path: Path) -> Iterator[Json]:
    return map(_payload, json_lines(path, lambda _: None))


def _payload(line: Json) -> Json:
    """Return the item of a line; lines of early versions are the items."""
    found = line.get("payload", line)
    return found if isinstance(found, dict) else {}
