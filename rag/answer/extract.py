"""The answer without a model: the lines nearest to the question, quoted as they stand in the files.

From each of the best sources come the line that defines it, the first lines of its documentation, and the
lines that share the most telling words with the question. A word tells more the fewer of the shown sources
hold it. Left-out lines show as `…`, and the lines quoted are named. Nothing is claimed but that the words
named stand in the lines quoted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from rag.analysis import terms, words
from rag.quoting import fence, one_line
from rag.types import Hit, NumberedSource, Prepared, Usage

_QUOTED_SOURCES = 3
_MAX_LINES = 14
_MAX_MATCHES = 5
_UNMATCHED_LINES = 8
_MAX_WIDTH = 240

_NO_MODEL = "No language model is configured, so nothing is explained here"

_DOC_LINE = re.compile(r"""\s*(?:[rRuU]?(?:\"{3}|'{3})|//|/\*|\*|--|#(?!include|define|if))""")
_DOC_QUOTES = re.compile(r"""\s*[rRuU]?(\"{3}|'{3})""")


class ExtractiveGenerator:
    """The generator that needs no model. It sends nothing anywhere and costs nothing."""

    model = "extractive"

    def __init__(self) -> None:
        self.quoted: list[tuple[str, int, int]] = []
        """Path, first and last line of each stretch that the last answer quotes."""

    @property
    def usage(self) -> Usage | None:
        """No tokens at all."""
        return Usage(estimated=False, cost_usd=0.0)

    def stream(self, prepared: Prepared) -> Iterator[str]:
        """Yield the quotes, one source a piece."""
        self.quoted = []
        return extract(prepared, self.quoted)


def extract(prepared: Prepared, quoted: list[tuple[str, int, int]] | None = None) -> Iterator[str]:
    """Quote the best lines of the best three sources, each under its number; say so when there are none.

    The places quoted are added to `quoted` as they come.
    """
    sources = prepared.prompt.sources
    if not sources:
        found = (
            "The template in use shows no sources" if prepared.hits else "Nothing was found on this question"
        )
        yield f"{found}. {_NO_MODEL}.\n"
        return
    question = prepared.standalone_question or prepared.question
    weights = _weights(question, [source.hit for source in sources])
    yield f"{_NO_MODEL}; these are the lines nearest to the question, quoted as they stand.\n"
    name_repository = len({(source.hit.repo, source.hit.location) for source in sources}) > 1
    for source in sources[:_QUOTED_SOURCES]:
        quote = _chosen_lines(source.hit, weights)
        if quoted is not None:
            hit = source.hit
            quoted += [(hit.path, hit.start + a, hit.start + b) for a, b in quote.spans]
        yield "\n" + _quoted(source, quote, question, name_repository=name_repository)


@dataclass(frozen=True, slots=True)
class _Quote:
    """Lines of a hit: `spans` are 0-based, both ends belong, ascending, with a gap between each two."""

    lines: list[str]
    spans: list[tuple[int, int]]

    @property
    def text(self) -> str:
        parts = ["\n".join(_short(line) for line in self.lines[a : b + 1]) for a, b in self.spans]
        before, after = self.lines[: self.spans[0][0]], self.lines[self.spans[-1][1] + 1 :]
        return "\n".join([*_gap(before), "\n…\n".join(parts), *_gap(after)])


def _gap(left_out: Sequence[str]) -> list[str]:
    return ["…"] if any(line.strip() for line in left_out) else []


def _quoted(source: NumberedSource, quote: _Quote, question: str, *, name_repository: bool) -> str:
    hit = source.hit
    path = one_line(f"{hit.repo}:{hit.path}" if name_repository else hit.path)
    places = ", ".join(f"`{path}:{hit.start + a}-{hit.start + b}`" for a, b in quote.spans)
    matched = _matched(question, quote.text)
    why = f" — matches {', '.join(f'*{word}*' for word in matched)}" if matched else ""
    marks = fence(quote.text)
    language = re.sub(r"[^A-Za-z0-9+#._-]", "", hit.language)
    return f"{_what(hit)}{places} [{source.n}]{why}\n\n{marks}{language}\n{quote.text}\n{marks}\n"


def _what(hit: Hit) -> str:
    name = ".".join(part for part in (hit.scope, hit.symbol) if part)
    if not hit.symbol or hit.unit == "block":
        return f"In `{one_line(name)}`, " if name else ""
    return f"{hit.unit.capitalize()} `{one_line(name)}`, "


def _chosen_lines(hit: Hit, weights: Mapping[str, float]) -> _Quote:
    """Choose at most 14 lines of a hit: all when it has no more, else its head and its best lines."""
    lines = [line.rstrip("\r") for line in hit.text.split("\n")]
    while len(lines) > 1 and not lines[-1].strip():
        lines.pop()
    if len(lines) <= _MAX_LINES:
        return _Quote(lines, _spans(set(range(len(lines))), lines))
    chosen = set(_head(hit, lines))
    scores = {i: _score(line, weights) for i, line in enumerate(lines)}
    best = sorted((i for i in scores if scores[i] > 0), key=lambda i: (-scores[i], i))[:_MAX_MATCHES]
    if not best:
        best = list(range(_UNMATCHED_LINES))
    for reach in (0, 1, 2):
        for i in best:
            for near in (i - reach, i + reach):
                if 0 <= near < len(lines) and len(chosen) < _MAX_LINES:
                    chosen.add(near)
    return _Quote(lines, _spans(chosen, lines))


def _weights(question: str, hits: Sequence[Hit]) -> dict[str, float]:
    """What each term of the question tells: log(1 + sources / sources that hold it)."""
    bags = [set(terms(hit.text)) for hit in hits]
    return {
        term: math.log(1 + len(bags) / held)
        for term in set(terms(question))
        if (held := sum(term in bag for bag in bags))
    }


def _score(line: str, weights: Mapping[str, float]) -> float:
    return sum(weights.get(term, 0.0) for term in set(terms(line)))


def _head(hit: Hit, lines: Sequence[str]) -> list[int]:
    """The line that names the definition, and up to three lines of documentation around it."""
    name = re.compile(rf"(?<!\w){re.escape(hit.symbol)}(?!\w)") if hit.symbol else None
    defines = 0
    if name is not None:
        code = [i for i, line in enumerate(lines) if name.search(line) and not _DOC_LINE.match(line)]
        defines = code[0] if code else 0
    above = [i for i in range(defines) if _DOC_LINE.match(lines[i])][:2]
    return [*above, defines, *_documentation_below(lines, defines)]


def _documentation_below(lines: Sequence[str], defines: int) -> list[int]:
    """Up to three lines of a docstring that begins within four lines below the definition."""
    for begin in range(defines + 1, min(defines + 5, len(lines))):
        if opened := _DOC_QUOTES.match(lines[begin]):
            end = begin
            while end < len(lines) - 1 and opened[1] not in lines[end][opened.end() if end == begin else 0 :]:
                end += 1
            return list(range(defines + 1, min(end, begin + 2) + 1))
    return []


def _spans(chosen: Set[int], lines: Sequence[str]) -> list[tuple[int, int]]:
    """Neighbouring lines joined, a gap of one line filled, blank edges left out."""
    filled = set(chosen) | {i + 1 for i in chosen if i + 2 in chosen and i + 1 < len(lines)}
    spans: list[tuple[int, int]] = []
    for i in sorted(filled):
        if spans and spans[-1][1] == i - 1:
            spans[-1] = (spans[-1][0], i)
        else:
            spans.append((i, i))
    return [span for a, b in spans if (span := _trimmed(a, b, lines))] or spans[:1]


def _trimmed(a: int, b: int, lines: Sequence[str]) -> tuple[int, int] | None:
    while a <= b and not lines[a].strip():
        a += 1
    while b >= a and not lines[b].strip():
        b -= 1
    return (a, b) if a <= b else None


def _short(line: str) -> str:
    """A line as it stands; a very long one breaks off with `…`."""
    return line if len(line) <= _MAX_WIDTH else line[:_MAX_WIDTH] + "…"


def _matched(question: str, quoted: str) -> list[str]:
    """The words of the question that stand in the quote, in any form, each once, as they were typed."""
    held = set(terms(quoted))
    found: dict[str, str] = {}
    for word in words(question):
        whole = terms(word)[-1:]  # of an identifier the identifier itself: a part of it is not the word
        if held.issuperset(whole) and whole:
            found.setdefault(word.lower(), one_line(word))
    return list(found.values())[:6]
