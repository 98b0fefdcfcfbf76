"""The parts of an answer without a model, and how they fit on one screen."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from rag.answer.chosen_lines import list_goes_on
from rag.cut_code import Constructs
from rag.lines import lines_of
from rag.markdown import plain
from rag.quoting import code_span, fence
from rag.types import CodeFact, Hit, NumberedSource

ROWS = 25
"""The most lines of an answer, unless more are asked for."""
_COLUMNS = 80
_FRAME_ROWS = 4
"""What a quotation has around its lines: a blank line, its place, and two fences."""
_QUOTED_ROWS = 13
"""The rows of a quotation that come before other places."""
_MIN_SAID_CHARS, _MIN_SAID_WORDS, _MIN_WORDS_BEFORE_CODE = 8, 2, 4
"""How much of what a place is must be left where it is cut, in words where that is within code or not."""
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Quotation:
    """Lines of a source in one piece; its `first`, `last` and `best` count from 1, in the file.

    `path` has the repository in front where several are asked, `lines` are all lines of the source. An
    `is_answer` quotation has the members of a list, or the lines that the question names: all count.
    """

    source: NumberedSource
    path: str
    first: int
    last: int
    best: int
    lines: tuple[str, ...]
    constructs: Constructs
    is_answer: bool = False

    @property
    def quoted(self) -> tuple[str, ...]:
        """The lines of the quotation."""
        return self.lines[self.first - self.source.hit.start : self.last - self.source.hit.start + 1]

    @property
    def place(self) -> str:
        """The file and lines, in backticks only where Markdown would not show them unchanged."""
        place = f"{self.path}:{lines_named(self.first, self.last)}"
        return place if plain(place) == place else code_span(place)

    def within(self, rows: int, taken: Sequence[int]) -> Quotation:
        """Return the lines around the best one that fit into some rows, or all that are the answer.

        `taken` are the rows of each line from the first one. No blank line or bracket comes first.
        """
        first, last, used = self.first, self.last, sum(taken)
        while first < last and used > rows and not self.is_answer:
            is_below = last - self.best >= self.best - first
            used -= taken[(last if is_below else first) - self.first]
            first, last = (first, last - 1) if is_below else (first + 1, last)
        while self.first < first < self.best and not _WORD.search(self.lines[first - self.source.hit.start]):
            first += 1
        return replace(self, first=first, last=last)

    @property
    def goes_on(self) -> str:
        """Where the list that is cut at the end of the quotation ends; "" if none is cut."""
        offset = self.source.hit.start
        end = list_goes_on(self.lines, self.last - offset) + offset
        return f"the list goes on to line {end}" if end > self.last and not self.is_answer else ""


@dataclass(frozen=True, slots=True)
class NamedPlace:
    """A place of an answer: its name, and what it is, in Markdown; `sources` are its numbers, if it has any.

    `path` has the repository in front where several are asked; `lines` is one line, or a range.
    """

    name: str
    at: Hit | CodeFact
    path: str
    lines: str
    what: str
    sources: tuple[int, ...] = ()

    @property
    def numbers(self) -> str:
        """The references to its sources, after a space; "" for none."""
        return f" {''.join(f'[{n}]' for n in self.sources)}" if self.sources else ""

    @property
    def markdown(self) -> str:
        """The place as an item of a list."""
        place = f"`{self.path}{':' if self.lines else ''}{self.lines}`{self.numbers}" if self.path else ""
        return f"- {' — '.join(filter(None, [self.name, place, self.what]))}\n"

    @property
    def on_one_line(self) -> NamedPlace:
        """The place with no more words on what it is than one line has room for."""
        room = _COLUMNS + len(self.what) - len(self.markdown.rstrip())
        return replace(self, what=_first_words(self.what, room))


@dataclass(frozen=True, slots=True)
class Extract:
    """The parts of an answer without a model: a sentence, facts and how many `more` there are, a quotation
    (more of them only if the question names lines of several sources), a `note` on what may be missing, and
    other places.
    """

    sentence: str
    facts: tuple[NamedPlace, ...] = ()
    more: int = 0
    quotations: tuple[Quotation, ...] = ()
    note: str = ""
    others: tuple[NamedPlace, ...] = ()

    def pieces(self) -> Iterator[str]:
        """Yield the answer as Markdown."""
        yield f"{self.sentence}\n"
        if self.facts:
            rest = "; ".join(filter(None, [f"and {self.more:,} more" if self.more else "", self.note]))
            rest = rest if self.more else f"{rest[:1].upper()}{rest[1:]}"
            yield "\n" + "".join(one.markdown for one in self.facts) + (f"- {rest}\n" if rest else "")
        for number, one in enumerate(self.quotations):
            note = f" ({self.note})" if self.note and not self.facts and not number else ""
            yield f"\n[{one.source.n}] {one.place}{note}\n{fenced(one)}\n"
        if self.others:
            yield "\nOther places:\n" + "".join(one.markdown for one in self.others)

    def fitted(self, rows: int) -> Extract:
        """Return the answer in some rows: with a shorter quotation, fewer places, fewer words on each."""
        rows -= rows_of("".join(replace(self, quotations=(), others=()).pieces()))
        taken = [[rows_of(f"{line}\n") for line in one.quoted] for one in self.quotations]
        least = sum(_FRAME_ROWS + min(sum(each), _QUOTED_ROWS) for each in taken)
        others = [one.on_one_line for one in self.others]
        ends = [*accumulate((rows_of(one.markdown) for one in others), initial=2)]  # 2: their heading
        others = others[: sum(end <= rows - least for end in ends[1:])]
        rows -= ends[len(others)] if others else 0
        quotations = [
            one.within(rows - _FRAME_ROWS, each) for one, each in zip(self.quotations, taken, strict=True)
        ]
        rows -= sum(_FRAME_ROWS + sum(rows_of(f"{line}\n") for line in one.quoted) for one in quotations)
        for number, one in enumerate(others):
            more = rows_of(self.others[number].markdown) - rows_of(one.markdown)
            if more <= rows:
                others[number], rows = self.others[number], rows - more
        note = self.note or "".join(one.goes_on for one in quotations[:1])
        return replace(self, quotations=tuple(quotations), others=tuple(others), note=note)


def fenced(quotation: Quotation) -> str:
    """Return the quoted lines as Markdown: one fence, longer than each that the lines have.

    If a string or comment is cut at one of its ends, the fence has no language: a highlighter would take the
    closing mark for an opening one.
    """
    hit = quotation.source.hit
    text = "\n".join(quotation.quoted)
    parts = quotation.constructs.parts(quotation.first - hit.start, quotation.last - hit.start)
    language = re.sub(r"[^A-Za-z0-9+#._-]", "", hit.language) if all(is_code for *_, is_code in parts) else ""
    marks = fence(text)
    return f"{marks}{language}\n{text}\n{marks}"


def _first_words(text: str, width: int) -> str:
    """Return the first words of a text on one line; "" if it has room for very few."""
    if len(text) <= width:
        return text
    kept = text[: max(width - 2, 0)].rpartition(" ")[0]
    if kept.count("`") % 2:
        kept = kept[: kept.rindex("`")].rstrip()
    said = kept.rstrip(" ,;:—(“")
    least = _MIN_WORDS_BEFORE_CODE if text[len(kept) :].lstrip().startswith("`") else _MIN_SAID_WORDS
    if len(said) < _MIN_SAID_CHARS or len(said.split()) < least or "``" in said:
        return ""
    return said if said != kept else f"{said} …"


def rows_of(text: str) -> int:
    """Return how many lines a text has where long ones are wrapped."""
    lines = lines_of(text.expandtabs())
    return sum(len(textwrap.wrap(line, _COLUMNS)) if len(line) > _COLUMNS else 1 for line in lines)


def lines_named(first: int, last: int) -> str:
    """Return a line, or the first and last of several."""
    return f"{first}-{last}" if last > first else str(first)
