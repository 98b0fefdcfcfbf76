"""Edit the references of one line of an answer while the line grows.

A reference is a number in brackets: `[1]`, `[1, 2]`, `[1-3]`, `[1][2]`, `[^1]`, `【1】`, and with lines of
the source `[1:37]` or `[1:37-40, 2]`. Known numbers are renumbered, unknown ones are removed and counted.
Lines that the source does not show are those of another source of its file, or else unknown. Code between
backticks and indexing such as `a[1]` are not references.

Each character is examined a bounded number of times, however the line is split into pieces. A part of the
line that cannot change any more is dropped from `_rest`. A part that depends on what follows stays there:
a line that may open a fence, and the text after backticks that have no closing backticks yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from rag.answer.markdown import (
    MAX_BEGINNING_CHARS,
    Fence,
    begins_line,
    closes_fence,
    code_spans,
    may_become_fence,
    opened_fence,
)
from rag.quoting import one_line
from rag.types import Citation, DialogTurn

_MAX_NUMBERS_CHARS = 200
_MAX_DAGGER_CHARS = 60
_LINES = r":L?[1-9]\d{0,6}(?:[ \t]*[–-][ \t]*L?\d{1,7}(?!:))?"
_NUMBER = rf"\^?(?:[1-9]\d{{0,2}}{_LINES}|\d{{1,3}})"
_NUMBERS = rf"[ \t]*{_NUMBER}(?:[ \t]*[,;–-][ \t]*{_NUMBER})*[ \t]*"
_NUMBER_CHARS = rf"[\d,;:L–^ \t-]{{0,{_MAX_NUMBERS_CHARS}}}"
_DAGGER = rf"(?:†[^】`\n]{{0,{_MAX_DAGGER_CHARS}}})?"
_ONE = rf"(?:\[(?={_NUMBER_CHARS}\]){_NUMBERS}\]|【(?={_NUMBER_CHARS}[†】]){_NUMBERS}{_DAGGER}】)"
_REFERENCE = re.compile(_ONE)
_GROUP = re.compile(f"{_ONE}+")
_BEGUN = re.compile(rf"[\[【]{_NUMBER_CHARS}{_DAGGER}\Z")
_BRACKET = re.compile(r"[\[【]")
_BRACKET_OR_BACKTICK = re.compile(r"[\[【`]")
_BACKTICKS = re.compile(r"`+")
_ITEM = re.compile(
    r"(?P<source>\d{1,3})(?::L?(?P<line>\d{1,7})(?:[ \t]*[–-][ \t]*L?(?P<last_line>\d{1,7})(?!:))?"
    r"|[ \t]*[–-][ \t]*\^?(?P<last>\d{1,3})(?!:))?"
)
_WORD = re.compile(r"\w")
_MAX_WORD_CHARS = 20
_LAST_WORD = re.compile(rf"(?<!\w)[^\W\d_]{{1,{_MAX_WORD_CHARS}}}\Z")
_INDEXED = re.compile(r"(?:[A-Za-z0-9_]|\(\)|\])\Z")
_NO_SPACE_BEFORE = frozenset(" \t\r\n.,;:!?)]}»”\"'*_|")
_BLOCK_BEGINS = frozenset("`~>-0123456789")
"""First characters of a fence, and of a quote or list around it: removing a reference puts none of them
first.

Not `*`, which is bold text far more often than a list of fences.
"""
_REMOVED = "[?]"
"""Replaces an unknown reference whose removal would join its neighbours to something new."""
_MAX_REFERENCE_CHARS = _MAX_NUMBERS_CHARS + _MAX_DAGGER_CHARS + 3

_Group = Literal["indexing", "unknown", "known"]
"""A run of references, as far as it was read: indexing so far, without a known number, or with one."""


class ShownLines(NamedTuple):
    """The lines of a source: its file, whatever identifies it, and its first and last line."""

    file: object
    start: int
    end: int


class LineReference(NamedTuple):
    """A number that a text refers to, with lines of the source; 0 for all of them."""

    n: int
    first: int = 0
    last: int = 0

    def __str__(self) -> str:
        lines = f"{self.first}-{self.last}" if self.last > self.first else f"{self.first}"
        return f"{self.n}:{lines}" if self.first else f"{self.n}"


def may_refer(line: str) -> bool:
    """Return whether a line has a bracket: without one it has no reference."""
    return "[" in line or "【" in line


def reference_spans(text: str) -> dict[int, tuple[int, int]]:
    """Return where a text first refers to each number: start and end of the brackets, in characters."""
    spans: dict[int, tuple[int, int]] = {}
    for offset, match in _references(text):
        for item in _ITEM.finditer(match[0]):
            spans.setdefault(int(item["source"]), (offset + match.start(), offset + match.end()))
    return spans


def at_cited_lines(text: str, citations: Iterable[Citation]) -> list[Citation]:
    """Return the citations of an answer, each with the lines of it that the text refers to first, if any."""
    lines: dict[int, tuple[int, int]] = {}
    for _, match in _references(text):
        for item in _ITEM.finditer(match[0]):
            if item["line"]:
                first = int(item["line"])
                lines.setdefault(int(item["source"]), (first, int(item["last_line"] or first)))
    return [
        replace(one, span=replace(one.span, start=lines[one.n][0], end=lines[one.n][1]))
        if one.n in lines
        else one
        for one in citations
    ]


def with_places(turn: DialogTurn) -> DialogTurn:
    """Return a turn whose answer has places instead of numbers, which mean other sources in another prompt.

    `[1:37]` becomes `[shop/sessions.py:37]`, where these lines are now; a file that was named before in the
    answer has only its last name. Numbers of no citation are removed.
    """
    if turn.assistant_response is None or not may_refer(turn.answer):
        return turn
    now = turn.with_current_citations().citations
    names = _Names({old.n: (old, new) for old, new in zip(turn.citations, now, strict=True)})
    text, end = "", 0
    for offset, match in _references(turn.answer):
        before = turn.answer[end : offset + match.start()]
        places = ", ".join(dict.fromkeys(names.of(match[0])))
        text += f"{before}[{places}]" if places else before.rstrip(" \t")
        end = offset + match.end()
    response = replace(turn.assistant_response, response_str=text + turn.answer[end:])
    return replace(turn, assistant_response=response)


class _Names:
    """The places of the citations of a text by number: each as it was cited, and where it is now."""

    def __init__(self, cited: Mapping[int, tuple[Citation, Citation]]) -> None:
        self._cited = cited
        self._are_several = len({now.repo for _, now in cited.values()}) > 1
        self._full: dict[str, str] = {}

    def of(self, reference: str) -> Iterator[str]:
        """Yield the places of a reference."""
        for item in _ITEM.finditer(reference.partition("†")[0]):
            number = int(item["source"])
            for n in range(number, min(int(item["last"] or number), number + len(self._cited)) + 1):
                if n in self._cited:
                    yield self._place(*self._cited[n], item)

    def _place(self, old: Citation, now: Citation, item: re.Match[str]) -> str:
        first, last = old.start, old.end
        if item["line"]:
            first = int(item["line"])
            last = int(item["last_line"] or first)
        lines = f"{first + now.start - old.start}-{last + now.start - old.start}"
        return f"{self._path(now)}:{lines if last > first else lines.partition('-')[0]}"

    def _path(self, now: Citation) -> str:
        path = one_line(f"{now.repo}:{now.path}" if self._are_several else now.path)
        name = path.rpartition("/")[2]
        is_known = self._full.get(name) == path
        self._full.setdefault(name, path)
        return name if is_known else path


def _references(text: str) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield the references of a text outside code, each with the offset of its line."""
    fence: Fence | None = None
    offset = 0
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        opened = fence or opened_fence(line)
        if opened is None:
            yield from ((offset, match) for match in _references_outside_code(line))
        elif fence and closes_fence(line, fence):
            fence = None
        else:
            fence = opened
        offset += len(line)


def _references_outside_code(line: str) -> Iterator[re.Match[str]]:
    """Yield the references of a whole line outside of fences."""
    spans = code_spans(line)
    position = 0
    for group in _GROUP.finditer(line):
        start = group.start()
        while position < len(spans) and spans[position][1] <= start:
            position += 1
        if position < len(spans) and spans[position][0] <= start:
            continue
        if _INDEXED.search(line, max(0, start - 2), start):
            start = line.find("【", start, group.end())
        if start >= 0:
            yield from _REFERENCE.finditer(line, start, group.end())


class LineEditor:
    """Renumbers the known references of one line and removes the others.

    Call `feed` for each piece and `finish` once; both return what can be shown now. `numbers` maps the
    sources met so far to their new numbers and is extended; `invented` counts the numbers that were removed.
    After `finish`, `fence` is the fence that the line opens: such a line is not edited.
    """

    def __init__(self, known: Mapping[int, ShownLines], numbers: dict[int, int]) -> None:
        self.invented = 0
        self.fence: Fence | None = None
        self._known = known
        self._numbers = numbers
        self._may_open_fence: bool | None = None
        self._rest = ""
        self._before = ""  # the two characters of the line before `_rest`
        self._shown = _ShownText()
        self._group: _Group | None = None
        self._space_first = False  # a space separates this group from what it would index
        self._passed = 0  # number of characters of `_rest` that were shown
        self._searched = 0  # `_rest` has no reference before this position; if `_blocked`, it has one there
        self._blocked = False
        self._runs_searched = 0  # the backticks at the start of `_rest` are not closed before this position
        self._last_runs: Mapping[int, int] = {}

    def feed(self, piece: str) -> str:
        """Process the next piece; return the text that can be shown now, which may be empty."""
        self._rest += piece
        if self._may_open_fence is None:
            self._may_open_fence = may_become_fence(self._rest)
        edited = self._edit(whole=False) if self._may_open_fence is False else ""
        return edited + self._pass_on()

    def finish(self, piece: str) -> str:
        """Process the last piece; return all text that was not shown."""
        self._rest += piece
        if self._may_open_fence is not False:
            self.fence = opened_fence(self._rest)
        if self.fence is not None or (self._group is None and not _BRACKET.search(self._rest)):
            self._shown.release_spaces()
            return self._shown.take() + self._rest[self._passed :]
        self._last_runs = {len(run[0]): run.start() for run in _BACKTICKS.finditer(self._rest)}
        edited = self._edit(whole=True)
        self._shown.release_spaces()
        return edited + self._shown.take()

    def _edit(self, *, whole: bool) -> str:
        """Edit `_rest` as far as nothing that follows changes it, and drop that part."""
        end, following = 0, self._step(0, whole)
        while following is not None:
            end, following = following, self._step(following, whole)
        edited = self._shown.take()[self._passed :]
        if end:
            self._before = self._last_two(end)
            self._rest = self._rest[end:]
            self._passed = max(0, self._passed - end)
            self._searched = self._runs_searched = 0
            self._blocked = False
        return edited

    def _step(self, at: int, whole: bool) -> int | None:
        """Edit what begins at `at`; return where it ends, None at the end or if that is not known yet."""
        if self._group is not None:
            return self._continue_group(at, whole)
        if at == len(self._rest):
            return None
        if self._rest[at] == "`":
            return self._code(at, whole)
        if self._rest[at] in "[【":
            return self._bracket(at, whole)
        special = _BRACKET_OR_BACKTICK.search(self._rest, at)
        end = special.start() if special else len(self._rest)
        self._shown.add(self._rest[at:end])
        return end

    def _code(self, at: int, whole: bool) -> int | None:
        """Backticks: the next run of the same length closes them; without one they are plain text."""
        rest = self._rest
        length = len(rest) - len(rest[at:].lstrip("`")) - at
        if whole and self._last_runs[length] == at:
            self._shown.add("`" * length)
            return at + length
        searched = at + length if whole else max(at + length, self._runs_searched)
        for closing in _BACKTICKS.finditer(rest, searched):
            searched = closing.start()
            if closing.end() == len(rest) and not whole:
                break  # this run may become longer
            if len(closing[0]) == length:
                self._shown.add(rest[at : closing.end()])
                return closing.end()
        else:
            searched = len(rest)
        self._runs_searched = searched
        self._shown.release_spaces()
        return None

    def _bracket(self, at: int, whole: bool) -> int | None:
        """Return a bracket: a reference begins a group, anything else is plain text."""
        if _REFERENCE.match(self._rest, at):
            if self._rest[at] == "[" and _INDEXED.search(self._last_two(at)):
                self._group = "indexing"
            else:
                self._begin_group(self._rest[at])
            return at
        if not whole and _BEGUN.match(self._rest, at):
            return None
        self._shown.add(self._rest[at])
        return at + 1

    def _begin_group(self, bracket: str) -> None:
        self._group = "unknown"
        self._space_first = bracket == "【" and _INDEXED.search(self._shown.end(2)) is not None

    def _continue_group(self, at: int, whole: bool) -> int | None:
        """Return the next reference of a group, or what follows its last."""
        reference = _REFERENCE.match(self._rest, at)
        if reference is not None:
            self._add_reference(reference[0])
            return reference.end()
        if not whole and (at == len(self._rest) or _BEGUN.match(self._rest, at)):
            return None
        following = self._remove_group(at, whole) if self._group == "unknown" else at
        if following is not None:
            self._group = None
        return following

    def _add_reference(self, reference: str) -> None:
        if self._group == "indexing":
            if reference[0] == "[":
                self._shown.add(reference)
                return
            self._begin_group(reference[0])
        used, unknown = _items_of(reference, self._known)
        self.invented += unknown
        if used:
            numbers = [self._numbers.setdefault(one.n, len(self._numbers) + 1) for one in used]
            renumbered = sorted(one._replace(n=n) for one, n in zip(used, numbers, strict=True))
            space = " " if self._space_first and self._group == "unknown" else ""
            self._shown.add(f"{space}[{', '.join(map(str, renumbered))}]")
            self._group = "known"

    def _remove_group(self, at: int, whole: bool) -> int | None:
        """Show a group without a known number; return the position after it."""
        following = self._rest[at : at + 1]
        if self._shown.begins_line():
            behind = len(self._rest) - len(self._rest[at:].lstrip(" \t"))
            if behind == len(self._rest) and not whole:
                return None
            if self._rest[behind : behind + 1] not in _BLOCK_BEGINS:
                return behind
            self._shown.add(_REMOVED)
        elif self._shown.within_bracket() or (following == "`" and self._shown.end(1) == "`"):
            self._shown.add(_REMOVED)
        elif not following or following in _NO_SPACE_BEFORE:
            self._shown.drop_spaces()
            if (word := self._shown.last_word()) and following in " \t":
                return self._after_repeated(word, at, whole)
        return at

    def _after_repeated(self, word: str, at: int, whole: bool) -> int | None:
        """Return the position after a word that is the last one that was shown ("and [9] and"), else `at`."""
        behind = self._rest[at:].lstrip(" \t")
        if not whole and len(behind) <= len(word) and word.startswith(behind):
            return None
        is_repeated = behind.startswith(word) and not _WORD.match(behind[len(word) : len(word) + 1])
        return len(self._rest) - len(behind) + len(word) if is_repeated else at

    def _pass_on(self) -> str:
        """Return the part of `_rest` before its first reference, which will be shown as it is."""
        if self._group is not None:
            return ""
        while not self._blocked and (bracket := _BRACKET.search(self._rest, self._searched)):
            at = bracket.start()
            reference = _REFERENCE.match(self._rest, at)
            if reference and self._rest[at] == "[" and _INDEXED.search(self._last_two(at)):
                self._searched = reference.end()
            elif reference or _BEGUN.match(self._rest, at):
                self._searched, self._blocked = at, reference is not None
                break
            else:
                self._searched = at + 1
        else:
            if not self._blocked:
                self._searched = len(self._rest)
        passed = self._rest[self._passed : self._searched].rstrip(" \t")
        self._passed += len(passed)
        return passed

    def _last_two(self, at: int) -> str:
        return (self._before + self._rest[max(0, at - 2) : at])[-2:]


class _ShownText:
    """The text of a line as it is shown, as far as its end affects what follows.

    Spaces at the end are held back: removing a reference may remove them too.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._end = ""
        self._spaces = ""
        self._chars = 0

    def add(self, text: str) -> None:
        """Append a text; pending spaces are shown once it has more than spaces."""
        words = text.rstrip(" \t")
        if words:
            self._append(self._spaces + words)
            self._spaces = ""
        self._spaces += text[len(words) :]

    def release_spaces(self) -> None:
        """Show the spaces at the end."""
        self._append(self._spaces)
        self._spaces = ""

    def drop_spaces(self) -> None:
        """Do not show the spaces at the end."""
        self._spaces = ""

    def take(self) -> str:
        """Return what was appended since the last call."""
        text = "".join(self._pieces)
        self._pieces.clear()
        return text

    def end(self, count: int) -> str:
        """Return the last characters."""
        return (self._end[-count:] + self._spaces[-count:])[-count:]

    def begins_line(self) -> bool:
        """Return whether the text has only what may precede a line's first word."""
        chars = self._chars + len(self._spaces)
        return chars <= MAX_BEGINNING_CHARS and begins_line(self._end + self._spaces)

    def last_word(self) -> str:
        """Return the word at the end, "" if it ends otherwise or is a long one."""
        found = _LAST_WORD.search(self.end(_MAX_WORD_CHARS + 1))
        return found[0] if found else ""

    def within_bracket(self) -> bool:
        """Return whether a reference has begun at the end."""
        return _BEGUN.search(self.end(_MAX_REFERENCE_CHARS)) is not None

    def _append(self, text: str) -> None:
        self._pieces.append(text)
        self._chars += len(text)
        self._end += text
        if len(self._end) > 2 * MAX_BEGINNING_CHARS:
            self._end = self._end[-MAX_BEGINNING_CHARS:]


def _items_of(reference: str, known: Mapping[int, ShownLines]) -> tuple[list[LineReference], int]:
    """Return what one reference refers to, in order, each once, and how many of its numbers are unknown."""
    if reference[1:-1].isdecimal():  # most of them
        number = int(reference[1:-1])
        return ([LineReference(number)], 0) if number in known else ([], 1)
    used: dict[LineReference, None] = {}
    unknown = 0
    for item in _ITEM.finditer(reference.partition("†")[0]):
        number = int(item["source"])
        if item["line"]:
            shown = _of_lines(number, item, known)
            unknown += shown is None
            used.update({} if shown is None else {shown: None})
            continue
        ends = {number, int(item["last"] or number)}
        unknown += len(ends - known.keys())
        used.update(dict.fromkeys(LineReference(n) for n in sorted(known) if min(ends) <= n <= max(ends)))
    return list(used), unknown


def _of_lines(number: int, item: re.Match[str], known: Mapping[int, ShownLines]) -> LineReference | None:
    """Return the lines that a source shows, or another source of its file; None if neither shows any."""
    if number not in known:
        return None
    first = int(item["line"])
    last = max(first, int(item["last_line"] or first))
    others = (n for n, lines in known.items() if lines.file == known[number].file)
    for n in (number, *others):
        if known[n].start <= last and first <= known[n].end:
            return LineReference(n, max(first, known[n].start), min(last, known[n].end))
    return None
