"""Find definitions by line patterns and indentation: where there is no grammar, or the parser fails.

A definition is a line that one of the language's rules matches. It ends before the next line that is indented
no deeper and neither closes it (`}`, `end`) nor continues it; in languages whose bodies are not indented
(make, Haskell, Fortran), before the next definition that is indented no deeper.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rag.code.definitions import Definition, sections, tidy
from rag.code.headings import headings
from rag.code.line_rules import LineRules, line_rules

if TYPE_CHECKING:
    from rag.types import Unit

_MAX_LINE_CHARS = 400
"""Whether a line is a definition is read from this much of it."""

_WITH_BLOCK_COMMENTS = frozenset(
    "c cpp csharp css d dart glsl go groovy java javascript kotlin objc php proto rust scala scss swift"
    " thrift tsx typescript".split()
)

_CLOSING = re.compile(
    r"[\]})>;,{]|(?:end|endif|endfunction|endmodule|esac|fi|done|else|elsif|elif|elseif|catch|rescue|ensure|finally"
    r"|except|begin|where|then)\b"
)

_WRITTEN_AS = {"variable": "var"}
"""What the references to a block of Terraform begin with, where that is not its keyword."""


def outline_by_lines(lines: Sequence[str], language: str) -> list[Definition]:
    """Return the definitions in lines of a language, [] for a language without rules."""
    found = headings(lines, language)
    if found is not None:
        return sections(found, len(lines))
    rules = line_rules(language)
    if language in _WITH_BLOCK_COMMENTS:
        lines = _without_block_comments(lines)
    return _definitions(lines, rules) if rules is not None else []


def _without_block_comments(lines: Sequence[str]) -> list[str]:
    """Return the lines, empty where they are part of a comment `/* … */` that begins a line."""
    found, is_inside = [], False
    for line in lines:
        is_inside = is_inside or line.lstrip().startswith("/*")
        _, end, rest = line.partition("*/")
        found.append("\n" if is_inside and not (end and rest.strip()) else line)
        is_inside = is_inside and not end
    return found


def indent_of(line: str) -> int:
    """Return the columns of white space at the line's beginning; a tab counts as four."""
    white = line[: len(line) - len(line.lstrip(" \t"))]
    return len(white) + 3 * white.count("\t")


def closes(line: str) -> bool:
    """Return whether the line ends or continues an open block, instead of beginning something."""
    return _CLOSING.match(line.lstrip()) is not None


def _definitions(lines: Sequence[str], rules: LineRules) -> list[Definition]:
    top: list[Definition] = []
    still_open: list[tuple[int, Definition]] = []
    for row, line in enumerate(lines):
        if not line.strip():
            continue
        indent = indent_of(line)
        found = _defined(line, rules)
        if found is None and rules.is_flat:
            continue
        # A closing line at the head's own indentation still belongs to what it closes.
        least = indent + 1 if found is None and closes(line) else indent
        while still_open and still_open[-1][0] >= least:
            still_open.pop()[1].end = row
        if found is None:
            continue
        outer = still_open[-1][1] if still_open else None
        symbol, scope, unit = found
        definition = Definition(row, len(lines), symbol, outer.inner_scope if outer else scope, unit)
        (outer.members if outer else top).append(definition)
        still_open.append((indent, definition))
    return top


def _defined(line: str, rules: LineRules) -> tuple[str, str, Unit] | None:
    """Return the name, the scope that the line itself names, and the unit of the definition on a line."""
    for unit, pattern in rules.rules:
        if match := pattern.match(line, 0, _MAX_LINE_CHARS):
            groups = match.groupdict(default="")
            name = groups.get("name", "").replace('"', " ").replace("`", " ").rstrip(":* ")
            scope = ".".join(re.findall(r"[\w-]+", groups.get("scope", "")))
            return tidy(name), _WRITTEN_AS.get(scope, scope), unit
    return None
