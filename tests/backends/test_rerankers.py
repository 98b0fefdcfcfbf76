"""The rerankers keep the promises of `Reranker`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rag import backends
from rag.backends.minilm_reranker import MiniLmReranker
from rag.backends.vector_cache import VectorCache
from rag.errors import BackendMissing, SettingsError
from rag.ports import Reranker
from rag.settings import Settings
from rag.testing.reranker import HITS, RerankerContract

QUESTION = "where is the configuration read?"


@pytest.fixture
def minilm(tmp_path: Path) -> Callable[[float], MiniLmReranker]:
    def opened(wait_s: float) -> MiniLmReranker:
        try:
            return MiniLmReranker(tmp_path / "vectors.db", wait_s=wait_s)
        except BackendMissing as missing:
            pytest.skip(f"not tested here: {missing}")

    return opened


class TestMiniLmReranker(RerankerContract):
    @pytest.fixture
    def reranker(self, minilm: Callable[[float], MiniLmReranker]) -> Reranker:
        return minilm(60.0)


def test_a_question_that_cannot_wait_has_no_scores(minilm: Callable[[float], MiniLmReranker]) -> None:
    assert np.all(np.isnan(minilm(0.0).scores(QUESTION, HITS)))


def test_vectors_are_kept_for_the_next_process(
    minilm: Callable[[float], MiniLmReranker], tmp_path: Path
) -> None:
    first = minilm(60.0).scores(QUESTION, HITS)
    assert (tmp_path / "vectors.db").stat().st_size > 0
    assert np.array_equal(minilm(60.0).scores(QUESTION, HITS), first)


def test_a_damaged_file_of_vectors_is_replaced(
    minilm: Callable[[float], MiniLmReranker], tmp_path: Path
) -> None:
    first = minilm(60.0).scores(QUESTION, HITS)
    (tmp_path / "vectors.db").write_bytes(b"damaged" * 1000)
    for _ in range(2):
        assert np.array_equal(minilm(60.0).scores(QUESTION, HITS), first)


def vectors(count: int, start: int = 0) -> dict[bytes, np.ndarray]:
    rows = np.random.default_rng(start).normal(size=(count, 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return {b"%d" % (start + i): row for i, row in enumerate(rows)}


def test_the_cache_returns_what_was_stored(tmp_path: Path) -> None:
    cache, stored = VectorCache(tmp_path / "v.db", 8), vectors(20)
    returned = cache.put(stored)
    found = VectorCache(tmp_path / "v.db", 8).get([*stored, b"unknown"])
    assert found.keys() == stored.keys()
    for key, row in stored.items():
        assert np.array_equal(found[key], returned[key])
        assert np.allclose(found[key], row, atol=0.02)


def test_the_cache_evicts_the_oldest_vectors(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path / "v.db", 8, max_vectors=100)
    for start in range(0, 1000, 10):
        cache.put(vectors(10, start))
    kept = cache.get([b"%d" % i for i in range(1000)])
    assert 80 <= len(kept) <= 100
    assert b"999" in kept


def test_a_cache_that_cannot_be_written_is_empty(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = VectorCache(tmp_path / "file" / "v.db", 8)
    assert cache.put(vectors(3)).keys() == vectors(3).keys()
    assert cache.get([b"0"]) == {}


def test_an_unknown_reranker_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="use auto, none"):
        backends.open_reranker(Settings(reranker="best"))
