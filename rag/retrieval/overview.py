"""Outline a repository, a folder or a file for a question about it as a whole: "how does this project work".

Such a question has words that ask for a whole, and no others: neither a topic nor a name, except that of the
place. An outline lists the definitions of a file that the most other files use, with their lines.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rag.analysis import terms, words
from rag.ports import ChunkIndex
from rag.retrieval.mentions import project_names
from rag.retrieval.project_questions import NEUTRAL_WORDS, asks_for_whole, overview_question
from rag.retrieval.rank import CODE, TEST
from rag.retrieval.search import RetrievalResult, Searcher
from rag.types import CodeDefinition, FileOutline, OutlinedDefinition

_WHAT = re.compile(
    r"\bwhat (?:does|do)\b.*\bdo\b|\bwhat(?:['’]s| is| are)? (?:there )?in(?:side)?\b", re.I | re.S
)
_KINDS = "module|package|folder|directory|subfolder|subdirectory|file|component|subsystem|crate|namespace"
_NAME = r"[`'\"]?([\w.-]+(?:/[\w.-]+)*)/?[`'\"]?"
_PLACE = re.compile(rf"(?<![\w/.-]){_NAME}\s+(?:{_KINDS})\b|\b(?:{_KINDS})\s+(?:of )?{_NAME}", re.I)
_PATH = re.compile(r"[`'\"]?(?<![\w.-])((?:[\w.-]+/)+[\w.-]*|[\w-]+\.[a-z]\w{0,4})\b[`'\"]?", re.I)
_MAX_CANDIDATES = 60
"""How many files, the largest, are compared."""
_MAX_FILES = 8
_IN_FILE, _IN_FILES = 40, 6
"""The largest number of definitions that are listed: of one file, and of each of several."""
_RANKED_BY = 5
"""A file is ranked by that many of its definitions."""
_MANY_DEFINITIONS = 10
"""A name with more definitions is too common to say who uses which."""


def outlines(searchers: Sequence[Searcher], found: RetrievalResult) -> Iterator[FileOutline]:
    """Yield an outline of the file that a question is about, or of the most used files of the folder or the
    repository; nothing if it does not ask for a whole.
    """
    question = found.sought.question.text
    for index in (searcher.index for searcher in searchers):
        paths = _paths_asked(question, index)
        if paths:
            yield from _outlined(index, paths)
            return


def outline_of_file(index: ChunkIndex, path: str, *, most: int) -> FileOutline | None:
    """Return the outline of a file with its most used definitions; None if it has none, or is not stored."""
    used = Users(index).of_definitions(path) if index.file_text(path) is not None else {}
    return _outline(index, _Listed(path, used), most) if used else None


def _paths_asked(question: str, index: ChunkIndex) -> list[str]:
    """Return the files of code that a question asks about as a whole, the largest first."""
    for pattern in (_PATH, _PLACE):
        for match in pattern.finditer(question):
            name = next(filter(None, match.groups()))
            rest = f"{question[: match.start()]} {question[match.end() :]}"
            is_whole = name.lower() not in NEUTRAL_WORDS and _asks_for_whole(rest)
            if is_whole and (held := _held(name, _code_files(index))):
                return held
    asked = {word.lower() for word in words(question)}
    is_asked = asked and len(index) and overview_question(asked, project_names(index), begins=False)
    return _code_files(index) if is_asked else []


def _asks_for_whole(text: str) -> bool:
    """Return whether a question without the name of its subject asks for a whole, and for nothing else."""
    asked = {word.lower() for word in words(text)}
    return asks_for_whole(asked | {"explain"} if _WHAT.search(text) else asked)


def _code_files(index: ChunkIndex) -> list[str]:
    """Return the files of code, those with the most chunks first, then by path."""
    live = index.kind == CODE
    if index.dead is not None:
        live &= ~index.dead
    numbers, counts = np.unique(index.file[live], return_counts=True)
    largest = sorted(zip((-counts).tolist(), map(index.file_path, numbers.tolist()), strict=True))
    return [path for _, path in largest]


def _held(name: str, paths: Sequence[str]) -> list[str]:
    """Return the files that a name means: a file by its path, those of a folder, or a file by its stem."""
    wanted = name.strip("/").lower()
    names = {wanted, wanted.replace(".", "/")}
    whole = [path for path in paths if f"/{path.lower()}".endswith(f"/{wanted}")]
    inside = [path for path in paths if any(f"/{one}/" in f"/{path.lower()}" for one in names)]
    stems = [
        path
        for path in paths
        if any(f"/{posixpath.splitext(path.lower())[0]}".endswith(f"/{one}") for one in names)
    ]
    files = whole or ([] if inside else stems)
    return [min(files, key=lambda path: (path.count("/"), path))] if files else inside


@dataclass(frozen=True, slots=True)
class _Listed:
    """A file with its definitions, each with the number of files that use it."""

    path: str
    used: dict[CodeDefinition, int]

    @property
    def weight(self) -> int:
        """The users of its most used definitions."""
        return sum(sorted(self.used.values(), reverse=True)[:_RANKED_BY])


def _outlined(index: ChunkIndex, paths: Sequence[str]) -> Iterator[FileOutline]:
    users = Users(index)
    listed = [_Listed(path, users.of_definitions(path)) for path in paths[:_MAX_CANDIDATES]]
    listed = [one for one in listed if one.used]
    listed.sort(key=lambda one: (-one.weight, one.path))
    most = _IN_FILE if len(listed) == 1 else _IN_FILES
    for one in listed[:_MAX_FILES]:
        yield _outline(index, one, most)


class Users:
    """Counts the files that use a definition, by the words that they hold."""

    def __init__(self, index: ChunkIndex) -> None:
        self._index = index
        self._holding: dict[str, frozenset[int]] = {}
        self._folders = [posixpath.dirname(index.file_path(file)) for file in range(index.total_files)]

    def of_definitions(self, path: str) -> dict[CodeDefinition, int]:
        """Return the number of other files that use each definition of a file, as far as names show it.

        A file may use it that holds the name of its file or folder, or is in its folder.
        """
        near = self._near(path)
        return {one: self._count(one, near) for one in self._index.graph.defined_in(path)}

    def count(self, one: CodeDefinition) -> int:
        """Return the same of one definition."""
        return self._count(one, self._near(one.path))

    def _near(self, path: str) -> frozenset[int]:
        folder, name = posixpath.split(path)
        near = self._files(posixpath.splitext(name)[0]) | self._files(posixpath.basename(folder))
        return near | {file for file, each in enumerate(self._folders) if each == folder}

    def _count(self, one: CodeDefinition, near: frozenset[int]) -> int:
        """Return the number of files that hold the name and are near: see `of_definitions`."""
        if one.scope or (one.name.islower() and one.name.isalpha()):
            return 0  # a member, or a word that may mean anything
        if len(self._index.defining(one.name)) > _MANY_DEFINITIONS:
            return 0
        return max(len(self._files(one.name) & near) - 1, 0)

    def _files(self, name: str) -> frozenset[int]:
        if name not in self._holding:
            whole = terms(name)[-1:]
            found = self._index.postings(whole[0]).chunks if whole else np.zeros(0, np.int64)
            in_code = found[self._index.kind[found] <= TEST]
            self._holding[name] = frozenset(self._index.file[in_code].tolist())
        return self._holding[name]


def _outline(index: ChunkIndex, listed: _Listed, most: int) -> FileOutline:
    """Return the most used definitions of a file."""

    def rank(one: CodeDefinition) -> tuple[bool, int, bool, int]:
        return bool(one.scope), -listed.used[one], one.name.startswith("_"), one.start - one.end

    repo = index.hit(index.chunks_of(listed.path)[0], 0.0, {}).repo
    return outline_of(repo, listed.path, sorted(listed.used, key=rank), most)


def outline_of(repo: str, path: str, ranked: Sequence[CodeDefinition], most: int) -> FileOutline:
    """Return the outline of a file with the first of its definitions, by line."""
    shown = sorted(ranked[:most], key=lambda one: (one.start, -one.end))
    listed = tuple(OutlinedDefinition(one.start, one.end, one.qualified_name) for one in shown)
    return FileOutline(repo, path, listed, len(ranked) - len(listed))
