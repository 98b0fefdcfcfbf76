"""The lines of a text, as git and editors count them.

Only a newline ends a line: other separators of Unicode do not. A newline at the end of a text does not begin
a line, so an empty text has none. Lines count from 1; the start and end of a span are inclusive, and the end
is at most the number of lines.
"""

from __future__ import annotations

import re

LONG_VALUE = re.compile(r"(?<![\w+/=%\\.,-])[\w+/=%\\.,-]{200,}+", re.ASCII)
"""A value within a line that nobody reads: a picture in Base64, a table of bytes or numbers."""


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
