"""Sessions of Aider: `.aider.chat.history.md` in the folder of the project, which holds many sessions.

    # aider chat started at 2025-05-01 09:00:00
    #### a line of a request
    > a line of the program, such as `Commit 1a2b3c4 fix: a title`

Other lines are the model's text; a line of a request ends with two spaces, a heading of the model does not.
Only the start of a session has a time; a commit has one of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from rag.backends.sessions.recordings import MAX_FILE_BYTES, moment
from rag.ports import RecordedSession, SessionEvent, Skip
from rag.resources import read_regular

_HISTORY = ".aider.chat.history.md"
_STARTED = "# aider chat started at "
_ASKING = ("/ask ", "/code ", "/architect ")


class Aider:
    """Reads the sessions of Aider."""

    agent = "aider"

    def folder(self, home: Path, repository: Path) -> Path:
        """Return the file in the repository."""
        return repository / _HISTORY

    def sessions(self, place: Path, repository: Path, skip: Skip) -> Iterator[RecordedSession]:
        """Yield the sessions of a file, or of that in a folder."""
        path = place / _HISTORY if place.is_dir() else place
        try:
            content = b"" if path.is_symlink() else read_regular(path, max_bytes=MAX_FILE_BYTES)
        except OSError:
            return skip("an unreadable file")
        text = content.decode("utf-8", "replace").replace("\r\n", "\n")
        seen: Counter[str] = Counter()
        for piece in f"\n{text}".split(f"\n{_STARTED}")[1:]:
            started, _, rest = piece.partition("\n")
            seen[started.strip()] += 1
            id_ = " ".join([started.strip(), *["again"] * (seen[started.strip()] - 1)])
            yield RecordedSession(id_, str(path.parent), partial(_events, started.strip(), rest))


def _events(started: str, text: str) -> Iterator[SessionEvent]:
    time = moment(started)
    for asked, lines in _exchanges(text):
        if asked.startswith("/") and not asked.startswith(_ASKING):
            continue
        if asked.startswith(_ASKING):
            asked = asked.partition(" ")[2].strip()
        yield SessionEvent("request", time, asked)
        commit, prose, edits = "", list[str](), list[SessionEvent]()
        answer, path, is_after_edit = iter(lines), "", False
        for line in answer:
            if is_after_edit and line.startswith("```"):
                is_after_edit = False
            elif line.startswith("> Commit "):
                commit = line.split(" ")[2]
            elif line.startswith("<<<<<<< SEARCH"):
                old, new = _until(answer, "======="), _until(answer, ">>>>>>> REPLACE")
                edits.append(SessionEvent("edit", time, "\n".join(new), path=path, old="\n".join(old)))
                while prose and (prose[-1].startswith("```") or prose[-1].strip().strip("`*") == path):
                    prose.pop()
                is_after_edit = True
            elif not line.startswith(">"):
                prose.append(line)
                if line.strip() and not line.startswith("```"):
                    path = line.strip().strip("`*")
        yield from (replace(one, commit=commit) for one in edits if one.path)
        if reply := "\n".join(prose).strip():
            yield SessionEvent("reply", time, reply)


def _until(lines: Iterator[str], end: str) -> list[str]:
    found = []
    for line in lines:
        if line.startswith(end):
            break
        found.append(line)
    return found


def _exchanges(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each request with the lines after it."""
    asked, lines, is_edit = list[str](), list[str](), False
    every = text.split("\n")
    ending = "  " if any(line.startswith("#### ") and line.endswith("  ") for line in every) else ""
    for line in every:
        if line.startswith(("<<<<<<< SEARCH", ">>>>>>> REPLACE")):
            is_edit = line.startswith("<")
        if line.startswith("#### ") and line.endswith(ending) and not is_edit:
            if lines:
                if asked:
                    yield "\n".join(asked).strip(), lines
                asked, lines = [], []
            asked.append(line[5:].rstrip())
        elif line.strip() or lines:
            lines.append(line.rstrip())
    if asked:
        yield "\n".join(asked).strip(), lines
