"""Digests in groups of bounded size, so that a large tree is indexed in bounded memory.

A vector depends on how rare a term is in the whole tree. So when there is more than one group, each is kept
in a temporary file until all files are digested, and embedded then.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.analysis import TermBags, count_terms
from rag.database.column_codes import term_hashes
from rag.database.columns import merge_bags
from rag.database.digest import Digest
from rag.errors import StoreUnwritable
from rag.resources import make_private


@dataclass(frozen=True, slots=True)
class Group:
    """Digests of consecutive files, and the terms of all their chunks; those of each digest are empty."""

    digests: list[Digest]
    bags: TermBags


def grouped(digests: Iterable[Digest], most: int | None) -> Iterator[tuple[Group, bool]]:
    """Yield the digests in groups of at most `most` chunks, and whether a group is the last.

    A digest is not divided. There is at least one group; None makes it one.
    """
    held: list[Digest] = []
    count = 0
    for digest in digests:
        if held and most is not None and count + len(digest.chunks) > most:
            yield _group(held), False
            count = 0
        held.append(digest)
        count += len(digest.chunks)
    yield _group(held), True


def _group(held: list[Digest]) -> Group:
    """Return the held digests as a group, and hold none of them any longer."""
    group = Group(held.copy(), merge_bags([digest.bags for digest in held]))
    for digest in held:
        digest.bags = count_terms([], [])
    held.clear()
    return group


class GroupsOnDisk:
    """Groups in a temporary file without a name, and in how many chunks of all of them each term occurs.

    Args:
        store: the file of the store; the temporary file is in its folder.

    Raises:
        StoreUnwritable: there is no space for it.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._file: Any = None
        self._starts: list[int] = []
        self._hashes: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._counts: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.chunks = 0

    def __enter__(self) -> GroupsOnDisk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, group: Group) -> None:
        """Write a group to the file, and count its terms."""
        try:
            if self._file is None:
                make_private(self._store.parent)
                self._file = tempfile.TemporaryFile(dir=self._store.parent)  # noqa: SIM115
            self._starts.append(self._file.seek(0, os.SEEK_END))
            pickle.dump(group, self._file, protocol=5)
            self._file.flush()
        except OSError as error:
            raise StoreUnwritable.of(self._store, error) from error
        self.chunks += len(group.bags)
        hashes = np.concatenate([self._hashes, term_hashes(group.bags.vocabulary)])
        counts = np.concatenate([self._counts, group.bags.document_frequency()])
        self._hashes, place = np.unique(hashes, return_inverse=True)
        self._counts = np.bincount(place, weights=counts, minlength=len(self._hashes)).astype(np.int64)

    def __iter__(self) -> Iterator[Group]:
        for start in self._starts:
            self._file.seek(start)
            yield pickle.load(self._file)  # from our own file, which has no name; a group is held once

    def document_frequency(self, vocabulary: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return in how many chunks of all groups each term occurs; all of them are terms of the groups."""
        return self._counts[np.searchsorted(self._hashes, term_hashes(vocabulary))]
