"""Find a setting that is asked for by its name: an option, an environment variable, a key or a constant.

The index has the lines that hold the name. First are those that give it a value, then those that declare it
with a default or read it, then the others in code and configuration, then those of documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce

import numpy as np

from rag.analysis import terms
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import Asked, FactPlace, FileText, code_facts, named
from rag.retrieval.question import last_part
from rag.types import CodeFacts
from rag.types.question_kinds import SETTING

_WRITTEN = re.compile(r"(?<![\w-])(?:--)?[^\W\d_][\w.-]*[\w]")
_MAX_FILES = 12
_MAX_PLACES = 6
_MAX_LINE_CHARS = 500
_NEXT_LINES = 5
"""How many lines below a name a default that belongs to it may be."""
_VALUE = r"[\"'`\])]*\s*(?:\??:[^=]{1,40}?)?(?::?=|:)-?\s*(?![=>])\S"
_DEFAULT = re.compile(r"default", re.I)
_GIVEN, _DEFAULTED, _READ, _DOCUMENTED = range(4)
_REASONS = ("sets `{}`", "declares `{}` with its default", "reads `{}`", "documents `{}`")


def find(asked: Asked) -> CodeFacts | None:
    """Return the places of the first name of the question that the code declares; None if it has none."""
    for name in _names(asked.question.question.text):
        found = sorted(_places(asked, name), key=lambda one: one[0])
        if found and found[0][0] < _READ:
            first = found[0][1]
            places = asked.first([place for _, place in found], _MAX_PLACES, "places are shown")
            summary = f"{named(name)} is declared in {named(first.file.path)}"
            return code_facts(asked, SETTING, name, summary, places, count=len(found))
    return None


def _names(text: str) -> list[str]:
    """Return the words of a question that are written as a setting may be."""
    words = (one for one in _WRITTEN.findall(text) if re.search(r"[\w-][_-]|\.\w|^--|^[A-Z\d_]{3,}$", one))
    return list(dict.fromkeys(last_part(word.lstrip("-")).removeprefix("CONFIG_") for word in words))


def _places(asked: Asked, name: str) -> Iterator[tuple[int, FactPlace]]:
    """Yield the lines with a name, each with what it does with it, one file after the other."""
    for index in asked.indexes:
        for path in asked.first(_paths(index, name), _MAX_FILES, "files were read"):
            file = asked.file(index, path)
            if file is not None and (kind := asked.kind_of(file)) != "test":
                yield from _in_file(file, name, is_document=kind == "doc")


def _paths(index: ChunkIndex, name: str) -> list[str]:
    *parts, whole = terms(name) or [name]
    held = [index.postings(term).chunks for term in parts or [whole]]
    chunks = reduce(np.intersect1d, held) if held else np.zeros(0, np.int32)
    files = sorted(set(index.file[chunks].tolist()), key=lambda file: index.file_path(file).count("/"))
    return [index.file_path(file) for file in files]


def _in_file(file: FileText, name: str, *, is_document: bool) -> Iterator[tuple[int, FactPlace]]:
    spelled = rf"(?<!\w){'[_-]'.join(map(re.escape, re.split('[_-]', name)))}(?![\w-])"
    flags = re.NOFLAG if name.isalpha() else re.I
    written, given = re.compile(spelled, flags), re.compile(spelled + _VALUE, flags)
    for number, line in enumerate(file.lines, 1):
        line = line[:_MAX_LINE_CHARS]
        if not written.search(line):
            continue
        near = file.lines[number - 1 : number + _NEXT_LINES]
        default = next((n for n, text in enumerate(near) if _DEFAULT.search(text[:_MAX_LINE_CHARS])), None)
        what, end = (_DOCUMENTED if is_document else _READ), 0
        if not is_document and given.search(line):
            what = _GIVEN
        elif not is_document and default is not None:
            what, end = _DEFAULTED, number + default
        yield what, FactPlace(file, number, _REASONS[what].format(name), end)
