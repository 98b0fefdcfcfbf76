"""Show an answer on one screen of a terminal: a sentence, the best quote, and the next places.

Colours and links follow what the terminal can do: with NO_COLOR there are none of the first, on a terminal
that may print the codes of links none of the second. Paths, names and code are untrusted: their control
characters are replaced before anything is styled.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rag.answer.certainty import certainty
from rag.cut_code import parts_of
from rag.lines import lines_of
from rag.quoting import CONTROLS, visible
from rag.types import Answer, CodeFact, Hit, NumberedSource
from rag.types.question_kinds import LINES

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_MAX_ROWS = 40
_MIN_ROWS = 16
_MAX_WIDTH = 100
_MAX_QUOTE_ROWS = 18
_NEXT_PLACES = 5
_MAX_FACTS = 14
_FEW_FACTS = 7
"""Next to more facts than that no lines are quoted."""
_MIN_TEXT_CELLS = 16
_MAX_HIGHLIGHTED_CHARS = 20_000
_NO_LINKS = frozenset({"", "dumb", "linux", "cons25", "vt100", "vt220"})
_LEXERS = {"csharp": "csharp", "tsx": "tsx", "terraform": "hcl", "proto": "protobuf", "gradle": "groovy"}

_COMMENT = re.compile(r"""\s*(?:[rRuU]?(?:"{3}|'{3})|//|/\*|\*|--|#(?!include|define|if))""")

QuotedLines = tuple[int, str, int, int]
"""The number of a source, its path, and the first and last line that are quoted."""
_Row = tuple[Hit | CodeFact, int, str]
"""A place, its line, and the text of that line."""


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """An answer without a model, with what its text was made of.

    `sources` are all that were shown, `quoted` the lines that the text quotes or names, in its order; `roots`
    the folders of the repositories by location.
    """

    answer: Answer
    sources: Sequence[NumberedSource]
    quoted: Sequence[QuotedLines]
    roots: Mapping[str, Path]

    @property
    def ordered(self) -> list[tuple[Hit, list[tuple[int, int]]]]:
        """The sources in the order of the answer, each with its quoted lines, counted from 1."""
        by_number = {source.n: source.hit for source in self.sources}
        spans: dict[int, list[tuple[int, int]]] = {}
        facts = self.answer.code_facts
        for n, _, first, last in self.quoted[len(facts.items) if facts else 0 :]:  # the facts come first
            if n in by_number and by_number[n].start <= first <= last <= by_number[n].end:
                spans.setdefault(n, []).append((first, last))
        return [(by_number[n], found) for n, found in spans.items()]


def print_screen(shown: ShownAnswer, *, hint: str) -> None:
    """Print an answer on stdout, which is a terminal; `hint` is the last line."""
    from rich.console import Console

    size = shutil.get_terminal_size()
    width = min(max(size.columns, 20), _MAX_WIDTH)
    console = Console(width=width, highlight=False)
    rows = min(max(size.lines - 3, _MIN_ROWS), _MAX_ROWS - 2)
    for line in screen(shown, console, rows=rows, hint=hint):
        console.print(line, soft_wrap=True)


def screen(shown: ShownAnswer, console: Console, *, rows: int, hint: str) -> list[Text]:
    """Return the lines of the screen, at most about `rows` of them, each as wide as the console or less."""
    page = _Page(console, shown)
    head = [*page.prose(shown.answer.warning, "yellow"), *page.sentence(), *page.facts()]
    places = page.places()
    foot = page.prose(hint, "dim")
    room = rows - len(head) - len(places) - len(foot) - 3
    return [*head, *page.quote(max(room, 4)), *places, page.text(), *foot]


class _Page:
    """Makes the parts of a screen."""

    def __init__(self, console: Console, shown: ShownAnswer) -> None:
        self._console, self._shown = console, shown
        self._ordered = shown.ordered
        self._several = len({*shown.roots, *(hit.location for hit, _ in self._ordered)}) > 1
        self._links = os.environ.get("TERM", "") not in _NO_LINKS

    def text(self, text: str = "", style: str = "") -> Text:
        """Return a line; control characters are replaced."""
        from rich.text import Text

        return Text(text.translate(CONTROLS).expandtabs(4), style, no_wrap=True, end="")

    def prose(self, text: str, style: str) -> list[Text]:
        """Return a sentence as lines; none for ""."""
        from rich.text import Text

        line = Text(text.translate(CONTROLS), style, end="")
        return list(line.wrap(self._console, self._console.width)) if text else []

    def sentence(self) -> list[Text]:
        """Return what was found, and how sure that is."""
        return self.prose(certainty(self._shown.answer, [hit for hit, _ in self._ordered]), "bold")

    def facts(self) -> list[Text]:
        """Return the facts for a question of a known kind, one on a line, and what may be missing."""
        found = self._shown.answer.code_facts
        if found is None:
            return []
        shown = found.items[: _MAX_FACTS if found.count > _MAX_FACTS + 1 else _MAX_FACTS + 1]
        lines = [self.text()]
        if found.is_about_one_place:
            lines += [self.text(f"  {visible(fact.reason)}", "dim") for fact in shown]
            for line in lines:
                line.truncate(self._console.width, overflow="ellipsis")
        else:
            lines += self._listed(
                [(fact, fact.start, _text_of(fact, found.is_only_nearest)) for fact in shown]
            )
        if found.count > len(shown):
            lines.append(self.text(f"  … and {found.count - len(shown):,} more", "dim"))
        return [*lines, *self.prose(found.note and f"{visible(found.note)}.", "dim")]

    def quote(self, rows: int) -> list[Text]:
        """Return the best source: its place, and its quoted lines with their numbers."""
        facts = self._shown.answer.code_facts
        if not self._ordered or (facts and len(facts.items) > _FEW_FACTS):
            return []
        hit, spans = self._ordered[0]
        head = self._place(hit, _range(hit), self._console.width)
        most = rows if facts and facts.kind == LINES else _MAX_QUOTE_ROWS
        return [self.text(), head, *self._code(hit, spans, min(rows, most))]

    def places(self) -> list[Text]:
        """Return the next places, one on a line: its place, and the line that says most."""
        rows: list[_Row] = []
        for hit, spans in self._ordered[1:]:
            line = _best_line(hit, spans)
            if not self._is_fact(hit, line):
                rows.append((hit, line, lines_of(hit.text)[line - hit.start]))
        return (
            [self.text(), self.text("More places", "bold"), *self._listed(rows[:_NEXT_PLACES])]
            if rows
            else []
        )

    def _is_fact(self, hit: Hit, line: int) -> bool:
        facts = self._shown.answer.code_facts
        return facts is not None and any(
            (fact.location, fact.path) == (hit.location, hit.path) and fact.start <= line <= fact.end
            for fact in facts.items
        )

    def _listed(self, rows: Sequence[_Row]) -> list[Text]:
        """Return places with their text, in two columns where the console is wide enough."""
        width = self._console.width
        room = min(max(width // 2, 24), width - 2)
        places = [self._place(one, str(line), room) for one, line, _ in rows]
        column = max((place.cell_len for place in places), default=0)
        lines = []
        for place, (_, _, text) in zip(places, rows, strict=True):
            line = self.text("  ")
            line.append_text(place)
            if width - column - 4 >= _MIN_TEXT_CELLS:
                line.pad_right(column + 4 - line.cell_len)
                code = self.text(visible(text.strip()), "dim")
                code.truncate(width - column - 4, overflow="ellipsis")
                line.append_text(code)
            lines.append(line)
        return lines

    def _place(self, one: Hit | CodeFact, lines: str, width: int) -> Text:
        """Return `path:lines`, linked to the file; a long path is shortened in the middle."""
        from rich.style import Style

        path = f"{one.repo}:{one.path}" if self._several else one.path
        name = self.text(shortened(f"{visible(path)}:{lines}", width), "cyan")
        root = self._shown.roots.get(one.location)
        if self._links and root is not None and (root / one.path).is_file():
            address = (root / one.path).as_uri().removeprefix("file://")
            name.stylize(Style(link=f"file://{os.uname().nodename}{address}"))
        return name

    def _code(self, hit: Hit, spans: Sequence[tuple[int, int]], rows: int) -> list[Text]:
        """Return the quoted lines as they are highlighted in the whole source; `⋮` is what is left out."""
        lines = self._highlighted(hit)
        digits = len(str(hit.end))
        indent = min((_indent(lines[n - hit.start]) for n in _numbers(spans, hit)), default=0)
        gap = self.text(f"{'⋮':>{digits}}", "dim")
        shown: list[Text] = []
        at = hit.start
        for first, last in spans:
            if any(lines[n - hit.start].plain.strip() for n in range(at, first)):
                shown.append(gap)
            for n in _numbers([(first, last)], hit):
                line = self.text()
                line.append_text(self.text(f"{n:>{digits}} │ ", "dim"))
                line.append_text(lines[n - hit.start][indent:])
                line.truncate(self._console.width, overflow="ellipsis")
                shown.append(line)
            at = last + 1
        if len(shown) > rows or any(line.plain.strip() for line in lines[at - hit.start :]):
            shown = [*shown[: rows - 1], gap]
        return shown

    def _highlighted(self, hit: Hit) -> list[Text]:
        """Return the lines of a source, highlighted as a whole; no string or comment is cut open but by the
        source itself.
        """
        text = "\n".join(line.rstrip("\r") for line in lines_of(hit.text))
        plain = self.text(text)
        if len(text) > _MAX_HIGHLIGHTED_CHARS or self._console.no_color or not self._console.color_system:
            return list(plain.split("\n", allow_blank=True))
        from rich.syntax import Syntax

        theme = "ansi_light" if os.environ.get("COLORFGBG", "").endswith((";7", ";15")) else "ansi_dark"
        syntax = Syntax("", _LEXERS.get(hit.language, hit.language), theme=theme)
        lines: list[Text] = []
        for part, is_code in parts_of(plain.plain, hit.language):
            coloured = syntax.highlight(part) if is_code else self.text(part)
            coloured.no_wrap, coloured.end = True, ""
            lines += list(coloured.split("\n", allow_blank=True))[: part.count("\n") + 1]
        return lines


def _text_of(fact: CodeFact, is_doubted: bool) -> str:
    """Return the first line of a fact that is not blank; one that is less certain than others says so."""
    text = next((line.strip() for line in lines_of(fact.text) if line.strip()), "")
    return text if fact.certain or is_doubted else f"{text}  (possibly)"


def _range(hit: Hit) -> str:
    return f"{hit.start}-{hit.end}" if hit.end > hit.start else str(hit.start)


def _numbers(spans: Sequence[tuple[int, int]], hit: Hit) -> list[int]:
    """Return the numbers of the lines of spans, as far as the source has them."""
    end = hit.start + len(lines_of(hit.text))
    return [n for first, last in spans for n in range(max(first, hit.start), min(last + 1, end))]


def _indent(line: Text) -> float:
    """Return by how much a line is indented; infinity for a blank one."""
    return len(line.plain) - len(line.plain.lstrip()) if line.plain.strip() else math.inf


def _best_line(hit: Hit, spans: Sequence[tuple[int, int]]) -> int:
    """Return the number of the line that names what the source defines, else of the first quoted one."""
    if hit.symbol and hit.unit != "block":
        named = re.compile(rf"(?<!\w){re.escape(hit.symbol)}(?!\w)")
        for n, line in enumerate(lines_of(hit.text), hit.start):
            if named.search(line) and not _COMMENT.match(line):
                return n
    return spans[0][0]


def shortened(place: str, width: int) -> str:
    """Return `path:line` in at most `width` characters: without folders in the middle, then without the
    beginning of the file's name.
    """
    if len(place) <= width:
        return place
    folders, _, name = place.rpartition("/")
    room = width - len(name) - 2  # for …/
    if room < 0 or not folders:
        return "…" + place[-(width - 1) :]
    first, *others = folders.split("/")
    head = f"{first}/" if others and len(first) + 1 <= room else ""
    tail = ""
    for folder in reversed(others):
        if len(head) + len(tail) + len(folder) + 1 > room:
            break
        tail = f"{folder}/{tail}"
    return f"{head}…/{tail}{name}"
