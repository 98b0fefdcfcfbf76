"""Say in words what an answer found first, and how sure it is that this is the right place."""

from __future__ import annotations

from collections.abc import Sequence

from rag.answer.sections import label_at
from rag.quoting import one_line, visible
from rag.types import Answer, Hit
from rag.types.question_kinds import CALLERS, LIST

SURE, LIKELY = 0.65, 0.4
"""The least probability that the first place is right for "sure" and "likely"."""

_RIVALS = 3
_RIVAL_SCORE = 0.8
"""The share of the first place's score from which another place competes with it."""
_CHOSEN_BY_RANK = frozenset({LIST})
"""Kinds whose facts are certain only if the ranking has chosen the right list."""


def certainty(answer: Answer, hits: Sequence[Hit]) -> str:
    """Return one sentence: the first place, or the places that compete, and how sure that is.

    `hits` are the sources in the order of the answer; "" for none.
    """
    if not hits:
        return ""
    first = named(hits[0])
    if answer.warning:
        return f"The nearest place is {first}."
    probability = answer.confidence.first_right if answer.confidence else None
    found = visible(answer.code_facts.summary) if answer.code_facts else f"Best match: {first}"
    if probability is None or _states_its_doubt(answer, probability):
        return f"{found}."
    if probability >= LIKELY:
        return f"{found} — {'sure' if probability >= SURE else 'likely'}."
    near = [hit for hit in hits[:_RIVALS] if hit.score >= _RIVAL_SCORE * hits[0].score]
    rivals = list(dict.fromkeys(f"`{one_line(hit.symbol)}`" if hit.symbol else named(hit) for hit in near))
    if len(rivals) < 2 or answer.code_facts:
        return f"{found} — not sure."
    *some, last = rivals
    return f"Not sure: {', '.join(some)} and {last} compete."


def _states_its_doubt(answer: Answer, probability: float) -> bool:
    """Return whether the sentence says itself how sure it is, as of callers, or what it says is certain."""
    facts = answer.code_facts
    if facts is None or probability >= LIKELY:
        return facts is not None and facts.is_only_nearest
    is_certain = facts.kind not in _CHOSEN_BY_RANK and facts.certain_count == facts.count
    return facts.is_only_nearest or facts.kind == CALLERS or is_certain


def named(hit: Hit) -> str:
    """Return what a source is, in words: function `Session.sign`, or the lines of its file."""
    if hit.symbol and hit.unit != "block":
        return f"{hit.unit} `{one_line(label_at(hit))}`"
    name = one_line(hit.path.rpartition("/")[2])
    return f"`{name}`, lines {hit.start}-{hit.end}" if hit.end > hit.start else f"`{name}`, line {hit.start}"
