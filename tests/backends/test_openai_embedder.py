from __future__ import annotations

import base64
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.backends.openai import embedder as openai_embedder
from rag.backends.openai.embedder import OpenAIEmbedder
from rag.backends.openai.endpoint import Retries
from rag.backends.openai.replies import embedding_row
from rag.errors import (
    AuthenticationFailed,
    ProviderBroke,
    ProviderError,
    ProviderUnreachable,
    RateLimited,
    SettingsError,
)
from rag.settings import Settings
from tests.servers.provider import Behaviour, ProviderServer


def embedder(
    server: ProviderServer, waited: list[float] | None = None, **options: int | str
) -> OpenAIEmbedder:
    retries = Retries(sleep=(waited if waited is not None else []).append)
    model = str(options.pop("model", "test-embed"))
    return OpenAIEmbedder(model, base_url=server.base_url, retries=retries, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server() -> ProviderServer:  # type: ignore[misc]
    with ProviderServer(behaviours=["shuffled"]) as running:
        yield running


TEXTS = st.lists(st.text(st.characters(), max_size=40), max_size=30)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS)
def test_rows_are_unit_vectors_in_the_order_of_the_texts(server: ProviderServer, texts: list[str]) -> None:
    few = pytest.MonkeyPatch()
    few.setattr(openai_embedder, "_BATCH_TEXTS", 7)
    try:
        vectors = embedder(server).embed(texts, role="passage")
    finally:
        few.undo()
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(texts), server.dim)
    for text, vector in zip(texts, vectors, strict=True):
        sendable = text.encode(errors="replace").decode()
        expected = np.asarray(server.vector(sendable)) if text.strip() else np.zeros(server.dim)
        length = np.linalg.norm(expected)
        np.testing.assert_allclose(vector, expected / length if length else expected, atol=1e-6)


def test_batches_stay_within_their_limits() -> None:
    with ProviderServer() as server:
        embedder(server).embed(["x" * 6_000] * 40 + ["short"] * 300, role="passage")
        sent = [request.body["input"] for request in server.requests]
    assert sum(map(len, sent)) == 340
    assert all(len(batch) <= 128 and sum(map(len, batch)) <= 200_000 for batch in sent)


def test_blank_texts_are_not_sent_and_long_ones_are_cut_and_counted() -> None:
    with ProviderServer() as server:
        model = embedder(server, max_chars=10)
        vectors = model.embed(["  ", "a" * 11, "b" * 10, ""], role="passage")
        assert [request.body["input"] for request in server.requests] == [["a" * 10, "b" * 10]]
    assert model.truncated == 1
    assert [bool(row.any()) for row in vectors] == [False, True, True, False]


def test_the_width_is_asked_for_once_and_is_part_of_the_fingerprint() -> None:
    with ProviderServer(dim=5) as server:
        model = embedder(server)
        assert model.dim == 5
        assert model.embed([], role="query").shape == (0, 5)
        assert len(server.requests) == 1
        host = server.base_url.split("/")[2]
        assert model.fingerprint.startswith(f"openai:{host}:test-embed:5:")
        assert model.fingerprint != embedder(server, model="another").fingerprint


def test_a_narrower_width_is_asked_of_the_server_and_checked() -> None:
    with ProviderServer(dim=8) as server:
        assert embedder(server, dim=4).embed(["a"], role="passage").shape == (1, 4)
        assert server.requests[0].body["dimensions"] == 4
        with pytest.raises(ProviderBroke, match="vectors of 8 numbers instead of 9"):
            embedder(server, dim=9).embed(["a"], role="passage")


def test_a_model_trained_with_prefixes_gets_them() -> None:
    with ProviderServer() as server:
        model = embedder(server, model="nomic-embed-text:v1.5")
        model.embed(["where"], role="query")
        model.embed(["here"], role="passage")
        sent = [request.body["input"] for request in server.requests]
    assert sent == [["search_query: where"], ["search_document: here"]]


BROKEN: list[tuple[Behaviour, str]] = [
    ("wrong_count", "2 vectors for 3 texts"),
    ("wrong_dimension", "different widths"),
    ("empty_vector", "an empty vector for text 3 of 3"),
    ("not_json", "no embeddings"),
]


@pytest.mark.parametrize(("behaviour", "message"), BROKEN)
def test_vectors_that_do_not_fit_the_texts_are_an_error(behaviour: Behaviour, message: str) -> None:
    with ProviderServer(behaviours=[behaviour]) as server, pytest.raises(ProviderBroke, match=message):
        embedder(server).embed(["a", "b", "c"], role="passage")


def test_a_batch_that_fails_for_a_moment_is_tried_again() -> None:
    waited: list[float] = []
    with ProviderServer(behaviours=["rate_limited", "fails", "good"], retry_after="3") as server:
        assert embedder(server, waited).embed(["a"], role="passage").shape == (1, server.dim)
    assert waited[0] == 3.0
    assert len(waited) == 2


@pytest.mark.parametrize(
    ("behaviour", "kind"), [("unauthorized", AuthenticationFailed), ("out_of_quota", RateLimited)]
)
def test_one_failed_batch_of_many_fails_them_all(behaviour: Behaviour, kind: type[ProviderError]) -> None:
    with ProviderServer(behaviours=["good", behaviour]) as server, pytest.raises(kind):
        embedder(server).embed(["a"] * 1_000, role="passage")


def test_a_key_goes_to_the_host_it_was_given_for_and_to_no_other() -> None:
    with ProviderServer() as chat, ProviderServer() as elsewhere:
        both = Settings(base_url=chat.base_url, api_key="sk-for-the-chat")
        apart = replace(both, embedding_base_url=elsewhere.base_url)
        for settings_ in (both, apart, replace(apart, embedding_api_key="sk-for-vectors")):
            OpenAIEmbedder.from_settings(settings_, "m").embed(["a"], role="query")
        sent = [request.headers["authorization"] for request in chat.requests + elsewhere.requests]
    assert sent == ["Bearer sk-for-the-chat", "Bearer none", "Bearer sk-for-vectors"]


def test_a_server_that_is_gone_is_named() -> None:
    with ProviderServer() as server:
        model = embedder(server)
    with pytest.raises(ProviderUnreachable, match="is the server running"):
        model.embed(["a"], role="query")


def test_an_estimate_errs_high_and_knows_what_is_free() -> None:
    texts = ["def f(x):\n    return x + 1\n"] * 1_000
    local = OpenAIEmbedder("nomic-embed-text", base_url="http://localhost:11434/v1")
    assert local.estimate(texts)[1] == 0.0
    paid = OpenAIEmbedder("text-embedding-3-small", api_key="sk-nobody")
    tokens, cost = paid.estimate(texts)
    assert 11 * 1_000 <= tokens < 2 * 11 * 1_000, "tiktoken counts 11 a text"
    assert cost == pytest.approx(tokens * 0.02 / 1e6)
    unknown = OpenAIEmbedder("embed-x", base_url="https://api.example.org/v1")
    assert unknown.estimate(texts)[1] is None


def test_a_known_models_width_is_not_asked_for() -> None:
    assert OpenAIEmbedder("text-embedding-3-small", api_key="sk-nobody").dim == 1536


def test_an_embedder_without_a_model_is_refused() -> None:
    with pytest.raises(SettingsError, match="openai:MODEL"):
        OpenAIEmbedder("")


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1))
def test_a_vector_means_the_same_as_numbers_and_as_base64(numbers: list[float]) -> None:
    packed = base64.b64encode(np.asarray(numbers, "<f4").tobytes()).decode()
    np.testing.assert_array_equal(embedding_row(packed), embedding_row(numbers))
