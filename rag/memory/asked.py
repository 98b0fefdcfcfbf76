"""Questions that are stored before their answer: which process answers them, and whether it still runs."""

from __future__ import annotations

import os
import sys
import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from platform import node
from typing import Any

from rag.types import DialogTurn, now_utc

ASKED_BY = "asked_by"
"""The key in the metadata of a turn in the state "asked"; an answer replaces the metadata."""
INTERRUPTED = "interrupted: the program ended before the answer; ask again"
LONGEST_ANSWER = timedelta(hours=1)
"""After this time a question is not answered any more, by any process."""
_RUN = uuid.uuid4().hex
_MAX_PID = 2**31


def asked_by() -> dict[str, Any]:
    """Return what identifies this process, in the metadata of a question that it answers."""
    return {ASKED_BY: {"host": node(), "pid": os.getpid(), "run": _RUN}}


def is_interrupted(turn: DialogTurn, *, now: datetime | None = None) -> bool:
    """Whether a turn is "asked", and the process that was to answer it has ended.

    Of a process on another host nothing is known, so that its turn is interrupted after `LONGEST_ANSWER`.
    """
    if turn.state != "asked":
        return False
    since = turn.user_query_timestamp
    if since is None or (now or now_utc()) - since > LONGEST_ANSWER:
        return True
    asker = (turn.metadata or {}).get(ASKED_BY)
    if not isinstance(asker, dict) or asker.get("host") != node():
        return False
    pid = asker.get("pid")
    return asker.get("run") != _RUN if pid == os.getpid() else not _runs(pid)


def is_settled(turn: DialogTurn) -> bool:
    """Whether a turn stays as it is: it is not being answered."""
    return turn.state != "asked" or is_interrupted(turn)


def settled(turn: DialogTurn) -> DialogTurn:
    """Return the turn as it is shown: without what identifies the process, "failed" if it was interrupted."""
    if turn.state != "asked":
        return turn
    if is_interrupted(turn):
        return replace(turn, state="failed", error=INTERRUPTED, metadata=None)
    return replace(turn, metadata=None)


def _runs(pid: Any) -> bool:
    """Whether a process of this host runs; True if that cannot be known."""
    if not isinstance(pid, int) or not 0 < pid < _MAX_PID:
        return False
    if sys.platform == "win32":  # there, a signal of 0 ends the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
