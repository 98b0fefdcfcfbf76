"""Find what imports a file or module that a question names: "Who imports app/store.py?"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from rag.analysis import is_stop_word, terms
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import INCOMPLETE, Asked, FactPlace, code_facts, named
from rag.retrieval.mentions import is_path
from rag.retrieval.uses import import_name, imports_by_text, imports_of, summary
from rag.types import CodeFacts, CodeUse
from rag.types.question_kinds import CALLERS

_MAX_FILES = 12
_NAME = r"([\w$-]{3,}(?:(?:\.|::|/)[\w$-]+)*)"
_MODULE = re.compile(
    rf"\b(?:imports?|importing|importers? of) (?:the )?(?:(?:module|file|package|header) )?[`\"']?{_NAME}"
    rf"|(?<![\w$.:/-]){_NAME}[`\"']? (?:is )?imported\b",
    re.I,
)
_OPEN = f"{INCOMPLETE}only imports that can be followed are counted"


def find(asked: Asked) -> CodeFacts | None:
    """Return the imports of the files that the question names; None if it names no file. Without imports, the
    count is 0, and the only fact the first file.
    """
    unused = None
    for index in asked.indexes:
        paths = _files_named(index, asked)
        uses = [use for path in paths for use in index.graph.importers(path)]
        certain = bool(uses)
        uses = uses or [use for path in paths for use in _unresolved(asked, index, path)]
        found = [
            asked.place(index, use.path, use.line, f"imports {paths[0]}", certain=use.certain) for use in uses
        ]
        if places := [place for place in found if place]:
            count = len({(use.path, use.line) for use in uses})
            verb = "imported" if certain else "possibly imported"
            summary = f"{named(paths[0])} is {verb} in {count} place" + "s" * (count != 1)
            return code_facts(
                asked,
                CALLERS,
                paths[0],
                summary,
                places,
                note=_OPEN,
                count=count,
                certain_count=len({(use.path, use.line) for use in uses if use.certain}),
                is_doubtful=True,
            )
        if paths and unused is None:
            unused = _unused(asked, index, paths[0])
    return unused


def _unresolved(asked: Asked, index: ChunkIndex, path: str) -> Iterator[CodeUse]:
    """Yield the lines that import the name of a file, in a language whose imports are not followed."""
    return imports_by_text(index, path, asked.hits_with(index, terms(import_name(path))[-1:]))


def _unused(asked: Asked, index: ChunkIndex, path: str) -> CodeFacts | None:
    """Return that nothing imports a file, with the first lines of code that have its name."""
    if (file := asked.file(index, path)) is None:
        return None
    uses = imports_of(index, path)
    asked.limits.update(dict.fromkeys(uses.limits))
    named = (asked.place(index, use.path, use.line, uses.reason(use), certain=False) for use in uses.shown)
    places = [FactPlace(file, 1, "is not imported"), *filter(None, named)]
    said = summary(uses, files=index.file_count)
    found = code_facts(asked, CALLERS, path, said, places, note=_OPEN)
    return found and replace(found, count=0, certain_count=0)


def _paths(index: ChunkIndex) -> Iterator[str]:
    return (index.file_path(file) for file in range(index.total_files))


def _files_named(index: ChunkIndex, asked: Asked) -> list[str]:
    """Return the files that the question names by path, or as a module; none if these are many."""
    question = asked.question.question
    mentioned = (max(both) for both in _MODULE.findall(question.text))
    modules = (re.sub(r"\.|::", "/", name) for name in mentioned if not is_stop_word(name))
    names = [*question.paths, *modules]
    every = list(_paths(index)) if names else []
    for name in names:
        found = [path for path in every if is_path(path, name) and index.chunks_of(path)]
        if 0 < len(found) <= _MAX_FILES:
            return sorted(found)
    return []
