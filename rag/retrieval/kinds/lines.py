"""Show the lines that a question names: "Show me lines 40 to 60 of app.py", "and line 80 of that?".

Those of "show me the whole function" are the lines of the definition that was last shown.
"""

from __future__ import annotations

from collections.abc import Iterator

from rag.analysis import is_stop_word, words
from rag.ports import ChunkIndex
from rag.retrieval.follow_ups import whole_asked
from rag.retrieval.kinds.asked import Asked, FactPlace, FileText, code_facts, named
from rag.retrieval.mentions import is_path
from rag.retrieval.question import without_places
from rag.types import CodeFacts
from rag.types.question_kinds import LINES

_SHOWING = frozenset("display explain file give happens open print quote read see show".split())
_MAX_FILES = 4
"""How many files of one name are shown."""
_MAX_LINES = 200
"""How many lines of one range are shown."""


def find(asked: Asked) -> CodeFacts | None:
    """Return the lines that the question names, by chunk; None if the file is not indexed."""
    shown = [
        (file, first, last)
        for path, first, last in asked.question.question.lines
        for file in (_files(asked, path) if path else ())
    ]
    if not shown:
        return None
    (file, first, last), of_what = shown[0], ""
    size = len(file.lines)
    if whole := whole_asked(asked.question.question.text):
        first, last, of_what = (1, size, "") if whole == "file" else _definition(asked, file, first, last)
        shown = [(file, first, last)]
    if first > size and not _asks_for_nothing_else(asked.question.question.text):
        return None
    if first > size:
        summary = f"{named(file.path)} has {size} line{'s' * (size != 1)}, and no line {first}"
    else:
        last = min(last, size)
        which = f"line {first}" if first == last else f"lines {first}-{last}"
        summary = f"{of_what}{named(file.path)}, {which} of {size}"
    if others := {other.path for other, *_ in shown} - {file.path}:
        summary += f"; {len(others)} other file" + ("s are" if len(others) > 1 else " is") + " shown as well"
    ranges = [(file, *_within(asked, file, first, last)) for file, first, last in shown]
    return code_facts(
        asked, LINES, file.path, summary, [place for one in ranges for place in _by_chunk(*one)]
    )


def _definition(asked: Asked, file: FileText, first: int, last: int) -> tuple[int, int, str]:
    """Return all lines of the definition that the last answer shows, and its name; the same without one."""
    place = file.path, first, last
    name = next((p.symbol for p in asked.question.shown if (p.path, p.start, p.end) == place), "")
    within = [one for one in file.index.graph.defined_in(file.path) if one.start <= last and first <= one.end]
    within = [one for one in within if one.name == name] or [one for one in within if one.start <= first]
    if not within:
        return first, last, ""
    return within[-1].start, within[-1].end, f"{named(within[-1].qualified_name)} in "


def _asks_for_nothing_else(question: str) -> bool:
    left = (word.lower() for word in words(without_places(question)) if not is_stop_word(word))
    return _SHOWING.issuperset(left)


def _files(asked: Asked, mentioned: str) -> list[FileText]:
    """Return the files that a mention means: the one with exactly this path, else all that end with it."""
    found = [(index, path) for index in asked.indexes for path in _paths(index, mentioned)]
    exact = [one for one in found if one[1] == mentioned]
    files = (asked.file(*one) for one in asked.first(exact or found, _MAX_FILES, "files are shown"))
    return [file for file in files if file is not None and file.lines]


def _paths(index: ChunkIndex, mentioned: str) -> Iterator[str]:
    every = (index.file_path(file) for file in range(index.total_files))
    return (path for path in every if is_path(path, mentioned) and index.chunks_of(path))


def _within(asked: Asked, file: FileText, first: int, last: int) -> tuple[int, int]:
    """Return the first and last line of a range that are shown."""
    first, last = min(first, len(file.lines)), min(last, len(file.lines))
    shown = asked.first([*range(first, last + 1)], _MAX_LINES, "lines of a range are shown")
    return first, first + len(shown) - 1


def _by_chunk(file: FileText, first: int, last: int) -> Iterator[FactPlace]:
    """Yield the lines in parts, each within one chunk."""
    while first <= last:
        end = max(min(file.index.lines(file.chunk_at(first))[1], last), first)
        yield FactPlace(file, first, "the lines asked for", end=end)
        first = end + 1
