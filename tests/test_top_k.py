"""The largest of many numbers, with and without a sample, and the distinct ones."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.top_k import distinct, find_sorted, top_k


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


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("values", [0, 7, [3, 4], np.arange(9), np.zeros(0, np.int64)])
def test_places_in_a_column_are_those_of_numpy_in_the_type_of_the_column(
    side: Literal["left", "right"], values: npt.ArrayLike, monkeypatch: pytest.MonkeyPatch
) -> None:
    column = np.asarray([0, 0, 3, 3, 3, 7], np.int32)
    expected = np.searchsorted(column, values, side)
    types: list[object] = []

    def searchsorted(column: npt.NDArray[Any], values: npt.NDArray[Any], side: Any) -> npt.NDArray[Any]:
        types.append(values.dtype)
        return np.asarray(column.searchsorted(values, side))

    monkeypatch.setattr(np, "searchsorted", searchsorted)
    assert np.array_equal(find_sorted(column, values, side), expected)
    assert types == [column.dtype], "numpy would copy the column"
