"""Places that a question points at by more than its words.

A line is mentioned (`src/app.py:12`, a traceback); nothing but a file or a folder is asked about ("What does
src/app.py do?"); or something is that is asked of any project, and told where custom has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

import numpy as np

from rag.ports import ChunkIndex
from rag.retrieval.project_questions import CUSTOMS, README, SAYS_NOTHING, Where
from rag.retrieval.question import ParsedQuestion

_FALLS = 0.9
"""Each place counts so much of the one before."""
_POINTED = 8
"""So many places are pointed at, where no line is mentioned."""
_FILES = 30
"""So many files are read at most, where a line in them is looked for."""
_READ = 500
"""So many chunks, where they hold certain terms."""
_LONG_QUESTION_CHARS = 120
_LONG_WITH_PATHS = 400
"""A question of more characters asks for more."""
_MIN_WORDS = 2
"""One word alone is a name that is looked up."""
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


def pointed_at(index: ChunkIndex, question: ParsedQuestion, *, begins: bool = True) -> dict[int, float]:
    """The live chunks that a question points at, best first, each with how much, above 0 and up to 1.

    `begins` says that nothing was said before it.
    """
    if question.places:
        return dict.fromkeys(_lines(index, question), 1.0)
    found = islice(dict.fromkeys(_found(index, question, begins=begins)), _POINTED)
    return {chunk: _FALLS**n for n, chunk in enumerate(found)}


def is_path(path: str, mentioned: str) -> bool:
    """Whether a path is the one mentioned, perhaps without its first folders or its extension, or with more
    folders before.
    """
    mentioned = f"/{mentioned.removeprefix('./').lstrip('/')}"
    named = path if "." in mentioned.rpartition("/")[2] else _EXTENSION.sub("", path)
    return f"/{named}".endswith(mentioned) or mentioned.endswith(f"/{path}")


def _is_in(path: str, folder: str) -> bool:
    """Whether a path lies in a folder, perhaps mentioned without its first ones."""
    return f"/{folder}/" in f"/{path}"


def _lines(index: ChunkIndex, question: ParsedQuestion) -> Iterator[int]:
    """The chunks that hold a line mentioned, ascending."""
    for file in range(index.total_files):
        path = index.file_path(file)
        lines = [line for mentioned, line in question.places if is_path(path, mentioned)]
        for chunk in _of_file(index, file) if lines else ():
            first, last = index.lines(chunk)
            if any(first <= line <= last for line in lines):
                yield chunk


def _found(index: ChunkIndex, question: ParsedQuestion, *, begins: bool) -> Iterator[int]:
    if question.paths and len(question.text) <= _LONG_WITH_PATHS:
        said = frozenset(_said(_without(question.text, question.paths)))
        return _files(index, question.paths) if said <= SAYS_NOTHING | _EXPLAIN else iter(())
    named = any(not name.isupper() for name in question.names)  # API and CLI are words
    if named or len(question.text) > _LONG_QUESTION_CHARS or not len(index):
        return iter(())
    places = _asked_of_all(index, question.text, leans=not begins and question.dependent)
    return (chunk for place in places for chunk in _told(index, place))


def _asked_of_all(index: ChunkIndex, text: str, *, leans: bool) -> Sequence[Where]:
    """Where it is told what is asked of the whole project; nowhere when something else is asked.

    The project may be called by its name. Of a question that leans on others "it" may be anything.
    """
    said = frozenset(_said(text))
    if len(said) < _MIN_WORDS or (leans and not _WHOLE.search(text)):
        return ()
    for custom in CUSTOMS:
        left = custom.left_over(said)
        if custom.is_asked(said | {"project"}) and len(left) < _MIN_WORDS:
            own = _names(index)
            if left <= own and (said & own or custom.is_asked(said)):
                return custom.places
    return ()


def _names(index: ChunkIndex) -> frozenset[str]:
    """What the project is called: the repository, in whole and in parts, and how its README begins."""
    name = index.hit(0, 0.0, {}).repo.lower()
    called = [name, *re.findall(r"[^\W_]+", name)]
    title = next(map(_TITLE.search, (_text(index, chunk) for chunk in _nearest(index, _README))), None)
    return frozenset(called + ([title[1].lower()] if title else [])) - SAYS_NOTHING


def _said(text: str) -> list[str]:
    return [re.sub("['’]", "", word) for word in _WORD.findall(text.lower())]


def _without(text: str, paths: tuple[str, ...]) -> str:
    for path in paths:
        text = text.replace(path, " ")
    return text


def _files(index: ChunkIndex, paths: tuple[str, ...]) -> Iterator[int]:
    """The beginning of each file named, and what it defines outermost; of a folder how its files begin."""
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


def _told(index: ChunkIndex, place: Where) -> list[int]:
    """The chunks of a place where something is told, in the order of its files; most lines first in code."""
    line, path = re.compile(place.line, re.I | re.M), re.compile(place.path, re.I)
    if not place.terms:
        beginning = _nearest(index, path)
        return list(islice((chunk for chunk in beginning if line.search(_text(index, chunk))), place.most))
    chunks = np.unique(np.concatenate([index.postings(term).chunks for term in place.terms]))
    code = [c for c in chunks[index.kind[chunks] == _CODE][:_READ].tolist() if path.search(_path(index, c))]
    lines = {chunk: len(line.findall(_text(index, chunk))) for chunk in code}
    return sorted((chunk for chunk in code if lines[chunk]), key=lambda c: -lines[c])[: place.most]


def _nearest(index: ChunkIndex, path: re.Pattern[str]) -> Iterator[int]:
    """The chunks, but for tests', of the files of such a path that are nearest to the root."""
    files = _of_path(index, lambda named: path.search(named) is not None)
    nearest = index.file_path(files[0]).count("/") if files else 0
    for file in files[:_FILES]:
        if index.file_path(file).count("/") == nearest:
            yield from (chunk for chunk in _of_file(index, file) if index.kind[chunk] != _TEST)


def _text(index: ChunkIndex, chunk: int) -> str:
    return index.hit(chunk, 0.0, {}).text


def _path(index: ChunkIndex, chunk: int) -> str:
    return index.file_path(int(index.file[chunk]))


def _of_path(index: ChunkIndex, wanted: Callable[[str], bool]) -> list[int]:
    """The files whose paths are wanted, the nearest to the root first, then by path."""
    paths = [
        (path.count("/"), path, file)
        for file in range(index.total_files)
        if wanted(path := index.file_path(file))
    ]
    return [file for _, _, file in sorted(paths)]


def _of_file(index: ChunkIndex, file: int) -> list[int]:
    """The live chunks of a file, ascending."""
    first, end = (int(np.searchsorted(index.file, file, side)) for side in ("left", "right"))
    return [chunk for chunk in range(first, end) if index.dead is None or not index.dead[chunk]]
