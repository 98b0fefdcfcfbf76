"""Contract tests of `Reranker`: subclass the class and define a `reranker` fixture.

class TestMyReranker(RerankerContract):
    @pytest.fixture
    def reranker(self) -> Reranker:
        ...
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rag.analysis import terms
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


def scores_of(reranker: Reranker, question: str, hits: Sequence[Hit]) -> npt.NDArray[np.float32]:
    """Return the scores of hits for a question whose words all weigh the same."""
    return reranker.scores(question, hits, terms=dict.fromkeys(terms(question), 1.0))


class RerankerContract:
    """The contract of every reranker."""

    def test_each_hit_has_a_score_of_0_or_more(self, reranker: Reranker) -> None:
        scores = scores_of(reranker, "where is the configuration read?", HITS)
        assert scores.dtype == np.float32
        assert scores.shape == (len(HITS),)
        assert np.all(scores >= 0)

    def test_no_hits_have_no_scores(self, reranker: Reranker) -> None:
        assert scores_of(reranker, "where is the configuration read?", []).shape == (0,)

    def test_a_score_does_not_depend_on_the_other_hits(self, reranker: Reranker) -> None:
        question = "where is the configuration read?"
        together = scores_of(reranker, question, HITS)
        assert np.allclose(scores_of(reranker, question, HITS[::-1])[::-1], together, atol=1e-5)
        alone = [scores_of(reranker, question, [hit])[0] for hit in HITS]
        assert np.allclose(alone, together, atol=1e-5)

    def test_the_same_question_has_the_same_scores(self, reranker: Reranker) -> None:
        first, again = (scores_of(reranker, "which entries are old?", HITS) for _ in range(2))
        assert np.array_equal(first, again)

    def test_every_score_is_finite_whatever_the_text(self, reranker: Reranker) -> None:
        odd = ["", " ", "!!! ...", "\x00", "x" * 100_000, "日本語のテキスト", "\ud800"]
        for question in ("", "?!", "x" * 10_000, "日本語", "\ud800"):
            assert np.all(np.isfinite(scores_of(reranker, question, [passage(text) for text in odd])))

    def test_the_hit_that_a_question_is_about_has_the_best_score(self, reranker: Reranker) -> None:
        questions = [
            "where is the configuration read?",
            "listening on a port",
            "cleaning up old cache entries",
        ]
        best = [int(scores_of(reranker, question, HITS).argmax()) for question in questions]
        assert best == [0, 1, 2]

    def test_the_fingerprint_names_the_model_and_stays(self, reranker: Reranker) -> None:
        kind, _, model = reranker.fingerprint.partition(":")
        assert kind
        assert model
        scores_of(reranker, "question", HITS)
        assert reranker.fingerprint == f"{kind}:{model}"
