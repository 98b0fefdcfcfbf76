"""Show an answer without a model on a terminal: its sentence, the quotation with line numbers, the places.

Colours and links follow what the terminal can do: with NO_COLOR there are none of the first, on a terminal
that may print the codes of links none of the second. Paths, names and code are untrusted: their control
characters are replaced before anything is styled.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rag.cut_code import parts_of
from rag.quoting import CONTROLS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from rag.answer.one_screen import Extract, NamedPlace, Quotation
    from rag.types import CodeFact, Hit

_MIN_ROWS = 16
_MIN_QUOTED_ROWS = 8
_MAX_WIDTH = 100
_ROWS_OF_PLACE = 2
_MIN_PLACE = 24
_MAX_HIGHLIGHTED_CHARS = 20_000
_NO_LINKS = frozenset({"", "dumb", "linux", "cons25", "vt100", "vt220"})
_LEXERS = {"tsx": "tsx", "terraform": "hcl", "proto": "protobuf", "gradle": "groovy"}


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """An answer without a model; `roots` are the folders of the repositories by location."""

    extract: Extract
    roots: Mapping[str, Path]
    warning: str = ""


def print_screen(shown: ShownAnswer, *, hint: str) -> None:
    """Print an answer on stdout, which is a terminal; `hint` is the last line."""
    from rich.console import Console

    from rag.answer.one_screen import ROWS

    size = shutil.get_terminal_size()
    console = Console(width=min(max(size.columns, 20), _MAX_WIDTH), highlight=False)
    rows = min(max(size.lines - 3, _MIN_ROWS), ROWS)
    for line in screen(shown, console, rows=rows, hint=hint):
        console.print(line, soft_wrap=True)


def screen(shown: ShownAnswer, console: Console, *, rows: int, hint: str) -> list[Text]:
    """Return the lines of the screen, at most about `rows` of them, each as wide as the console or less."""
    page, extract = _Page(console, shown), shown.extract
    head = [*page.prose(shown.warning, "yellow"), *page.sentence()]
    note, foot = page.prose(extract.note, "dim"), page.prose(hint, "dim")
    room = rows - sum(len(part) + 1 for part in (head, note, foot) if part) + 1
    facts = page.facts(extract.facts, extract.more, room - 1) if extract.facts else []
    room -= len(facts) + 1 if facts else 0
    least = [len(page.quote(one, _MIN_QUOTED_ROWS)) + 1 for one in extract.quotations]
    others = page.places(extract.others, room - 1 - sum(least))
    room -= len(others) + 1 if others else 0
    quoted = [line for one in extract.quotations for line in page.quote(one, max(room - 1, 4))]
    parts = [facts, quoted, note, others, foot]
    return head + [line for part in parts if part for line in (page.text(), *part)]


class _Page:
    """Makes the parts of a screen."""

    def __init__(self, console: Console, shown: ShownAnswer) -> None:
        self._console, self._shown = console, shown
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
        """Return the first sentence; the place in it is a link."""
        from rich.text import Text

        first, sentence = self._shown.extract.quotations[:1], self._shown.extract.sentence
        for one in first:  # numbers are for the text: here the places are links
            sentence = sentence.replace(f" [{one.source.n}]", "", 1)
        line = Text(sentence.translate(CONTROLS), "bold", end="")
        for one in first:
            at = line.plain.find(f"`{one.path}:") + 1
            if at:
                self._link(line, one.source.hit, at, line.plain.find("`", at))
        return list(line.wrap(self._console, self._console.width))

    def places(self, places: Sequence[NamedPlace], rows: int) -> list[Text]:
        """Return the places that fit, each on one or two lines."""
        shown: list[Text] = []
        for place in places:
            lines = self._listed(place, _ROWS_OF_PLACE)
            if len(shown) + len(lines) > rows:
                break
            shown += lines
        return shown

    def facts(self, facts: Sequence[NamedPlace], more: int, rows: int) -> list[Text]:
        """Return the facts that fit, those of a file on as many lines as they need, and if there are more."""
        shown: list[Text] = []
        for number, place in enumerate(facts):
            lines = self._listed(place, _ROWS_OF_PLACE if place.name else rows)
            if len(shown) + len(lines) >= rows:
                rest = f"{more + len(facts) - number:,} more" if place.name else "more"
                return [*shown, self.text(f"  … and {rest}: `rag turns show` has all", "dim")]
            shown += lines
        return [*shown, self.text(f"  … and {more:,} more", "dim")] if more else shown

    def _listed(self, place: NamedPlace, limit: int) -> list[Text]:
        width = self._console.width - 4
        line = self.text(place.name)
        if place.path:
            line.append(" — " if place.name else "")
            room = max(2 * width // 3, _MIN_PLACE)
            line.append_text(self._place(place.at, place.path, place.lines, room))
        line.append_text(self.text(f" — {place.what}" if place.what else "", "dim"))
        line.no_wrap = False
        rows = list(line.wrap(self._console, width, overflow="fold"))
        if len(rows) > limit:
            rows = rows[:limit]
            rows[-1].append(" …")
            rows[-1].truncate(width, overflow="ellipsis")
        for number, row in enumerate(rows):
            row.pad_left(4 if number else 2)
        return rows

    def _place(self, one: Hit | CodeFact, path: str, lines: str, width: int) -> Text:
        """Return `path:lines`, linked to the file; a long path is shortened in the middle."""
        name = self.text(shortened(f"{path}:{lines}" if lines else path, width), "cyan")
        self._link(name, one, 0, len(name))
        return name

    def _link(self, line: Text, one: Hit | CodeFact, begin: int, end: int) -> None:
        """Let a part of a line lead to a file, if the terminal can do that and the file exists."""
        from rich.style import Style

        root = self._shown.roots.get(one.location)
        if self._links and root is not None and (root / one.path).is_file():
            address = (root / one.path).as_uri().removeprefix("file://")
            line.stylize(Style(link=f"file://{os.uname().nodename}{address}"), begin, end)

    def quote(self, quotation: Quotation, rows: int) -> list[Text]:
        """Return the quoted lines with their numbers, long ones wrapped: those around the best that fit, or
        all that are the answer. Their file comes first, unless the sentence has the place.
        """
        hit, width = quotation.source.hit, self._console.width
        head: list[Text] = []
        if f"`{quotation.path}:" not in self._shown.extract.sentence:
            head, rows = [self._place(hit, quotation.path, "", width)], rows - 1
        code = self._highlighted(quotation)
        digits = len(str(quotation.last))
        numbers = range(quotation.first, quotation.last + 1)
        indent = min(_indents(code[n - hit.start] for n in numbers), default=0)
        lines = {n: self._numbered(n, digits, code[n - hit.start][indent:]) for n in numbers}
        shown = quotation.within(rows, [len(lines[n]) for n in numbers])
        return [*head, *(row for n in range(shown.first, shown.last + 1) for row in lines[n])]

    def _numbered(self, number: int, digits: int, code: Text) -> list[Text]:
        """Return a line of code with its number, on as many rows as it needs."""
        code = code.copy()
        code.no_wrap = False
        width = self._console.width - digits - 3
        rows = list(code.wrap(self._console, width, overflow="fold")) or [self.text()]
        shown = []
        for at, row in enumerate(rows):
            line = self.text()
            line.append_text(self.text(f"{'' if at else number:>{digits}} │ ", "dim"))
            line.append_text(row)
            shown.append(line)
        return shown

    def _highlighted(self, quotation: Quotation) -> list[Text]:
        """Return the lines of the source, highlighted as a whole; no string or comment is cut open but by the
        source itself.
        """
        text, language = "\n".join(quotation.lines), quotation.source.hit.language
        plain = self.text(text)
        if len(text) > _MAX_HIGHLIGHTED_CHARS or self._console.no_color or not self._console.color_system:
            return list(plain.split("\n", allow_blank=True))
        from rich.syntax import Syntax

        theme = "ansi_light" if os.environ.get("COLORFGBG", "").endswith((";7", ";15")) else "ansi_dark"
        syntax = Syntax("", _LEXERS.get(language, language), theme=theme)
        lines: list[Text] = []
        for part, is_code in parts_of(plain.plain, language):
            coloured = syntax.highlight(part) if is_code else self.text(part)
            coloured.no_wrap, coloured.end = True, ""
            lines += list(coloured.split("\n", allow_blank=True))[: part.count("\n") + 1]
        return lines


def _indents(lines: Iterable[Text]) -> Iterator[int]:
    """Yield by how much each line that is not blank is indented."""
    return (len(line.plain) - len(line.plain.lstrip()) for line in lines if line.plain.strip())


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
