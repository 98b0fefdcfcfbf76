"""Write Markdown answers to a terminal: wrap text between words; keep lines of code and tables.

A word is held back until its end is known; signs of scripts that are written without spaces are not.
Elsewhere than on a terminal the text goes out as it is.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator

from rag.cli.terminal import out

_UNSPACED = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_PARTS = re.compile(rf"\n|[^\S\n]+|[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_LIST_MARK = re.compile(r"[-*+]|\d+[.)]")
_FENCE = re.compile(r"`{3,}|~{3,}")
_CODE_INDENT = 4


class TerminalMarkdown:
    """Writes an answer in pieces to stdout. `end` writes the rest and ends the line."""

    def __init__(self) -> None:
        self._flow = Flow(shutil.get_terminal_size().columns) if sys.stdout.isatty() else None
        self._last = "\n"

    def write(self, piece: str) -> None:
        """Write a piece, which may begin and end anywhere."""
        self._last = piece[-1:] or self._last
        out(self._flow.feed(piece) if self._flow else piece, end="")

    def end(self) -> None:
        """Write the rest, and a line end if it has none."""
        out(self._flow.rest() if self._flow else "", end="" if self._last == "\n" else "\n")


class Flow:
    """Wraps Markdown between words.

    Args:
        width: the cells of a line.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._word = self._gap = ""
        self._begin_line()
        self._fence = ""

    def feed(self, piece: str) -> str:
        """Return the part of the text that can be written now. All parts and the rest are the whole text."""
        return "".join(self._fed(piece))

    def rest(self) -> str:
        """Return the rest of the text."""
        held = self._placed() + self._gap
        self._gap = ""
        return held

    def _fed(self, piece: str) -> Iterator[str]:
        for part in _PARTS.findall(piece):
            if part == "\n":
                yield self.rest() + part
                self._begin_line()
            elif part.isspace():
                yield self._placed()
                self._gap += part
            elif re.match(f"[{_UNSPACED}]", part):
                yield self._placed()
                self._word = part
                yield self._placed()
            else:
                self._word += part

    def _begin_line(self) -> None:
        self._column = self._hang = 0
        self._continued = self._as_it_is = False

    def _placed(self) -> str:
        """Return the pending word, on this line or on a new one."""
        from rich.cells import cell_len

        word, self._word = self._word, ""
        if not word:
            return ""
        if not self._continued:
            self._judge_line(word)
        size, room = cell_len(word), self._width - self._hang
        breaks = self._column > self._hang and self._column + len(self._gap) + size > self._width
        if breaks and not self._as_it_is and size <= room:
            self._column, before = self._hang + size, "\n" + " " * self._hang
        else:
            self._column, before = self._column + len(self._gap) + size, self._gap
        self._gap = ""
        return before + word

    def _judge_line(self, word: str) -> None:
        """Return the kind of the line that begins with this word, and the indentation of its other lines."""
        self._continued = True
        indent = len(self._gap)
        mark = _FENCE.match(word)
        self._as_it_is = bool(self._fence or mark) or word.startswith("|") or indent >= _CODE_INDENT
        if mark and not self._fence:
            self._fence = mark[0]
        elif mark and word == mark[0] and word.startswith(self._fence):
            self._fence = ""
        self._hang = indent + (len(word) + 1 if _LIST_MARK.fullmatch(word) else 0)
