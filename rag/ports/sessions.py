"""Recorded sessions of coding agents, as events that have the same form for every agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

EventKind = Literal["request", "reply", "read", "edit", "tool"]
Skip = Callable[[str], None]
"""Reports, in a few words, a part of a recording that is left out because it cannot be read."""


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """A request, a text of the agent, a file that it read or edited, or its use of another tool.

    Attributes:
        kind: what it is.
        time: when; None if the recording does not say.
        text: of a request or reply; of an edit the text that was written.
        id: of a request, unique among all sessions of the agent; "" if it has none.
        path: the file, absolute or relative to the folder of the session.
        first: the first line that was read; 0 for the whole file.
        last: the last line that was read; 0 for the end of the file.
        old: the text that an edit replaced; None if it wrote the whole file.
        commit: the commit that was made of the edit, if the recording says so.
    """

    kind: EventKind
    time: datetime | None = None
    text: str = ""
    id: str = ""
    path: str = ""
    first: int = 0
    last: int = 0
    old: str | None = None
    commit: str = ""


@dataclass(frozen=True, slots=True)
class RecordedSession:
    """A recorded session: its id, its working folder ("" if unknown), and its events in their order.

    `events` reads the recording. `parent` is the session whose agent started this one as a sub-agent, if any.
    """

    id: str
    folder: str
    events: Callable[[], Iterator[SessionEvent]]
    parent: str = ""


class SessionReader(Protocol):
    """Reads the recordings of one coding agent. It changes nothing, and starts nothing."""

    agent: str
    """The name of the agent, as in `--from`."""

    def folder(self, home: Path, repository: Path) -> Path:
        """Return the documented place of the recordings, for the home folder of a user."""
        ...

    def sessions(self, place: Path, repository: Path, skip: Skip) -> Iterator[RecordedSession]:
        """Yield the sessions in a folder or file, whatever repository they are about.

        Links are not followed. What cannot be read is reported to `skip`, and left out.
        """
        ...
