"""References in an answer become citations of the sources that were shown.

A reference is a number in brackets: `[1]`, `[1, 2]`, `[1-3]`, `[1][2]`, `[^1]`, `【1】`. A number that no
shown source has was invented: it is taken out of the text and counted. Numbers in code, fenced or between
backticks, and indexing such as `a[1]` are no references. `[^1]` and `【1】` are written as `[1]`. A place
such as `path:12-20` also refers to a source, when its lines were shown; it is left as it is. Small models
number nothing: an answer without any reference refers to the sources whose definitions it names between
backticks, else to those whose files it names.

The model uses the numbers of its prompt. In the answer the sources are renumbered in the order of their first
reference: the first is [1], the second [2]. Sources that it names without a number follow, then those that
it does not use. A range is written as a list. So `[n]` refers to the n-th citation, also for a client that
counts its list of citations and reads no numbers there.

The text may come in pieces. A piece is passed on as soon as nothing that can follow changes it, so a
reader never sees an invented number, and pieces give the same text however it was split.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from rag.answer.markdown import Fence, begins_line, closes_fence, code_spans, may_open_fence, opened_fence
from rag.types import Citation, NumberedSource

_NUMBERS = r"[ \t]*\^?\d{1,3}(?:[ \t]*[,;–-][ \t]*\^?\d{1,3})*[ \t]*"
_MOST_BEHIND_DAGGER = 60
_DAGGER = rf"(?:†[^】`\n]{{0,{_MOST_BEHIND_DAGGER}}})?"
_ONE = rf"(?:\[{_NUMBERS}\]|【{_NUMBERS}{_DAGGER}】)"
_BEGUN = rf"[\[【][\d,;–^ \t-]*{_DAGGER}\Z"
_EACH = re.compile(_ONE)
_GROUP = re.compile(f"{_ONE}+")
_WITHIN_BRACKET = re.compile(_BEGUN)
_RANGE = re.compile(r"(\d{1,3})(?:[ \t]*[–-][ \t]*\^?(\d{1,3}))?")
_LINES = re.compile(r"(\d{1,9})(?:[–-](\d{1,9}))?")
_CODE_SPAN = re.compile(r"(?<!`)`+([^`\n]+)`+")
_WITHIN_PATH = re.compile(r"[\w/.-]\Z")
_INDEXED = re.compile(r"(?:[A-Za-z0-9_]|\(\)|\])\Z")
_NO_SPACE_BEFORE = frozenset(" \t\r\n.,;:!?)]}»”\"'*_|")
_BLOCK_BEGINS = frozenset("`~>-0123456789")
"""What a fence begins with, or a quote or list around it: taking a reference out puts none of it first.

Not `*`, which is bold text far more often than a list of fences.
"""
_REMOVED = "[?]"
"""Stands for an invented reference where nothing at all would join its neighbours to something new."""


class Resolved(NamedTuple):
    """An answer's text with its references resolved.

    `used` are the citations that the text refers to, numbered from 1, `shown` those of all sources (`.used`
    tells which), both in the order of their numbers; `invented` counts the numbers that were taken out.
    `by_name` tells that the text has no reference: what is `used` is what it names.
    """

    text: str
    used: tuple[Citation, ...]
    shown: tuple[Citation, ...]
    invented: int
    by_name: bool = False


def resolve(text: str, sources: Sequence[NumberedSource]) -> Resolved:
    """Resolve the references of a whole answer. Without sources every number is invented."""
    filtered = CitationFilter(sources)
    return filtered.resolved(filtered.feed(text) + filtered.close())


def reference_spans(text: str) -> dict[int, tuple[int, int]]:
    """Return where a text first refers to each number: start and end of the brackets, in characters."""
    spans: dict[int, tuple[int, int]] = {}
    fence: Fence | None = None
    offset = 0
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        opened = fence or opened_fence(line)
        if opened is None:
            code = code_spans(line, whole=True)
            groups = [group for group in _groups(line) if not code.holds(group[0])]
            for match in (found for group in groups for found in _EACH.finditer(line, *group)):
                for number in re.findall(r"\d+", match[0]):
                    spans.setdefault(int(number), (offset + match.start(), offset + match.end()))
        elif fence and closes_fence(line, fence):
            fence = None
        else:
            fence = opened
        offset += len(line)
    return spans


class CitationFilter:
    """Takes invented references out of a text that comes in pieces, and renumbers the others.

    `numbers` gives the sources met so far their new numbers, by their old ones and in the order of their
    first reference; `invented` is how many numbers were taken out. Both are complete after `close`.
    """

    def __init__(self, sources: Sequence[NumberedSource]) -> None:
        self._sources = tuple(sources)
        self._known = frozenset(source.n for source in sources)
        self._line = ""
        self._passed_on = 0
        self._fence: Fence | None = None
        self.numbers: dict[int, int] = {}
        self.invented = 0

    def feed(self, piece: str) -> str:
        """Take the next piece; return what can be shown now, perhaps nothing."""
        out: list[str] = []
        *ends, rest = piece.split("\n")
        for end in ends:
            if self._fence is not None and not self._line and self._fence.mark not in end:
                out.append(end + "\n")  # quoted code, which is most of what is quoted
                continue
            self._line += end + "\n"
            out.append(self._finish_line())
        if rest:
            self._line += rest
            out.append(self._pass_on(self._settled()))
        return "".join(out)

    def close(self) -> str:
        """The text is complete: return what was held back."""
        return self._finish_line() if self._line else ""

    def resolved(self, text: str) -> Resolved:
        """The whole text that was passed on, after `close`, with its references resolved."""
        used = self.numbers.keys() | {source.n for source in self._sources if _mentions(text, source)}
        named = set() if used else _named(text, self._sources)
        used |= named
        after = len(self._sources)  # the new numbers are below
        ordered = sorted(self._sources, key=lambda s: (s.n not in used, self.numbers.get(s.n, after)))
        shown = tuple(
            _citation(source, n, used=source.n in used) for n, source in enumerate(ordered, start=1)
        )
        return Resolved(text, tuple(c for c in shown if c.used), shown, self.invented, bool(named))

    def _finish_line(self) -> str:
        line = self._line
        fence = self._fence or opened_fence(line)
        if fence is None:
            edit = _edit(line, self._known, self.numbers, whole=True)
            self.numbers = edit.numbers
            self.invented += edit.invented
            shown = self._pass_on(edit.text)
        else:
            shown = self._pass_on(line)
            self._fence = None if self._fence and closes_fence(line, fence) else fence
        self._line, self._passed_on = "", 0
        return shown

    def _settled(self) -> str:
        """As much of the line's final text as is certain already."""
        if self._fence is not None:
            return self._line
        return _edit(self._line, self._known, self.numbers, whole=False).text

    def _pass_on(self, text: str) -> str:
        new = text[self._passed_on :]
        self._passed_on = max(self._passed_on, len(text))
        return new


class _Edit(NamedTuple):
    """A line as it is shown, the new numbers with those that it adds, and how many were taken out."""

    text: str
    numbers: dict[int, int]
    invented: int


def _edit(line: str, known: Collection[int], numbers: dict[int, int], *, whole: bool) -> _Edit:
    """Edit one line that lies in no fence; of a line that is still growing, only what is certain."""
    if whole and "[" not in line and "【" not in line:
        return _Edit(line, numbers, 0)
    code = code_spans(line, whole=whole)
    groups = [(start, end) for start, end in _groups(line) if not code.holds(start)]
    certain = len(line)
    if not whole:
        open_from = 0 if may_open_fence(line) else code.open_from
        certain = _certain(line, [start for start, _ in groups if start >= open_from])
    numbers = dict(numbers)
    text, position, invented = "", 0, 0
    for start, end in groups:
        if end > certain:
            break
        kept = ""
        for match in _EACH.finditer(line, start, end):
            used, strange = _references(match[0], known)
            renumbered = sorted(numbers.setdefault(n, len(numbers) + 1) for n in used)
            kept += f"[{', '.join(map(str, renumbered))}]" if used else ""
            invented += strange
        text += line[position:start]
        if line[start] == "【" and _INDEXED.search(text, max(0, len(text) - 2)):
            kept = kept and f" {kept}"
        text, position = (text + kept, end) if kept else _removed(text, line, end)
    return _Edit(text + line[position:certain], numbers, invented)


def _groups(line: str) -> Iterator[tuple[int, int]]:
    """Start and end of each run of references; square brackets that index something are none."""
    for group in _GROUP.finditer(line):
        start = group.start()
        if _INDEXED.search(line, max(0, start - 2), start):
            start = line.find("【", start, group.end())
        if start >= 0:
            yield start, group.end()


def _certain(line: str, open_groups: Sequence[int]) -> int:
    """Up to where a growing line is certain: before what may become a reference, and the spaces there."""
    end = min([*open_groups, _undecided(line)])
    return len(line[:end].rstrip(" \t"))


def _undecided(line: str) -> int:
    """Where the references begin that go on at the end of a line, or one that has only begun."""
    begun = _WITHIN_BRACKET.search(line)
    ends = [begun.start() if begun else len(line)]
    for group in _GROUP.finditer(line):
        if group.end() == len(line) or _WITHIN_BRACKET.match(line, group.end()):
            ends.append(group.start())
            break
    return min(ends)


def _references(reference: str, known: Collection[int]) -> tuple[list[int], int]:
    """The known numbers of one reference, each once, as they follow each other; how many are not known."""
    used: dict[int, None] = {}
    invented = 0
    for match in _RANGE.finditer(reference.partition("†")[0]):
        ends = {int(match[1]), int(match[2] or match[1])}
        invented += len(ends - set(known))
        used.update(dict.fromkeys(n for n in sorted(known) if min(ends) <= n <= max(ends)))
    return list(used), invented


def _removed(text: str, line: str, end: int) -> tuple[str, int]:
    """The text before a reference that is taken out, and where in the line to go on behind it."""
    following = line[end : end + 1]
    if begins_line(text):
        behind = len(line) - len(line[end:].lstrip(" \t"))
        return (text + _REMOVED, end) if line[behind : behind + 1] in _BLOCK_BEGINS else (text, behind)
    if _within_bracket(text) or (following == "`" and text.endswith("`")):
        return text + _REMOVED, end
    if not following or following in _NO_SPACE_BEFORE:
        text = text.rstrip(" \t")
    return text, end


def _within_bracket(text: str) -> bool:
    """Whether a reference has begun at the end of a text, which is not searched from its beginning."""
    late = max(0, len(text) - _MOST_BEHIND_DAGGER - 1)
    if _WITHIN_BRACKET.search(text, late):
        return True
    before = max(text.rfind("[", 0, late), text.rfind("【", 0, late))
    return before >= 0 and _WITHIN_BRACKET.match(text, before) is not None


def _mentions(text: str, source: NumberedSource) -> bool:
    """Whether the text names the source's path with a line, or lines, that it shows."""
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
    """The sources whose definitions stand between backticks in a text, else those whose paths stand in it."""
    spoken = "\n".join(_CODE_SPAN.findall(text))
    defined = {s.n for s in sources if s.hit.symbol and _stands_in(spoken, s.hit.symbol)}
    return defined or {s.n for s in sources if _stands_in(text, s.hit.path)}


def _stands_in(text: str, name: str) -> bool:
    """Whether a name stands in a text as a whole."""
    return re.search(rf"(?<![\w/-]){re.escape(name)}(?![\w/-])", text) is not None


def _citation(source: NumberedSource, n: int, *, used: bool) -> Citation:
    hit = source.hit
    return Citation(
        n=n,
        repo=hit.repo,
        path=hit.path,
        start=hit.start,
        end=hit.end,
        commit=hit.commit,
        blob=hit.blob,
        symbol=".".join(part for part in (hit.scope, hit.symbol) if part) if hit.symbol else "",
        span_hash=hashlib.sha256(hit.text.encode("utf-8", "surrogatepass")).hexdigest(),
        dirty=hit.dirty,
        score=hit.score,
        used=used,
        location=hit.location,
    )
