"""The seams: what a backend promises. One page; backends live in `rag/backends/`, one file a technology."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, TypeGuard, runtime_checkable

import numpy as np
import numpy.typing as npt

from rag.analysis import TermBags
from rag.types import Conversation, DialogTurn, Hit, Message, Prepared, Source, Usage

Vectors = npt.NDArray[np.float32]
Role = Literal["query", "passage"]


class Embedder(Protocol):
    """Texts become unit vectors."""

    @property
    def dim(self) -> int:
        """Numbers a vector has."""
        ...

    @property
    def fingerprint(self) -> str:
        """Equal for two embedders exactly when their vectors may be mixed: model, version, dimensions."""
        ...

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Embed texts, in order: float32, shape (len(texts), dim), rows of length 1.

        A text that says nothing to the model gives a zero row. No texts give shape (0, dim).

        Raises:
            ProviderError: a service failed; nothing is returned for the texts that succeeded.
        """
        ...


class BagEmbedder(Embedder, Protocol):
    """An embedder over counted terms: the text need not be analyzed twice."""

    def embed_bags(self, bags: TermBags, idf: npt.NDArray[np.float32], *, role: Role) -> Vectors:
        """Embed counted terms: float32, shape (len(bags), dim), rows of length 1 or zero.

        Args:
            bags: the terms of each text.
            idf: for each term of the vocabulary, its inverse document frequency in the corpus searched.
            role: which side of the search the texts are on.
        """
        ...

    def knows(self, term: str) -> bool:
        """Whether the term has a vector of its own; others share theirs with more."""
        ...


def takes_bags(embedder: Embedder) -> TypeGuard[BagEmbedder]:
    """Whether an embedder embeds counted terms.

    Asked several times a search: `isinstance` takes 30 µs for a protocol, this nothing.
    """
    return hasattr(embedder, "embed_bags")


class Lists(NamedTuple):
    """Rows gathered around centroids, so that a search need only look into the lists nearest to its query.

    List i holds `rows[indptr[i]:indptr[i + 1]]`, ascending; every row is in one list. `centroids` is float32,
    shape (lists, dim); looking into `probes` lists finds nearly all neighbours.
    """

    centroids: Vectors
    indptr: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    probes: int


class Rows(NamedTuple):
    """Unit vectors in 8 bits a number: row i is `codes[i] * scale[i]`, or zero where the scale is.

    `codes` is int8, shape (n, dim), `scale` float32, shape (n,). A large block has `lists`.
    """

    codes: npt.NDArray[np.int8]
    scale: npt.NDArray[np.float32]
    lists: Lists | None = None


class Gather(Protocol):
    """Rows are gathered around centroids."""

    def __call__(
        self, codes: npt.NDArray[np.int8], scale: npt.NDArray[np.float32], lists: int
    ) -> tuple[Vectors, npt.NDArray[np.int64]]:
        """Find centroids for the rows `codes * scale[:, None]`, and the one nearest to each row.

        Returns:
            Unit centroids, shape (lists, dim), and for each row the number of its centroid, shape (n,). The
            same rows give the same lists.
        """
        ...


class VectorIndex(Protocol):
    """Rows of unit vectors, searched by cosine."""

    def __len__(self) -> int: ...

    def search(
        self, queries: Vectors, k: int, *, dead: npt.NDArray[np.bool_] | None = None
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Find the k nearest rows of each query, best first.

        Args:
            queries: float32, shape (q, dim), rows of length 1.
            k: at least 1.
            dead: rows that are never found, shape (len,).

        Returns:
            Cosines and row numbers, both shape (q, min(k, living rows)). Rows with the same cosine stand in
            the order of their numbers; which of several equal rows fall off the end is the backend's choice.
            In a block with lists a few of the nearest may be missing.

        Raises:
            DimensionMismatch: the queries are not as wide as the rows.
        """
        ...


class Postings(NamedTuple):
    """Which chunks hold a term, ascending, and how often in their body and head; all of one length."""

    chunks: npt.NDArray[np.int32]
    body: npt.NDArray[np.uint8]
    head: npt.NDArray[np.uint8]


class ChunkIndex(Protocol):
    """What retrieval sees of a store: chunks by number, from 0 to len; dead ones are marked, never found."""

    def __len__(self) -> int: ...

    @property
    def live_count(self) -> int:
        """Chunks that are not dead."""
        ...

    def verify(self) -> None:
        """Look whether all of it is as it was written: for when it has been found to make no sense.

        Raises:
            StoreCorrupt: it is not.
        """
        ...

    @property
    def dead(self) -> npt.NDArray[np.bool_] | None:
        """Which chunks are dead, shape (len,); None when none is."""
        ...

    @property
    def file(self) -> npt.NDArray[np.int32]:
        """The file of each chunk, by number below `total_files`."""
        ...

    @property
    def total_files(self) -> int:
        """How far files are numbered."""
        ...

    @property
    def kind(self) -> npt.NDArray[np.uint8]:
        """0 code, 1 test, 2 doc, 3 config, of each chunk."""
        ...

    @property
    def unit(self) -> npt.NDArray[np.uint8]:
        """0 function, 1 class, 2 section, 3 block, of each chunk."""
        ...

    @property
    def length_body(self) -> npt.NDArray[np.int32]:
        """Terms in the body of each chunk."""
        ...

    @property
    def length_head(self) -> npt.NDArray[np.int32]:
        """Terms in the head (path, names) of each chunk."""
        ...

    @property
    def mean_lengths(self) -> tuple[float, float]:
        """Terms in the body and in the head of a chunk, on average; at least 1 each."""
        ...

    @property
    def vectors(self) -> list[Rows]:
        """Unit rows, in chunk order, in one or more blocks."""
        ...

    def postings(self, term: str) -> Postings:
        """Live chunks that hold the term."""
        ...

    def defining(self, symbol: str) -> list[int]:
        """Live chunks that define the symbol, whatever its case, ascending."""
        ...

    def file_path(self, file: int) -> str:
        """The path of a file by its number."""
        ...

    def names(self, chunks: npt.NDArray[np.int64]) -> list[tuple[str, str]]:
        """Symbol and scope of each of these chunks, "" for none."""
        ...

    def unnamed(self, chunks: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of these chunks have no symbol."""
        ...

    def lines(self, chunk: int) -> tuple[int, int]:
        """First and last line of a chunk."""
        ...

    def hit(self, chunk: int, score: float, legs: Mapping[str, float]) -> Hit:
        """The chunk with its text."""
        ...


Marks = str | Sequence[str]
"""One mark, or several of which any will do. No mark at all (an empty sequence) matches nothing."""


class Holder(NamedTuple):
    """A turn or message that holds words sought; `counts` go with the words as they were given."""

    id: str
    kind: Literal["turn", "message"]
    conversation: str
    order: int
    length: int
    counts: tuple[int, ...]


class Matches(NamedTuple):
    """What a store knows of the words sought: enough to rank by BM25, the same from every backend.

    `items` and `length` are the turns and messages searched and their terms in all; `holders` in how many
    each word stands.
    """

    items: int
    length: int
    holders: tuple[int, ...]
    found: tuple[Holder, ...]


class TurnStore(Protocol):
    """Conversations with their turns and messages, the same from every backend.

    A namespace never sees another's conversations. Turns and messages of a conversation share one
    `order`, which the store gives from 0 and never uses twice; never by clock. Whatever filter is used,
    they come in that order. Every call is atomic, and may come from several threads and processes at once.

    A fork goes on from a turn of another conversation: what came before stands in both (the same turns,
    under the same ids: edited, marked or deleted in one they are so in the other), what comes after in one.
    `conversation_id` of a turn or message names where it was said, also when that is gone. What no
    conversation shows any more is gone, and its id free.

    A conversation is written to when a turn or message is added to it, by nothing else. One with `ttl_s`
    is gone (NotFound), as if deleted, when that many seconds have passed since; one with `keep_last` takes
    back its oldest turns, and its oldest messages, beyond that many of each, at the end of a call that adds.

    Text may be anything, also "", NUL and lone surrogates. Marks are ascending (by code points), each once.
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
        """Begin a conversation. With a name that is taken in this namespace: ConversationMismatch.

        `ttl_s` above 0 and `keep_last` of at least 1; anything else is a ValueError.
        """
        ...

    def conversation(self, id_or_name: str, *, namespace: str = "") -> Conversation:
        """Return a conversation by its id, else by its name, with its counts. Raises NotFound."""
        ...

    def conversations(self, *, namespace: str = "") -> list[Conversation]:
        """All conversations, the one last written to first."""
        ...

    def rename(self, conversation: str, name: str, *, namespace: str = "") -> Conversation:
        """Give a conversation (by id) another name, "" for none. Raises NotFound, ConversationMismatch."""
        ...

    def fork(
        self, conversation: str, *, at: int | None = None, name: str = "", namespace: str = ""
    ) -> Conversation:
        """A conversation that goes on from another's turn or message of order `at`; None is its end.

        Takes the same time however long the other is. The fork has its sources, ttl and keep_last, and
        shows what the other shows up to `at`; `parent` and `forked_at` say where it comes from (also when
        the parent is gone); its next order is `at` + 1. The end is the last order shown, -1 when nothing
        is. `at` -1 inherits nothing.

        Raises:
            NotFound: there is no such conversation, or nothing of order `at` in it.
            ConversationMismatch: the name is taken.
        """
        ...

    def rewind(self, conversation: str, *, to: int, namespace: str = "", last_turn: str | None = None) -> int:
        """Take back everything after order `to` (-1: everything); return how many turns went.

        Takes back what it inherited, too. What a fork of it has inherited stays there. Orders are not used
        again.

        Args:
            conversation: by id.
            to: the last order that stays.
            namespace: whose it is.
            last_turn: the id of the last turn that the conversation must still show, "" for no turn. So
                nobody removes a turn that another process has added meanwhile. None does not compare.

        Raises:
            NotFound: there is no such conversation.
            ConversationChanged: its last turn is another one; nothing was removed.
            ValueError: `to` is below -1.
        """
        ...

    def clear(self, conversation: str, *, namespace: str = "") -> int:
        """Take back all turns and messages, as `rewind` to -1 does; return how many of both went."""
        ...

    def delete_conversation(
        self, conversation: str, *, namespace: str = "", last_turn: str | None = None
    ) -> int:
        """Delete a conversation (by id) with its turns and messages; return how many turns went.

        What a fork of it has inherited stays there. `last_turn` is compared as `rewind` does. Raises
        NotFound, ConversationChanged.
        """
        ...

    # ---- turns

    def append(self, turn: DialogTurn, *, conversation: str, namespace: str = "") -> DialogTurn:
        """Store a turn at the end of a conversation (by id); return it with `order` and ids filled in.

        An id that is already stored in the namespace is not stored again: the stored turn is returned.
        `version` is 1, `order` and `conversation_id` are the store's, whatever the turn says.

        Raises:
            NotFound: there is no such conversation in this namespace.
        """
        ...

    def extend(
        self, turns: Sequence[DialogTurn], *, conversation: str, namespace: str = ""
    ) -> list[DialogTurn]:
        """Store turns at the end, in one transaction and one round trip; as `append` does with each."""
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
        """Turns of a conversation, oldest first.

        Args:
            conversation: by id; what a fork inherited comes first.
            namespace: whose it is.
            last: only the newest that many of those that the other filters leave.
            before: only orders below this one.
            after: only orders above this one.
            mark: only turns with one of these marks.
            exclude_mark: only turns with none of these.

        Raises:
            NotFound: there is no such conversation in this namespace.
        """
        ...

    def turn(self, turn_id: str, *, namespace: str = "") -> DialogTurn:
        """Return one turn. Raises NotFound."""
        ...

    def turns_by_id(self, ids: Sequence[str], *, namespace: str = "") -> dict[str, DialogTurn]:
        """The turns of these ids that are there, in the order asked; some hundreds in one round trip."""
        ...

    def edit_turn(self, turn: DialogTurn, *, namespace: str = "") -> DialogTurn:
        """Store a new version of the turn of this id; return it, with `version` one higher.

        Order, conversation and marks stay, whatever the turn says. The old version is kept, see `versions`.
        Raises NotFound.
        """
        ...

    def versions(self, turn_id: str, *, namespace: str = "") -> list[DialogTurn]:
        """All versions of a turn, the first one first and the present one last, with its present marks.

        Raises NotFound.
        """
        ...

    def delete_turn(self, turn_id: str, *, namespace: str = "") -> bool:
        """Delete one turn with its versions; False when there was none. Orders of the others stay."""
        ...

    def citing(
        self, *, namespace: str = "", location: str | None = None, path: str | None = None, blob: str = ""
    ) -> list[str]:
        """Ids of turns with a citation (shown or used) of this file, of any version of theirs; ascending.

        `location` None is any repository, `path` None any file; `blob` "" any content.
        """
        ...

    # ---- messages

    def add_messages(
        self, messages: Sequence[Message], *, conversation: str, namespace: str = ""
    ) -> list[Message]:
        """Store messages at the end, in one transaction; return those that were stored, with their order.

        An id that a message in the namespace has already, or that comes twice in one call, is stored once,
        as it came first. Raises NotFound for the conversation.
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
        """Messages of a conversation, oldest first; filters as in `turns`. Raises NotFound."""
        ...

    def delete_messages(self, ids: Sequence[str], *, conversation: str, namespace: str = "") -> int:
        """Delete messages that the conversation shows; return how many. Raises NotFound."""
        ...

    # ---- marks, on turns and messages alike

    def update_marks(
        self,
        conversation: str,
        new: str | None,
        *,
        old: str | None = None,
        ids: Sequence[str] | None = None,
        namespace: str = "",
    ) -> int:
        """Add, replace or remove a mark; return how many turns and messages changed.

        `new` alone is added, `old` alone removed, both: `old` is replaced by `new` where it stands.
        With neither: ValueError. `ids` None means all that the conversation shows; an id may be that of a
        turn and of a message. Raises NotFound.
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
        """Turns and messages that hold one of the terms, as `rag.analysis.terms` gives them.

        For each term the newest `limit` of its holders (highest order first, then by id) are found;
        `found` is in the order of (conversation, order), where `conversation` is where it was said. Text is
        what `rag.searchable.searchable` gives, of the present version; length is the sum of `term_counts`.

        Args:
            terms: distinct, any number.
            namespace: whose conversations.
            conversation: only this one (with what it inherited); None is all of the namespace.
            limit: at least 1.
        """
        ...

    def close(self) -> None:
        """Release what is held. Closing twice is fine."""
        ...


class RecordStore(Protocol):
    """Small records by namespace, shelf and key: facts, summaries, cached answers, kept files.

    Every turn store is one too. Keys are text, values bytes. A record with `ttl_s` (above 0, else
    ValueError) is as good as deleted when that many seconds have passed since it was put; putting again
    begins anew. Every call is atomic within a shelf.
    """

    def put_records(
        self, records: Mapping[str, bytes], *, shelf: str, namespace: str = "", ttl_s: float | None = None
    ) -> None:
        """Store records, in the place of those of the same keys."""
        ...

    def records(self, keys: Sequence[str], *, shelf: str, namespace: str = "") -> dict[str, bytes]:
        """The records that are there, in the order asked."""
        ...

    def has_records(self, keys: Sequence[str], *, shelf: str, namespace: str = "") -> set[str]:
        """Those of the keys that have a record, without reading any."""
        ...

    def scan_records(self, *, shelf: str, namespace: str = "", prefix: str = "") -> list[tuple[str, bytes]]:
        """All records whose key begins with `prefix`, ascending by key (by code points)."""
        ...

    def count_records(self, *, shelf: str, namespace: str = "") -> int:
        """How many there are."""
        ...

    def swap_record(
        self, key: str, old: bytes | None, new: bytes | None, *, shelf: str, namespace: str = ""
    ) -> bool:
        """Put `new` in the place of `old` if that is what stands there; None is no record. False if not.

        An expiry that the record had goes on.
        """
        ...

    def append_record(self, key: str, more: bytes, *, shelf: str, namespace: str = "") -> int:
        """Write at the end of a record, which begins empty; return its length in bytes.

        An expiry that the record had goes on, here and in `increment_record`.
        """
        ...

    def increment_record(self, key: str, by: int = 1, *, shelf: str, namespace: str = "") -> int:
        """Add to a record that is a number in decimal, which begins at 0; return the sum.

        ValueError when the record is something else, or the sum needs more than 64 bits; it then stays.
        """
        ...

    def delete_records(self, keys: Sequence[str] | None = None, *, shelf: str, namespace: str = "") -> int:
        """Delete records, all of the shelf for None; return how many were there."""
        ...


class MemoryStore(TurnStore, RecordStore, Protocol):
    """What a memory backend is: turns and records in one place, which can be moved to another backend.

    A dump is a sequence of JSON values ("lines"), first the conversations, the one last written to last,
    then turns and messages, then records:

        {"conversation": conversation_record, "next_order": int, "first": {"turn": int, "message": int},
         "spans": [[conversation id, first order, last order or null for no end], …]}
        {"turn": turn_record, "versions": [turn_record of an earlier version, …]}
        {"message": message_record}
        {"record": {"shelf": str, "key": str, "value": base64, "expires": ISO 8601 or null}}

    A conversation shows what was said in the conversations of its spans between these orders, both ends
    included, but no turn below `first["turn"]` and no message below `first["message"]` (what `keep_last`
    took back). Spans are ascending; the last one is its own, with no end.
    """

    def namespaces(self) -> list[str]:
        """All namespaces that hold a conversation or a record, ascending."""
        ...

    def dump(
        self, *, namespace: str = "", conversations: Sequence[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Everything of a namespace as JSON values, or these conversations (by id) with what they show.

        With `conversations` no records are given: they belong to the namespace. What is written during the
        iteration may be missing. Raises NotFound.
        """
        ...

    def restore(self, lines: Iterable[Mapping[str, Any]], *, namespace: str = "") -> int:
        """Store what `dump` gave into this namespace; return how many conversations are new.

        Everything is as it was: ids, orders, times, versions, marks, forks, what is left of a time to live.
        A conversation, turn or message whose id (or order in its conversation) is there already is left as
        it is there; a record takes the place of one of the same key; what has expired, or what no
        conversation shows, is left out. All lines or, on an error, none are stored.

        Raises:
            ConversationMismatch: a name belongs to a conversation of another id here.
            ValueError: a line is none that `dump` gives.
        """
        ...


PersistenceKind = Literal["none", "rdb", "aof", "aof-always", "rdb+aof", "rdb+aof-always"]
"""What a server writes to its disk: snapshots from time to time (rdb), a log of every write that is synced
each second (aof) or before it is acknowledged (aof-always), both, or nothing."""


class Persistence(NamedTuple):
    """What a server does so that it keeps what it was told.

    `snapshots` says when it writes one: pairs of seconds and writes, "" for never. `log` is how it syncs its
    log of writes ("always", "everysec", "no"), "" for no log. `unsaved` writes came after the snapshot of
    `saved`; `busy` while it writes one or a log anew; `failed` when the last time it could not.
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
    """A store on a server that can be asked what it writes to its disk, and told."""

    def persistence(self) -> list[Persistence]:
        """What each node does now."""
        ...

    def set_persistence(self, kind: PersistenceKind) -> list[str]:
        """Set it on every node, at once and for its next starts; return the nodes where it will not last.

        A server without a file of settings forgets it when it stops.
        """
        ...

    def save(self, *, background: bool) -> None:
        """Write a snapshot on every node; in the background, or now while nobody else is served."""
        ...


@runtime_checkable
class Grouping(Protocol):
    """A memory store that can do several calls at once."""

    def together(self) -> AbstractContextManager[None]:
        """Within it all calls of this thread are one: when it ends all of them are kept, on an error none.

        An error that is caught inside undoes what raised it, and nothing else.
        """
        ...


class TokenCounter(Protocol):
    """Counts tokens; errs high when it must guess."""

    @property
    def name(self) -> str:
        """The encoding counted with, for example "cl100k_base" or "estimate"."""
        ...

    def count(self, text: str) -> int:
        """Tokens of `text`. 0 for ""; at least 1 for anything else."""
        ...


class TextGenerator(Protocol):
    """Writes an answer to a prepared question."""

    @property
    def model(self) -> str:
        """What answers, as shown to the user."""
        ...

    def stream(self, prepared: Prepared) -> Iterator[str]:
        """Yield pieces of the answer.

        Raises:
            ProviderError: the service failed, also in the middle; `.retryable` says whether to try again.
        """
        ...

    @property
    def usage(self) -> Usage | None:
        """Tokens of the last answer as the service counted them; None when it did not say."""
        ...


@runtime_checkable
class CompletingGenerator(TextGenerator, Protocol):
    """A generator that also writes short texts of other kinds, such as a follow-up put on its own."""

    def complete(self, text: str) -> str:
        """The whole reply to a prompt.

        Raises:
            ProviderError: the service failed, or said nothing.
        """
        ...


class AsyncGenerator(TextGenerator, Protocol):
    """A generator with an asynchronous form, for event loops."""

    def astream(self, prepared: Prepared) -> AsyncIterator[str]:
        """The same as `stream`."""
        ...

    async def acomplete(self, text: str) -> str:
        """The same as `complete`."""
        ...


def is_async(generator: TextGenerator) -> TypeGuard[AsyncGenerator]:
    """Whether a generator has an asynchronous form (see `takes_bags` for why not `isinstance`)."""
    return hasattr(generator, "astream") and hasattr(generator, "acomplete")


class Clock(Protocol):
    """Where times come from."""

    def __call__(self) -> datetime:
        """The present moment, with its zone."""
        ...
