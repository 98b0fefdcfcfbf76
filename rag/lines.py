"""The lines of a text, as git and editors count them.

Only a newline ends a line: other separators of Unicode do not. A newline at the end of a text does not begin
a line, so an empty text has none. Lines count from 1; the start and end of a span are inclusive, and the end
is at most the number of lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rag.errors import ConfigError

LONG_VALUE = re.compile(r"(?<![\w+/=%\\.,-])[\w+/=%\\.,-]{200,}+", re.ASCII)
"""A value within a line that nobody reads: a picture in Base64, a table of bytes or numbers."""

_PLACE = re.compile(r"(?P<path>.+?)(?::|#L)(?P<start>\d{1,9})(?:-L?(?P<end>\d{1,9}))?")


def place_parts(text: str) -> re.Match[str] | None:
    """Return `path`, `start` and `end` of `PATH:START-END` or `PATH#LSTART-LEND`; None for another text."""
    return _PLACE.fullmatch(text)


def range_in(place: str, first: str, last: str | None) -> tuple[int, int]:
    """Return the first and last line of a range in a place; of a single line, the same number twice.

    Raises:
        ConfigError: the range is reversed, or begins before line 1; the message names it.
    """
    start, end = int(first), int(last or first)
    if start < 1 or end < start:
        shown = f"`{place[:200]}`: {start}-{end}" if last else f"`{place[:200]}`: {start}"
        raise ConfigError(
            f"{shown} is not a range of lines; lines are numbered from 1, the first one comes first"
        )
    return start, end


def ranges(numbers: Iterable[int]) -> str:
    """Return ascending line numbers as ranges, such as `3,12-40`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def lines_of(text: str) -> list[str]:
    """Return the lines without the newlines that end them."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def whole_lines_of(text: str) -> list[str]:
    """Return the lines with the newlines that end them; joined they are the text."""
    *whole, rest = text.split("\n")  # twice as fast as a regular expression
    lines = [line + "\n" for line in whole]
    return [*lines, rest] if rest else lines


def without_blank_end(text: str) -> tuple[str, str]:
    """Split a text from the blank lines at its end; a text of blank lines only is not split."""
    content = text.rstrip()
    end = text.find("\n", len(content)) + 1
    return (text[:end], text[end:]) if content and end else (text, "")
