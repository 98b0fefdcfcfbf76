"""Our table and MiniLM keep the promises of `Embedder`; the table is whole and the same everywhere."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.analysis import count_terms
from rag.backends.minilm_embedder import MiniLmEmbedder
from rag.backends.static_embedder import StaticEmbedder
from rag.errors import BackendMissing, ConfigError
from rag.ports import takes_bags
from rag.resources import shipped
from tests.contracts.embedder import TEXTS, EmbedderContract
from tests.contracts.hashing_embedder import HashingEmbedder

TABLE = shipped("data/embedding/table.bin")


class TestHashingEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> HashingEmbedder:
        return HashingEmbedder(256)

    @pytest.mark.skip(reason="it knows no meanings: only shared words bring texts nearer")
    def test_a_question_is_nearest_to_the_text_it_is_about(self) -> None: ...


class TestStaticEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> StaticEmbedder:
        return StaticEmbedder()


@cache
def minilm() -> MiniLmEmbedder:
    try:
        return MiniLmEmbedder()
    except BackendMissing as missing:
        pytest.skip(f"not tested here: {missing}")


class TestMiniLmEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> MiniLmEmbedder:
        return minilm()


def ones(count: int) -> np.ndarray:
    return np.ones(count, np.float32)


def test_the_static_embedder_takes_counted_terms() -> None:
    assert takes_bags(StaticEmbedder())


def test_the_shipped_table_is_the_one_its_fingerprint_names() -> None:
    content = TABLE.read_bytes()
    header = json.loads(content[16 : 16 + int.from_bytes(content[8:16], "little")])
    digest = hashlib.sha256()
    for name in ("hash", "idf", "query", "passage", "table"):
        about = header["columns"][name]
        size = int(np.prod(about["shape"])) * np.dtype(about["dtype"]).itemsize
        digest.update(content[about["offset"] : about["offset"] + size])
    assert digest.hexdigest() == header["sha256"]
    assert StaticEmbedder().fingerprint == f"static:{header['sha256'][:16]}"


def test_another_process_gives_the_same_vectors() -> None:
    program = (
        "import sys; from rag.backends.static_embedder import StaticEmbedder;"
        f"sys.stdout.write(StaticEmbedder().embed({TEXTS!r}, role='passage').tobytes().hex())"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    there = np.frombuffer(bytes.fromhex(run.stdout), np.float32).reshape(len(TEXTS), -1)
    assert np.allclose(there, StaticEmbedder().embed(TEXTS, role="passage"), atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text("abcdefgh_ ABC.", max_size=60), max_size=30))
def test_a_text_has_the_same_vector_alone_and_among_others(texts: list[str]) -> None:
    embedder = StaticEmbedder()
    together = count_terms(texts, [text[::-1] for text in texts])
    rows = embedder.embed_bags(together, ones(len(together.vocabulary)), role="passage")
    for text, row in zip(texts, rows, strict=True):
        alone = count_terms([text], [text[::-1]])
        single = embedder.embed_bags(alone, ones(len(alone.vocabulary)), role="passage")[0]
        assert np.allclose(single, row, atol=1e-5)


def test_many_texts_at_once_are_the_sum_of_their_terms() -> None:
    embedder = StaticEmbedder()
    texts = [" ".join(f"word{i * j % 997}x" for j in range(i % 90)) for i in range(800)]
    bags = count_terms([""] * len(texts), texts)
    rows = embedder.embed_bags(bags, ones(len(bags.vocabulary)), role="passage")
    terms = count_terms([""] * len(bags.vocabulary), bags.vocabulary)
    assert terms.vocabulary == bags.vocabulary
    table, scale = embedder._column["table"], embedder._column["passage"]
    of_term = embedder._rows_of(bags.vocabulary)
    vectors = table[of_term] * scale[of_term, None]
    for row, first, last in zip(rows, bags.indptr[:-1], bags.indptr[1:], strict=True):
        weights = 1 + np.log(bags.body[first:last].astype(np.float32))
        total = (vectors[bags.terms[first:last]] * weights[:, None]).sum(axis=0)
        length = np.linalg.norm(total)
        assert np.allclose(row, total / length if length else total, atol=1e-4)


def test_an_unknown_name_still_finds_itself() -> None:
    embedder = StaticEmbedder()
    passages = embedder.embed(
        ["def frobnicate(): pass", "def zyxwv(): pass", "def close(): pass"], role="passage"
    )
    queries = embedder.embed(["frobnicate", "zyxwv"], role="query")
    assert (queries @ passages.T).argmax(axis=1).tolist() == [0, 1]


def test_a_word_in_the_head_counts_more_than_in_the_body() -> None:
    embedder = StaticEmbedder()
    bags = count_terms(["socket", "parser"], ["parser", "socket"])
    rows = embedder.embed_bags(bags, ones(len(bags.vocabulary)), role="passage")
    asked = embedder.embed(["socket"], role="query")[0]
    assert asked @ rows[0] > asked @ rows[1]


@pytest.mark.parametrize("size", [0, 5, 100, 5000, -1])
def test_a_table_cut_short_is_an_error_that_names_the_file(tmp_path: Path, size: int) -> None:
    cut = tmp_path / "table.bin"
    cut.write_bytes(TABLE.read_bytes()[:size])
    with pytest.raises(ConfigError, match=r"table\.bin.*reinstall"):
        StaticEmbedder(cut)


def test_a_table_of_another_analyzer_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "table.bin"
    other.write_bytes(TABLE.read_bytes().replace(b'"analyzer": 1', b'"analyzer": 9', 1))
    with pytest.raises(ConfigError, match="analyzer 9"):
        StaticEmbedder(other)


def test_a_missing_table_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.bin"):
        StaticEmbedder(tmp_path / "nowhere.bin")


def test_a_changed_tokenizer_is_refused(tmp_path: Path) -> None:
    from rag.backends import minilm_embedder

    changed = tmp_path / "tokenizer.json"
    shutil.copy(shipped("data/minilm/tokenizer.json"), changed)
    changed.write_text(changed.read_text().replace("[PAD]", "[BAD]", 1))
    with pytest.raises(ConfigError, match="SHA-256"):
        minilm_embedder._checked(changed, minilm_embedder.TOKENIZER_SHA256)
