"""List the environment variables of a program: those that its code reads by name, and its example file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag.analysis import terms
from rag.code.roles import is_carried, is_tool
from rag.lines import lines_of
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import Asked, FactPlace, code_facts, named
from rag.retrieval.shown_definition import is_in_test
from rag.types import CodeFacts
from rag.types.question_kinds import VARIABLES

_TERMS = terms("env environ environment getenv lookupenv envvar setenvprefix")
_READ = re.compile(
    r"(?<!\w)(?!(?<!os\.)environ\b)(?i:\w*env)\w*\W[^\"'\n]{0,24}[\"']([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)[\"']"
    r"|\b(?:process|import\.meta)\.env\.([A-Z][A-Z0-9_]*)"
)
_EXAMPLE = re.compile(
    r"(?:^|/)(?:\.env|[^/]*\.env)(?:[._-][^/]*)?$|(?:^|/)env[._-](?:example|sample)[^/]*$", re.I
)
_ASSIGNED = re.compile(r"(?:#\s?)?(?:export )?([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)=")
_MIN_VARIABLES, _MIN_NAME = 2, 3
"""A shorter word in capitals may be anything."""


def find(asked: Asked) -> CodeFacts | None:
    """Return the variables of the first store that has some, by file: the file with the most first."""
    for index in asked.indexes:
        found: dict[str, FactPlace] = {}
        for path, line, name in (*_read(asked, index), *_listed(asked, index)):
            if len(name) >= _MIN_NAME and name not in found:
                place = asked.place(index, path, line, "")
                found |= {name: FactPlace(place.file, line, "", key=name)} if place else {}
        by_file: dict[str, list[FactPlace]] = {}
        for place in found.values():
            by_file.setdefault(place.file.path, []).append(place)
        files = sorted(by_file.values(), key=len, reverse=True)
        places = [place for each in files for place in sorted(each, key=lambda one: one.line)]
        if len(places) < _MIN_VARIABLES:
            continue
        most = f"{len(files[0])} of them in {named(files[0][0].file.path)}"
        summary = f"There are {len(places)} environment variables, {most}"
        if facts := code_facts(asked, VARIABLES, "environment variables", summary, places):
            return facts
    return None


def _read(asked: Asked, index: ChunkIndex) -> Iterator[tuple[str, int, str]]:
    """Yield the file, line and name of each variable that the code reads, those nearest to the root first."""
    hits = [*asked.hits_with(index, _TERMS, code=True)]
    hits = [hit for hit in hits if not (is_carried(hit.path) or is_tool(hit.path))]
    for hit in sorted(hits, key=lambda one: (one.path.count("/"), one.path, one.start)):
        for number, line in enumerate(lines_of(hit.text), hit.start):
            for match in _READ.finditer(line):
                if not is_in_test(index, hit.path, number):
                    yield hit.path, number, match[1] or match[2]


def _listed(asked: Asked, index: ChunkIndex) -> Iterator[tuple[str, int, str]]:
    """Yield the variables of the file of examples next to the root."""
    paths = [path for path in map(index.file_path, range(index.total_files)) if _EXAMPLE.search(path)]
    for path in sorted(paths, key=lambda one: (one.count("/"), one))[:1]:
        file = asked.file(index, path)
        for number, line in enumerate(file.lines, 1) if file else ():
            if match := _ASSIGNED.match(line):
                yield path, number, match[1]
