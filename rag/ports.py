"""Ports: the interfaces that backends implement. The backends are in `rag/backends/`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, TypeGuard, runtime_checkable

import numpy as np
import numpy.typing as npt

from rag.analysis import TermBags
from rag.types import (
    CodeDefinition,
    CodeUse,
    Conversation,
    DialogTurn,
    Hit,
    Message,
    ModelReply,
    Prepared,
    Source,
    Usage,
    UseRole,
)

Vectors = npt.NDArray[np.float32]
Role = Literal["query", "passage"]


class Embedder(Protocol):
    """Embeds texts as unit vectors."""

    @property
    def dim(self) -> int:
        """The width of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """The model, its version and width. Vectors of two embedders may be mixed only if these are equal."""
        ...

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Embed texts in their order: float32, shape (len(texts), dim), rows of length 1.

        A text that the model cannot embed gets a zero row. No texts give shape (0, dim).

        Raises:
            ProviderError: a service failed; the vectors of the other texts are dropped too.
        """
        ...


class BagEmbedder(Embedder, Protocol):
    """An embedder of counted terms, which saves analyzing a text twice."""

    def embed_bags(self, bags: TermBags, idf: npt.NDArray[np.float32], *, role: Role) -> Vectors:
        """Embed counted terms: float32, shape (len(bags), dim), rows of length 1 or zero.

        Args:
            bags: the terms of each text.
            idf: the inverse document frequency of each vocabulary term in the corpus that is searched.
            role: whether the texts are queries or passages.
        """
        ...

    def knows(self, term: str) -> bool:
        """Whether the term has its own vector; other terms share vectors by hashing."""
        ...


def takes_bags(embedder: Embedder) -> TypeGuard[BagEmbedder]:
    """Whether an embedder can embed counted terms.

    Called several times per search; `isinstance` takes 30 µs for a protocol.
    """
    return hasattr(embedder, "embed_bags")


class Reranker(Protocol):
    """A second stage of the search: judges each of a few hits again, together with the question."""

    @property
    def fingerprint(self) -> str:
        """The model and its version. Scores of two rerankers may be compared only if these are equal."""
        ...

    def scores(
        self, question: str, hits: Sequence[Hit], *, terms: Mapping[str, float]
    ) -> npt.NDArray[np.float32]:
        """Return how well each hit answers the question, in the order given.

        Args:
            question: the question, which needs no context.
            terms: the terms that are searched, each with its weight: its rarity in the repositories, lowered
                where it is another spelling of a word.
            hits: best first by the first stage; hits that take long are scored in this order.

        Returns:
            float32, shape (len(hits),), 0 or more, where 1 counts as much as the best score of the first
            stage; NaN for a hit that was not scored in time. A hit's score depends on the question, its
            terms, and the hit's names and text only.
        """
        ...


class Lists(NamedTuple):
    """Rows clustered around centroids: a search only scans the lists nearest to its query.

    List i holds `rows[indptr[i]:indptr[i + 1]]`, ascending; each row is in exactly one list. `centroids` is
    float32, shape (lists, dim). Scanning `probes` lists finds nearly all neighbours.
    """

    centroids: Vectors
    indptr: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    probes: int


class Rows(NamedTuple):
    """Unit vectors with 8 bits per number: row i is `codes[i] * scale[i]`, a zero row where the scale is 0.

    `codes` is int8, shape (n, dim); `scale` is float32, shape (n,). A large block has `lists`.
    """

    codes: npt.NDArray[np.int8]
    scale: npt.NDArray[np.float32]
    lists: Lists | None = None


class Gather(Protocol):
    """Clusters rows around centroids."""

    def __call__(
        self, codes: npt.NDArray[np.int8], scale: npt.NDArray[np.float32], lists: int
    ) -> tuple[Vectors, npt.NDArray[np.int64]]:
        """Find centroids for the rows `codes * scale[:, None]`, and the centroid nearest to each row.

        Returns:
            Unit centroids, shape (lists, dim), and the number of each row's centroid, shape (n,). The result
            is deterministic.
        """
        ...


class VectorIndex(Protocol):
    """An index of unit vectors that is searched by cosine similarity."""

    def __len__(self) -> int: ...

    def search(
        self, queries: Vectors, k: int, *, dead: npt.NDArray[np.bool_] | None = None
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Find the k nearest rows of each query, best first.

        Args:
            queries: float32, shape (q, dim), rows of length 1.
            k: at least 1.
            dead: rows to exclude, shape (len,).

        Returns:
            Cosines and row numbers, both of shape (q, min(k, live rows)). Rows with equal cosines are
            ordered by their number; which of them are cut off at k is up to the backend. In a block with
            lists, a few of the nearest may be missing.

        Raises:
            DimensionMismatch: the queries are not as wide as the rows.
        """
        ...


class Postings(NamedTuple):
    """The chunks that contain a term, ascending, and its counts in their body and head; equal lengths."""

    chunks: npt.NDArray[np.int32]
    body: npt.NDArray[np.uint8]
    head: npt.NDArray[np.uint8]


class CodeGraph(Protocol):
    """Who calls, uses, extends and imports a definition. Results are certain ones first, by path and line."""

    def definitions(self, name: str) -> list[CodeDefinition]:
        """Return the definitions of a name, by path and line. `Class.method` limits it to that class."""
        ...

    def defined_in(self, path: str) -> list[CodeDefinition]:
        """Return the definitions of a file, in order."""
        ...

    def callers(self, targets: Sequence[CodeDefinition]) -> list[CodeUse]:
        """Return the calls of any of these definitions."""
        ...

    def uses(self, targets: Sequence[CodeDefinition]) -> list[CodeUse]:
        """Return the calls and mentions of any of these definitions."""
        ...

    def unresolved(self, targets: Sequence[CodeDefinition], role: UseRole) -> list[CodeUse]:
        """Return the places that may refer to these definitions by name, but cannot be resolved, by path and
        line; none of them is certain.

        The role "call" asks for calls, "mention" for calls and mentions, "base" for bases of classes,
        "override" for other definitions in classes with an unknown base, "import" for imports of their files.
        What is resolved is not among them, and neither are the possible uses that `uses` returns.
        """
        ...

    def callees(
        self, target: CodeDefinition, named: Callable[[str], bool] | None = None
    ) -> list[tuple[CodeUse, CodeDefinition]]:
        """Return the calls in a definition, each with the definition it calls, by line.

        `named` says of a name whether its calls are wanted; None wants all.
        """
        ...

    def subclasses(self, target: CodeDefinition) -> list[CodeUse]:
        """Return the classes that name this class as a base."""
        ...

    def overrides(self, target: CodeDefinition) -> list[CodeUse]:
        """Return the definitions that override this method, in direct and indirect subclasses."""
        ...

    def importers(self, path: str) -> list[CodeUse]:
        """Return the imports of a file."""
        ...

    def imports_of(self, path: str, names: Set[str]) -> list[tuple[int, int]]:
        """Return the first and last lines of the imports of a file that bring one of the names, in order."""
        ...


class ChunkIndex(Protocol):
    """A store as retrieval sees it: chunks numbered from 0. Dead chunks are marked and never returned."""

    def __len__(self) -> int: ...

    @property
    def live_count(self) -> int:
        """The number of chunks that are not dead."""
        ...

    def verify(self) -> None:
        """Check that the files of the store are unchanged since they were written.

        Raises:
            StoreCorrupt: they are not.
        """
        ...

    @property
    def dead(self) -> npt.NDArray[np.bool_] | None:
        """Which chunks are dead, shape (len,); None when none are."""
        ...

    @property
    def file(self) -> npt.NDArray[np.int32]:
        """The file number of each chunk, below `total_files`."""
        ...

    @property
    def total_files(self) -> int:
        """The number of file numbers in use."""
        ...

    @property
    def kind(self) -> npt.NDArray[np.uint8]:
        """The kind of each chunk: 0 code, 1 test, 2 doc, 3 config."""
        ...

    @property
    def unit(self) -> npt.NDArray[np.uint8]:
        """The unit of each chunk: 0 function, 1 class, 2 section, 3 block."""
        ...

    @property
    def length_body(self) -> npt.NDArray[np.int32]:
        """The number of terms in the body of each chunk."""
        ...

    @property
    def length_head(self) -> npt.NDArray[np.int32]:
        """The number of terms in the head (path, names) of each chunk."""
        ...

    @property
    def mean_lengths(self) -> tuple[float, float]:
        """The average number of terms in the body and in the head of a chunk, at least 1 each."""
        ...

    @property
    def vectors(self) -> list[Rows]:
        """Unit vectors in chunk order, in one or more blocks."""
        ...

    def postings(self, term: str) -> Postings:
        """Return the live chunks that contain the term."""
        ...

    def defining(self, symbol: str) -> list[int]:
        """Return the live chunks that define the symbol, ignoring case, ascending."""
        ...

    def file_path(self, file: int) -> str:
        """Return the path of a file by its number."""
        ...

    def file_bytes(self, file: int) -> bytes:
        """Return the text of a file by its number, as UTF-8."""
        ...

    @property
    def divided(self) -> npt.NDArray[np.bool_]:
        """Which files have a line that is divided between chunks, shape (total_files,)."""
        ...

    def file_text(self, path: str) -> tuple[str, str] | None:
        """Return the text of a file as it was indexed, and its blob id; None when it is not indexed."""
        ...

    def chunks_of(self, path: str) -> range:
        """Return the chunks of a file, in the order of its lines; none when it is not indexed."""
        ...

    def names(self, chunks: npt.NDArray[np.int64]) -> list[tuple[str, str]]:
        """Return the symbol and scope of each of these chunks, "" for none."""
        ...

    def unnamed(self, chunks: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of these chunks have no symbol."""
        ...

    def lines(self, chunk: int) -> tuple[int, int]:
        """Return the first and last line of a chunk."""
        ...

    def hit(self, chunk: int, score: float, legs: Mapping[str, float]) -> Hit:
        """Return the chunk with its text as a hit."""
        ...

    @property
    def graph(self) -> CodeGraph:
        """The graph of the repository's code."""
        ...


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

        `ttl_s` must be above 0 and `keep_last` at least 1, else ValueError. Raises ConversationMismatch if
        the name is taken in this namespace.
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
        """Return all namespaces that hold a conversation or a record, ascending."""
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


PersistenceKind = Literal["none", "rdb", "aof", "aof-always", "rdb+aof", "rdb+aof-always"]
"""What a server writes to disk: snapshots at intervals (rdb), a log of every write that is synced each
second (aof) or before a write is acknowledged (aof-always), both, or nothing."""


class Persistence(NamedTuple):
    """The persistence settings and state of a server node.

    `snapshots` is the schedule: pairs of seconds and writes, "" for never. `log` is the sync mode of the
    append log ("always", "everysec", "no"), "" for no log. `unsaved` is the number of writes since the last
    snapshot, made at `saved`. `busy` means that a snapshot or log rewrite is running; `failed`, that the last
    one failed.
    """

    node: str
    snapshots: str
    log: str
    unsaved: int
    saved: datetime
    busy: bool
    failed: bool


@runtime_checkable
class PersistentStore(Protocol):
    """A store on a server whose persistence can be read and set."""

    def persistence(self) -> list[Persistence]:
        """Return the persistence of each node."""
        ...

    def set_persistence(self, kind: PersistenceKind) -> list[str]:
        """Set the persistence of every node; return the nodes where the setting will not survive a restart.

        That is the case for a server without a configuration file.
        """
        ...

    def save(self, *, background: bool) -> None:
        """Write a snapshot on every node: in the background, or now, which blocks all other clients."""
        ...


@runtime_checkable
class Grouping(Protocol):
    """A memory store with transactions."""

    def together(self) -> AbstractContextManager[None]:
        """Run all calls of this thread in one transaction: committed at the end, rolled back on an error.

        An error that is caught inside only rolls back the call that raised it, if the call was wrong; an
        error of the storage (a full disk) rolls back everything, and the block raises it.
        """
        ...


def has_transactions(store: object) -> TypeGuard[Grouping]:
    """Whether a memory store has transactions (for why not `isinstance`, see `takes_bags`)."""
    return hasattr(store, "together")


class TokenCounter(Protocol):
    """Counts tokens; a counter that has to estimate errs on the high side."""

    @property
    def name(self) -> str:
        """The name of the encoding, for example "cl100k_base" or "estimate"."""
        ...

    def count(self, text: str) -> int:
        """Return the number of tokens: 0 for "", at least 1 for any other text."""
        ...


class LearningCounter(TokenCounter, Protocol):
    """A counter that learns from what a service reports."""

    def learn(self, text: str, tokens: int) -> None:
        """Learn from the tokens that the service reported for a prompt; implausible ones are ignored."""
        ...


def is_learning(counter: TokenCounter) -> TypeGuard[LearningCounter]:
    """Whether a counter learns (for why not `isinstance`, see `takes_bags`)."""
    return hasattr(counter, "learn")


class TextGenerator(Protocol):
    """Generates an answer to a prepared question."""

    @property
    def model(self) -> str:
        """The model's name, as shown to the user."""
        ...

    def stream(self, prepared: Prepared) -> Iterator[str]:
        """Yield pieces of the answer.

        Raises:
            ProviderError: the service failed, possibly in mid-stream; `.retryable` says whether to retry.
        """
        ...

    @property
    def usage(self) -> Usage | None:
        """Tokens of the last answer as reported by the service; None if it reported none."""
        ...


@runtime_checkable
class CompletingGenerator(TextGenerator, Protocol):
    """A generator that also completes other short prompts, such as rewriting a follow-up question."""

    def complete(self, text: str) -> str:
        """Return the whole reply to a prompt.

        Raises:
            ProviderError: the service failed or returned an empty reply.
        """
        ...


def is_completing(generator: TextGenerator) -> TypeGuard[CompletingGenerator]:
    """Whether a generator completes other prompts (for why not `isinstance`, see `takes_bags`)."""
    return hasattr(generator, "complete")


ChatMessages = Sequence[Mapping[str, Any]]
"""Messages in the form of the OpenAI protocol."""


class ToolCallingGenerator(TextGenerator, Protocol):
    """A generator whose model may call tools, in the form of the OpenAI protocol."""

    @property
    def calls_tools(self) -> bool:
        """Whether the service accepts tools, as far as is known; False once it refused them."""
        ...

    def choose(self, messages: ChatMessages, tools: Sequence[Mapping[str, Any]]) -> ModelReply:
        """Return the model's reply to messages; the tools that it calls are not run.

        Raises:
            ProviderError: the service failed, or refused the tools: `calls_tools` is False then.
        """
        ...

    async def achoose(self, messages: ChatMessages, tools: Sequence[Mapping[str, Any]]) -> ModelReply:
        """Like `choose`, in an event loop."""
        ...


def is_tool_calling(generator: TextGenerator) -> TypeGuard[ToolCallingGenerator]:
    """Whether a generator calls tools, and its service has not refused them."""
    return bool(getattr(generator, "calls_tools", False))


class AsyncGenerator(TextGenerator, Protocol):
    """A generator with an asynchronous interface, for event loops."""

    def astream(self, prepared: Prepared) -> AsyncIterator[str]:
        """Like `stream`."""
        ...

    async def acomplete(self, text: str) -> str:
        """Like `complete`."""
        ...


def is_async(generator: TextGenerator) -> TypeGuard[AsyncGenerator]:
    """Whether a generator has an asynchronous interface (for why not `isinstance`, see `takes_bags`)."""
    return hasattr(generator, "astream") and hasattr(generator, "acomplete")


class SharedState(Protocol):
    """What several servers share in addition to turns and jobs: locks, rates of requests, events, and keys.

    All methods may be called from several threads, except `listen`, which one thread calls.

    Raises:
        StoreError: from every method, if the state is unreachable or busy.
    """

    def locked(self, name: str) -> AbstractContextManager[None]:
        """Hold a lock in the block; all others that want it, in any process, wait.

        A process that ends releases its locks.
        """
        ...

    def hit(self, name: str, *, amount: int, period_s: float) -> float:
        """Count a request, unless there were `amount` of this name in the last `period_s` seconds.

        Requests of the previous period count in part, as if they had been evenly spread.

        Returns:
            0.0 if the request was counted, else the seconds until one may be.
        """
        ...

    def publish(self, event: str) -> None:
        """Send a text of at most 7,900 bytes to everyone who listens, also in this process.

        Raises:
            ValueError: it is longer.
        """
        ...

    def listen(self, timeout_s: float) -> list[str] | None:
        """Wait for events, at most this long; None if some may have been missed, as at the first call."""
        ...

    def add_key(self, name: str, entry: Mapping[str, Any]) -> bool:
        """Store a key under its name; False if the name is taken, and nothing was changed."""
        ...

    def keys(self) -> dict[str, Mapping[str, Any]]:
        """Return all keys by name."""
        ...

    def replace_key(self, name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        """Replace the entry of a key that is still `old`; False if it is not, and nothing was changed."""
        ...

    def remove_key(self, name: str) -> bool:
        """Remove a key; False if there was none."""
        ...

    def prune(self) -> None:
        """Remove the counts of names that were not used for a day."""
        ...

    def close(self) -> None:
        """Release connections. Closing twice is allowed."""
        ...


class Clock(Protocol):
    """A source of the current time."""

    def __call__(self) -> datetime:
        """Return the current time, with its time zone."""
        ...
