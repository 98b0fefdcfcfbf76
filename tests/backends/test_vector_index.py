"""The index finds what a plain matrix product finds, in one block or several, dead rows or none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.backends.faiss_index import FaissIndex
from rag.errors import DimensionMismatch
from rag.ports import Rows

DIM = 16


def rows(count: int, seed: int) -> Rows:
    random = np.random.default_rng(seed)
    codes = random.integers(-127, 128, (count, DIM)).astype(np.int8)
    return Rows(codes, (1 / np.linalg.norm(codes.astype(np.float32), axis=1)).astype(np.float32))


def query(seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal(DIM)
    return (drawn / np.linalg.norm(drawn)).astype(np.float32)


@given(
    counts=st.lists(st.integers(0, 60), max_size=3),
    k=st.integers(1, 80),
    killed=st.sampled_from([None, 0.0, 0.3, 1.0]),
    seed=st.integers(0, 99),
    before=st.sampled_from([0, 10]),
)
def test_the_nearest_are_those_of_a_matrix_product(counts, k, killed, seed, before):
    blocks = [rows(count, seed + n) for n, count in enumerate(counts)]
    index = FaissIndex(blocks)
    for _ in range(before):  # rows that are searched often are kept in another form
        index.search(query(seed)[None], 1)
    total = sum(counts)
    assert len(index) == total
    dead = None if killed is None else np.random.default_rng(seed).random(total) < killed
    queries = np.stack([query(seed), query(seed + 1)])
    cosines, numbers = index.search(queries, k, dead=dead)
    matrix = np.concatenate([np.zeros((0, DIM)), *(b.codes * b.scale[:, None] for b in blocks)])
    living = np.arange(total) if dead is None else np.flatnonzero(~dead)
    assert numbers.shape == cosines.shape == (2, min(k, len(living)))
    for text, near, found in zip(queries, cosines, numbers, strict=True):
        expected = matrix[living] @ text
        np.testing.assert_allclose(near, np.sort(expected)[::-1][:k], atol=1e-5)
        np.testing.assert_allclose(near, matrix[found] @ text, atol=1e-5)
        assert dead is None or not dead[found].any()
        assert (np.diff(near) <= 0).all()


def test_equal_rows_stand_in_the_order_of_their_numbers():
    one = rows(1, 0)
    index = FaissIndex([Rows(np.repeat(one.codes, 5, 0), np.repeat(one.scale, 5))] * 2)
    _, numbers = index.search(query(0)[None], 10)
    assert numbers.tolist() == [list(range(10))]


def test_a_zero_row_has_the_cosine_zero():
    index = FaissIndex([Rows(np.zeros((1, DIM), np.int8), np.zeros(1, np.float32))])
    cosines, _ = index.search(query(0)[None], 1)
    assert cosines.tolist() == [[0.0]]


def test_a_query_of_another_width_is_named():
    with pytest.raises(DimensionMismatch, match="16 dimensions, but got 15"):
        FaissIndex([rows(3, 0)]).search(query(0)[None, :-1], 1)
