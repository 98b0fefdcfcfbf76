"""Distinguish a repository's own code from vendored, generated and example code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, get_args

from rag.code.references import has_references
from rag.code.survey import Survey
from rag.code.symbols import File

Role = Literal["own", "vendored", "generated", "example", "tool", "other"]

_VENDORED = re.compile(
    r"(?:^|/)(?:_?vendor(?:ed)?|third[_-]?party|3rd[_-]?party|node_modules|bower_components|deps|externals?"
    r"|extern|bundled|Godeps)/",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"(?:^|/)(?:examples?|samples?|demos?|tutorials?|benchmarks?|bench|perf|playgrounds?|notebooks?)"
    r"(?:[_-]\w+)?/"
    r"|(?:^|/)bench(?:mark)?s?[._-][^/]*$|(?:^|/)[^/]*[._-](?:bench(?:mark)?|perf_?tests?)\.\w+$",
    re.IGNORECASE,
)
_TOOL = re.compile(
    r"^(?:tools?|scripts?|hack|misc|build|ci|dev|devtools|utils?|contrib|fuzz(?:ing)?|release|packaging)/"
    r"|(?:^|/)(?:scripts|fuzz(?:ing)?|setup\.py$|noxfile\.py$|conftest\.py$|build\.rs$)"
)
_GENERATED_NAME = re.compile(
    r"(?:\.min\.(?:js|css)|\.pb\.(?:go|cc|h)|_pb2(?:_grpc)?\.pyi?|\.g\.(?:dart|cs)|\.generated\.\w+"
    r"|_generated\.\w+|\.bundle\.js)$|(?:^|/)(?:generated|__generated__|autogen)/"
)
_GENERATED_HEAD = re.compile(
    r"code generated .{0,80}do not edit|@generated\b|automatically[ -]generated"
    r"|auto-?generated (?:by|from|file)"
    r"|generated (?:automatically|by) .{0,80}(?:do not|don't) (?:edit|modify)"
    r"|this file (?:is|was) (?:auto)?generated",
    re.IGNORECASE,
)
_WITH_DEFINITIONS = frozenset(
    "kotlin scala swift csharp lua elixir haskell ocaml perl r julia dart zig sql".split()
)
"""Languages of program code besides those whose references are read."""
_HEAD_LINES, _MAX_HEAD_CHARS = 8, 300
_LONG_LINE_CHARS = 400
"""The mean length of the lines of a minified file."""


def is_carried(path: str) -> bool:
    """Return whether a file is vendored or an example, by its path."""
    return bool(_VENDORED.search(path) or _EXAMPLE.search(path))


def is_tool(path: str) -> bool:
    """Return whether a file is a script for development, by its path."""
    return bool(_TOOL.search(path))


def role_of(file: File) -> Role:
    """Return what a code file is, by the conventions for folders, names and first lines."""
    if _VENDORED.search(file.path):
        return "vendored"
    if _EXAMPLE.search(file.path):
        return "example"
    head = " ".join(line[:_MAX_HEAD_CHARS] for line in file.lines[:_HEAD_LINES])
    is_minified = len(file.text) > _LONG_LINE_CHARS * max(1, len(file.lines))
    if is_minified or _GENERATED_NAME.search(file.path) or _GENERATED_HEAD.search(head):
        return "generated"
    if is_tool(file.path):
        return "tool"
    return "own" if has_references(file.language) or file.language in _WITH_DEFINITIONS else "other"


def code_by_role(survey: Survey) -> Mapping[Role, list[File]]:
    """Return the code files of each role, by path.

    A repository of nothing but tools, examples or vendored code has these as its own.
    """
    found: dict[Role, list[File]] = {role: [] for role in get_args(Role)}
    for file in survey.of_kind("code"):
        found[role_of(file)].append(file)
    other: tuple[Role, ...] = ("tool", "example", "vendored", "generated", "other")
    for role in other:
        if not found["own"]:
            found["own"], found[role] = found[role], []
    return found
