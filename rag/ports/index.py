"""What a search reads: vectors, postings, chunks, and the graph of the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from rag.ports.embedding import Vectors
from rag.types import AttributedUses, CodeDefinition, CodeUse, Hit, UseRole


class ShortCodes(NamedTuple):
    """Rows as codes of four bits: a search compares exactly only the rows that these put first.

    Each code is one of 16 entries of `codebook`, float32, shape (codes per row, 16, numbers per code).
    `packed` is uint8, shape (blocks, `SHORT_BLOCK`, bytes per row), arranged within a block by the backend.
    Nearly all of the ten nearest rows are among the `examined` first.
    """

    codebook: Vectors
    packed: npt.NDArray[np.uint8]
    examined: int


SHORT_BLOCK = 32
"""How many rows a block of short codes has."""


class Rows(NamedTuple):
    """Unit vectors with 8 bits per number: row i is `codes[i] * scale[i]`, a zero row where the scale is 0.

    `codes` is int8, shape (n, dim); `scale` is float32, shape (n,). A large block has `short` codes.
    """

    codes: npt.NDArray[np.int8]
    scale: npt.NDArray[np.float32]
    short: ShortCodes | None = None


class Shorten(Protocol):
    """Computes short codes of rows."""

    def __call__(
        self, codes: npt.NDArray[np.int8], scale: npt.NDArray[np.float32], queries: Vectors, k: int
    ) -> tuple[Vectors, npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Compute the short codes of the rows `codes * scale[:, None]`, and search them.

        Returns:
            `ShortCodes.codebook` and `ShortCodes.packed`, which are deterministic, and for each query the
            min(k, n) rows that its short codes put first, in that order; at the end -1 where it found none.
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
            short codes, a few of the nearest may be missing.

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
        """Return the functions and classes of a name, in order; `Class.method` limits it to a class."""
        ...

    def values(self, name: str) -> list[CodeDefinition]:
        """Return the constants, variables, types and members of enumerations of a name in the same way."""
        ...

    def defined_in(self, path: str) -> list[CodeDefinition]:
        """Return the functions and classes of a file, in order."""
        ...

    def values_in(self, path: str) -> list[CodeDefinition]:
        """Return the values that a file declares at its top and in its classes, in order."""
        ...

    def callers(self, targets: Sequence[CodeDefinition]) -> list[CodeUse]:
        """Return the calls of any of these definitions."""
        ...

    def uses(self, targets: Sequence[CodeDefinition]) -> list[CodeUse]:
        """Return the calls and mentions of any of these definitions."""
        ...

    def attributed(self, targets: Sequence[CodeDefinition]) -> AttributedUses:
        """Return all references to the names of these definitions, by what they mean."""
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
        """Return the first and last lines of the imports of a file that bring one of the names, also under
        another name, in order.
        """
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
    def file_count(self) -> int:
        """The number of files that are searched."""
        ...

    @property
    def total_files(self) -> int:
        """The number of file numbers in use."""
        ...

    @property
    def unparsed(self) -> Mapping[str, str]:
        """Why the parser failed on files, by path: the graph lacks their references."""
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
        """Which files have a line that is divided between chunks, or text that is in none; (total_files,)."""
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
