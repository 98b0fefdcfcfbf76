"""Read the tokens of a text without its layout: what a formatter may change is left out.

White space, line breaks, redundant parentheses, the comma before a closing bracket and, where both mean the
same, the kind of quotes make no difference. Comments are listed apart. Each token has its depth in the syntax
tree, so that two texts with the same tokens at the same depths have the same structure: in Python the
indentation is part of it.

Native code reads the text here, so callers run this in an expendable process (`syntaxes`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rag.code.grammars import has_grammar, parse
from rag.code.outline import outline_values
from rag.isolated import OUT_OF_TIME, GaveUp
from rag.isolation import Lost, shared

if TYPE_CHECKING:
    from tree_sitter import Node

_EITHER_QUOTE = frozenset({"python", "javascript", "typescript", "tsx", "ruby", "php", "lua", "css"})
_NOT_TOKENS = frozenset({"markdown", "html", "vue", "svelte"})
"""White space is text in these languages."""
_WRAPPERS = frozenset({"parenthesized_expression"})
_BRACKETS_ONLY = frozenset({"import_from_statement", "with_clause"})
_CLOSING = frozenset({")", "]", "}", ">"})
_LITERAL = frozenset({"string", "string_start", "string_end", "encapsed_string", "string_value"})
_SECONDS = 1.0
_MAX_CHARS = 400_000
_DEADLINE_STEP = 4096


def syntaxes(texts: Sequence[tuple[str, str]]) -> list[list[Any] | None]:
    """Return the tokens and definitions of texts, each given with its language.

    Returns:
        For each text rows, last rows, depths and words of its tokens, then the rows and texts of its
        comments, then the rows, end rows, names and scopes of its definitions, all rows from 0. None if it
        cannot be parsed.
    """
    wanted = [
        n for n, (text, language) in enumerate(texts) if has_tokens(language) and 0 < len(text) <= _MAX_CHARS
    ]
    calls = [list(texts[n]) for n in wanted]
    values = shared().calls("rag.code.layout:syntax_values", calls) if calls else []
    found = {n: None if isinstance(value, Lost) else value for n, value in zip(wanted, values, strict=True)}
    return [found.get(n) for n in range(len(texts))]


def has_tokens(language: str) -> bool:
    """Return whether texts of this language can be compared without their layout."""
    return has_grammar(language) and language not in _NOT_TOKENS


def syntax_values(text: str, language: str) -> list[Any] | None:
    """Return the value of one text, see `syntaxes`. Raises GaveUp."""
    tree = parse(text, language)
    if tree is None:
        return None
    reader = _Reader(text.encode("utf-8", "replace"), language)
    reader.read(tree.root_node)
    definitions: list[Any] = []
    pending = outline_values(text, language, None)
    while pending:
        start, end, symbol, scope, unit, members = pending.pop()
        if symbol and unit in ("function", "class"):
            definitions.append([start, end, symbol, scope])
        pending += members
    return [*reader.columns(), sorted(definitions)]


class _Reader:
    """Collects the tokens of one tree."""

    def __init__(self, content: bytes, language: str) -> None:
        self._content, self._language = content, language
        self._rows: list[int] = []
        self._ends: list[int] = []
        self._depths: list[int] = []
        self._words: list[str] = []
        self._comments: list[tuple[int, str]] = []
        self._parents: list[str] = []
        self._at = 0
        self._row = 0

    def columns(self) -> list[list[Any]]:
        """Return rows, last rows, depths, words, and the rows and texts of comments."""
        rows = [row for row, _ in self._comments]
        return [self._rows, self._ends, self._depths, self._words, rows, [text for _, text in self._comments]]

    def read(self, root: Node) -> None:
        """Read a tree from left to right. Raises GaveUp."""
        until = time.thread_time() + _SECONDS
        pending: list[tuple[Node, int, str, str]] = [(root, 0, "", "")]
        count = 0
        while pending:
            node, depth, parent, above = pending.pop()
            count += 1
            if count % _DEADLINE_STEP == 0 and time.thread_time() > until:
                raise GaveUp(OUT_OF_TIME)
            kind = node.type
            if "comment" in kind:
                self._comment(node)
            elif node.child_count:
                inner = depth + (kind not in _WRAPPERS)
                pending += [(child, inner, kind, parent) for child in reversed(node.children)]
            else:
                self._leaf(node, depth, parent, above)
        self._gap(len(self._content), 0, "")

    def _comment(self, node: Node) -> None:
        self._gap(node.start_byte, 0, "")
        text = self._content[node.start_byte : node.end_byte].decode("utf-8", "replace")
        self._comments.append((node.start_point[0], " ".join(text.split())))
        self._pass(node)

    def _leaf(self, node: Node, depth: int, parent: str, above: str) -> None:
        self._gap(node.start_byte, depth, parent)
        word = self._content[node.start_byte : node.end_byte].decode("utf-8", "replace")
        is_dropped = word in ("(", ")") and (parent in _WRAPPERS or parent in _BRACKETS_ONLY)
        if word == ")" and parent in _BRACKETS_ONLY:
            self._drop_comma(parent)
        if word.strip() and not is_dropped and node.type != "line_continuation":
            word = self._plain(word, node.type, parent, above)
            self._add(word, node.start_point[0], node.end_point[0], depth, parent)
        self._pass(node)

    def _plain(self, word: str, kind: str, parent: str, above: str) -> str:
        """Return a word as it is compared: quotes of one kind, documentation without its indentation."""
        is_mark = not word.strip("'\"") or kind in ("string_start", "string_end")
        if is_mark and self._language in _EITHER_QUOTE and (kind in _LITERAL or parent in _LITERAL):
            return word.replace("'", '"')
        is_statement = parent == "string" and above == "expression_statement"
        if "\n" in word and (kind == "jsx_text" or (is_statement and self._language == "python")):
            return "\n".join(line.strip() for line in word.strip().split("\n"))
        return word

    def _add(self, word: str, row: int, end: int, depth: int, parent: str) -> None:
        if word in _CLOSING:
            self._drop_comma(parent)
        self._rows.append(row)
        self._ends.append(end)
        self._depths.append(depth)
        self._words.append(word)

    def _drop_comma(self, parent: str) -> None:
        """Remove a comma before a closing bracket, unless it makes a difference there."""
        if parent == "subscript" or len(self._words) < 2 or self._words[-1] != ",":
            return
        if self._words[-2] not in ("(", "[", "{", ","):
            for column in (self._rows, self._ends, self._depths, self._words):
                column.pop()

    def _gap(self, start: int, depth: int, parent: str) -> None:
        """Add text that no leaf has, if there is any before an offset: the inside of some literals."""
        if start <= self._at:
            return
        text = self._content[self._at : start]
        if text.strip() and text.strip() != b"\\":
            row = self._row + text[: len(text) - len(text.lstrip())].count(b"\n")
            self._add(
                text.strip().decode("utf-8", "replace"), row, row + text.strip().count(b"\n"), depth, parent
            )

    def _pass(self, node: Node) -> None:
        if node.end_byte >= self._at:
            self._at, self._row = node.end_byte, node.end_point[0]
