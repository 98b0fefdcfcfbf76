"""Render answers as HTML for notebooks: fully escaped, and without external resources.

Of Markdown only the elements of answers are rendered: fenced blocks, inline code, bold and emphasis.
Everything else, including lists, is shown as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

_BLOCK = re.compile(
    r"^(?P<marks>`{3,})[^`\n]*\n(?P<code>.*?)(?:^(?P=marks)`*[ \t]*$\n?|\Z)", re.DOTALL | re.MULTILINE
)
_CODE = re.compile(r"(?<!`)(?P<marks>`+)(?!`)(?P<code>[^\n]+?)(?<!`)(?P=marks)(?!`)")
_BOLD = re.compile(r"\*\*(?=\S)([^*\n]+)\*\*")
_EMPHASIS = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]+)\*(?![\w*])")

_FRAME = "border-left:3px solid #8888;padding:.1em 0 .1em 1em;margin:.8em 0"
_PRE = "background:#8881;padding:.5em .8em;margin:.3em 0;overflow-x:auto;white-space:pre"
_CELL = "text-align:left;padding:.1em 1em .1em 0;border:none;background:none"


def framed(title: str, text: str, rows: Iterable[Sequence[str]] = (), note: str = "") -> str:
    """Return a question, its answer (Markdown), a row of cells for each source (the second is a place), and a
    note.
    """
    head = f"<div style='font-weight:600;margin-bottom:.4em'>{escape(title)}</div>" if title else ""
    foot = f"<div style='opacity:.65;font-size:90%'>{escape(note)}</div>" if note else ""
    return f"<div style='{_FRAME}'>{head}{_prose(text)}{_table(rows)}{foot}</div>"


def _prose(text: str) -> str:
    parts, position = [], 0
    for block in _BLOCK.finditer(text):
        parts.append(_paragraphs(text[position : block.start()]))
        parts.append(
            f"<pre style='{_PRE}'><code style='background:none'>{escape(block['code'])}</code></pre>"
        )
        position = block.end()
    return "".join([*parts, _paragraphs(text[position:])])


def _paragraphs(text: str) -> str:
    parts, position, stripped = [], 0, text.strip("\n")
    for span in _CODE.finditer(stripped):
        parts.append(_emphasised(escape(stripped[position : span.start()])))
        parts.append(f"<code>{escape(_unpadded(span['code']))}</code>")
        position = span.end()
    drawn = "".join([*parts, _emphasised(escape(stripped[position:]))])
    return f"<div style='white-space:pre-wrap'>{drawn}</div>" if drawn.strip() else ""


def _unpadded(code: str) -> str:
    """Return inline code without the spaces that separate it from its backticks."""
    padded = code[0] == code[-1] == " " and "`" in code
    return code[1:-1] if padded else code


def _emphasised(escaped: str) -> str:
    return _EMPHASIS.sub(r"<em>\1</em>", _BOLD.sub(r"<b>\1</b>", escaped))


def _table(rows: Iterable[Sequence[str]]) -> str:
    drawn = "".join(
        "<tr style='background:none'>"
        + "".join(
            f"<td style='{_CELL}'>{f'<code>{escape(cell)}</code>' if place == 1 else escape(cell)}</td>"
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table style='margin:.5em 0;border:none'>{drawn}</table>" if drawn else ""
