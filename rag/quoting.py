"""Write text for people: make untrusted text (paths, code, questions) safe to quote in a prompt, in Markdown,
on one line; and counts with their nouns.
"""

from __future__ import annotations

import json
import re

_BACKTICKS = re.compile(r"`+")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MARKER = re.compile(r"<(?=/?(?:START|END)_OF_[A-Z_]+>)", re.IGNORECASE)


_REORDERING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that make code appear in another order."""
CONTROLS = {
    code: "\N{REPLACEMENT CHARACTER}"
    for code in (*range(32), *range(127, 160), *_REORDERING)
    if chr(code) not in "\t\n"
}
"""Characters that control a terminal or reorder the text around them, for `str.translate`; tabs and newlines
stay.
"""


def fence(text: str) -> str:
    """Return the shortest run of backticks, at least three, that fences `text` safely in Markdown."""
    if "```" not in text:
        return "```"
    return "`" * (max(len(run) for run in _BACKTICKS.findall(text)) + 1)


def code_span(text: str) -> str:
    """Return `text` on one line as inline code in Markdown, unaltered if it has backticks."""
    shown = visible(text)
    if "`" not in shown:
        return f"`{shown}`"
    runs = {len(run) for run in _BACKTICKS.findall(shown)}
    marks = "`" * next(length for length in range(1, len(runs) + 2) if length not in runs)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{marks}{pad}{shown}{pad}{marks}"


def one_line(text: str) -> str:
    """Return `text` on one line that can be put between backticks.

    Line ends, control characters, and characters that change the direction of writing become visible escapes,
    backticks become apostrophes.
    """
    return visible(text).replace("`", "'")


def visible(text: str) -> str:
    """Return `text` on one line; unprintable characters become visible escapes, such as `\\n`."""
    if text.isprintable():
        return text  # the usual case
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), well_formed(text))


def string_literal(text: str) -> str:
    """Return `text` in double quotes, as TOML and YAML read it; JSON has no such escapes."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in quoted)


def without_markers(text: str) -> str:
    """Return `text` with `‹` at the beginning of prompt markers, `<START_OF_…>` and `<END_OF_…>`."""
    return _MARKER.sub("‹", text)


def well_formed(text: str) -> str:
    """Return `text` that can be encoded: lone surrogates become `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def counted(number: int, noun: str) -> str:
    """Return a count with its noun: `1 turn`, `2 turns`, `2 indexes`."""
    plural = "es" if noun.endswith("x") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def without_secrets(url: str) -> str:
    """Return the URL of a turn store for display: without user and password, even if it is malformed."""
    if url.startswith("sqlite:"):
        return url
    without = re.sub(r"(?i)(passw(?:or)?d\s*=\s*)('[^']*'|[^&\s]*)", r"\1…", url)
    head, at, tail = without.rpartition("@")
    scheme = re.match(r"[\w+.-]*:/*", head)
    return f"{scheme[0] if scheme else ''}…@{tail}" if at else tail
