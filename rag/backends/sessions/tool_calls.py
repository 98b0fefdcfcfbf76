"""What the tools of coding agents read and edited, from the arguments of their calls.

The agents call the same arguments by a few names; a call is recognised by these.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from rag.backends.sessions.recordings import Json, objects, text_in
from rag.ports import SessionEvent

_PATHS = ("file_path", "filePath", "target_file", "absolute_path", "notebook_path", "relativeWorkspacePath",
          "targetFile", "path")  # fmt: skip
_OLD = ("old_string", "oldString", "old_str")
_NEW = ("new_string", "newString", "new_str")
_CONTENT = ("content", "contents", "file_text", "new_source")
_FIRST = ("start_line", "start_line_one_indexed")
_LAST = ("end_line", "end_line_one_indexed_inclusive")
_OMITTED = "... existing code ..."
"""A line with this represents lines that an edit leaves as they are."""
_PATCH = "*** Begin Patch"
_FILE = ("*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ")
_MAX_COMMAND_CHARS = 1000
_REMINDER = "<system-reminder>", "</system-reminder>"
_OPENED = re.compile(r"\s*+<([a-zA-Z][\w-]*+)(?: [^<>]*+)?>")
_TAGS = frozenset(
    """
    command-name command-message command-args command-contents local-command-stdout local-command-stderr
    local-command-caveat bash-input bash-stdout bash-stderr user-memory-input task-notification
    user-prompt-submit-hook ide_opened_file ide_selection ide_diagnostics environment_context INSTRUCTIONS
    user_instructions permissions collaboration_mode turn_aborted user_shell_command skill model_switch
    subagent_notification personality_spec apps_instructions session_context
    """.split()
)
"""Tags with what the programs of agents write in the user's name."""
_OF_THE_PROGRAM = frozenset(
    """
    add-dir agents bug clear compact config context cost doctor exit export fast help hooks ide login logout
    mcp memory model permissions plugin quit rename resume rewind status statusline usage vim
    """.split()
)
"""Commands of Claude Code that its model does not see."""
_NOT_TYPED = (
    "[Request interrupted",
    "Caveat: The messages below",
    "# AGENTS.md instructions",
    "This session is being continued from a previous conversation",
)


def file_events(
    name: str, arguments: Any, time: datetime | None, *, offset_base: int = 1
) -> Iterator[SessionEvent]:
    """Yield what a call of a tool read or edited; a "tool" for a call that does neither.

    `offset_base` is the number of the first line, where the tool takes an offset.
    """
    given: Json = arguments if isinstance(arguments, dict) else {}
    found = list(_edits(name.lower(), given, time))
    path = _first_of(given, _PATHS)
    if not found and path and "read" in name.lower():
        first, last = _number(given, _FIRST), _number(given, _LAST)
        if not first and ((limit := _number(given, ("limit",))) or _number(given, ("offset",))):
            first = max(_number(given, ("offset",)) + 1 - offset_base, 1)
            last = first + limit - 1 if limit else 0
        found = [SessionEvent("read", time, path=path, first=first, last=last)]
    yield from found or [SessionEvent("tool", time)]


def _edits(name: str, given: Json, time: datetime | None) -> Iterator[SessionEvent]:
    patch = next((one for one in given.values() if isinstance(one, str) and _PATCH in one), "")
    path = _first_of(given, _PATHS)
    if patch:
        yield from patch_edits(patch, time)
    elif path:
        for one in (given, *objects(given.get("edits"))):
            if any(isinstance(one.get(key), str) for key in _NEW):
                yield SessionEvent("edit", time, _first_of(one, _NEW), path=path, old=_first_of(one, _OLD))
        if text := text_in(given, "code_edit"):
            yield SessionEvent("edit", time, text, path=path, old="" if _OMITTED in text else None)
        elif any(word in name for word in ("write", "create", "notebook")) and _first_of(given, _CONTENT):
            yield SessionEvent("edit", time, _first_of(given, _CONTENT), path=path)


def patch_edits(patch: str, time: datetime | None) -> Iterator[SessionEvent]:
    """Yield the edits of a patch in the format of `apply_patch`, a hunk each."""
    path, old, new, is_new = "", list[str](), list[str](), False

    def hunk() -> Iterator[SessionEvent]:
        if path and (old or new):
            before = None if is_new else "\n".join(old)
            yield SessionEvent("edit", time, "\n".join(new), path=path, old=before)
        old.clear()
        new.clear()

    for line in patch[patch.find(_PATCH) :].splitlines()[1:]:
        if line.startswith(("***", "@@")):
            if line.startswith(_FILE) or line.startswith("*** End Patch"):
                if not line.startswith("*** Move to: "):
                    yield from hunk()
                path, is_new = line.partition(": ")[2].strip(), line.startswith("*** Add File: ")
            elif line.startswith("@@"):
                yield from hunk()
        elif line.startswith("+"):
            new.append(line[1:])
        elif line.startswith("-"):
            old.append(line[1:])
        else:
            old.append(line[1:])
            new.append(line[1:])
    yield from hunk()


def diff_edits(path: str, diff: str, time: datetime | None) -> Iterator[SessionEvent]:
    """Yield the edit of a piece of a unified diff."""
    lines = [line for line in diff.splitlines() if not line.startswith(("@@", "\\"))]
    old = "\n".join(line[1:] for line in lines if not line.startswith("+"))
    new = "\n".join(line[1:] for line in lines if not line.startswith("-"))
    if old != new:
        yield SessionEvent("edit", time, new, path=path, old=old)


def command_events(command: Any, time: datetime | None) -> Iterator[SessionEvent]:
    """Yield what a shell command read or edited: `apply_patch`, `sed -n 1,9p FILE`, `cat FILE`."""
    words = [str(one) for one in command] if isinstance(command, list) else [str(command or "")]
    script = words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
    if _PATCH in script:
        yield from patch_edits(script, time)
        return
    found = SessionEvent("tool", time)
    try:
        words = shlex.split(script) if len(script) <= _MAX_COMMAND_CHARS else []
    except ValueError:
        words = []
    if len(words) == 2 and words[0] == "cat":
        found = SessionEvent("read", time, path=words[1])
    elif len(words) == 4 and words[:2] == ["sed", "-n"] and words[2].endswith("p"):
        first, _, last = words[2][:-1].partition(",")
        if first.isdecimal() and last.isdecimal() and len(first + last) < 16:
            found = SessionEvent("read", time, path=words[3], first=int(first), last=int(last))
    yield found


def typed(text: str) -> str:
    """Return what a user typed, a command as `/name arguments`; "" for what the agent's program wrote."""
    text = _without_reminders(text).strip()
    if text.startswith(_NOT_TYPED):
        return ""
    at, found = 0, dict[str, str]()
    while opened := _OPENED.match(text, at):
        end = text.find(f"</{opened[1]}", opened.end()) if opened[1] in _TAGS else -1
        close = text.find(">", end) if end >= 0 else -1
        if close < 0:
            break
        found.setdefault(opened[1], text[opened.end() : end].strip())
        at = close + 1
    command = found.get("command-name", "").lstrip("/")
    if at < len(text.rstrip()) or not command or command in _OF_THE_PROGRAM:
        return text[at:].strip()
    return f"/{command} {found.get('command-args', '')}".strip()


def _without_reminders(text: str) -> str:
    pieces, at = list[str](), 0
    while (start := text.find(_REMINDER[0], at)) >= 0 and (end := text.find(_REMINDER[1], start)) >= 0:
        pieces.append(text[at:start])
        at = end + len(_REMINDER[1])
    return "".join([*pieces, text[at:]])


def _first_of(given: Json, names: tuple[str, ...]) -> str:
    return next((given[name] for name in names if isinstance(given.get(name), str)), "")


def _number(given: Json, names: tuple[str, ...]) -> int:
    found = next((given[name] for name in names if type(given.get(name)) is int), 0)
    return int(found) if 0 < found < 10**9 else 0
