"""The choice of repositories by the words of a question."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rag.retrieval.collections import collection_beliefs


def beliefs(frequencies, sizes, weights=None):
    counts = np.asarray(frequencies, np.int64)
    weights = np.ones(counts.shape[1]) if weights is None else np.asarray(weights, np.float64)
    return collection_beliefs(counts, np.asarray(sizes, np.int64), weights).tolist()


def test_a_repository_with_more_of_the_words_is_believed_more() -> None:
    both, one, none = beliefs([[5, 5], [5, 0], [0, 0]], [100, 100, 100])
    assert both > one > none == 0


def test_a_rare_word_decides_over_a_common_one() -> None:
    rare, *common = beliefs([[0, 5], [5, 0], [5, 0], [5, 0]], [100] * 4)
    assert rare > max(common)


def test_a_large_repository_does_not_win_by_its_size() -> None:
    small, large = beliefs([[30, 0], [40, 1]], [100, 10_000], [1, 0])
    assert small > large


def test_a_word_that_no_repository_has_changes_nothing() -> None:
    assert beliefs([[5, 0], [1, 0]], [100, 100]) == beliefs([[5], [1]], [100, 100])
    assert beliefs([[0], [0]], [100, 100]) == [0, 0]


@given(st.lists(st.lists(st.integers(0, 1000), min_size=3, max_size=3), min_size=1, max_size=8))
def test_beliefs_are_between_zero_and_one(frequencies) -> None:
    assert all(0 <= belief <= 1 for belief in beliefs(frequencies, [1000] * len(frequencies)))
