"""Interfaces that a class has by its members alone: those of Go and TypeScript, and protocols of Python.

A class that names an interface as its base is known by inheritance (`rag.code.name_resolution`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rag.code.graph_files import LoadedFile, LoadedFiles
from rag.code.languages import JAVASCRIPT
from rag.code.name_resolution import NameResolution, Value
from rag.lines import lines_of

MAX_BODY_LINES = 400
_MAX_LINE_CHARS = 300
_SIGNATURE_LINES = 5
_GO_INTERFACE = re.compile(r"\binterface\s*\{")
_GO_METHOD = re.compile(r"^\s*([^\W\d]\w*)\(")
_SCRIPT_INTERFACE = re.compile(r"\s*(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:interface|type)\b")
_SCRIPT_METHOD = re.compile(r"^\s*(?:readonly\s+)?([A-Za-z_$][\w$]*)\??\s*(?:[(<]|:\s*\()")


def go_interface(lines: Sequence[str], start: int, end: int) -> dict[str, int]:
    """Return the methods of an interface of Go with the number of their parameters; {} for another type."""
    if not _GO_INTERFACE.search(lines[start - 1]):
        return {}
    body = [line[:_MAX_LINE_CHARS] for line in lines[start:end][:MAX_BODY_LINES]]
    named = ((number, match[1]) for number, line in enumerate(body) if (match := _GO_METHOD.match(line)))
    return {name: parameters("".join(body[number : number + _SIGNATURE_LINES])) for number, name in named}


def parameters(signature: str) -> int:
    """Return how many parameters the first list in parentheses after a name has; a receiver is none."""
    text = re.sub(r"^(?:func\s*)?\([^()]*\)\s*", "", signature.strip())
    depth, commas, inside = 0, 0, ""
    for sign in text[text.find("(") :]:
        depth += (sign in "([{") - (sign in ")]}")
        commas += sign == "," and depth == 1
        if depth == 0:
            break
        inside += sign
    is_ended = inside.rstrip().endswith(",")
    return commas + (not is_ended) if inside.strip("( ,") else 0


class Interfaces:
    """The interfaces of a repository, read when a call leads to one."""

    def __init__(self, meanings: NameResolution, files: LoadedFiles) -> None:
        self._meanings, self._files = meanings, files
        self._methods: dict[Value, dict[str, int]] = {}

    def methods(self, value: Value) -> dict[str, int]:
        """Return the methods of an interface; their parameters are counted in Go alone. {} for a class."""
        if value not in self._methods:
            self._methods[value] = self._read(self._files.file(value.path), value.number)
        return self._methods[value]

    def _read(self, file: LoadedFile, number: int) -> dict[str, int]:
        one = file.graph.definitions[number]
        if one.unit != "c":
            return {}
        if file.language == "python":
            is_protocol = any(use.name == "Protocol" for use in file.bases.get(number, ()))
            names = [name for outer, name in file.members if outer == number and not name.startswith("__")]
            return dict.fromkeys(names, 0) if is_protocol else {}
        if file.language not in ("go", *JAVASCRIPT):
            return {}
        lines = list(lines_of(self._files.text(file.path)))
        if file.language == "go":
            return go_interface(lines, one.start, one.end)
        if not _SCRIPT_INTERFACE.match(lines[one.start - 1]):
            return {}
        body = (line[:_MAX_LINE_CHARS] for line in lines[one.start : one.end][:MAX_BODY_LINES])
        return {match[1]: 0 for line in body if (match := _SCRIPT_METHOD.match(line))}

    def satisfies(self, owner: Value, interface: Value) -> bool:
        """Return whether a class has all methods of an interface."""
        wanted = self.methods(interface)
        return bool(wanted) and all(self._has(owner, name, count) for name, count in wanted.items())

    def _has(self, owner: Value, name: str, count: int) -> bool:
        file = self._files.file(owner.path)
        found = self._meanings.member(owner, name)
        if file.language != "go":
            return bool(found)
        return any(self._count(value) == count for value in found)

    def _count(self, value: Value) -> int:
        """Return how many parameters a method has, as far as its first lines say."""
        start = self._files.file(value.path).graph.definitions[value.number].start
        return parameters("".join(self._lines(value.path, start)))

    def _lines(self, path: str, start: int) -> Iterator[str]:
        for line in list(lines_of(self._files.text(path)))[start - 1 : start - 1 + _SIGNATURE_LINES]:
            yield line[:_MAX_LINE_CHARS].strip()
