"""Metrics of a ranking against the places that answer a question.

Files have binary relevance: the ranking is the files of the results, each at its first place. Lines are
measured by what a reader sees who reads the results from the top.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LineSpan:
    """Lines of a file; `start` and `end` are inclusive, and 0 for a file as a whole."""

    path: str
    start: int
    end: int

    @property
    def place(self) -> str:
        """`path:start-end`, the path alone for a whole file."""
        return f"{self.path}:{self.start}-{self.end}" if self.start else self.path


def ranked_files(results: Sequence[LineSpan]) -> list[str]:
    """Return the files of the results, each once, at its best place."""
    return list(dict.fromkeys(span.path for span in results))


def ndcg(ranking: Sequence[str], relevant: Collection[str], k: int = 10) -> float:
    """Return the normalised discounted cumulative gain at k, binary, from 0 to 1; 0 if nothing is relevant.

    `ranking` has no duplicates. Järvelin, Kekäläinen: Cumulated gain-based evaluation of IR techniques
    (2002), with the discount 1 / log2(rank + 1).
    """
    gain = sum(1 / math.log2(rank + 1) for rank, path in enumerate(ranking[:k], 1) if path in relevant)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(relevant), k) + 1))
    return gain / ideal if ideal else 0.0


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str], k: int = 10) -> float:
    """1 / the rank of the first relevant file among the first k, else 0."""
    return next((1 / rank for rank, path in enumerate(ranking[:k], 1) if path in relevant), 0.0)


def recall(ranking: Sequence[str], relevant: Collection[str], k: int = 10) -> float:
    """Return the share of the relevant files among the first k; 0 when nothing is relevant."""
    return len(set(relevant).intersection(ranking[:k])) / len(relevant) if relevant else 0.0


def lines_found(results: Sequence[LineSpan], answers: Sequence[LineSpan], budget: int = 200) -> float:
    """Return the largest share of one answer's lines in the first `budget` lines that the results show.

    A line in several results counts once. 1 means that some answer is seen whole; 0 also when there is no
    answer.
    """
    seen: dict[str, set[int]] = {}
    left = budget
    for span in results:
        known = seen.setdefault(span.path, set())
        new = [line for line in range(span.start, span.end + 1) if line not in known][:left]
        known.update(new)
        left -= len(new)
        if left <= 0:
            break
    return max((_share(seen.get(answer.path, set()), answer) for answer in answers), default=0.0)


def _share(seen: set[int], answer: LineSpan) -> float:
    lines = range(answer.start, answer.end + 1)
    return sum(line in seen for line in lines) / len(lines)
