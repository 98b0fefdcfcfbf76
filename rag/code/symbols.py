"""The definitions of a file: their lines, signatures and documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from rag.code import documentation
from rag.code.definitions import Definition
from rag.code.documentation import Quote
from rag.code.languages import JAVASCRIPT
from rag.code.parsing import SourceText, outlines
from rag.types import Kind


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition. `scope` is its enclosing definition, with dots; `signature` is its head on one line.

    `summary` is the first paragraph of its documentation, None when it has none.
    """

    path: str
    name: str
    scope: str
    unit: str
    start: int
    end: int
    signature: str
    public: bool
    summary: Quote | None = None

    @property
    def qualified_name(self) -> str:
        """Scope and name, joined by a dot."""
        return f"{self.scope}.{self.name}" if self.scope else self.name


@dataclass(frozen=True, slots=True)
class File:
    """A file as the store holds it. `gave_up` is why the parser failed on it; it is not parsed again."""

    path: str
    text: str
    blob: str
    language: str
    kind: Kind
    lines: tuple[str, ...]
    gave_up: str = ""

    @property
    def folder(self) -> str:
        """Its folder, "" for the top."""
        return self.path.rpartition("/")[0]


_IMPLEMENTS = re.compile(r"\s*(?:unsafe\s+)?impl\b")
_TESTS_INSIDE = re.compile(r"^#\[cfg\(test\)\]\s*(?:pub(?:\([a-z]+\))?\s+)?mod\s+\w+\s*\{", re.M)
_TEST = re.compile(r"^#\[(?:\w+::)?test\]", re.M)
_NO_TEST = re.compile(r"(?<!\]\n)^(?:pub|impl|fn|async fn|unsafe|struct|enum|trait|mod)\b", re.M)
"""What begins a line below which no function is a test of its own: an item without an attribute."""
_NOT_EXPORTED = re.compile(r"\b(?:private|protected|fileprivate|internal)\b")


def symbols_of(file: File) -> Iterator[Symbol]:
    """Yield the functions and classes of a file with their members, in order, outer before inner."""
    if file.kind == "config" and file.language != "python":
        return
    exports, tests = _exports(file), tests_begin(file.text) if file.language == "rust" else len(file.lines)
    (found,) = outlines([SourceText(file.text, file.language, file.gave_up)], max_chars=None)
    for definition in _flat(found.definitions):
        if definition.unit in ("function", "class") and not _is_implementation(file, definition):
            is_public = definition.start < tests and _is_public(file, definition, exports)
            yield _symbol(file, definition, is_public=is_public)


def tests_begin(text: str) -> int:
    """Return the row where the tests at the end of a file of Rust begin; a number of no row without any."""
    plain = [one.end() for one in _NO_TEST.finditer(text)]
    found = _TESTS_INSIDE.search(text) or _TEST.search(text, max(plain, default=0))
    return text.count("\n", 0, found.start()) if found else len(text)


def _is_implementation(file: File, definition: Definition) -> bool:
    """Return whether it is a Rust `impl`: its members belong to the type, which is defined elsewhere."""
    return file.language == "rust" and bool(_IMPLEMENTS.match(file.lines[definition.start]))


def _flat(definitions: list[Definition]) -> Iterator[Definition]:
    for definition in definitions:
        yield definition
        yield from _flat(definition.members)


def _symbol(file: File, definition: Definition, *, is_public: bool) -> Symbol:
    row, end = definition.start, definition.end
    summary = documentation_of(file.lines, file.path, file.language, definition.symbol, row=row, end=end)
    return Symbol(
        path=file.path,
        name=definition.symbol,
        scope=definition.scope,
        unit=definition.unit,
        start=row + 1,
        end=end,
        signature=documentation.signature(file.lines, row, end, definition.symbol),
        public=is_public,
        summary=summary,
    )


def documentation_of(
    lines: Sequence[str], path: str, language: str, name: str, *, row: int, end: int
) -> Quote | None:
    """Return the first paragraph of the documentation of a definition on rows `row` to `end` (exclusive)."""
    if language == "python":
        return documentation.docstring(lines, path, _python_body(lines, row, end, name), end)
    if language == "elixir":
        return documentation.elixir_attribute(lines, path, row, end)
    return documentation.comment_above(lines, path, row, language)


_PYTHON_HEAD = re.compile(r"\s*(?:async\s+)?(?:def|class)\s")


def _python_body(lines: Sequence[str], row: int, end: int, name: str) -> int:
    """Return the row after the head of a Python definition."""
    row = next((n for n in range(row, end) if name in lines[n] and _PYTHON_HEAD.match(lines[n])), row)
    depth = 0
    for number in range(row, min(end, row + 60)):
        line = lines[number].partition("#")[0].rstrip()
        depth += sum(line.count(sign) for sign in "([{") - sum(line.count(sign) for sign in ")]}")
        if depth <= 0 and line.endswith(":"):
            return number + 1
    return end


def _exports(file: File) -> set[str] | None:
    """Return the names that a JavaScript file exports by a list or an assignment; None if it has neither."""
    if file.language not in JAVASCRIPT:
        return None
    found: set[str] = set()
    for listed in re.finditer(r"^(?:export|module\.exports\s*=)\s*\{([^{}]*)\}", file.text, re.MULTILINE):
        found |= {part.split()[0] for part in re.split(r"[,:]", listed[1]) if part.split()}
    found |= set(re.findall(r"^(?:module\.)?exports(?:\.(?:\w+))?\s*=\s*(\w+)", file.text, re.MULTILINE))
    return found | set(re.findall(r"^export\s+default\s+(\w+)[ \t]*+;?[ \t]*+$", file.text, re.MULTILINE))


def _is_public(file: File, definition: Definition, exports: set[str] | None) -> bool:
    """Return whether a definition is public, by the conventions of its language."""
    head = next((line for line in file.lines[definition.start : definition.end] if line.strip()), "")
    names = [*definition.scope.split("."), definition.symbol] if definition.scope else [definition.symbol]
    if any(name.startswith(("_", "#")) for name in names):
        return False
    language = file.language
    if exports is not None:
        if definition.scope:
            return definition.symbol != "constructor" and not _NOT_EXPORTED.search(head.partition("(")[0])
        return names[0] in exports or head.lstrip().startswith("export")
    if language == "go":
        return all(name[:1].isupper() for name in names)
    if language == "rust":
        attributes = takewhile(lambda line: line.lstrip().startswith("#["), file.lines[definition.start :])
        above = (*file.lines[max(0, definition.start - 1) : definition.start], *attributes)
        return not any(line.strip() == "#[cfg(test)]" for line in above) and any(
            re.match(r"\s*pub\b", line) for line in file.lines[definition.start : definition.start + 6]
        )
    if language in ("c", "cpp"):
        return not head.lstrip().startswith("static")
    return not _NOT_EXPORTED.search(head.partition("(")[0])
