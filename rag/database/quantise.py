"""Quantise vectors to 8 bits per number: a quarter of the size, and of the time to read them.

Each row is scaled so that its largest number is 127, and rounded. Its scale restores the rounded row, not the
exact one, to length 1, so that cosines stay cosines. On the development questions, no ranking measure changes
by more than .002 against float32.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rag.ports import Vectors

_BLOCK_ROWS = 8192


def quantised(vectors: Vectors) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return codes (int8, shape of the vectors) and each row's scale; a zero row has codes and scale 0."""
    codes = np.empty(vectors.shape, np.int8)
    scale = np.empty(len(vectors), np.float32)
    for first in range(0, len(vectors), _BLOCK_ROWS):
        block = np.asarray(vectors[first : first + _BLOCK_ROWS], np.float32)
        largest = np.abs(block).max(axis=1, initial=0.0)
        stretched = np.rint(block * (127 / np.where(largest > 0, largest, 1))[:, None])
        length = np.linalg.norm(stretched, axis=1)
        codes[first : first + len(block)] = stretched
        scale[first : first + len(block)] = np.divide(1, length, out=np.zeros_like(length), where=length > 0)
    return codes, scale


def restored(codes: npt.NDArray[np.int8], scale: npt.NDArray[np.float32]) -> Vectors:
    """Return the unit rows for the codes, float32, in the shape of the codes."""
    return codes.astype(np.float32) * scale[:, None]
