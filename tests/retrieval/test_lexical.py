from pathlib import Path

import bm25s
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.analysis import terms
from rag.database.store import Store
from rag.database.update import Options, write_texts
from rag.retrieval import lexical
from rag.types import Checkout, Source, SourceFile, blob_id
from tests.contracts.hashing_embedder import HashingEmbedder

TEXTS = [
    "def sign(session): return hmac(session)",
    "def check(token): return token in known",
    "session session session expires",
    "nothing of interest here whatsoever",
    "token session token",
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    files = [SourceFile(f"{n}", text, blob_id(text.encode()), "text", "code") for n, text in enumerate(TEXTS)]
    checkout = Checkout(Source(str(tmp_path)), tmp_path)
    return write_texts(files, checkout, tmp_path / "s.pkl", HashingEmbedder(16), Options())


@pytest.mark.parametrize("question", ["session", "token session", "expires token known", "unheard of"])
def test_the_body_field_alone_scores_as_bm25s_does(store, question, monkeypatch):
    """Two implementations of one formula on the same texts: Lucene's BM25, without the head field."""
    monkeypatch.setattr(lexical, "HEAD_WEIGHT", 0.0)
    monkeypatch.setattr(lexical, "B_HEAD", 0.0)
    reference = bm25s.BM25(k1=lexical.K1, b=lexical.B_BODY, method="lucene")
    reference.index([terms(text) for text in TEXTS], show_progress=False)
    wanted = dict.fromkeys(terms(question), 1.0)
    known = [term for term in wanted if term in reference.vocab_dict]
    expected = reference.get_scores(known) if known else np.zeros(len(TEXTS))
    # bm25s leaves out the constant factor (k1 + 1), which changes no order.
    np.testing.assert_allclose(lexical.bm25(store, wanted) / (lexical.K1 + 1), expected, rtol=1e-5)


def test_a_term_of_weight_two_counts_twice(store):
    once = lexical.bm25(store, {"session": 1.0})
    np.testing.assert_allclose(lexical.bm25(store, {"session": 2.0}), 2 * once)


@given(
    texts=st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=12), min_size=1, max_size=60),
    wanted=st.dictionaries(st.sampled_from("abcdefghz"), st.sampled_from([0.35, 0.7, 1.0, 2.0]), max_size=6),
    k=st.integers(1, 70),
    few=st.sampled_from([0, 1000]),
    many=st.sampled_from([0, 1000]),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_best_are_those_of_scoring_all(tmp_path_factory, texts, wanted, k, few, many):
    folder = tmp_path_factory.mktemp("store")
    spelt = [" ".join(f"word{letter}" for letter in letters) or "nothing" for letters in texts]
    files = [SourceFile(f"{n}", text, blob_id(text.encode()), "text", "code") for n, text in enumerate(spelt)]
    checkout = Checkout(Source(str(folder)), folder)
    store = write_texts(files, checkout, folder / "s.pkl", HashingEmbedder(16), Options())
    wanted = {f"word{letter}": weight for letter, weight in wanted.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexical, "_MAX_EXHAUSTIVE_POSTINGS", few)
        patch.setattr(lexical, "_MANY_CHUNKS", many)
        scorer = lexical.Bm25(store, wanted)
        found = scorer.best(k)
    every = lexical.bm25(store, wanted)
    assert len(found) == min(k, np.count_nonzero(every))
    assert bool(scorer) == bool(every.any())
    np.testing.assert_allclose(np.sort(every[found]), np.sort(every)[::-1][: len(found)][::-1], rtol=1e-5)
    np.testing.assert_allclose(scorer.scores(found), every[found], rtol=1e-5)


def test_a_common_term_is_not_read_through(tmp_path, monkeypatch):
    monkeypatch.setattr(lexical, "_MAX_EXHAUSTIVE_POSTINGS", 0)
    texts = ["common thing"] * 2_000 + ["rareword common"] * 30
    files = [SourceFile(f"{n}", text, blob_id(text.encode()), "text", "code") for n, text in enumerate(texts)]
    checkout = Checkout(Source(str(tmp_path)), tmp_path)
    store = write_texts(files, checkout, tmp_path / "s.pkl", HashingEmbedder(16), Options())
    scorer = lexical.Bm25(store, {"common": 1.0, "rareword": 1.0})
    weighed = []
    contribution = scorer._contribution
    scorer._contribution = lambda gain, found, rows=None: (
        weighed.append(len(found.chunks) if rows is None else len(rows)) or contribution(gain, found, rows)
    )
    assert len(scorer.best(10)) == 10
    assert sum(weighed) <= 30 * 3


def test_a_name_counts_more_than_a_mention(tmp_path):
    texts = {"expiry.py": "x = 1", "other.py": "expiry of things"}
    files = [SourceFile(p, t, blob_id(t.encode()), "text", "code") for p, t in texts.items()]
    checkout = Checkout(Source(str(tmp_path)), tmp_path)
    store = write_texts(files, checkout, tmp_path / "s.pkl", HashingEmbedder(16), Options())
    named, mentioned = lexical.bm25(store, dict.fromkeys(terms("expiry"), 1.0))
    assert named > mentioned > 0


def test_words_are_as_rare_in_two_stores_as_in_one_with_all(tmp_path: Path):
    def written(name: str, texts: list[str]) -> Store:
        files = [SourceFile(f"{n}", t, blob_id(t.encode()), "text", "code") for n, t in enumerate(texts)]
        checkout = Checkout(Source(str(tmp_path)), tmp_path)
        return write_texts(files, checkout, tmp_path / name, HashingEmbedder(16), Options())

    apart = lexical.Rarity([written("a", TEXTS[:2]), written("b", TEXTS[2:])])
    whole = lexical.Rarity([written("c", TEXTS)])
    words = ("session", "token", "unheard")
    assert apart.of(words) == whole.of(words)
    assert whole("session") < whole("unheard")
