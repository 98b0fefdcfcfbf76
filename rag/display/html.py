"""HTML of answers, hits and tables for notebooks: fully escaped, without scripts and external resources.

Colours are classes of one small style, for light and dark: of JupyterLab's and VS Code's theme, else of the
system. Without the style (some viewers remove it) everything is still readable.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from html import escape
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rag.cut_code import parts_of

_LIGHT = "--k:#7c2d92;--s:#0a6b3d;--c:#626a76;--n:#1d4ed8;--f:#8a4b00;--link:#1d4ed8;--soft:#8881"
_DARK = "--k:#d3a4f5;--s:#7fd6a4;--c:#a3abb8;--n:#9db8ff;--f:#f0b45f;--link:#9db8ff;--soft:#fff2"
STYLE = (
    f"<style>.rag{{{_LIGHT};max-width:60em}}"
    "@media (prefers-color-scheme:dark){body:not([data-jp-theme-light]):not(.vscode-light) "
    f".rag{{{_DARK}}}}}"
    f'body[data-jp-theme-light="false"] .rag,body.vscode-dark .rag{{{_DARK}}}'
    ".rag.rag pre{background:var(--soft);padding:.4em .7em;margin:.2em 0 .6em;overflow-x:auto}"
    ".rag.rag code{background:var(--soft);color:inherit}.rag.rag pre code{background:none}"
    ".rag a{color:var(--link)}.rag summary{cursor:pointer}.rag .quiet{opacity:.75;font-size:90%}"
    ".rag .k{color:var(--k)}.rag .s{color:var(--s)}.rag .c{color:var(--c);font-style:italic}"
    ".rag .plain{padding-left:1em}.rag .n{color:var(--n)}.rag .f{color:var(--f)}"
    ".rag td,.rag th{text-align:left!important;vertical-align:top;padding:.15em 1em .15em 0}</style>"
)
_MAX_HIGHLIGHTED = 20_000
_MAX_S = 0.2
"""Longer code, and code that takes a highlighter more CPU time, is shown without colours."""
_INVALID = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def plain(words: str) -> str:
    """Return text escaped for HTML; characters that HTML forbids, or that reorder text, are replaced."""
    return escape(_INVALID.sub("\ufffd", words), quote=True)


def framed(inside: str) -> str:
    """Return a part of a notebook with the style of this module."""
    return f'{STYLE}<div class="rag">{inside}</div>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the cells are HTML already."""
    head = "".join(f"<th>{plain(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Return names and values as a table without heads; rows without a value are left out."""
    body = "".join(f"<tr><th>{plain(name)}</th><td>{plain(value)}</td></tr>" for name, value in rows if value)
    return f"<table><tbody>{body}</tbody></table>"


def code(text: str, language: str = "", first_line: int = 0) -> str:
    """Return code with its syntax in colours; with `first_line`, each line has its number."""
    shown = _highlighted(text, language)
    if first_line:
        numbered = enumerate(shown.split("\n"), first_line)
        shown = "\n".join(f'<span class="c">{n:>5}</span>  {line}' for n, line in numbered)
    return f"<pre><code>{shown}</code></pre>"


def _highlighted(text: str, language: str) -> str:
    lexer = _lexer(language) if len(text) <= _MAX_HIGHLIGHTED else None
    if lexer is None:
        return plain(text)
    until = time.thread_time() + _MAX_S
    parts = parts_of(text, language)
    shown = "\n".join(_lexed(part, lexer, until) if is_code else plain(part) for part, is_code in parts)
    return shown if time.thread_time() < until else plain(text)


def _lexed(text: str, lexer: Any, until: float) -> str:
    """Return coloured text, as far as there is time: many highlighters take it with the square of a text."""
    # Each line has its own spans, so that lines can be numbered.
    return "".join(
        "\n".join(
            f'<span class="{name}">{plain(line)}</span>' if name and line else plain(line) for line in lines
        )
        for name, lines in ((_class(token), part.split("\n")) for token, part in _tokens(text, lexer, until))
    )


def _tokens(text: str, lexer: Any, until: float) -> Iterator[tuple[Any, str]]:
    return takewhile(lambda _: time.thread_time() < until, lexer.get_tokens(text))


@lru_cache(maxsize=64)
def _lexer(language: str) -> Any:
    """Return Pygments' lexer of a language or of a file's extension; None for one that it does not know."""
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False) if language else None
    except ClassNotFound:
        return None


def _class(token: Any) -> str:
    """Return the class of a token: keyword, string, comment, number, name that is defined; "" for others."""
    from pygments.token import Comment, Keyword, Name, Number, String

    for kind, name in ((Comment, "c"), (String, "s"), (Keyword, "k"), (Number, "n")):
        if token in kind:
            return name
    return "f" if token in Name.Function or token in Name.Class or token in Name.Decorator else ""


def file_link(location: str, path: str) -> str:
    """Return the relative address of a file below the current folder, which notebooks open; else ""."""
    if "://" in location or not location:
        return ""
    try:
        here, file = Path.cwd(), Path(os.path.normpath(Path(location) / path))
        if not file.is_relative_to(here) or not file.is_file():
            return ""
    except (OSError, ValueError):
        return ""
    return quote(file.relative_to(here).as_posix(), safe="/")


def place(location: str, path: str, shown: str) -> str:
    """Return a place as code, as a link where a notebook can open the file."""
    target = file_link(location, path)
    named = f"<code>{plain(shown)}</code>"
    return f'<a href="{plain(target)}" target="_blank" rel="noopener">{named}</a>' if target else named


def bytes_of(count: float) -> str:
    """Return a size as text: `4.2 MB`."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
