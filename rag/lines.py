"""The lines of a text, as git and editors count them.

A line ends with a newline and nothing else: other separators that Unicode knows do not end one. A newline at
the end of a text begins no line, so an empty text has none. Lines count from 1; where a span of lines has a
start and an end, both lines belong to it, and the end is at most the number of lines.
"""

from __future__ import annotations


def lines_of(text: str) -> list[str]:
    """Return the lines without the newlines that end them."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def whole_lines_of(text: str) -> list[str]:
    """Return the lines with the newlines that end them: joined they are the text."""
    *whole, rest = text.split("\n")  # in half the time of a regular expression
    lines = [line + "\n" for line in whole]
    return [*lines, rest] if rest else lines


def without_blank_end(text: str) -> tuple[str, str]:
    """Part a text from the blank lines at its end; a text of nothing else is left whole."""
    content = text.rstrip()
    end = text.find("\n", len(content)) + 1
    return (text[:end], text[end:]) if content and end else (text, "")
