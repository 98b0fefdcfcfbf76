"""The estimate whether the first place is right."""

from __future__ import annotations

import json

from rag.resources import shipped
from rag.retrieval.answerability import judge, signals_of_first
from rag.retrieval.first_right import FirstSignals, WeighedWord, first_right, first_signals
from rag.retrieval.search import Searcher, search
from rag.types import Hit, Span


def hit(score: float, **legs: float) -> Hit:
    return Hit(Span("r", "a.py", 1, 9), "def f(): ...", score, legs=legs)


def test_every_signal_has_a_weight() -> None:
    weights = json.loads(shipped("data/first_right.json").read_text(encoding="utf-8"))
    assert set(weights) == {*FirstSignals._fields, "bias"}


def test_a_lead_and_the_exact_words_make_it_surer() -> None:
    words = [WeighedWord(0.8, held=True), WeighedWord(0.5, held=False)]
    level = first_signals([hit(1.0)] * 5, words, facts=False, follow_up=False)
    ahead = first_signals([hit(2.0), *[hit(1.0)] * 4], words, facts=False, follow_up=False)
    exact = first_signals([hit(2.0, phrase=1.5), *[hit(1.0)] * 4], words, facts=False, follow_up=False)
    assert first_right(level) < first_right(ahead) < first_right(exact)
    assert (level.ahead, ahead.ahead, level.rarest) == (0, 0.5, 0.8)
    assert level.held == 0.8 / 1.3


def test_a_single_hit_and_a_question_without_words_have_signals_too() -> None:
    only = first_signals([hit(0.0)], [], facts=False, follow_up=True)
    assert (only.ahead, only.held, only.rarest, only.follow_up) == (1, 1, 0, 1)
    assert 0 < first_right(only) < 1


def test_a_confidence_has_it_where_something_is_found(searcher: Searcher) -> None:
    found = search([searcher], "How are sessions signed?")
    assert judge([searcher], found).first_right == first_right(signals_of_first([searcher], found))
    nothing = search([searcher], "")
    assert judge([searcher], nothing).first_right is None
