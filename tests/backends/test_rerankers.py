"""The rerankers keep the promises of `Reranker`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rag import backends
from rag.backends.embedding_reranker import EmbeddingReranker, VectorCache
from rag.backends.minilm_reranker import minilm_reranker
from rag.backends.openai.embedder import OpenAIEmbedder
from rag.backends.static_embedder import StaticEmbedder
from rag.backends.student_reranker import StudentReranker
from rag.errors import BackendMissing, ConfigError, ProviderRejected, SettingsError
from rag.ports import Reranker
from rag.settings import Settings
from tests.contracts.reranker import HITS, RerankerContract, passage, scores_of
from tests.servers.provider import ProviderServer

QUESTION = "where is the configuration read?"


@pytest.fixture
def minilm(tmp_path: Path) -> Callable[[float], EmbeddingReranker]:
    def opened(wait_s: float) -> EmbeddingReranker:
        try:
            return minilm_reranker(tmp_path / "vectors.db", wait_s=wait_s)
        except BackendMissing as missing:
            pytest.skip(f"not tested here: {missing}")

    return opened


class TestMiniLmReranker(RerankerContract):
    @pytest.fixture
    def reranker(self, minilm: Callable[[float], EmbeddingReranker]) -> Reranker:
        return minilm(60.0)


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer() as running:
        yield running


def served(server: ProviderServer, cache: Path, wait_s: float = 60.0) -> EmbeddingReranker:
    return EmbeddingReranker(
        lambda: OpenAIEmbedder("nomic-embed-text", base_url=server.base_url), "nomic", cache, wait_s=wait_s
    )


class TestServedReranker(RerankerContract):
    @pytest.fixture
    def reranker(self, server: ProviderServer, tmp_path: Path) -> Reranker:
        return served(server, tmp_path / "vectors.db")


def test_a_server_gets_each_passage_once(server: ProviderServer, tmp_path: Path) -> None:
    hits = [passage(f"def f{n}(): return config", symbol=f"f{n}") for n in range(20)]
    first = scores_of(served(server, tmp_path / "vectors.db"), QUESTION, hits)
    sent = [text for request in server.requests for text in request.body["input"]]
    assert len(sent) == 21
    assert all(len(request.body["input"]) <= 8 for request in server.requests)
    again = served(server, tmp_path / "vectors.db")
    assert np.array_equal(scores_of(again, QUESTION, hits), first)
    assert [len(request.body["input"]) for request in server.requests[-1:]] == [1]


def test_vectors_of_another_width_are_not_compared(server: ProviderServer, tmp_path: Path) -> None:
    scores_of(served(server, tmp_path / "vectors.db"), QUESTION, HITS)
    server.dim = 4
    assert np.all(np.isnan(scores_of(served(server, tmp_path / "vectors.db"), QUESTION, HITS)))


def test_a_server_that_fails_is_an_error(server: ProviderServer, tmp_path: Path) -> None:
    server.behaviours = ["unknown_model"]
    with pytest.raises(ProviderRejected, match="nomic-embed-text"):
        scores_of(served(server, tmp_path / "vectors.db"), QUESTION, HITS)


def test_the_setting_opens_the_model_of_a_server_when_it_is_used(
    server: ProviderServer, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path, reranker="openai:nomic-embed-text", embedding_base_url=server.base_url)
    reranker = backends.open_reranker(settings)
    assert isinstance(reranker, EmbeddingReranker)
    assert not server.requests
    scores_of(reranker, QUESTION, HITS)
    assert {request.body["model"] for request in server.requests} == {"nomic-embed-text"}
    assert (tmp_path / "hit_vectors.db").exists()


def test_the_host_that_gets_passages_is_named() -> None:
    remote = Settings(reranker="openai:embed", embedding_base_url="https://api.example.org/v1")
    assert backends.remote_embedder_host(remote) == "api.example.org"
    assert backends.remote_embedder_host(replace(remote, reranker="student")) is None


class TestStudentReranker(RerankerContract):
    @pytest.fixture
    def reranker(self) -> Reranker:
        return StudentReranker()


def test_a_hit_with_each_word_once_beats_one_with_a_word_often() -> None:
    hits = [passage("token token token token"), passage("token expired")]
    often, each = StudentReranker().scores("", hits, terms={"token": 1.0, "expir": 1.0})
    assert each > often


def test_a_word_in_the_code_counts_more_than_in_a_comment() -> None:
    hits = [passage("# the token\nreturn None"), passage("# the value\nreturn token")]
    comment, code = StudentReranker().scores("", hits, terms={"token": 1.0})
    assert code > comment > 0


def test_terms_without_weight_do_not_count() -> None:
    assert StudentReranker().scores("", HITS, terms={"token": 0.0}).tolist() == [0.0] * len(HITS)


def test_a_damaged_table_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    table = tmp_path / "table.bin"
    table.write_bytes(b"damaged" * 100)
    with pytest.raises(ConfigError, match="reinstall"):
        StudentReranker(StaticEmbedder(table))


@pytest.mark.parametrize(
    ("name", "kind"), [("auto", type(None)), ("none", type(None)), ("student", StudentReranker)]
)
def test_the_setting_names_the_reranker(name: str, kind: type) -> None:
    assert isinstance(backends.open_reranker(Settings(reranker=name)), kind)


def test_a_question_that_cannot_wait_has_no_scores(minilm: Callable[[float], EmbeddingReranker]) -> None:
    assert np.all(np.isnan(scores_of(minilm(0.0), QUESTION, HITS)))


def test_vectors_are_kept_for_the_next_process(
    minilm: Callable[[float], EmbeddingReranker], tmp_path: Path
) -> None:
    first = scores_of(minilm(60.0), QUESTION, HITS)
    assert (tmp_path / "vectors.db").stat().st_size > 0
    assert np.array_equal(scores_of(minilm(60.0), QUESTION, HITS), first)


def test_a_damaged_file_of_vectors_is_replaced(
    minilm: Callable[[float], EmbeddingReranker], tmp_path: Path
) -> None:
    first = scores_of(minilm(60.0), QUESTION, HITS)
    (tmp_path / "vectors.db").write_bytes(b"damaged" * 1000)
    for _ in range(2):
        assert np.array_equal(scores_of(minilm(60.0), QUESTION, HITS), first)


def vectors(count: int, start: int = 0) -> dict[bytes, np.ndarray]:
    rows = np.random.default_rng(start).normal(size=(count, 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return {b"%d" % (start + i): row for i, row in enumerate(rows)}


def test_the_cache_returns_what_was_stored(tmp_path: Path) -> None:
    cache, stored = VectorCache(tmp_path / "v.db"), vectors(20)
    returned = cache.put(stored)
    found = VectorCache(tmp_path / "v.db").get([*stored, b"unknown"])
    assert found.keys() == stored.keys()
    for key, row in stored.items():
        assert np.array_equal(found[key], returned[key])
        assert np.allclose(found[key], row, atol=0.02)


def test_the_cache_evicts_the_oldest_vectors(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path / "v.db", max_vectors=100)
    for start in range(0, 1000, 10):
        cache.put(vectors(10, start))
    kept = cache.get([b"%d" % i for i in range(1000)])
    assert 80 <= len(kept) <= 100
    assert b"999" in kept


def test_a_cache_that_cannot_be_written_is_empty(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = VectorCache(tmp_path / "file" / "v.db")
    assert cache.put(vectors(3)).keys() == vectors(3).keys()
    assert cache.get([b"0"]) == {}


def test_an_unknown_reranker_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="use auto, none"):
        backends.open_reranker(Settings(reranker="best"))
