"""Extractive summaries without a model: the most relevant sentences, as they were written.

A sentence scores the mean tf-idf of its words: their frequency in the part against the number of parts that
contain them. The first sentence counts more, as an answer usually starts with its point.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from rag.analysis import terms
from rag.ports import TokenCounter
from rag.types import DialogTurn
from rag.types.answer import QUOTING

LINE_CHARS = 300
"""The maximum length of a line, which is cut at a word boundary."""

_ENDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_CODE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)


def digest(parts: Sequence[str], *, keep: int = 1) -> list[str]:
    """Return the `keep` most relevant sentences of each part in their order; "" for a part without any.

    Code blocks are left out. The first sentence of a part counts double, as answers start with their point.
    """
    sentences = [_sentences(part) for part in parts]
    holding = Counter(term for part in parts for term in set(terms(part)))
    return [_most_relevant(one, holding, len(parts), keep) for one in sentences]


def turn_lines(turns: Sequence[DialogTurn]) -> list[str]:
    """Return a line for each turn: its question, a summary of the answer, and the lines it cites."""
    answers = digest([_quotes(turn) or turn.answer for turn in turns])
    return [_line(turn, answer) for turn, answer in zip(turns, answers, strict=True)]


def newest_that_fit(lines: Sequence[str], *, budget_tokens: int, counter: TokenCounter) -> list[str]:
    """Return the last lines that fit into a budget, in their order."""
    kept: list[str] = []
    left = budget_tokens
    for line in reversed(lines):
        left -= counter.count(line + "\n")
        if left < 0:
            break
        kept.append(line)
    return kept[::-1]


def _line(turn: DialogTurn, answer: str) -> str:
    cited = dict.fromkeys(citation.place for citation in turn.citations if citation.used)
    places = f" ({', '.join(list(cited)[:3])})" if cited else ""
    return f"- {_cut(' '.join(turn.question.split()))} — {_cut(answer)}{places}"


def _quotes(turn: DialogTurn) -> str:
    """Summarize an extractive answer by the definitions it quotes first; "" for other answers."""
    if turn.model != QUOTING:
        return ""
    used = [citation.qualified_name for citation in turn.citations if citation.used]
    named = list(dict.fromkeys(filter(None, used)))[:3]
    return "quoted " + ", ".join(f"`{name}`" for name in named) if named else ""


def _sentences(part: str) -> list[str]:
    found = (" ".join(one.split()) for one in _ENDS.split(_CODE.sub("\n", part)))
    return [one for one in found if one]


def _most_relevant(sentences: list[str], holding: Counter[str], parts: int, keep: int) -> str:
    frequency = Counter(term for sentence in sentences for term in terms(sentence))

    def score(n: int) -> float:
        words = terms(sentences[n])
        rare = sum(frequency[word] * math.log(1 + parts / max(holding[word], 1)) for word in words)
        return (2.0 if n == 0 else 1.0) * rare / math.sqrt(len(words) + 8)

    best = sorted(range(len(sentences)), key=lambda n: (-score(n), n))[:keep]
    return " ".join(sentences[n] for n in sorted(best))


def _cut(text: str) -> str:
    return text if len(text) <= LINE_CHARS else text[:LINE_CHARS].rsplit(" ", 1)[0] + " […]"
