"""Find the folder that is a list: its files and folders are the members, "which plugins are there".

The name of the folder has the word for the members, and the path all words that the question calls them by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rag.analysis import terms
from rag.code.languages import kind_of_path
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import MAX_FACTS, Asked, FactPlace, FileText, Ranked
from rag.retrieval.kinds.list_fit import words_of_phrase
from rag.types import CodeDefinition

_MIN_MEMBERS, _MAX_FILES = 4, 120
_NO_MEMBERS = frozenset(terms("index init mod base main readme common util"))
"""The stems of files that hold what the members share."""


def folder_named(asked: Asked) -> tuple[str, list[FactPlace], int]:
    """Return the folder with the name that is asked for, where its members begin, and their number; "" if the
    best files are in none.
    """
    indexes = {(id(one.index), folder): one.index for one, folder in _folders(asked, words_of_phrase(asked))}
    for (_, folder), index in indexes.items():
        if len(members := _members(index, folder)) >= _MIN_MEMBERS:
            return folder, [*_places(asked, index, members)], len(members)
    return "", [], 0


def _folders(asked: Asked, words: list[str]) -> Iterator[tuple[Ranked, str]]:
    """Yield the folders of the best code that have the words asked for, the last one in their name."""
    for one in asked.best if words else ():
        *folders, _ = one.hit.path.split("/")
        for depth in range(len(folders) if one.hit.kind == "code" else 0, 0, -1):
            folder = "/".join(folders[:depth])
            if terms(folders[depth - 1])[-1:] == words[-1:] and set(words) <= set(terms(folder)):
                yield one, folder


def _members(index: ChunkIndex, folder: str) -> dict[str, str]:
    """Return the files and folders in a folder, each with the path of its main file, by name."""
    found: dict[str, str] = {}
    paths = map(index.file_path, range(index.total_files))
    for path in sorted((path for path in paths if path.startswith(f"{folder}/")), key=_order):
        if kind_of_path(path) == "test" or not index.chunks_of(path):
            continue
        name, inner, _ = path.removeprefix(f"{folder}/").partition("/")
        stem = name.partition(".")[0]
        if inner or not _NO_MEMBERS.issuperset(terms(stem)[:1]):
            found.setdefault(name if inner else stem, path)
    return found


def _order(path: str) -> tuple[str, bool, str]:
    """Return the order of a path: the files of a folder together, its main file first."""
    folder, _, name = path.rpartition("/")
    return folder, _NO_MEMBERS.isdisjoint(terms(name.partition(".")[0])), name


def _places(asked: Asked, index: ChunkIndex, members: Mapping[str, str]) -> Iterator[FactPlace]:
    for name, path in sorted(members.items())[:MAX_FACTS]:
        if (file := asked.file(index, path, most=_MAX_FILES)) is not None:
            yield FactPlace(file, _declaration(file, name), "is in the folder")


def _declaration(file: FileText, name: str) -> int:
    """Return the line, from 1, of the definition that is named most like a member of a folder."""
    graph, wanted = file.index.graph, set(terms(name))

    def likeness(one: CodeDefinition) -> tuple[int, int, int]:
        named = set(terms(one.name))
        return len(wanted & named), -len(named - wanted), -one.start

    best = max((*graph.defined_in(file.path), *graph.values_in(file.path)), key=likeness, default=None)
    return best.start if best else 1
