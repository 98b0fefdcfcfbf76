"""Text of strangers (paths, code, questions) made safe to quote: in a prompt, in Markdown, on one line."""

from __future__ import annotations

import re

_BACKTICKS = re.compile(r"`+")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MARKER = re.compile(r"<(?=/?(?:START|END)_OF_[A-Z_]+>)", re.IGNORECASE)


_REORDERING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that let code look as if it stood in another order."""
CONTROLS = {
    code: "\N{REPLACEMENT CHARACTER}"
    for code in (*range(32), *range(127, 160), *_REORDERING)
    if chr(code) not in "\t\n"
}
"""What commands a terminal or reorders the text around it, for `str.translate`; tabs and newlines stay."""


def fence(text: str) -> str:
    """The shortest run of backticks, at least three, that fences `text` safely in Markdown."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0) if "`" in text else 0
    return "`" * max(3, longest + 1)


def one_line(text: str) -> str:
    """`text` on one line that can stand between backticks.

    Line ends, control characters, and characters that change the direction of writing become visible
    escapes, backticks become apostrophes.
    """
    return visible(text).replace("`", "'")


def visible(text: str) -> str:
    """`text` on one line: what does not print becomes a visible escape, such as `\\n`."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), well_formed(text))


def without_markers(text: str) -> str:
    """`text` in which a prompt's section markers, `<START_OF_…>` and `<END_OF_…>`, begin with `‹`."""
    return _MARKER.sub("‹", text)


def well_formed(text: str) -> str:
    """`text` that can be encoded: half characters (lone surrogates) become `?`."""
    return text.encode("utf-8", "replace").decode()
