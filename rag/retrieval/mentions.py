"""Find places that a question refers to by more than its words.

It names a line (`src/app.py:12`, a traceback); it asks about nothing but a file or a folder ("What does
src/app.py do?"); or it asks something that applies to any project and has a conventional place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set
from functools import partial
from itertools import chain, groupby, islice

import numpy as np

from rag.ports import ChunkIndex
from rag.retrieval.build_commands import build_command
from rag.retrieval.project_questions import (
    ASKED_WORDS,
    NEUTRAL_WORDS,
    PROJECT_QUESTIONS,
    README,
    Place,
    ProjectQuestion,
)
from rag.retrieval.question import ParsedQuestion
from rag.top_k import distinct, find_sorted

_DECAY = 0.9
"""The weight of each place relative to the one before."""
_MAX_REFERENCED = 8
"""The largest number of chunks returned where no line is named."""
_MAX_FILES = 30
"""The largest number of files read to find a matching line."""
_DEPTHS = 3
"""At how many depths of folders a place is looked for."""
_MAX_READ = 500
"""The largest number of chunks read among those that hold certain terms."""
_LONG_QUESTION_CHARS = 120
_LONG_WITH_PATHS = 400
"""A longer question, in characters, asks for more than its places."""
_MIN_WORDS = 2
"""A single word is a name to look up."""
_THIS = frozenset(("this", "it"))
"""What a first question may call the project."""
_CODE, _TEST = 0, 1

_EXPLAIN = frozenset(
    """contain contains describe explain happen happens inside job purpose role summarize summarise outline
    overview summary understand work works module folder directory class script""".split()
)
_WHOLE = re.compile(
    r"\b(?:project|repo|repository|code ?base|package|library|program|tool|app|application|software)\b", re.I
)
_EXTENSION = re.compile(r"\.[^./]*$")
_README = re.compile(README.path, re.I)
_TITLE = re.compile(r"\A\W*(\w[\w.-]*)")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def referenced(index: ChunkIndex, question: ParsedQuestion, *, begins: bool = True) -> dict[int, float]:
    """Return the live chunks that a question refers to, best first, each with a weight above 0 and up to 1.

    `begins` is True for the first question of a conversation.
    """
    if question.places:
        return dict.fromkeys(_lines(index, question), 1.0)
    found = islice(dict.fromkeys(_found(index, question, begins=begins)), _MAX_REFERENCED)
    return {chunk: _DECAY**n for n, chunk in enumerate(found)}


def is_path(path: str, mentioned: str) -> bool:
    """Return whether a path is the one mentioned. The mention may lack the first folders or the extension, or
    have more folders in front.
    """
    mentioned = f"/{mentioned.removeprefix('./').lstrip('/')}"
    named = path if "." in mentioned.rpartition("/")[2] else _EXTENSION.sub("", path)
    return f"/{named}".endswith(mentioned) or mentioned.endswith(f"/{path}")


def _is_in(path: str, folder: str) -> bool:
    """Return whether a path is in a folder; the mention may lack the folder's first parents."""
    return f"/{folder}/" in f"/{path}"


def _lines(index: ChunkIndex, question: ParsedQuestion) -> Iterator[int]:
    """Return the chunks that hold a mentioned line, ascending."""
    for file in range(index.total_files):
        path = index.file_path(file)
        lines = [line for mentioned, line in question.places if is_path(path, mentioned)]
        for chunk in _of_file(index, file) if lines else ():
            first, last = index.lines(chunk)
            if any(first <= line <= last for line in lines):
                yield chunk


def _found(index: ChunkIndex, question: ParsedQuestion, *, begins: bool) -> Iterator[int]:
    command = build_command(question.text)
    if command is not None and (defining := _chunks_of_place(index, command)):
        return iter(defining)
    if question.paths and len(question.text) <= _LONG_WITH_PATHS:
        words = frozenset(_words(_without(question.text, question.paths)))
        return _files(index, question.paths) if words <= NEUTRAL_WORDS | _EXPLAIN else iter(())
    # API, CLI and e2e are words.
    named = any(not name.isupper() and name not in ASKED_WORDS for name in question.names)
    if named or len(question.text) > _LONG_QUESTION_CHARS or not len(index):
        return iter(())
    row = _project_question(index, question.text, begins=begins, leans=not begins and question.dependent)
    if row is None:
        return iter(())
    asked = frozenset(_words(question.text)) - NEUTRAL_WORDS
    return (chunk for place in row.places for chunk in _chunks_of_place(index, place, asked))


def _project_question(index: ChunkIndex, text: str, *, begins: bool, leans: bool) -> ProjectQuestion | None:
    """Return the kind of a question about the whole project; None when it asks for something else.

    The project may be called by its name, in a first question also "this" or "it". In a question that depends
    on earlier ones, "it" may be anything.
    """
    words = frozenset(_words(text))
    if len(words) < _MIN_WORDS or (leans and not _WHOLE.search(text)):
        return None
    for row in PROJECT_QUESTIONS:
        left = row.left_over(words)
        if row.is_asked(words | {"project"}) and len(left) < _MIN_WORDS:
            own = project_names(index)
            if left <= own and (words & own or row.is_asked(words) or (begins and words & _THIS)):
                return row
    return None


def project_names(index: ChunkIndex) -> frozenset[str]:
    """Return the names of the project: the repository's, in whole and in parts, and the first words of its
    README.
    """
    name = index.hit(0, 0.0, {}).repo.lower()
    called = [name, *re.findall(r"[^\W_]+", name)]
    first = next(chain.from_iterable(_nearest(index, _README)), None)
    title = None if first is None else _TITLE.search(_text(index, first))
    return frozenset(called + ([title[1].lower()] if title else [])) - NEUTRAL_WORDS


def _words(text: str) -> list[str]:
    return [re.sub("['’]", "", word) for word in _WORD.findall(text.lower())]


def _without(text: str, paths: tuple[str, ...]) -> str:
    for path in paths:
        text = text.replace(path, " ")
    return text


def _files(index: ChunkIndex, paths: tuple[str, ...]) -> Iterator[int]:
    """Yield the beginning of each file named and its outermost definitions; for a folder the beginnings of
    its files.
    """
    for mentioned in paths:
        for file in _of_path(index, partial(is_path, mentioned=mentioned)):
            chunks = _of_file(index, file)
            names = index.names(np.asarray(chunks, np.int64))
            yield from chunks[:1]
            yield from (
                chunk for chunk, (symbol, scope) in zip(chunks, names, strict=True) if symbol and not scope
            )
        folder = mentioned.removeprefix("./").strip("/")
        for file in _of_path(index, partial(_is_in, folder=folder)):
            yield from _of_file(index, file)[:1]


def _chunks_of_place(index: ChunkIndex, place: Place, asked: Set[str] = frozenset()) -> list[int]:
    """Return the chunks of a place that match, those headed by most of the words asked for first, then in the
    order of its files; in code those with most matching lines first.
    """
    line, path = re.compile(place.line, re.I | re.M), re.compile(place.path, re.I)
    if not place.terms:
        for beginning in islice(_nearest(index, path), _DEPTHS):
            matching = (chunk for chunk in beginning if line.search(_text(index, chunk)))
            if found := list(islice(matching, _MAX_READ if asked else place.most)):
                return sorted(found, key=lambda chunk: -_heads(index, chunk, asked))[: place.most]
        return []
    chunks = distinct(np.concatenate([index.postings(term).chunks for term in place.terms]))
    read = chunks[index.kind[chunks] == _CODE][:_MAX_READ].tolist()
    code = [chunk for chunk in read if path.search(_path(index, chunk))]
    lines = {chunk: len(line.findall(_text(index, chunk))) for chunk in code}
    return sorted((chunk for chunk in code if lines[chunk]), key=lambda c: -lines[c])[: place.most]


def _heads(index: ChunkIndex, chunk: int, asked: Set[str]) -> int:
    """Return how many of some words the name or heading of a chunk has."""
    return len(asked & set(_words(index.hit(chunk, 0.0, {}).symbol))) if asked else 0


def _nearest(index: ChunkIndex, path: re.Pattern[str]) -> Iterator[Iterator[int]]:
    """Yield the chunks, without tests, of the files with a matching path: first those nearest to the root."""
    files = _of_path(index, lambda named: path.search(named) is not None)[:_MAX_FILES]
    for _, same in groupby(files, key=lambda file: index.file_path(file).count("/")):
        yield (chunk for file in same for chunk in _of_file(index, file) if index.kind[chunk] != _TEST)


def _text(index: ChunkIndex, chunk: int) -> str:
    return index.hit(chunk, 0.0, {}).text


def _path(index: ChunkIndex, chunk: int) -> str:
    return index.file_path(int(index.file[chunk]))


def _of_path(index: ChunkIndex, wanted: Callable[[str], bool]) -> list[int]:
    """Return the files whose paths match, the nearest to the root first, then by path."""
    paths = [
        (path.count("/"), path, file)
        for file in range(index.total_files)
        if wanted(path := index.file_path(file))
    ]
    return [file for _, _, file in sorted(paths)]


def _of_file(index: ChunkIndex, file: int) -> list[int]:
    """Return the live chunks of a file, ascending."""
    first, end = (int(find_sorted(index.file, file, side)) for side in ("left", "right"))
    return [chunk for chunk in range(first, end) if index.dead is None or not index.dead[chunk]]
