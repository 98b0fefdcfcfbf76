"""Contract tests of `Reranker`: subclass the class and define a `reranker` fixture.

class TestMyReranker(RerankerContract):
    @pytest.fixture
    def reranker(self) -> Reranker:
        ...
"""

from __future__ import annotations

import numpy as np

from rag.ports import Reranker
from rag.types import Hit, Span


def passage(text: str, *, path: str = "app.py", symbol: str = "") -> Hit:
    """Return a hit with this text."""
    span = Span(repo="sample", path=path, start=1, end=text.count("\n") + 1, symbol=symbol)
    return Hit(span, text, 1.0)


HITS = [
    passage("def read_config(path): return json.load(open(path))", symbol="read_config"),
    passage("def listen(port): server.socket.bind(port)", path="server.py", symbol="listen"),
    passage("# Removes every entry that was not used for an hour from the cache.\ndef sweep(): ..."),
]


class RerankerContract:
    """The contract of every reranker."""

    def test_each_hit_has_a_score_between_0_and_1(self, reranker: Reranker) -> None:
        scores = reranker.scores("where is the configuration read?", HITS)
        assert scores.dtype == np.float32
        assert scores.shape == (len(HITS),)
        assert np.all((scores >= 0) & (scores <= 1))

    def test_no_hits_have_no_scores(self, reranker: Reranker) -> None:
        assert reranker.scores("where is the configuration read?", []).shape == (0,)

    def test_a_score_does_not_depend_on_the_other_hits(self, reranker: Reranker) -> None:
        question = "where is the configuration read?"
        together = reranker.scores(question, HITS)
        assert np.allclose(reranker.scores(question, HITS[::-1])[::-1], together, atol=1e-5)
        alone = [reranker.scores(question, [hit])[0] for hit in HITS]
        assert np.allclose(alone, together, atol=1e-5)

    def test_the_same_question_has_the_same_scores(self, reranker: Reranker) -> None:
        first, again = (reranker.scores("which entries are old?", HITS) for _ in range(2))
        assert np.array_equal(first, again)

    def test_every_score_is_finite_whatever_the_text(self, reranker: Reranker) -> None:
        odd = ["", " ", "!!! ...", "\x00", "x" * 100_000, "日本語のテキスト", "\ud800"]
        for question in ("", "?!", "x" * 10_000, "日本語", "\ud800"):
            assert np.all(np.isfinite(reranker.scores(question, [passage(text) for text in odd])))

    def test_the_hit_that_a_question_is_about_has_the_best_score(self, reranker: Reranker) -> None:
        questions = [
            "where is the configuration read?",
            "listening on a port",
            "cleaning up old cache entries",
        ]
        best = [int(reranker.scores(question, HITS).argmax()) for question in questions]
        assert best == [0, 1, 2]

    def test_the_fingerprint_names_the_model_and_stays(self, reranker: Reranker) -> None:
        kind, _, model = reranker.fingerprint.partition(":")
        assert kind
        assert model
        reranker.scores("question", HITS)
        assert reranker.fingerprint == f"{kind}:{model}"
