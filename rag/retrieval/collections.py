"""Rank repositories by how likely they are to answer a question, from counts of its words alone.

CORI: Callan, Lu, Croft: Searching distributed collections with inference networks (SIGIR 1995). A word speaks
for a repository if a large share of its chunks has it, and if few repositories have it. Counts are read from
the indexes, so nothing is searched, and there is no further index to keep up to date.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_DEFAULT_BELIEF = 0.4
_DF_BASE = 50.0
_DF_FACTOR = 150.0


def collection_beliefs(
    frequencies: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], weights: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the belief that each repository answers a question, from 0 to 1; 0 if it has none of its words.

    Args:
        frequencies: the chunks of a repository that hold a word, shape (repositories, words).
        sizes: the chunks of each repository, shape (repositories,).
        weights: the weight of each word, shape (words,). Words that no repository has do not count.
    """
    count = len(sizes)
    holding = (frequencies > 0).sum(axis=0)
    known = (holding > 0) & (weights > 0)
    if not count or not known.any():
        return np.zeros(count, np.float64)
    df, cf, share = frequencies[:, known].astype(np.float64), holding[known], weights[known]
    relative = sizes / max(float(sizes.mean()), 1.0)
    often = df / (df + _DF_BASE + _DF_FACTOR * relative[:, None])
    rare = np.log((count + 0.5) / cf) / np.log(count + 1.0)
    beliefs = np.where(df > 0, _DEFAULT_BELIEF + (1 - _DEFAULT_BELIEF) * often * rare, 0.0)
    found: npt.NDArray[np.float64] = beliefs @ (share / share.sum())
    return found
