"""Resolve the references in an answer to citations of the sources that were shown.

A reference is a number in brackets: `[1]`, `[1, 2]`, `[1-3]`, `[1][2]`, `[^1]`, `【1】`; or a number and
lines of the source: `[1:37]`, `[1:37-40]`. A number that has no shown source is invented: it is removed
from the text and counted. A line that its source does not show leads to the source of the file that shows
it; if there is none, it is invented. Numbers in code, fenced or between backticks, and indexing
such as `a[1]` are not references. `[^1]` and `【1】` are written as `[1]`. A place such as `path:12-20`
also refers to a source, when its lines were shown; it is not changed. Small models often omit numbers: an
answer without any reference refers to the sources whose definitions it names between backticks, else to
those whose files it names.

The model uses the numbers of its prompt. In the answer the sources are renumbered in the order of their first
reference: the first is [1], the second [2]. Sources that it names without a number follow, then unused ones.
A range is written as a list. So `[n]` refers to the n-th citation, even for a client that numbers its list of
citations by position.

The text may be streamed in pieces. A piece is passed on as soon as nothing that follows can change it, so a
reader never sees an invented number, and the result does not depend on how the text was split.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from rag.answer.markdown import Fence, closes_fence, opened_fence
from rag.answer.references import LineEditor, ShownLines, may_refer
from rag.types import Citation, Hit, NumberedSource

_LINES = re.compile(r"(\d{1,9})(?:[–-](\d{1,9}))?")
_CODE_SPAN = re.compile(r"(?<!`)`+([^`\n]+)`+")
_WITHIN_PATH = re.compile(r"[\w/.-]\Z")


class Resolved(NamedTuple):
    """An answer's text with its references resolved.

    `shown` are the citations of all sources, numbered from 1 and in the order of their numbers; `invented`
    counts the removed numbers. `by_name` is True if the text has no reference: then `used` are the sources
    that it names.
    """

    text: str
    shown: tuple[Citation, ...]
    invented: int
    by_name: bool = False

    @property
    def used(self) -> tuple[Citation, ...]:
        """The citations that the text refers to."""
        return tuple(source for source in self.shown if source.used)


def resolve(text: str, sources: Sequence[NumberedSource]) -> Resolved:
    """Resolve the references of a whole answer. Without sources every number is invented."""
    filtered = CitationFilter(sources)
    return filtered.resolved(filtered.feed(text) + filtered.close())


class CitationFilter:
    """Removes invented references from a text that is streamed in pieces, and renumbers the others.

    `numbers` maps the old numbers of the sources so far to the new ones, in the order of their first
    reference; `invented` counts the removed numbers. Both are complete after `close`.
    """

    def __init__(self, sources: Sequence[NumberedSource]) -> None:
        self._sources = tuple(sources)
        self._known = {source.n: _lines_of(source.hit) for source in sources}
        self._line: LineEditor | None = None
        self._fence: Fence | None = None
        self._fenced_line = ""
        self.numbers: dict[int, int] = {}
        self.invented = 0

    def feed(self, piece: str) -> str:
        """Process the next piece; return the text that can be shown now, which may be empty."""
        *ends, rest = piece.split("\n")
        out = [self._finish_line(end + "\n") for end in ends]
        if rest and self._fence is not None:
            self._fenced_line += rest
            out.append(rest)
        elif rest:
            out.append(self._growing_line().feed(rest))
        return "".join(out)

    def close(self) -> str:
        """Process the end of the text: return the rest of it."""
        return self._finish_line("")

    def resolved(self, text: str) -> Resolved:
        """Return the whole text that was passed on, after `close`, with its references resolved."""
        used = self.numbers.keys() | {source.n for source in self._sources if _mentions(text, source)}
        named = set() if used else _named(text, self._sources)
        used |= named
        after = len(self._sources)  # the new numbers are below
        ordered = sorted(self._sources, key=lambda s: (s.n not in used, self.numbers.get(s.n, after)))
        shown = tuple(
            _citation(source, n, used=source.n in used) for n, source in enumerate(ordered, start=1)
        )
        return Resolved(text, shown, self.invented, bool(named))

    def numbered(self) -> tuple[Citation, ...]:
        """Return all sources as the text so far numbers them; `used` are those that it refers to."""
        after = len(self._sources)
        ordered = sorted(self._sources, key=lambda s: self.numbers.get(s.n, after))
        return tuple(_citation(s, n, used=s.n in self.numbers) for n, s in enumerate(ordered, start=1))

    def _growing_line(self) -> LineEditor:
        self._line = self._line or LineEditor(self._known, self.numbers)
        return self._line

    def _finish_line(self, end: str) -> str:
        if self._fence is not None:
            if closes_fence(self._fenced_line + end, self._fence):
                self._fence = None
            self._fenced_line = ""
            return end
        if self._line is None and not may_refer(end):
            self._fence = opened_fence(end)
            return end
        line = self._growing_line()
        self._line = None
        shown = line.finish(end)
        self.invented += line.invented
        self._fence = line.fence
        return shown


def _lines_of(hit: Hit) -> ShownLines:
    return ShownLines((hit.repo, hit.location, hit.path, hit.blob), hit.start, hit.end)


def _mentions(text: str, source: NumberedSource) -> bool:
    """Return whether the text names the source's path with a line, or lines, that it shows."""
    path = f"{source.hit.path}:"
    at = text.find(path)
    while at >= 0:
        behind = at + len(path)
        if (lines := _LINES.match(text, behind)) and not _WITHIN_PATH.search(text, max(0, at - 1), at):
            start, end = int(lines[1]), int(lines[2] or lines[1])
            if start <= source.hit.end and source.hit.start <= end:
                return True
        at = text.find(path, behind)
    return False


def _named(text: str, sources: Sequence[NumberedSource]) -> set[int]:
    """Return the sources whose definitions a text names between backticks, else those with paths it names."""
    code = "\n".join(_CODE_SPAN.findall(text))
    defined = {s.n for s in sources if s.hit.symbol and _has_word(code, s.hit.symbol)}
    return defined or {s.n for s in sources if _has_word(text, s.hit.path)}


def _has_word(text: str, name: str) -> bool:
    """Return whether a name occurs in a text as a whole word."""
    return re.search(rf"(?<![\w/-]){re.escape(name)}(?![\w/-])", text) is not None


def _citation(source: NumberedSource, n: int, *, used: bool) -> Citation:
    hit = source.hit
    return Citation(
        n,
        hit.span,
        span_hash=hashlib.sha256(hit.text.encode("utf-8", "surrogatepass")).hexdigest(),
        dirty=hit.dirty,
        score=hit.score,
        used=used,
        location=hit.location,
    )
