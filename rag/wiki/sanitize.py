"""Markdown that comes in pieces, made harmless for viewers that run what they are shown.

Such a viewer hands HTML on to the page it lives in, fetches images from anywhere, and draws diagrams whose
text may hold scripts. Here a `<` that would begin a tag, and a `!` that would make an image, are followed by
a space without width, and a block of a diagram becomes one of text. What stands within a fenced block is left
as it is, but only where every viewer agrees that it is one: fences at the very beginning of a line.
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


class Inert:
    """Makes one text harmless, piece by piece; how it is split changes nothing."""

    def __init__(self) -> None:
        self._line = ""
        """The line so far."""
        self._told = 0
        """How much of it was given back."""
        self._fence = ""

    def feed(self, text: str) -> str:
        """What can be said once `text` has come too."""
        said = []
        # A return alone ends a line too for a viewer: it must not end one that it does not end here.
        for part in _LINE.findall(text.replace("\r", " ")):
            self._line += part
            if part.endswith("\n"):
                said.append(self._whole())
            else:
                said.append(self._beginning())
        return "".join(said)

    def close(self) -> str:
        """The rest, when no more comes."""
        return self._whole() if self._line else ""

    def _beginning(self) -> str:
        """What of a line that still grows cannot change any more."""
        rest = self._line[self._told :]
        if self._fence:
            self._told = len(self._line)
            return rest
        opening = _MAY_OPEN.search(rest)
        said = rest.rstrip(_TAG_START_CHARS) if opening is None else rest[: opening.start()]
        self._told += len(said)
        return _harmless(said)

    def _whole(self) -> str:
        line, rest = self._line, self._line[self._told :]
        self._line, self._told = "", 0
        if self._fence:
            if _closes(line, self._fence):
                self._fence = ""
            return rest
        opened = _FENCE.match(line)
        if opened is not None and not (opened[1][0] == "`" and "`" in opened[2]):
            self._fence = opened[1]
        return _harmless(_DIAGRAM.sub(r"\1text", rest))


def inert(text: str) -> str:
    """A whole text made harmless."""
    made = Inert()
    return made.feed(text) + made.close()


def _harmless(text: str) -> str:
    return _TAG.sub(lambda match: match[0] + _ZERO_WIDTH, text)


def _closes(line: str, fence: str) -> bool:
    """Whether this whole line closes the fence, as CommonMark says."""
    indent = len(line) - len(line.lstrip(" "))
    marks = line.strip(" \t\r\n")
    return indent <= 3 and len(marks) >= len(fence) and marks == fence[0] * len(marks)
