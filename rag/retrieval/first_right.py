"""Estimate how likely the first place that was found is the right one.

A logistic model weighs how far the first hit is ahead of the others, how well it matches by words, by meaning
and word for word, and how much of the question it holds. It is fitted on questions whose right places are
known: `python -m tools.train.first_right` writes data/first_right.json.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from rag.resources import shipped
from rag.types import Hit

_AHEAD_OF = 4
_WEIGHTS = "data/first_right.json"


class FirstSignals(NamedTuple):
    """The evidence for the first hit, each value about from 0 to 1.

    `phrase`: it holds a part of the question word for word; `lexical`, `dense`: its match by words and by
    meaning, relative to the best of all chunks; `ahead`: the distance of its score to that of the fifth hit,
    as a share; `held`: how much of the question's words it holds, weighted by rarity; `rarest`: the rarity of
    the rarest of them; `facts`: 1 if rules for the kind of question found it; `follow_up`: 1 if the question
    depends on earlier ones; `length`: of its text, in powers of ten of lines.
    """

    phrase: float
    lexical: float
    dense: float
    ahead: float
    held: float
    rarest: float
    facts: float
    follow_up: float
    length: float


class WeighedWord(NamedTuple):
    """A word of the question: its rarity in the repository (0 to 1), and whether the first hit holds it."""

    rarity: float
    held: bool


def first_signals(
    hits: Sequence[Hit], words: Sequence[WeighedWord], *, facts: bool, follow_up: bool
) -> FirstSignals:
    """Return the signals of a search with at least one hit."""
    first, fifth = hits[0], hits[min(_AHEAD_OF, len(hits) - 1)]
    total = sum(word.rarity for word in words)
    legs = first.legs
    return FirstSignals(
        phrase=legs.get("phrase", 0.0),
        lexical=legs.get("lexical", 0.0),
        dense=legs.get("dense", 0.0),
        ahead=max(1 - fifth.score / first.score, 0.0) if first.score > 0 and len(hits) > 1 else 1.0,
        held=sum(word.rarity for word in words if word.held) / total if total else 1.0,
        rarest=max((word.rarity for word in words if word.held), default=0.0),
        facts=float(facts),
        follow_up=float(follow_up),
        length=math.log10(1 + first.end - first.start),
    )


def first_right(signals: FirstSignals) -> float:
    """Return the probability that the first hit is the right place."""
    weights = _weights()
    total = weights["bias"] + sum(weights[name] * value for name, value in signals._asdict().items())
    return round(1 / (1 + math.exp(-total)), 3)


@cache
def _weights() -> dict[str, float]:
    found: dict[str, float] = json.loads(shipped(_WEIGHTS).read_text(encoding="utf-8"))
    return found
