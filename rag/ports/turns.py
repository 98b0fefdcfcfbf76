"""Stores of conversations, and of the records next to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from rag.types import Conversation, DialogTurn, Message, Source

Marks = str | Sequence[str]
"""One mark, or several of which any matches. An empty sequence matches nothing."""


class Holder(NamedTuple):
    """A turn or message that contains query terms; `counts` has one count per query term, in their order."""

    id: str
    kind: Literal["turn", "message"]
    conversation: str
    order: int
    length: int
    counts: tuple[int, ...]


class Matches(NamedTuple):
    """The matches of query terms, with the statistics for BM25. Every backend returns the same.

    `items` is the number of turns and messages searched, `length` the number of their terms, and `holders`
    the number of items that contain each term.
    """

    items: int
    length: int
    holders: tuple[int, ...]
    found: tuple[Holder, ...]


class Recalled(NamedTuple):
    """The id and the score of a turn or message that was found by its words."""

    id: str
    kind: Literal["turn", "message"]
    conversation: str
    order: int
    score: float


class TurnStore(Protocol):
    """Conversations with their turns and messages. Every backend behaves the same.

    Namespaces are isolated from each other. The turns and messages of a conversation share one `order`, which
    the store assigns: from 0, never reused, independent of the clock. Results are sorted by it, whatever the
    filter. Every call is atomic and safe to make from several threads and processes.

    A fork continues from a turn of another conversation. Both show the turns before that point: the same
    turns with the same ids, so an edit, mark or deletion in one shows in the other. Later turns belong to one
    of them. `conversation_id` of a turn or message is the conversation it was added to, even if that was
    deleted. An item that no conversation shows any more is deleted, and its id is free.

    Only adding a turn or message counts as a write to a conversation. With `ttl_s`, a conversation expires
    that many seconds after its last write and then behaves as deleted (NotFound). With `keep_last`, a call
    that adds items finally removes the oldest turns and the oldest messages beyond that number of each.

    Text may be anything, including "", NUL and lone surrogates. Marks are unique and sorted by code point.
    """

    # ---- conversations

    def create_conversation(
        self,
        *,
        namespace: str = "",
        name: str = "",
        sources: Sequence[Source] = (),
        ttl_s: float | None = None,
        keep_last: int | None = None,
    ) -> Conversation:
        """Create a conversation.

        `ttl_s` must be above 0, `keep_last` at least 1, and locations and refs of sources text that a
        program can be given, else ValueError. Raises ConversationMismatch if the name is taken in this
        namespace.
        """
        ...

    def conversation(self, id_or_name: str, *, namespace: str = "") -> Conversation:
        """Return a conversation with its counts, by id or else by name. Raises NotFound."""
        ...

    def conversations(self, *, namespace: str = "") -> list[Conversation]:
        """Return all conversations, the most recently written first."""
        ...

    def rename(self, conversation: str, name: str, *, namespace: str = "") -> Conversation:
        """Rename a conversation (by id); "" removes the name. Raises NotFound, ConversationMismatch."""
        ...

    def fork(
        self, conversation: str, *, at: int | None = None, name: str = "", namespace: str = ""
    ) -> Conversation:
        """Create a conversation that continues another one after its turn or message of order `at`.

        `at` None is the end (the last order shown, -1 when empty); -1 inherits nothing. The time taken does
        not depend on the length of the other. The fork gets its sources, ttl and keep_last and shows its
        items up to `at`; the next order is `at` + 1. `parent` and `forked_at` name the origin, even if it was
        deleted.

        Raises:
            NotFound: there is no such conversation, or nothing of order `at` in it.
            ConversationMismatch: the name is taken.
        """
        ...

    def rewind(self, conversation: str, *, to: int, namespace: str = "", last_turn: str | None = None) -> int:
        """Remove everything after order `to` (-1: everything); return the number of turns removed.

        Inherited items are removed too; forks of this conversation keep theirs. Orders are not reused.

        Args:
            conversation: its id.
            to: the last order to keep.
            namespace: the namespace of the conversation.
            last_turn: the id that the last turn must have, "" for no turn: a guard against removing a turn
                that another process added in the meantime. None skips the check.

        Raises:
            NotFound: there is no such conversation.
            ConversationChanged: the last turn is a different one; nothing was removed.
            ValueError: `to` is below -1.
        """
        ...

    def clear(self, conversation: str, *, namespace: str = "") -> int:
        """Remove all turns and messages, like `rewind` to -1; return the number of both."""
        ...

    def delete_conversation(
        self, conversation: str, *, namespace: str = "", last_turn: str | None = None
    ) -> int:
        """Delete a conversation (by id) with its turns and messages; return the number of turns deleted.

        Forks of it keep what they inherited. `last_turn` is a guard as in `rewind`. Raises NotFound,
        ConversationChanged.
        """
        ...

    # ---- turns

    def append(self, turn: DialogTurn, *, conversation: str, namespace: str = "") -> DialogTurn:
        """Add a turn at the end of a conversation (by id); return it with `order` and ids filled in.

        If the id is already stored in the namespace, the stored turn is returned unchanged. The store sets
        `version` to 1 and assigns `order` and `conversation_id`; the values in `turn` are ignored.

        Raises:
            NotFound: there is no such conversation in this namespace.
        """
        ...

    def extend(
        self, turns: Sequence[DialogTurn], *, conversation: str, namespace: str = ""
    ) -> list[DialogTurn]:
        """Add turns at the end like `append`, in one transaction and one round trip."""
        ...

    def turns(
        self,
        conversation: str,
        *,
        namespace: str = "",
        last: int | None = None,
        before: int | None = None,
        after: int | None = None,
        mark: Marks | None = None,
        exclude_mark: Marks | None = None,
    ) -> list[DialogTurn]:
        """Return the turns of a conversation, oldest first.

        Args:
            conversation: its id; inherited turns come first.
            namespace: the namespace of the conversation.
            last: at most this number of turns, the newest that pass the other filters.
            before: only orders below this one.
            after: only orders above this one.
            mark: only turns with one of these marks.
            exclude_mark: only turns with none of these marks.

        Raises:
            NotFound: there is no such conversation in this namespace.
        """
        ...

    def turn(self, turn_id: str, *, namespace: str = "") -> DialogTurn:
        """Return one turn. Raises NotFound."""
        ...

    def turns_by_id(self, ids: Sequence[str], *, namespace: str = "") -> dict[str, DialogTurn]:
        """Return the stored turns with these ids, in the order given; hundreds take one round trip."""
        ...

    def edit_turn(self, turn: DialogTurn, *, namespace: str = "") -> DialogTurn:
        """Store a new version of the turn with this id; return it, with `version` one higher.

        Order, conversation and marks of the stored turn are kept; so is the old version, see `versions`.
        Raises NotFound.
        """
        ...

    def finish_turn(self, turn: DialogTurn, *, namespace: str = "") -> DialogTurn:
        """Replace the stored turn with this id, whose state is "asked", by its answer; return it as stored.

        The question was stored before its answer was known, and this ends it: atomically and once. Order,
        conversation and marks of the stored turn are kept; no version is added.

        Raises:
            NotFound: there is no such turn, or it is not "asked" any more.
            ValueError: the state of `turn` is still "asked".
        """
        ...

    def versions(self, turn_id: str, *, namespace: str = "") -> list[DialogTurn]:
        """Return all versions of a turn, oldest first; the last one is current and has the current marks.

        Raises NotFound.
        """
        ...

    def delete_turn(self, turn_id: str, *, namespace: str = "") -> bool:
        """Delete a turn with its versions; return False if there was none. Other orders do not change."""
        ...

    def citing(
        self, *, namespace: str = "", location: str | None = None, path: str | None = None, blob: str = ""
    ) -> list[str]:
        """Return the ids of turns that cite this file (shown or used) in any of their versions, ascending.

        `location` None matches any repository, `path` None any file, `blob` "" any content.
        """
        ...

    # ---- messages

    def add_messages(
        self, messages: Sequence[Message], *, conversation: str, namespace: str = ""
    ) -> list[Message]:
        """Add messages at the end in one transaction; return those that were stored, with their order.

        A message whose id is already used by a message of the namespace, or earlier in the call, is skipped.
        Raises NotFound.
        """
        ...

    def messages(
        self,
        conversation: str,
        *,
        namespace: str = "",
        last: int | None = None,
        mark: Marks | None = None,
        exclude_mark: Marks | None = None,
    ) -> list[Message]:
        """Return the messages of a conversation, oldest first; filters as in `turns`. Raises NotFound."""
        ...

    def delete_messages(self, ids: Sequence[str], *, conversation: str, namespace: str = "") -> int:
        """Delete messages that the conversation shows; return how many. Raises NotFound."""
        ...

    # ---- marks of turns and messages

    def update_marks(
        self,
        conversation: str,
        new: str | None,
        *,
        old: str | None = None,
        ids: Sequence[str] | None = None,
        namespace: str = "",
    ) -> int:
        """Add, replace or remove a mark; return the number of turns and messages that changed.

        `new` alone is added, `old` alone is removed; with both, `old` is replaced by `new` where present.
        With neither: ValueError. `ids` are ids of turns and messages that the conversation shows; None means
        all. Raises NotFound.
        """
        ...

    def delete_by_mark(self, conversation: str, mark: Marks, *, namespace: str = "") -> int:
        """Delete turns and messages with one of these marks; return how many, each counted once.

        Raises NotFound.
        """
        ...

    # ---- search

    def matching(
        self, terms: Sequence[str], *, namespace: str = "", conversation: str | None = None, limit: int = 1000
    ) -> Matches:
        """Return the turns and messages that contain one of the terms (of `rag.analysis.terms`).

        Each term finds at most its newest `limit` items (highest order first, then by id). `found` is sorted
        by conversation, the one the item was added to, and order. The searched text is that of
        `rag.searchable.searchable` for the current version; its length is the sum of `term_counts`.

        Args:
            terms: distinct terms, any number.
            namespace: the namespace to search.
            conversation: only this conversation, with inherited items; None searches the whole namespace.
            limit: at least 1.
        """
        ...

    def ranked(
        self,
        terms: Sequence[str],
        *,
        namespace: str = "",
        conversation: str | None = None,
        kind: Literal["turn", "message"] | None = None,
        k: int = 10,
        limit: int = 1000,
    ) -> list[Recalled]:
        """Return the k best of what `matching` returns by BM25 (`rag.turns.search.bm25`), best first.

        At equal scores (six decimals) the highest order first, then by id. `kind` None is both kinds.
        """
        ...

    def close(self) -> None:
        """Release all resources. Closing twice is allowed."""
        ...


class RecordStore(Protocol):
    """Small records by namespace, shelf and key: facts, summaries, cached answers, retained files.

    Every turn store is also a record store. Keys are text, values bytes. A record with `ttl_s` (above 0, else
    ValueError) expires that many seconds after the last `put_records`. Every call is atomic within a shelf.
    """

    def put_records(
        self, records: Mapping[str, bytes], *, shelf: str, namespace: str = "", ttl_s: float | None = None
    ) -> None:
        """Store records; records with the same keys are replaced."""
        ...

    def records(self, keys: Sequence[str], *, shelf: str, namespace: str = "") -> dict[str, bytes]:
        """Return the records of these keys that exist, in the order of the keys."""
        ...

    def has_records(self, keys: Sequence[str], *, shelf: str, namespace: str = "") -> set[str]:
        """Return those of the keys that have a record, without reading the values."""
        ...

    def scan_records(self, *, shelf: str, namespace: str = "", prefix: str = "") -> list[tuple[str, bytes]]:
        """Return all records whose key starts with `prefix`, sorted by key (code points)."""
        ...

    def count_records(self, *, shelf: str, namespace: str = "") -> int:
        """Return the number of records on the shelf."""
        ...

    def swap_record(
        self, key: str, old: bytes | None, new: bytes | None, *, shelf: str, namespace: str = ""
    ) -> bool:
        """Replace the value `old` by `new` and return True; return False if the value is not `old`.

        None means no record. The expiry of the record does not change.
        """
        ...

    def append_record(self, key: str, more: bytes, *, shelf: str, namespace: str = "") -> int:
        """Append to a record, creating it if necessary; return its length in bytes.

        The expiry of the record does not change, here and in `increment_record`.
        """
        ...

    def increment_record(self, key: str, by: int = 1, *, shelf: str, namespace: str = "") -> int:
        """Add to a record that is a decimal number, creating it at 0; return the sum.

        Raises ValueError and changes nothing if the record is not a number or the sum exceeds 64 bits.
        """
        ...

    def delete_records(self, keys: Sequence[str] | None = None, *, shelf: str, namespace: str = "") -> int:
        """Delete these records, or all of the shelf for None; return how many existed."""
        ...


class MemoryStore(TurnStore, RecordStore, Protocol):
    """A memory backend: turns and records in one place, with dump and restore between backends.

    A dump is a sequence of JSON values ("lines"): first the conversations, the most recently written last,
    then turns and messages, then records:

        {"conversation": conversation_record, "next_order": int, "first": {"turn": int, "message": int},
         "spans": [[conversation id, first order, last order or null for no end], …]}
        {"turn": turn_record, "versions": [turn_record of an earlier version, …]}
        {"message": message_record}
        {"record": {"shelf": str, "key": str, "value": base64, "expires": ISO 8601 or null}}

    A conversation shows the items that were added to the conversations of its spans within these orders
    (inclusive), except turns below `first["turn"]` and messages below `first["message"]`, which `keep_last`
    removed. Spans are ascending; the last one is the conversation's own, with no end.
    """

    def namespaces(self) -> list[str]:
        """Return all namespaces that hold a conversation or a record, ascending; not `KEYS_NAMESPACE`."""
        ...

    def dump(
        self, *, namespace: str = "", conversations: Sequence[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield everything in a namespace as JSON values, or only these conversations (by id) with their
        items.

        With `conversations`, records are left out, as they belong to the namespace. Items written during the
        iteration may be missing. Raises NotFound.
        """
        ...

    def restore(self, lines: Iterable[Mapping[str, Any]], *, namespace: str = "") -> int:
        """Store the lines of a `dump` in this namespace; return the number of new conversations.

        Everything is restored: ids, orders, times, versions, marks, forks and remaining times to live. A
        conversation, turn or message whose id (or order in its conversation) already exists is skipped; a
        record replaces one with the same key. Expired items, and items that no conversation shows, are left
        out. On an error nothing is stored.

        Raises:
            ConversationMismatch: a name is taken here by a conversation with another id.
            ValueError: a line is not in the format of `dump`.
        """
        ...
