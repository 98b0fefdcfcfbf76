"""Checks and error messages that all turn stores share."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from rag.errors import ConversationChanged, ConversationMismatch, NotFound, StoreError
from rag.ports import Marks
from rag.types import Conversation, Source

_LONGEST_S = 3_155_760_000
_MAX_KEEP_LAST = 2**31 - 1
_WHOLE_NUMBER = re.compile(rb"0|-?[1-9][0-9]*")


def no_conversation(id_or_name: str) -> NotFound:
    """Return the error for an unknown conversation."""
    return NotFound(f"there is no conversation {id_or_name!r}; `rag turns list` shows the existing ones")


def no_turn(turn_id: str) -> NotFound:
    """Return the error for an unknown turn."""
    return NotFound(f"there is no turn {turn_id!r}; `rag turns show` lists those of a conversation")


def already_finished(turn_id: str, state: str) -> NotFound:
    """Return the error for a turn that has its final state."""
    return NotFound(f"the turn {turn_id!r} is {state} already; its state cannot change any more")


def no_order(conversation: str, at: int) -> NotFound:
    """Return the error for an order that is not in the conversation."""
    return NotFound(
        f"the conversation {conversation!r} has no turn {at + 1} to fork from; "
        "`rag turns show` shows its turns"
    )


def name_taken(taken: Conversation, asked: Sequence[Source]) -> ConversationMismatch:
    """Return the error for a conversation name that is already used."""
    return ConversationMismatch(conversation=taken.name, about=_listed(taken.sources), asked=_listed(asked))


def check_last(last: int | None) -> None:
    """Reject a negative number of turns, which slices and LIMIT interpret differently."""
    if last is not None and last < 0:
        raise ValueError(f"last is a number of turns, so at least 0, not {last}")


def check_limit(limit: int) -> None:
    """Reject a limit that finds nothing."""
    if limit < 1:
        raise ValueError(f"limit is a number of matches per term, so at least 1, not {limit}")


def check_bounds(ttl_s: float | None, keep_last: int | None = None) -> None:
    """Reject a time to live or a number of turns that is out of the range of all stores."""
    if ttl_s is not None and not 0 < ttl_s <= _LONGEST_S:
        raise ValueError(f"ttl_s must be in seconds, above 0 and at most a hundred years, not {ttl_s}")
    if keep_last is not None and not (isinstance(keep_last, int) and 1 <= keep_last <= _MAX_KEEP_LAST):
        raise ValueError(f"keep_last must be from 1 to {_MAX_KEEP_LAST} turns, not {keep_last}")


def check_sources(sources: Sequence[Source]) -> None:
    """Reject locations and refs that no program can be given."""
    for source in sources:
        check_place(source.location)
        check_place(source.ref or "")


def check_place(text: str) -> None:
    """Raise ValueError for what can be no path and no name of a ref."""
    if not text.isascii():
        os.fsencode(text)  # raises UnicodeEncodeError
    if "\0" in text:
        raise ValueError(f"{text!r} has a NUL")


def check_rewind(to: int) -> None:
    """Reject an order below -1."""
    if to < -1:
        raise ValueError(f"to is the last order to keep, or -1 for none, not {to}")


def check_last_turn(conversation: Conversation, expected: str | None, found: str) -> None:
    """Reject a change if the last turn is not the expected one; "" is no turn, None skips the check."""
    if expected is not None and expected != found:
        raise changed(conversation.name or conversation.id, expected, found)


def changed(conversation: str, expected: str, found: str) -> ConversationChanged:
    """Return the error for a conversation (its name or id) whose last turn is not the expected one."""
    return ConversationChanged(conversation=conversation, expected=expected, found=found)


def check_update(new: str | None, old: str | None) -> None:
    """Reject an update that changes no mark, or a mark that is not text."""
    if new is None and old is None:
        raise ValueError("pass the new mark, the old mark, or both")
    for mark in (new, old):
        if mark is not None:
            _mark(mark)


def marks_sought(marks: Marks | None) -> tuple[str, ...] | None:
    """Return the marks of a filter as a tuple; None is no filter. Raises TypeError if a mark is not text."""
    if marks is None:
        return None
    return (marks,) if isinstance(marks, str) else tuple(map(_mark, marks))


def incremented(record: bytes | None, by: int) -> bytes:
    """Add a number to a decimal record. Raises ValueError, see `RecordStore.increment_record`."""
    if record is not None and not _WHOLE_NUMBER.fullmatch(record):
        raise ValueError(f"the record {record[:40]!r} is not a decimal whole number")
    total = int(record or b"0") + by
    if not -(2**63) <= total < 2**63:
        raise ValueError(f"the sum {total} exceeds 64 bits")
    return b"%d" % total


class NotAnExport(StoreError, ValueError):
    """A line that is not in the format of a dump."""


def bad_line(line: Any) -> NotAnExport:
    """Return the error for a line that is not in the format of a dump."""
    return NotAnExport(f"this is not a line of an export of turns: {str(line)[:80]!r}")


def _mark(mark: Any) -> str:
    if not isinstance(mark, str):
        raise TypeError(f"a mark must be text, not {mark!r}")
    return mark


def _listed(sources: Sequence[Source]) -> str:
    return ", ".join(map(str, sources)) or "no repository"
