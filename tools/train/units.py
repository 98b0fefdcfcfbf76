"""Source text becomes units: what is defined where, with its documentation taken out of its body.

Python is parsed; the other languages are read line by line, which is fast and good enough to learn from:
a declaration is known by its first line, its end by the indentation of the closing line.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

MAX_BODY = 1600
"""Characters of a body that are kept, about the size of the chunks that are searched later."""


@dataclass(slots=True)
class Unit:
    """Something defined in a file, or a stretch of code under a comment (`name` is "" then)."""

    path: str
    language: str
    name: str
    scope: str
    body: str
    doc: str
    sort: str  # function, class, comment, file

    @property
    def head(self) -> str:
        """Path and qualified name, as chunks are headed when they are searched."""
        return f"{self.path} {self.scope}.{self.name}" if self.scope else f"{self.path} {self.name}"


_C_LIKE = r"^\s*(?!return\b|else\b|if\b|for\b|while\b|switch\b|case\b|throw\b|new\b|delete\b|goto\b|using\b|typedef\b)"
_FUNCTION = {
    "javascript": re.compile(
        r"^\s*(?:export\s+)?(?:default\s+)?(?:(?:public|private|protected|static|async|readonly|override|abstract|declare)\s+)*"
        r"(?:function\s*\*?\s*(?P<a>[\w$]+)|(?:const|let|var)\s+(?P<b>[\w$]+)\s*(?::[^=]+)?=\s*(?:async\s*)?(?:function|\([^)]*\)\s*(?::[^=]+)?=>|\w+\s*=>)"
        r"|(?:[\w$.]+\.)?(?P<c>[\w$]+)\s*=\s*(?:async\s+)?function|(?:get\s+|set\s+|\*\s*)?(?P<d>#?[\w$]+)\s*(?:<[^>]*>)?\([^()]*(?:\([^()]*\)[^()]*)*\)\s*(?::[^{;]+)?\{\s*$"
        r"|(?P<e>[\w$]+)\s*:\s*(?:async\s+)?function)"
    ),
    "go": re.compile(r"^func\s+(?:\(\s*\w*\s*\*?(?P<scope>\w+)[^)]*\)\s*)?(?P<a>\w+)"),
    "rust": re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:default\s+|const\s+|async\s+|unsafe\s+|extern\s+\"C\"\s+)*(?:fn\s+(?P<a>\w+)|macro_rules!\s*(?P<b>\w+))"),
    "java": re.compile(_C_LIKE + r"(?:(?:public|private|protected|static|final|abstract|synchronized|native|default)\s+|@\w+\s+)*(?:<[^>]+>\s*)?(?:[\w.]+(?:<[^;{}()]*>)?(?:\[\])*\s+)?(?P<a>\w+)\s*\([^;]*$"),
    "c": re.compile(_C_LIKE + r"(?:[\w:<>,~]+[\s*&]+)+(?:\w+::)*(?P<a>~?\w+)\s*\((?!.*\)\s*;\s*$)"),
    "php": re.compile(r"^\s*(?:(?:public|private|protected|static|final|abstract)\s+)*function\s+&?(?P<a>\w+)"),
    "ruby": re.compile(r"^\s*(?:private\s+)?def\s+(?:self\.)?(?P<a>[\w?!=]+)"),
}  # fmt: skip
_FUNCTION["typescript"] = _FUNCTION["javascript"]
_FUNCTION["cpp"] = _FUNCTION["c"]
_CLASS = {
    "javascript": re.compile(r"^\s*(?:export\s+)?(?:default\s+)?(?:abstract\s+|declare\s+)*(?:class|interface|enum|type|namespace)\s+(?P<a>[\w$]+)"),
    "go": re.compile(r"^type\s+(?P<a>\w+)"),
    "rust": re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:unsafe\s+)?(?:struct|enum|trait|union|mod|type)\s+(?P<a>\w+)"),
    "java": re.compile(r"^\s*(?:(?:public|private|protected|static|final|abstract|sealed)\s+)*(?:class|interface|enum|record|@interface)\s+(?P<a>\w+)"),
    "c": re.compile(r"^\s*(?:typedef\s+)?(?:template\s*<.*>\s*)?(?:struct|class|enum(?:\s+class)?|union|namespace)\s+(?:\w+_EXPORT\s+)?(?P<a>\w+)\s*(?:final\s*)?[:{]?(?!.*;\s*$)"),
    "php": re.compile(r"^\s*(?:(?:abstract|final|readonly)\s+)*(?:class|interface|trait|enum)\s+(?P<a>\w+)"),
    "ruby": re.compile(r"^\s*(?:class|module)\s+(?P<a>[\w:]+)"),
}  # fmt: skip
_CLASS["typescript"] = _CLASS["javascript"]
_CLASS["cpp"] = _CLASS["c"]
_IMPL = re.compile(r"^impl(?:<.*?>)?\s+(?:.*\bfor\s+)?(?P<a>\w+)")
_PROTOTYPE = re.compile(r"^[\w\s*]*\b(?P<a>\w+)\s*\(.*\)[\w\s()]*;\s*$")
_DECORATION = re.compile(r"^\s*(@\w+|#\[|\[\w+\]|template\s*<|#!\[)")
_KEYWORDS = frozenset(
    "if for while switch catch function return else elsif do try with constructor sizeof".split()
)
_LEGAL = re.compile(
    r"copyright|licen[cs]e|spdx|eslint|prettier|noqa|istanbul|@ts-|c8 ignore|todo|fixme|xxx|@generated", re.I
)
_MARKS = re.compile(r"^\s*(?:/\*[*!]?|\*/|\*(?!/)|///?!?<?|#+|//!)\s?|\*/\s*$")
_MAX_LINE = 200
_WORDS = re.compile(r"[A-Za-z]{2,}")


def units(path: str, language: str, text: str) -> list[Unit]:
    """All units of a file, in the order they stand; a file with a header comment is a unit of its names."""
    if language == "python":
        return list(_python_units(path, text))
    return list(_line_units(path, language, text.split("\n")))


def is_prose(text: str) -> bool:
    """Whether a comment says something: several words, no licence, no code switched off, no directive."""
    words = _WORDS.findall(text)
    code = sum(text.count(c) for c in ";{}=()<>")
    return 3 <= len(words) <= 400 and code * 4 <= len(words) + 3 and not _LEGAL.search(text[:300])


def _without(lines: list[str], first: int, last: int, end: int, start: int) -> str:
    """Lines start..end without first..last (0-based, ends included), cut to the size of a chunk."""
    text = "\n".join(lines[start:first] + lines[last + 1 : end + 1])
    return text[:MAX_BODY]


# ------------------------------------------------------------------ Python


def _python_units(path: str, text: str) -> Iterator[Unit]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    lines = text.split("\n")
    names = [
        n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
    ]
    module_doc = ast.get_docstring(tree)
    if module_doc and names:
        yield Unit(path, "python", "", "", " ".join(names)[:MAX_BODY], module_doc, "file")
    yield from _python_definitions(path, lines, tree, ())
    yield from _hash_comments(path, "python", lines)


def _python_definitions(path: str, lines: list[str], node: ast.AST, scope: tuple[str, ...]) -> Iterator[Unit]:
    for child in getattr(node, "body", []):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        end = (child.end_lineno or child.lineno) - 1
        doc = ast.get_docstring(child) or ""
        first = last = end + 1
        if doc:
            first, last = child.body[0].lineno - 1, (child.body[0].end_lineno or 1) - 1
        body = _without(lines, first, last, end, child.lineno - 1)
        sort = "class" if isinstance(child, ast.ClassDef) else "function"
        yield Unit(path, "python", child.name, ".".join(scope), body, doc, sort)
        if isinstance(child, ast.ClassDef):
            yield from _python_definitions(path, lines, child, (*scope, child.name))


def _hash_comments(path: str, language: str, lines: list[str]) -> Iterator[Unit]:
    i, count = 0, len(lines)
    while i < count:
        if not lines[i].lstrip().startswith("#"):
            i += 1
            continue
        start = i
        while i < count and lines[i].lstrip().startswith("#"):
            i += 1
        doc = "\n".join(_MARKS.sub("", line) for line in lines[start:i])
        if i < count and lines[i].strip() and start > 2 and is_prose(doc):
            yield Unit(path, language, "", "", _stretch(lines, i), doc, "comment")


def _stretch(lines: list[str], start: int) -> str:
    """The code beneath a comment: to the next empty line, but at least 3 and at most 15 lines."""
    end = start
    while end < len(lines) and end < start + 15 and (lines[end].strip() or end < start + 3):
        end += 1
    return "\n".join(lines[start:end])[:MAX_BODY]


# ------------------------------------------------------------------ the other languages


def _line_units(path: str, language: str, lines: list[str]) -> Iterator[Unit]:
    scopes: list[tuple[int, str]] = []
    i, count = 0, len(lines)
    while i < count:
        comment_start = i
        i, doc = _comment(language, lines, i)
        declared = i
        while declared < count and declared < i + 4 and _DECORATION.match(lines[declared]):
            declared += 1
        if i >= count:
            return
        if not lines[i].strip() and i > comment_start:
            continue
        line = lines[min(declared, count - 1)]
        found = _declaration(language, line) if line.strip() else None
        if found:
            yield _unit(path, language, lines, declared, found, doc, scopes)
            i = declared + 1
        else:
            if doc and comment_start > 2 and is_prose(doc):
                proto = _PROTOTYPE.match(line[:_MAX_LINE]) if language in ("c", "cpp") else None
                name, sort = (proto["a"], "prototype") if proto else ("", "comment")
                yield Unit(path, language, name, "", _stretch(lines, i), doc, sort)
            i = max(i, comment_start) + 1


def _comment(language: str, lines: list[str], i: int) -> tuple[int, str]:
    """The index after a comment that begins at line i, and its text; (i, "") where none begins."""
    line, count = lines[i].lstrip(), len(lines)
    start = i
    if line.startswith("/*") and language != "ruby":
        while i < count and "*/" not in lines[i]:
            i += 1
        i += 1
    else:
        mark = "#" if language == "ruby" else "//"
        while i < count and lines[i].lstrip().startswith(mark) and not lines[i].lstrip().startswith("#["):
            i += 1
    if i == start:
        return i, ""
    return i, "\n".join(_MARKS.sub("", _MARKS.sub("", text)) for text in lines[start : min(i, count)]).strip()


def _declaration(language: str, line: str) -> tuple[str, str, str] | None:
    """(name, sort, receiver) when the line declares something."""
    if len(line) > _MAX_LINE:
        return None
    match = _CLASS[language].match(line)
    sort = "class"
    if not match:
        match, sort = _FUNCTION[language].match(line), "function"
    if not match:
        return None
    groups = match.groupdict()
    name = next((v for k, v in groups.items() if v and k != "scope"), "")
    return None if not name or name in _KEYWORDS else (name, sort, groups.get("scope") or "")


def _unit(
    path: str, language: str, lines: list[str], start: int, found: tuple[str, str, str], doc: str,
    scopes: list[tuple[int, str]],
) -> Unit:  # fmt: skip
    name, sort, receiver = found
    indent = _indent(lines[start])
    while scopes and scopes[-1][0] >= indent:
        scopes.pop()
    scope = receiver or ".".join(s for _, s in scopes[-2:])
    if not scope and language == "rust" and indent:
        scope = next(
            (m["a"] for j in range(start, max(-1, start - 400), -1) if (m := _IMPL.match(lines[j]))), ""
        )
    if sort == "class":
        scopes.append((indent, name))
    end = _end(lines, start, indent)
    return Unit(path, language, name, scope, "\n".join(lines[start : end + 1])[:MAX_BODY], doc, sort)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _end(lines: list[str], start: int, indent: int) -> int:
    """The line that closes what begins at `start`: the first as little indented that closes a bracket."""
    for j in range(start, min(len(lines), start + 80)):
        line = lines[j]
        if j == start:
            if line.rstrip().endswith((";", "}")):
                return j
            continue
        if (
            line.strip()
            and _indent(line) <= indent
            and line.lstrip()[:1] in "})e"
            and not line.rstrip().endswith("{")
        ):
            return j
    return min(len(lines), start + 80) - 1
