"""How much a word names something, counted over the documentation of thousands of packages."""

from __future__ import annotations

from functools import cache

from rag.resources import shipped


def specificity(term: str) -> float:
    """Return 0 for an everyday word up to 1 for a name; 1 for a term that is not in data/specificity.txt."""
    return _table().get(term, 1.0)


@cache
def _table() -> dict[str, float]:
    found: dict[str, float] = {}
    for line in shipped("data/specificity.txt").read_text(encoding="utf-8").splitlines():
        tenths, *term_words = line.split()
        if tenths.isdigit():
            found |= dict.fromkeys(term_words, int(tenths) / 10)
    return found
