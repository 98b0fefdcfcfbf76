"""Sanitize streamed Markdown for viewers that interpret HTML.

Such a viewer passes HTML on to its page, loads images from anywhere, and draws diagrams whose text may
contain scripts. Here a `<` that would begin a tag, and a `!` that would begin an image, are followed by a
zero-width space, and a diagram block becomes a text block. Fenced blocks are not changed, but only where
every viewer agrees that they are fenced: with fences at the very beginning of a line.
"""

from __future__ import annotations

import re

_TAG = re.compile(r"<(?=[A-Za-z/!?])|!(?=\[)")
_ZERO_WIDTH = "\u200b"
_FENCE = re.compile(r"(`{3,}|~{3,})(.*)", re.DOTALL)
_DIAGRAM = re.compile(r"((?:(?<!`)`{3,}+|(?<!~)~{3,}+)[ \t{.]*+)mermaid", re.IGNORECASE)
_MAY_OPEN = re.compile(r"`{3}|~{3}|`{1,2}\Z|~{1,2}\Z")
_TAG_START_CHARS = "<!"
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class StreamSanitizer:
    """Sanitizes one text, piece by piece; the result does not depend on how it is split."""

    def __init__(self) -> None:
        self._line = ""
        """The current line."""
        self._returned = 0
        """The number of its characters that were returned."""
        self._fence = ""

    def feed(self, text: str) -> str:
        """Process the next piece; return the text that is complete now."""
        done = []
        # Viewers end a line at a carriage return alone, but the code below does not: replace it.
        for part in _LINE.findall(text.replace("\r", " ")):
            self._line += part
            if part.endswith("\n"):
                done.append(self._whole())
            else:
                done.append(self._beginning())
        return "".join(done)

    def close(self) -> str:
        """Return the rest of the text."""
        return self._whole() if self._line else ""

    def _beginning(self) -> str:
        """Return the part of the growing line that cannot change any more."""
        rest = self._line[self._returned :]
        if self._fence:
            self._returned = len(self._line)
            return rest
        opening = _MAY_OPEN.search(rest)
        done = rest.rstrip(_TAG_START_CHARS) if opening is None else rest[: opening.start()]
        self._returned += len(done)
        return _escaped(done)

    def _whole(self) -> str:
        line, rest = self._line, self._line[self._returned :]
        self._line, self._returned = "", 0
        if self._fence:
            if _closes(line, self._fence):
                self._fence = ""
            return rest
        opened = _FENCE.match(line)
        if opened is not None and not (opened[1][0] == "`" and "`" in opened[2]):
            self._fence = opened[1]
        return _escaped(_DIAGRAM.sub(r"\1text", rest))


def sanitize(text: str) -> str:
    """Sanitize a whole text."""
    made = StreamSanitizer()
    return made.feed(text) + made.close()


def _escaped(text: str) -> str:
    return _TAG.sub(lambda match: match[0] + _ZERO_WIDTH, text)


def _closes(line: str, fence: str) -> bool:
    """Return whether this whole line closes the fence, by CommonMark's rules."""
    indent = len(line) - len(line.lstrip(" "))
    marks = line.strip(" \t\r\n")
    return indent <= 3 and len(marks) >= len(fence) and marks == fence[0] * len(marks)
