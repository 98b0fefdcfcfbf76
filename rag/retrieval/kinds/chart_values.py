"""Find where a value of a Helm chart is declared and used: "What is the default of .Values.image.tag?"."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from rag.analysis import terms
from rag.lines import lines_of
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import Asked, FactPlace, FileText, code_facts, named
from rag.retrieval.kinds.recognition import chart_value
from rag.types import CodeFacts
from rag.types.question_kinds import CHART_VALUE

_VALUES_FILE = re.compile(r"(?:^|/)values[\w.-]*\.ya?ml$")
_KEY = re.compile(
    r"(?P<indent> *)(?:-(?:\s|$)"
    r"|(?P<key>[\w./-]+|\"[^\"\n]{1,80}\"|'[^'\n]{1,80}'):(?:\s+(?P<text>[|>])|\s|$))"
)
"""A key, perhaps of a text in the lines below, or an item of a list."""
_FLOW = re.compile(
    r"(?<!\S)#.*|(?P<mark>[\[\]{}])"
    r"|(?P<key>[\w./-]+(?=\s*:(?:[\s,\[\]{}]|$))|\"[^\"\n]{0,80}\"(?=\s*:)|'[^'\n]{0,80}'(?=\s*:))"
    r"|\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s,\[\]{}\"']+"
)
"""A comment, bracket, key or scalar of a value in flow style: `{tag: v1, pull: {policy: Always}}`."""
_MAX_FLOW = 200
"""How many lines of a value in flow style are read."""
_ASKS_USES = re.compile(r"\b(?:used|uses?|read|reads|referenced|rendered|who|effect|do)\b", re.I)
_MAX_BLOCK = 12
"""How many lines of a value that is a block are shown."""


def find(asked: Asked) -> CodeFacts | None:
    """Return the lines that declare the value, then those that use it, or the reverse if these are asked for;
    None without any.
    """
    text = asked.question.question.text
    name = chart_value(text)
    declared = [place for index in asked.indexes for place in _declared(asked, index, name)]
    used = [(index, *at) for index in asked.indexes for at in _used(asked, index, name)]
    if not declared and not used:
        return None
    counts = (("declared", len(declared)), ("used", len(used)))
    parts = " and ".join(f"{what} in {n} place{'s' * (n != 1)}" for what, n in counts if n)
    uses = [place for one in used if (place := asked.place(*one, "uses it"))]
    places = [*uses, *declared] if _ASKS_USES.search(text) else [*declared, *uses]
    summary, count = f"{named(f'.Values.{name}')} is {parts}", len(declared) + len(used)
    return code_facts(asked, CHART_VALUE, f".Values.{name}", summary, places, count=count)


def _declared(asked: Asked, index: ChunkIndex, name: str) -> Iterator[FactPlace]:
    """Yield the lines of the values files of charts that have a key; `values.yaml` comes before others."""
    paths = [path for path in map(index.file_path, range(index.total_files)) if _VALUES_FILE.search(path)]
    charts = [
        path for path in paths if index.chunks_of(posixpath.join(posixpath.dirname(path), "Chart.yaml"))
    ]
    for path in sorted(charts or paths, key=lambda path: (posixpath.basename(path) != "values.yaml", path)):
        file = asked.file(index, path)
        if file is not None and (line := _line_of(file, name)):
            yield FactPlace(file, line, "declares it with its default", _end(file.lines, line))


def _line_of(file: FileText, name: str) -> int:
    """Return the line of a key, whose parts are joined by dots; 0 if the file does not have it.

    What is in a list or in a text has no key.
    """
    outer: list[tuple[int, str]] = []
    read = 0
    for number, line in enumerate(file.lines, 1):
        if number > read and (found := _KEY.match(line)):
            indent, key = len(found["indent"]), (found["key"] or "-").strip("\"'")
            outer = [one for one in outer if one[0] < indent]
            whole = ".".join([*(one for _, one in outer), key])
            if whole == name:
                return number
            outer.append((indent, "" if found["text"] else key))
            if line[found.end() :].lstrip()[:1] in ("{", "["):
                keys, read = _in_flow(file.lines, number, found.end())
                if name.startswith(f"{whole}.") and (at := keys.get(name[len(whole) + 1 :])):
                    return at
    return 0


def _in_flow(lines: list[str], first: int, column: int) -> tuple[dict[str, int], int]:
    """Return the lines of the keys of a value in flow style, with their parts joined by dots, and its last
    line. What is in a list has no key.
    """
    found: dict[str, int] = {}
    within: list[str] = []
    key = "."
    for number in range(first, min(first + _MAX_FLOW, len(lines) + 1)):
        for token in _FLOW.finditer(lines[number - 1], column if number == first else 0):
            if token["key"]:
                key = token["key"].strip("\"'")
                if "" not in within:
                    found.setdefault(".".join([*within[1:], key]), number)
            elif token["mark"] in ("{", "["):
                within.append(key if token["mark"] == "{" else "")
            elif token["mark"]:
                within.pop()
                if not within:
                    return found, number
    return found, first


def _end(lines: list[str], line: int) -> int:
    """Return the last line of the block that a key opens."""
    indent = len(lines[line - 1]) - len(lines[line - 1].lstrip())
    last = line
    for number, text in enumerate(lines[line : line + _MAX_BLOCK], line + 1):
        if text.strip() and len(text) - len(text.lstrip()) <= indent:
            break
        last = number if text.strip() else last
    return last


def _used(asked: Asked, index: ChunkIndex, name: str) -> Iterator[tuple[str, int]]:
    """Yield the lines of templates that use the value."""
    used = re.compile(rf"\.Values\.{re.escape(name)}(?![\w-])")
    for hit in asked.hits_with(index, terms(name)[-1:]):
        for number, line in enumerate(lines_of(hit.text) if hit.kind != "doc" else (), hit.start):
            if used.search(line):
                yield hit.path, number
