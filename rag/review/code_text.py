"""Compare the text of definitions: what is code, what is comment or layout, and what is the signature."""

from __future__ import annotations

import io
import re
import textwrap
import tokenize
from collections.abc import Iterator

_LONG = 300
"""A string that is not closed is one word if it is longer; of a shorter one each word is read."""
_STRING = (
    "|".join(rf"{mark}(?:\\.|[^{mark}\\\n])*{mark}|{mark}(?:\\.|[^{mark}\\\n]){{{_LONG},}}" for mark in "\"'")
    + r"|`(?:\\.|[^`\\])*(?:`|\\?\Z)"
)
_HASH = r"#[^\n]*"
_SLASH = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
_DASH = r"--\[\[.*?(?:\]\]|\Z)|--[^\n]*"
_REST = r"|\w+|\n|[^\w\s]"
_HASHED = frozenset({"python", "ruby", "bash", "perl", "r", "elixir", "yaml", "toml", "make"})
_DASHED = frozenset({"lua", "sql", "haskell"})
_PLAIN_QUOTE = re.compile(r"(?<![\w'])'(?=\w+\b(?!'))")
"""A lifetime of Rust, which begins no string."""
_FREE_LINES = frozenset({"c", "cpp", "java", "csharp", "rust", "php", "css", "objc"})
"""Languages in which a line end means no more than a space."""
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_PYTHON_LAYOUT = {tokenize.NL, tokenize.COMMENT, tokenize.ENCODING, tokenize.ENDMARKER}
_MAX_HEADER_LINES = 60
_MAX_PYTHON_LINE = 10_000
"""The tokenizer of Python takes a time that grows with the square of a line's length."""


def significant(text: str, language: str) -> tuple[str, ...]:
    """Return the words and signs of a piece of code, without comments, white space and documentation.

    Equal results mean that only the layout differs. Where line ends may matter they are kept.
    """
    if language == "python" and all(len(line) <= _MAX_PYTHON_LINE for line in text.split("\n")):
        return tuple(_of_python(text))
    if language == "rust":
        text = _PLAIN_QUOTE.sub("´", text)
    comment = _HASH if language in _HASHED else _DASH if language in _DASHED else _SLASH
    if language == "php":
        comment = f"{_SLASH}|{_HASH}"
    found: list[str] = []
    for match in re.finditer(f"({comment})|{_STRING}{_REST}", text, re.DOTALL):
        word = match.group()
        if match[1] is not None:
            word = "\n" if "\n" in word else ""
        if word == "\n" and (language in _FREE_LINES or not found or found[-1] == "\n"):
            continue
        if word:
            found.append(word)
    while found and found[-1] == "\n":
        found.pop()
    return tuple(found)


def _of_python(text: str) -> Iterator[str]:
    """Yield the tokens of Python with indents; statements that are only a string are documentation."""
    lines = io.StringIO(textwrap.dedent(text)).readline
    statement: list[str] = []
    only_text = True
    try:
        for token in tokenize.generate_tokens(lines):
            if token.type in _PYTHON_LAYOUT:
                continue
            if token.type in (tokenize.INDENT, tokenize.DEDENT):
                yield "→" if token.type == tokenize.INDENT else "←"
            elif token.type == tokenize.NEWLINE:
                if statement and not only_text:
                    yield from (*statement, "\n")
                statement, only_text = [], True
            else:
                statement.append(token.string)
                only_text = only_text and token.type == tokenize.STRING
    except (tokenize.TokenError, SyntaxError):  # a part of a file may end within a bracket
        pass
    if statement and not only_text:
        yield from statement


def header(text: str, language: str) -> tuple[str, ...]:
    """Return the signature of a definition: its words up to the body, without comments and layout."""
    words = significant("\n".join(text.split("\n")[:_MAX_HEADER_LINES]), language)
    found: list[str] = []
    depth, defines = 0, False
    for word in words:
        defines = defines or word in ("def", "class", "struct", "impl", "trait", "interface", "enum")
        if depth == 0 and found and (
            (language == "python" and word == ":" and defines)
            or (language != "python" and (word in ("{", ";") or (word == ">" and found[-1] == "=")))
            or (word == "\n" and language not in _FREE_LINES and language != "python" and _is_whole(found))
        ):  # fmt: skip
            break
        depth += (word in _OPENING) - (word in _CLOSING)
        found.append(word)
    return tuple(word for word in found if word != "\n")


def _is_whole(words: list[str]) -> bool:
    """Return whether a header may end at a line end: not after a sign that continues it, or a decorator."""
    return words[-1] not in (",", "=", "=>", ":", "|", "&") and not words[0].startswith("@")
