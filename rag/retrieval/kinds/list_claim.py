"""Decide whether the series of lines that fits a question for a list best is the list that is asked for.

It is if it names the members as the question does: in what holds them, the comment above, or the names of
most of them. Another series is not shown: the places that were found are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Set

from rag.analysis import terms
from rag.retrieval.kinds.asked import Asked
from rag.retrieval.kinds.list_fit import (
    CLASS_TERMS,
    KINDS,
    SHARED,
    WEAK,
    Fit,
    described_by,
    is_of_kinds,
    is_one_member,
    phrase_of,
    words_of_phrase,
)

_NAMES = frozenset({"holder", "anchor", "comment"})
_WORD = re.compile(r"\w+")
_JOINED = re.compile(r"\b(?:and|or)\b|/", re.I)
_VAGUE = frozenset(terms("thing way module"))
_WITHIN = r"\s+(?:of|in)\s+(?:the|an?)\s+([\w-]+(?:\s+[\w-]+)?)"
"""What the members belong to: "all states *of a parcel*"."""


def is_the_list(asked: Asked, fit: Fit, wanted: Mapping[str, float]) -> bool:
    """Return whether a series names its members as the question does, and is not one of them."""
    held = _named(fit)
    ignored = _VAGUE | CLASS_TERMS if fit.series.shape == "subclass" else _VAGUE
    words = [word for word in words_of_phrase(asked) if word not in ignored]
    if is_one_member(asked, fit) or not _is_within(asked, fit, held):
        return False
    names = set(asked.question.question.names)
    if names and any(
        part in _NAMES and not names.isdisjoint(_WORD.findall(text)) for part, text in described_by(fit)
    ):
        return True  # it is asked for by its name
    stem = set(terms(fit.file.path.rpartition("/")[2]))
    if len(words) > 1 and stem.issuperset(words):
        return True  # `CreateMode.java` for the create modes
    if not words:
        return not held.isdisjoint(wanted)
    if fit.series.shape in SHARED and 2 * len(set(terms(fit.series.anchor)) & set(words)) >= len(words):
        return True  # not `with_websocket` for the websocket close codes
    *others, last = words
    if others and last in KINDS and is_of_kinds(fit) and held.issuperset(others):
        return True  # `ExportType` for the export formats
    heads = words if _JOINED.search(phrase_of(asked)) else words[-1:]
    return not held.isdisjoint(heads)


def _is_within(asked: Asked, fit: Fit, held: Set[str]) -> bool:
    """Return whether a series is in what the question says that the members belong to, if it says so."""
    phrase = phrase_of(asked)
    found = re.search(re.escape(phrase) + _WITHIN, asked.question.question.text, re.I) if phrase else None
    within = {term for term in terms(found[1]) if term not in WEAK} if found else set()
    around = set(terms(fit.file.path)) | {term for _, text in described_by(fit) for term in terms(text)}
    joined = terms(found[1].replace(" ", "")) if found else []
    return not within or not (held | around).isdisjoint(within.union(joined))


def _named(fit: Fit) -> set[str]:
    """Return the words of what holds a series, of the comment above, and of most members."""
    names = [
        name for series in (fit.series, *(one for _, one in fit.parts)) for name in series.members.values()
    ]
    counted = Counter(term for name in names for term in set(terms(name)))
    held = {term for term, count in counted.items() if 2 * count >= len(names)}
    return held | {term for part, text in described_by(fit) if part in _NAMES for term in terms(text)}
