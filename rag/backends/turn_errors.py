"""What every turn store checks and says in the same words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rag.errors import ConversationChanged, ConversationMismatch, NotFound
from rag.ports import Marks
from rag.types import Conversation, Source

_LONGEST_S = 3_155_760_000
_MAX_KEEP_LAST = 2**31 - 1
_WHOLE_NUMBER = re.compile(rb"0|-?[1-9][0-9]*")


def no_conversation(id_or_name: str) -> NotFound:
    """There is no such conversation in the namespace."""
    return NotFound(f"there is no conversation {id_or_name!r}; `rag turns list` shows those that are kept")


def no_turn(turn_id: str) -> NotFound:
    """There is no such turn in the namespace."""
    return NotFound(f"there is no turn {turn_id!r}; `rag turns show` lists those of a conversation")


def no_order(conversation: str, at: int) -> NotFound:
    """Nothing of this order stands in the conversation."""
    return NotFound(
        f"the conversation {conversation!r} has nothing of order {at} to fork at; "
        "`rag turns show --json` gives the orders"
    )


def name_taken(taken: Conversation, asked: Sequence[Source]) -> ConversationMismatch:
    """A conversation of this name is there already."""
    return ConversationMismatch(conversation=taken.name, about=_listed(taken.sources), asked=_listed(asked))


def check_last(last: int | None) -> None:
    """Refuse a negative number of turns, which slices and LIMIT would each take in their own way."""
    if last is not None and last < 0:
        raise ValueError(f"last is how many turns to return, so at least 0, not {last}")


def check_limit(limit: int) -> None:
    """Refuse to find nothing at all."""
    if limit < 1:
        raise ValueError(f"limit is how many holders of a term to find, so at least 1, not {limit}")


def check_bounds(ttl_s: float | None, keep_last: int | None = None) -> None:
    """Refuse a time to live or a number to keep that keeps nothing, or that not every store can count."""
    if ttl_s is not None and not 0 < ttl_s <= _LONGEST_S:
        raise ValueError(
            f"ttl_s is how many seconds to keep it, so above 0 and at most a hundred years, not {ttl_s}"
        )
    if keep_last is not None and not (isinstance(keep_last, int) and 1 <= keep_last <= _MAX_KEEP_LAST):
        raise ValueError(f"keep_last is how many turns to keep, from 1 to {_MAX_KEEP_LAST}, not {keep_last}")


def check_rewind(to: int) -> None:
    """Refuse an order below that of nothing."""
    if to < -1:
        raise ValueError(f"to is an order to go back to, or -1 for the beginning, not {to}")


def check_last_turn(conversation: Conversation, expected: str | None, found: str) -> None:
    """Refuse a change whose caller expects another last turn; "" is no turn, None expects nothing."""
    if expected is not None and expected != found:
        raise changed(conversation.name or conversation.id, expected, found)


def changed(conversation: str, expected: str, found: str) -> ConversationChanged:
    """The conversation (its name or id) has another last turn than expected."""
    return ConversationChanged(conversation=conversation, expected=expected, found=found)


def check_update(new: str | None, old: str | None) -> None:
    """Refuse a change of marks that changes none, or to one that is no text."""
    if new is None and old is None:
        raise ValueError("say which mark is new, which is old, or both")
    for mark in (new, old):
        if mark is not None:
            _mark(mark)


def marks_sought(marks: Marks | None) -> tuple[str, ...] | None:
    """The marks of a filter as a tuple; None is no filter. Raises TypeError for marks that are no text."""
    if marks is None:
        return None
    return (marks,) if isinstance(marks, str) else tuple(map(_mark, marks))


def incremented(record: bytes | None, by: int) -> bytes:
    """The decimal record with a number added. Raises ValueError, see `RecordStore.increment_record`."""
    if record is not None and not _WHOLE_NUMBER.fullmatch(record):
        raise ValueError(f"the record {record[:40]!r} is no whole number in decimal")
    total = int(record or b"0") + by
    if not -(2**63) <= total < 2**63:
        raise ValueError(f"the sum {total} needs more than 64 bits")
    return b"%d" % total


def bad_line(line: Any) -> ValueError:
    """A line to restore that no dump holds."""
    return ValueError(f"this is no line of an export of turns: {str(line)[:80]!r}")


def _mark(mark: Any) -> str:
    if not isinstance(mark, str):
        raise TypeError(f"a mark is a text, not {mark!r}")
    return mark


def _listed(sources: Sequence[Source]) -> str:
    return ", ".join(map(str, sources)) or "no repository"
