"""List the environment variables of a program, the options of its command line, or the errors that it has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from rag.analysis import terms
from rag.code.roles import is_carried, is_tool
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import Asked, FactPlace, code_facts, named
from rag.retrieval.shown_definition import is_in_test
from rag.types import CodeFacts
from rag.types.question_kinds import ERRORS, OPTIONS, VARIABLES

_VARIABLE = re.compile(
    r"(?<!\w)(?!(?<!os\.)environ\b)(?i:(?=\w*env))\w++\W[^\"'\n]{0,48}[\"']([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)[\"']"
    r"|\b(?:process|import\.meta)\.env\.([A-Z][A-Z0-9_]*)"
)
_OPTION = re.compile(
    r"(?:\badd_argument|\.option|\bOption|\.long|\bflag\.\w+|\bFlags\(\)\.\w+|\bopts?\.on)\(\s*+"
    r"(?:[&\w.]+,\s*+|[\"']-\w\b[^\"']{0,4}[\"'],?\s*+)?[\"'`](?:-\w,? )?(-{0,2}[a-z][\w-]+)"
)
_ERROR = (
    re.compile(
        r"\b(?:class|struct|enum|interface|object|type)\s+(?:(\w*(?:Error|Exception))\b(?!\s*[=,);])"
        r"|([A-Z]\w*)(?:<[^<>\n]*>)?(?:\s*[(:]|\s+<|\s+extends)\s*(?:public\s+)?"
        r"[\w.:]*(?:Error|Exception|Throwable|_error|_exception)\b)"
        r"|\b([Ee]rr[A-Z]\w*)\s*=\s*(?:errors\.New|fmt\.Errorf)\b"
    ),
    re.compile(r"\b(?:raise|throw(?:\s+new)?)\s+((?:\w+(?:\.|::))*[A-Z]\w+)(?=\s*(?:[(,;]|from\b|$))", re.M),
)
_WANTED = {
    VARIABLES: ("environment variables", ("env", "environ", "getenv", "lookupenv", "envvar"), (_VARIABLE,)),
    OPTIONS: (
        "options of the command line",
        ("addargument", "option", "arg", "long", "flag", "opt"),
        (_OPTION,),
    ),
    ERRORS: ("types of errors", terms("error err exception throwable raise throw"), _ERROR),
}
"""What is listed, the terms of the code that has it, and its patterns: what declares before what raises."""
_EXAMPLE = re.compile(
    r"(?:^|/)(?:\.env|[^/]*\.env)(?:[._-][^/]*)?$|(?:^|/)env[._-](?:example|sample)[^/]*$", re.I
)
_ASSIGNED = re.compile(r"(?:#\s?)?(?:export )?([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)=")
_MIN_FOUND, _MIN_NAME = 2, 3
"""A shorter word may be anything."""


def find(asked: Asked) -> CodeFacts | None:
    """Return what the first store has of what is asked for, by file: the file with the most first."""
    kind = asked.purpose
    for index in asked.indexes:
        found: dict[str, FactPlace] = {}
        listed = _listed(asked, index) if kind == VARIABLES else ()
        for path, line, name in (*_declared(asked, index, kind), *listed):
            if len(name) >= _MIN_NAME and name not in found:
                place = asked.place(index, path, line, "")
                found |= {name: replace(place, key=name)} if place else {}
        by_file: dict[str, list[FactPlace]] = {}
        for place in found.values():
            by_file.setdefault(place.file.path, []).append(place)
        files = sorted(by_file.values(), key=len, reverse=True)
        places = [place for each in files for place in sorted(each, key=lambda one: one.line)]
        if len(places) >= _MIN_FOUND:
            what, share = _WANTED[kind][0], "" if len(files) == 1 else f"{len(files[0])} of them "
            share = share if len(files[0]) > 1 else "the first "
            summary = f"There are {len(places)} {what}, {share}in {named(files[0][0].file.path)}"
            return code_facts(asked, VARIABLES, what, summary, places)
    return None


def _declared(asked: Asked, index: ChunkIndex, kind: str) -> Iterator[tuple[str, int, str]]:
    """Yield the file, the line and the name of each that the code has, those nearest to the root first."""
    _, wanted, patterns = _WANTED[kind]
    hits = [*asked.hits_with(index, wanted, code=True)]
    hits = [hit for hit in hits if not (is_carried(hit.path) or is_tool(hit.path))]
    hits.sort(key=lambda one: (one.path.count("/"), one.path, one.start))
    found = ((hit, match) for each in patterns for hit in hits for match in each.finditer(hit.text))
    for at, match in found:
        number = at.start + at.text.count("\n", 0, match.end())
        if not is_in_test(index, at.path, number):
            name = next(filter(None, match.groups()))
            yield at.path, number, f"--{name.lstrip('-')}" if kind == OPTIONS else name


def _listed(asked: Asked, index: ChunkIndex) -> Iterator[tuple[str, int, str]]:
    """Yield the variables of the file of examples next to the root."""
    paths = [path for path in map(index.file_path, range(index.total_files)) if _EXAMPLE.search(path)]
    for path in sorted(paths, key=lambda one: (one.count("/"), one))[:1]:
        file = asked.file(index, path)
        for number, line in enumerate(file.lines, 1) if file else ():
            if match := _ASSIGNED.match(line):
                yield path, number, match[1]
