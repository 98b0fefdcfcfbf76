"""The tree-sitter grammars: one wheel each, loaded when the first file of the language is parsed."""

from __future__ import annotations

import importlib
import importlib.util
import re
import time
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from rag.errors import BackendMissing
from rag.isolated import OUT_OF_TIME, GaveUp

if TYPE_CHECKING:
    from tree_sitter import Language, Tree

_MODULES = {
    "python": "python",
    "javascript": "javascript",
    "typescript": "typescript.language_typescript",
    "tsx": "typescript.language_tsx",
    "java": "java",
    "go": "go",
    "rust": "rust",
    "c": "c",
    "cpp": "cpp",
    "ruby": "ruby",
    "php": "php.language_php",
    "csharp": "c_sharp",
    "kotlin": "kotlin",
    "scala": "scala",
    "swift": "swift",
    "lua": "lua",
    "bash": "bash",
    "elixir": "elixir",
    "sql": "sql",
    "html": "html",
    "vue": "html",
    "svelte": "html",
    "css": "css",
    "json": "json",
    "yaml": "yaml",
    "toml": "toml",
    "markdown": "markdown",
}

_SECONDS = 0.3
_SECONDS_PER_MEGABYTE = 1.5
"""A parser needs a tenth of this; on text that is far from its language some need minutes."""

_BLOCK_BYTES = 1 << 12
"""Small, because the text of every requested node is read again from the block it begins in."""
_NODE_BYTES = 256

_MAX_YAML_INDENT = 120
_DEEP_YAML = re.compile(rf"^[ \t?:-]{{{_MAX_YAML_INDENT},}}|(?:[?:-][ \t]+){{20}}", re.MULTILINE)
"""tree-sitter-yaml overflows its buffer and crashes the process at about 250 open levels."""


_MACRO = r"[A-Z][A-Z0-9_]{3,}(?:\([^()\n]*\))?"
_MACROS = {
    language: re.compile(
        rf"(?m)^[ \t]*{_MACRO}[ \t]*+{end}[ \t]*+$"
        rf"|(?<=\bclass ){_MACRO}(?= +\w)|(?<=\bstruct ){_MACRO}(?= +\w)"
    )
    for language, end in (("c", ""), ("cpp", ";?"))
}
"""Macros that the grammar does not know: `BEGIN_NAMESPACE`, `class API_EXPORT Name`. In C, a macro with a
semicolon is a call like any other; in a class of C++ it is none.
"""


def has_grammar(language: str) -> bool:
    """Return whether files of this language can be parsed."""
    return language in _MODULES


def package_of(language: str) -> str:
    """Return the name of the package that holds the grammar of a language."""
    return "tree-sitter-" + _MODULES[language].partition(".")[0].replace("_", "-")


def require_grammars(languages: Iterable[str]) -> None:
    """Check that the grammars of these languages are installed: an older installation lacks newer ones.

    Raises:
        BackendMissing: one is not.
    """
    needed = {language for language in languages if has_grammar(language)}
    missing = {package_of(language) for language in needed if not _is_installed(_MODULES[language])}
    if missing:
        raise BackendMissing(backend="the index", missing=" and ".join(sorted(missing)))


@cache
def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(f"tree_sitter_{module.partition('.')[0]}") is not None


@cache
def _load(language: str) -> Language:
    from tree_sitter import Language

    module, _, function = _MODULES[language].partition(".")
    grammar = importlib.import_module(f"tree_sitter_{module}")
    return Language(getattr(grammar, function or "language")())


def parse(text: str, language: str) -> Tree | None:
    """Parse a text as UTF-8; None when there is no grammar for it.

    Raises:
        GaveUp: the parser does not finish in time. Only the thread's own CPU time counts, so a busy machine
            changes nothing.
    """
    if language not in _MODULES or (language == "yaml" and _DEEP_YAML.search(text)):
        return None
    from tree_sitter import Parser

    if language in _MACROS:
        text = _MACROS[language].sub(lambda match: " " * len(match[0]), text)
    content = text.encode("utf-8", "replace")
    end_s = time.thread_time() + _SECONDS + _SECONDS_PER_MEGABYTE * len(content) / 1e6

    size = _BLOCK_BYTES

    def block(start: int, _point: object) -> bytes:
        return content[start : start + size]

    def is_late(_offset: int, _has_error: bool) -> bool:
        return time.thread_time() > end_s

    try:
        tree = Parser(_load(language)).parse(block, encoding="utf8", progress_callback=is_late)
    except ValueError as error:  # the parser was stopped
        raise GaveUp(OUT_OF_TIME) from error
    size = _NODE_BYTES  # for the texts of nodes
    return tree
