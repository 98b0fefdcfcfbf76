"""The largest of many numbers, with and without a sample, and the distinct ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.top_k import distinct, top_k


def expected(values: np.ndarray, k: int) -> list[int]:
    order = np.lexsort((np.arange(len(values)), -values))
    return sorted(order[:k].tolist())


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 70))
def test_of_equal_values_the_first_are_taken(values: list[int], k: int) -> None:
    numbers = np.asarray(values, np.float32)
    assert top_k(numbers, k).tolist() == expected(numbers, k)


@pytest.mark.parametrize("k", [1, 250, 4_000, 20_000])
@pytest.mark.parametrize("kind", ["random", "sorted", "equal", "few levels", "misleading sample"])
def test_a_sample_does_not_change_the_result(k: int, kind: str) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal(20_000).astype(np.float32)
    if kind == "sorted":
        values = np.sort(values)
    elif kind == "equal":
        values[:] = 1
    elif kind == "few levels":
        values = np.round(values)
    elif kind == "misleading sample":
        values[::16] = 10
    assert top_k(values, k).tolist() == expected(values, k)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
@given(st.lists(st.integers(0, 9), max_size=30))
def test_distinct_numbers_are_those_of_numpy(dtype: type, values: list[int]) -> None:
    numbers = np.asarray(values, dtype)
    found = distinct(numbers)
    assert found.dtype == dtype
    assert found.tolist() == np.unique(numbers).tolist()
