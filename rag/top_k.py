"""Select from many numbers: the largest, or each once; find some in a sorted column."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

_STEP = 16
"""One value of this many is in the sample."""
_MIN_SAMPLED = 4_096
"""Fewer values are not worth a sample."""


def top_k(values: npt.NDArray[np.float32], k: int) -> npt.NDArray[Any]:
    """Return the positions of the k largest values, ascending; of equal values the first ones.

    A lower bound from a sample leaves out most values, so that few need to be partitioned.
    """
    if k >= len(values):
        return np.arange(len(values))
    rows: npt.NDArray[Any] | None = None
    if len(values) >= _MIN_SAMPLED and (rank := 2 * k // _STEP + 8) < len(values) // _STEP:
        sample = values[::_STEP]
        above = np.flatnonzero(values >= np.partition(sample, len(sample) - rank)[len(sample) - rank])
        rows = above if len(above) >= k else None
    few = values if rows is None else values[rows]
    bound = np.partition(few, len(few) - k)[len(few) - k]
    best = np.flatnonzero(few > bound)
    best = np.sort(np.concatenate([best, np.flatnonzero(few == bound)[: k - len(best)]]))
    return best if rows is None else rows[best]


def find_sorted(
    column: npt.NDArray[Any], values: npt.ArrayLike, side: Literal["left", "right"] = "left"
) -> npt.NDArray[Any]:
    """Return where values are in an ascending column, as `numpy.searchsorted`, in far less time.

    For values of another type than the column's, as Python's integers are, numpy would copy the column.
    """
    return np.asarray(np.searchsorted(column, np.asarray(values, column.dtype), side))


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return each of the integers once, ascending.

    Not `numpy.unique`: its first call imports numpy.ma, which takes longer than a search.
    """
    ordered = np.sort(values)
    return np.concatenate([ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]]])
