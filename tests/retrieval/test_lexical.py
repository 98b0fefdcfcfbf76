from pathlib import Path

import bm25s
import numpy as np
import pytest

from rag.analysis import terms
from rag.database.store import Store
from rag.database.update import Options, write_texts
from rag.retrieval import lexical
from rag.testing.hashing_embedder import HashingEmbedder
from rag.types import Checkout, Source, SourceFile, blob_id

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


def test_a_name_counts_more_than_a_mention(tmp_path):
    texts = {"expiry.py": "x = 1", "other.py": "expiry of things"}
    files = [SourceFile(p, t, blob_id(t.encode()), "text", "code") for p, t in texts.items()]
    checkout = Checkout(Source(str(tmp_path)), tmp_path)
    store = write_texts(files, checkout, tmp_path / "s.pkl", HashingEmbedder(16), Options())
    named, mentioned = lexical.bm25(store, dict.fromkeys(terms("expiry"), 1.0))
    assert named > mentioned > 0
