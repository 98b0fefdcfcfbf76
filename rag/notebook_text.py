"""The cells of a Jupyter notebook as a text, with the lines of its file.

Jupyter writes each line of a cell as a JSON string on a line of its own. In the text it is on the same line,
decoded; the line above a cell's first one (`"source": [`) names the cell, as `# %% cell 3` or
`# %% [markdown] cell 4`; all other lines, such as outputs and metadata, are empty. So `path:start-end` is
right in the file, and what is quoted is the code of the cell.

In a notebook that has several lines of a cell on one line of its file (other programs write it, often as one
line), the lines of the text are counted through its cells instead: `is_compact`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from rag.decoding import decode

_MAX_TOKENS, _MAX_DEPTH, _MAX_CELLS, _MAX_LINES = 2_000_000, 200, 20_000, 200_000
_READ_DEPTH = 7
_SNIFFED_BYTES = 64
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_TOKEN = re.compile(rf"[\s,:]*+({_STRING}|[{{}}\[\]]|-?[0-9][0-9.eE+-]*+|true|false|null|-?Infinity|NaN|\Z)")
_BRACKET = re.compile(rf"{_STRING}|([{{\[])|([}}\]])")
_SOURCES = frozenset(
    [("cells", "source"), ("worksheets", "cells", "input"), ("worksheets", "cells", "source")]
)
"""The keys on the way to the lines of a cell; the second and third are of nbformat 3."""
_SLASHED = frozenset(
    "c c++ c# cpp csharp f# fsharp go java javascript kotlin php rust scala swift typescript".split()
)
_DASHED = frozenset("haskell lua sql".split())

_TRANSPARENT = re.compile(r"%%(?:time|timeit|capture|prun|memit|mprun|lprun|snakeviz|heat)\b")
_OTHER_LANGUAGE = re.compile(r"\s*%(?:%|(?:md|sql|sh|scala|r|fs|python)\s*$)")
_LINE_MAGIC = re.compile(
    r"(?P<indent>\s*)(?:%(?:time|timeit|prun|memit|mprun|lprun)\b(?:\s+-\w+(?:\s+\d+)?)*\s+(?P<timed>\S.*)"
    r"|(?P<assigned>[\w.,\s]{1,200}=)\s*(?:%[A-Za-z]|!(?!=)).*|(?:%%?[A-Za-z]|!(?!=)).*|\?{1,2}[\w.]+\s*|[\w.]+\?{1,2}\s*)"
)


class Cell(NamedTuple):
    """A cell: its number from 1, whether it is code, and its lines in the text; the first one names it."""

    number: int
    is_code: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Notebook:
    """The cells of a notebook as a text. `code` has the same lines: only what the language of the kernel
    (`language`, as its metadata name it) can parse. Cells without text are not listed.
    """

    text: str
    code: str
    language: str
    cells: tuple[Cell, ...]
    is_compact: bool


@dataclass(slots=True)
class _Read:
    """A cell as it is read: its lines with their rows in the file, and the row where they begin."""

    kind: str = ""
    level: str = ""
    row: int = -1
    strings: list[tuple[int, str]] = field(default_factory=list)


def is_notebook(content: bytes) -> bool:
    """Return whether a file may be a notebook, by its first characters and a key that all notebooks have."""
    return content[:_SNIFFED_BYTES].lstrip().startswith(b"{") and b'"nbformat"' in content


def shown_text(content: bytes) -> str:
    """Return the text of the bytes of a file as it is compared and quoted: of a notebook, that of its cells.

    Cells are not numbered here: another cell above changes no line.
    """
    text = decode(content).text
    found = notebook_of(text, is_numbered=False) if is_notebook(content) else None
    return found.text if found else text


def notebook_of(text: str, *, is_numbered: bool = True) -> Notebook | None:
    """Return the cells of a notebook; None if the text is none, is damaged, or is too large to be read."""
    try:
        cells, language = _cells(text)
    except (ValueError, IndexError):
        return None
    if not any(cell.strings for cell in cells):
        return None
    is_compact = _is_compact(cells)
    mark = "//" if language.lower() in _SLASHED else "--" if language.lower() in _DASHED else "#"
    shown = [] if is_compact else [""] * (text.count("\n") + 1)
    code, places = list(shown), []
    for number, cell in enumerate(cells, 1):
        if not any(line.strip() for _, line in cell.strings):
            continue
        is_code = cell.kind == "code"
        if is_compact:
            cell = _unfolded(cell, len(shown))
            shown += [""] * (len(cell.strings) + 2)
            code += [""] * (len(cell.strings) + 2)
        lines = [line.rstrip("\r\n") for _, line in cell.strings]
        first, last = cell.strings[0][0], cell.strings[-1][0]
        if cell.row < first:
            first = cell.row
            kind = "" if is_code else f" [{cell.kind}]"
            shown[first] = f"{mark} %%{kind}" + f" cell {number}" * is_numbered
        parsed = _parsable(lines) if is_code else [""] * len(lines)
        for (row, _), line, code_line in zip(cell.strings, lines, parsed, strict=True):
            shown[row], code[row] = line, code_line
        places.append(Cell(number, is_code, first + 1, last + 1))
    return Notebook("\n".join(shown), "\n".join(code), language or "python", tuple(places), is_compact)


def _unfolded(cell: _Read, row: int) -> _Read:
    """Return a cell whose lines follow each other, from a row on."""
    lines = "".join(line for _, line in cell.strings).split("\n")
    return _Read(cell.kind, "", row, list(enumerate(lines, row + 1)))


def _is_compact(cells: list[_Read]) -> bool:
    """Return whether a line of the file has more than one line of a cell."""
    rows = [row for cell in cells for row, _ in cell.strings]
    return len(set(rows)) < len(rows) or any("\n" in line[:-1] for cell in cells for _, line in cell.strings)


def _cells(text: str) -> tuple[list[_Read], str]:
    """Return the cells and the language. Raises ValueError: this is no notebook, or is too large."""
    cells: list[_Read] = []
    languages: dict[str, str] = {}
    row = counted = lines = 0
    for keys, at, token in _values(text):
        name, is_cell = keys[-1] if keys else "", (*keys[:-1], "source") in _SOURCES
        if token == "{" and keys in (("cells",), ("worksheets", "cells")):
            cells.append(_Read())
            if len(cells) > _MAX_CELLS:
                raise ValueError("too many cells")
        elif keys in _SOURCES:
            row, counted = row + text.count("\n", counted, at), at
            if cells[-1].row < 0:
                cells[-1].row = row
            lines += 1
            if lines > _MAX_LINES:
                raise ValueError("too many lines")
            if token != "[":
                cells[-1].strings.append((row, _string(token)))
        elif is_cell and name == "cell_type":
            cells[-1].kind = _string(token)
        elif is_cell and name == "level":
            cells[-1].level = token
        elif keys in (("metadata", "kernelspec", "language"), ("metadata", "language_info", "name")):
            languages[keys[1]] = _string(token)
        elif is_cell and name == "language":
            languages.setdefault("cell", _string(token))
    for cell in cells:
        if cell.kind == "heading" and cell.strings and cell.level.isdigit():
            first_row, line = cell.strings[0]
            cell.strings[0] = first_row, f"{'#' * min(int(cell.level), 6)} {line}"
    named = (languages.get(name, "") for name in ("kernelspec", "language_info", "cell"))
    return cells, next(filter(None, named), "")


def _values(text: str) -> Iterator[tuple[tuple[str, ...], int, str]]:
    """Yield the scalars, and where objects and lists begin, that are not deep, and not in outputs: keys,
    position and token. An item of a list has the keys of the list. Raises ValueError: it is not JSON.
    """
    closing = {"{": "}", "[": "]"}
    stack: list[tuple[str, tuple[str, ...]]] = []
    key: str | None = None
    at = 0
    for _ in range(_MAX_TOKENS):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError("not JSON")
        token, at = found[1], found.end()
        in_object = bool(stack) and stack[-1][0] == "{"
        if token == "":
            break
        if token in ("}", "]"):
            if not stack or closing[stack.pop()[0]] != token:
                raise ValueError("not JSON")
            key = None
        elif in_object and key is None:
            key = _string(token)
        elif key == "outputs" and token in closing:
            at, key = _behind(text, found.start(1)), None
        else:
            keys = (*(stack[-1][1] if stack else ()), *((key,) if key is not None else ()))
            if len(stack) < _READ_DEPTH:
                yield keys, found.start(1), token
            if token in closing:
                stack.append((token, keys))
                if len(stack) > _MAX_DEPTH:
                    raise ValueError("nested too deeply")
            key = None
    if stack or at < len(text):
        raise ValueError("not JSON, or too many values")


def _behind(text: str, start: int) -> int:
    """Return where a list or an object ends that begins at a position. Raises ValueError."""
    depth = 0
    for count, found in enumerate(_BRACKET.finditer(text, start)):
        depth += (found[1] is not None) - (found[2] is not None)
        if depth == 0:
            return found.end()
        if depth > _MAX_DEPTH or count > _MAX_TOKENS:
            break
    raise ValueError("not JSON, or nested too deeply")


def _string(token: str) -> str:
    """Return the value of a JSON string, without what no text has. Raises ValueError for another value."""
    value = json.loads(token)
    if not isinstance(value, str):
        raise ValueError("not a string")
    if "\\u" in token:
        value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
    return value


def _parsable(lines: list[str]) -> list[str]:
    """Return the lines of a code cell without what the language does not know: magics of Jupyter."""
    first = next((n for n, line in enumerate(lines) if line.strip()), 0)
    if _OTHER_LANGUAGE.match(lines[first]) and not _TRANSPARENT.match(lines[first]):
        return [""] * len(lines)
    rest = [_without_magic(line) for line in lines]
    return ["" if n == first and lines[n].startswith("%%") else line for n, line in enumerate(rest)]


def _without_magic(line: str) -> str:
    found = _LINE_MAGIC.fullmatch(line) if ("%" in line or "!" in line or "?" in line) else None
    if found is None:
        return line
    if found["timed"]:
        return found["indent"] + found["timed"]
    return found["indent"] + (f"{found['assigned']} 0" if found["assigned"] else "0")
