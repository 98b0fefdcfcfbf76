"""The seams: what a backend promises. One page; backends live in `rag/backends/`, one file a technology."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from rag.analysis import TermBags
from rag.types import Conversation, DialogTurn, Hit, Prepared, Source, Usage

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


@runtime_checkable
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


class VectorIndex(Protocol):
    """Rows of unit vectors, searched by cosine."""

    def __len__(self) -> int: ...

    def search(self, queries: Vectors, k: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Find the k nearest rows of each query, best first.

        Args:
            queries: float32, shape (q, dim), rows of length 1.
            k: at least 1.

        Returns:
            Cosines and row numbers, both shape (q, min(k, len)). Rows with the same cosine stand in the
            order of their numbers; which of several equal rows fall off the end is the backend's choice.

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
    def vectors(self) -> list[Vectors]:
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

    def name(self, chunk: int) -> tuple[str, str]:
        """Symbol and scope of a chunk, "" for none."""
        ...

    def lines(self, chunk: int) -> tuple[int, int]:
        """First and last line of a chunk."""
        ...

    def hit(self, chunk: int, score: float, legs: Mapping[str, float]) -> Hit:
        """The chunk with its text."""
        ...


class TurnStore(Protocol):
    """Conversations and their turns, the same from every backend.

    A namespace never sees another's conversations. Turns are ordered by `order`, which the store gives
    from 0 and never uses twice; never by clock. Every call is atomic, and may come from several threads
    and processes at once.
    """

    def create_conversation(
        self, *, namespace: str = "", name: str = "", sources: Sequence[Source] = ()
    ) -> Conversation:
        """Begin a conversation. With a name that is taken in this namespace: ConversationMismatch."""
        ...

    def conversation(self, id_or_name: str, *, namespace: str = "") -> Conversation:
        """Return a conversation by its id, else by its name. Raises NotFound."""
        ...

    def conversations(self, *, namespace: str = "") -> list[Conversation]:
        """All conversations, the one last written to first."""
        ...

    def append(self, turn: DialogTurn, *, conversation: str, namespace: str = "") -> DialogTurn:
        """Store a turn at the end of a conversation (by id); return it with `order` and ids filled in.

        An id that is already stored is not stored again: the stored turn is returned.

        Raises:
            NotFound: there is no such conversation in this namespace.
        """
        ...

    def turns(self, conversation: str, *, namespace: str = "", last: int | None = None) -> list[DialogTurn]:
        """Turns of a conversation, oldest first; with `last`, only the newest that many, still oldest first.

        Raises:
            NotFound: there is no such conversation in this namespace.
        """
        ...

    def turn(self, turn_id: str, *, namespace: str = "") -> DialogTurn:
        """Return one turn. Raises NotFound."""
        ...

    def delete_turn(self, turn_id: str, *, namespace: str = "") -> bool:
        """Delete one turn; False when there was none. Orders of the others stay."""
        ...

    def delete_conversation(self, conversation: str, *, namespace: str = "") -> int:
        """Delete a conversation and its turns; return how many turns went. Raises NotFound."""
        ...

    def close(self) -> None:
        """Release what is held. Closing twice is fine."""
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


@runtime_checkable
class AsyncGenerator(TextGenerator, Protocol):
    """A generator with an asynchronous form, for event loops."""

    def astream(self, prepared: Prepared) -> AsyncIterator[str]:
        """The same as `stream`."""
        ...

    async def acomplete(self, text: str) -> str:
        """The same as `complete`."""
        ...


class Clock(Protocol):
    """Where times come from."""

    def __call__(self) -> datetime:
        """The present moment, with its zone."""
        ...
