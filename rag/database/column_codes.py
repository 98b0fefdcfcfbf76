"""The encoding of non-numeric values in a store: kinds and units by position, terms by hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import get_args

import numpy as np
import numpy.typing as npt

from rag.types import Kind, Unit

KINDS: tuple[Kind, ...] = get_args(Kind)
UNITS: tuple[Unit, ...] = get_args(Unit)


def term_hash(term: str) -> int:
    """Return a 64-bit hash of a term, the same on every machine and in every process."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def term_hashes(terms: Sequence[str]) -> npt.NDArray[np.uint64]:
    """`term_hash` of each term, shape (len(terms),)."""
    return np.asarray([term_hash(term) for term in terms], np.uint64)


def name_hashes(names: Iterable[str]) -> npt.NDArray[np.uint64]:
    """`term_hash` of each name of a file, in any order; those of the last names are cached."""
    return np.fromiter(map(_name_hash, names), np.uint64)


_name_hash = lru_cache(maxsize=100_000)(term_hash)
