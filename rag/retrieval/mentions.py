"""Find places that a question refers to by more than its words.

It names a line (`src/app.py:12`, a traceback); it asks about nothing but a file or a folder ("What does
src/app.py do?"); or it asks something that applies to any project and has a conventional place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set
from functools import partial
from itertools import chain, groupby, islice, pairwise
from weakref import WeakKeyDictionary

import numpy as np

from rag.analysis import term_set
from rag.identifiers import composed
from rag.lines import lines_of
from rag.ports import ChunkIndex
from rag.retrieval.build_commands import build_command
from rag.retrieval.conventional_places import README, Place
from rag.retrieval.project_questions import (
    NEUTRAL_WORDS,
    OF_CODE,
    ProjectQuestion,
    asked_words,
    overview_question,
    project_questions,
    topic_words,
)
from rag.retrieval.question import ParsedQuestion
from rag.top_k import distinct, find_sorted
from rag.types import Hit

_DECAY = 0.9
"""The weight of each place relative to the one before."""
_MAX_REFERENCED = 8
"""The largest number of chunks returned where no line is named."""
_MAX_FILES = 30
"""The largest number of files read to find a matching line."""
_DEPTHS = 3
"""At how many depths of folders a place is looked for."""
_MAX_DEPTH = 3
"""A heading below others of this depth is about a detail."""
_MAX_READ = 500
"""The largest number of chunks read among those that hold certain terms."""
_LONG_QUESTION_CHARS = 120
_LONG_WITH_PATHS = 400
"""A longer question, in characters, asks for more than its places."""
_MIN_WORDS = 2
"""A single word is a name to look up."""
_MIN_NAME = 3
"""The characters of a name of the project by which paths are recognized."""
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
_NAMED_KIND = re.compile(r"\b(?:this|the) \w+(?= (?:for|do|about)\b)", re.I)
"""What a path is called next to it: "what is this model for: app/models/song.py"."""
_EXTENSION = re.compile(r"\.[^./]*$")
_README = re.compile(README, re.I)
_TITLE = re.compile(r"\A\W*(\w[\w.-]*)")
_MARKS = " \t#=*\r\n"
_UNDERLINE = re.compile(r"([=~^-])\1{2,}\s*\Z")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def referenced(
    index: ChunkIndex, question: ParsedQuestion, about: ProjectQuestion | None
) -> tuple[dict[int, float], dict[int, int]]:
    """Return the live chunks that a question refers to, best first, each with a weight above 0 and up to 1;
    and the lines of some of them at which the answer begins.

    `about` is what the question asks about the whole project, see `project_question`.
    """
    if question.places:
        return dict.fromkeys(_lines(index, question), 1.0), {}
    lines: dict[int, int] = {}
    for chunk, line in _found(index, question, about):
        lines.setdefault(chunk, line)
        if len(lines) == _MAX_REFERENCED:
            break
    return {chunk: _DECAY**n for n, chunk in enumerate(lines)}, lines


def asks_only_for_paths(question: ParsedQuestion) -> bool:
    """Return whether a question asks about nothing but files or folders: "What does src/app.py do?"."""
    words = _words(_NAMED_KIND.sub(" ", _without(question.text, question.paths)))
    return not set(words) - NEUTRAL_WORDS - _EXPLAIN


def is_path(path: str, mentioned: str) -> bool:
    """Return whether a path is the one mentioned. The mention may lack the first folders or the extension, or
    have more folders in front.
    """
    path, mentioned = composed(path).lower(), f"/{composed(mentioned).lower().removeprefix('./').lstrip('/')}"
    named = path if "." in mentioned.rpartition("/")[2] else _EXTENSION.sub("", path)
    return f"/{named}".endswith(mentioned) or mentioned.endswith(f"/{path}")


def _is_in(path: str, folder: str) -> bool:
    """Return whether a path is in a folder; the mention may lack the folder's first parents."""
    return f"/{composed(folder)}/" in f"/{composed(path)}"


def _lines(index: ChunkIndex, question: ParsedQuestion) -> Iterator[int]:
    """Return the chunks that hold a mentioned line, ascending."""
    for file in range(index.total_files):
        path = index.file_path(file)
        lines = [line for mentioned, line in question.places if is_path(path, mentioned)]
        for chunk in _of_file(index, file) if lines else ():
            first, last = index.lines(chunk)
            if any(first <= line <= last for line in lines):
                yield chunk


def _found(
    index: ChunkIndex, question: ParsedQuestion, about: ProjectQuestion | None
) -> Iterator[tuple[int, int]]:
    """Yield chunks, best first, each with the line at which the answer begins, 0 where it is not known."""
    command = build_command(question.text)
    if command is not None and (defining := _chunks_of_place(index, command)):
        return iter(defining)
    if question.paths and len(question.text) <= _LONG_WITH_PATHS:
        is_whole = asks_only_for_paths(question)
        return ((chunk, 0) for chunk in _files(index, question.paths)) if is_whole else iter(())
    asked = term_set(question.text) if about else set()
    return (
        found for place in (about.places if about else ()) for found in _chunks_of_place(index, place, asked)
    )


def project_question(index: ChunkIndex, question: ParsedQuestion, *, begins: bool) -> ProjectQuestion | None:
    """Return the kind of a question about the whole project; None when it asks for something else.

    The project may be called by its name, in a first question also "this" or "it". In a question that depends
    on earlier ones, "it" may be anything.
    """
    text = question.text
    if len(text) > _LONG_QUESTION_CHARS or not len(index):
        return None
    words = frozenset(_words(text))
    # API, CLI and e2e are words.
    named = any(not name.isupper() and name not in asked_words() for name in question.names)
    if question.places or question.paths or named or OF_CODE.search(text):
        return None
    if row := overview_question(words, project_names(index), begins=begins):
        return row
    if len(words) < _MIN_WORDS or (not begins and question.dependent and not _WHOLE.search(text)):
        return None
    own = project_names(index)
    if words - topic_words() - own:
        return None
    for row in project_questions():
        is_whole = words & own or row.is_asked(words) or (begins and words & _THIS)
        if row.is_asked(words | {"project"}) and is_whole and row.left_over(words) <= own:
            return row
    return None


def project_names(index: ChunkIndex) -> frozenset[str]:
    """Return the names of the project: the repository's, in whole and in parts, and the first words of its
    README.
    """
    if (known := _NAMES.get(index)) is not None:
        return known
    name = index.hit(0, 0.0, {}).repo.lower()
    called = [name, *re.findall(r"[^\W_]+", name)]
    first = next(chain.from_iterable(_nearest(index, _README)), None)
    title = None if first is None else _TITLE.search(_text(index, first))
    names = _NAMES[index] = frozenset(called + ([title[1].lower()] if title else [])) - NEUTRAL_WORDS
    return names


_NAMES: WeakKeyDictionary[ChunkIndex, frozenset[str]] = WeakKeyDictionary()


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


def _chunks_of_place(index: ChunkIndex, place: Place, asked: Set[str] = frozenset()) -> list[tuple[int, int]]:
    """Return the chunks of a place that match, each with its line: below a heading those come first whose
    headings have most of the terms asked for, else the order is that of the files; in code those with most
    matching lines come first.
    """
    line, path = re.compile(place.line, re.I | re.M), re.compile(place.path, re.I)
    if place.terms:
        return _in_code(index, place, line, path)
    for beginning in islice(_nearest(index, path), _DEPTHS):
        hits = ((chunk, index.hit(chunk, 0.0, {})) for chunk in beginning)
        if place.headed:
            sections = islice(((c, hit) for c, hit in hits if _is_section(hit, line)), _MAX_READ)
            found = sorted(sections, key=lambda one: _heads(one[1], line, asked), reverse=True)
        else:
            found = list(islice(((c, hit) for c, hit in hits if line.search(hit.text)), place.most))
        if found:
            return [(chunk, _line_asked(hit, line, place)) for chunk, hit in found[: place.most]]
    return []


def _in_code(
    index: ChunkIndex, place: Place, line: re.Pattern[str], path: re.Pattern[str]
) -> list[tuple[int, int]]:
    chunks = distinct(np.concatenate([index.postings(term).chunks for term in place.terms]))
    read = chunks[index.kind[chunks] == _CODE][:_MAX_READ].tolist()
    hits = [(chunk, index.hit(chunk, 0.0, {})) for chunk in read if path.search(_path(index, chunk))]
    lines = {chunk: len(line.findall(hit.text)) for chunk, hit in hits}

    own = [name for name in project_names(index) if len(name) >= _MIN_NAME] if hits else []

    def order(one: tuple[int, Hit]) -> tuple[int, bool, int]:
        path = one[1].path.lower()
        return -lines[one[0]] if place.by_count else 0, not any(name in path for name in own), path.count("/")

    found = sorted((one for one in hits if lines[one[0]]), key=order)
    return [(chunk, _line_asked(hit, line, place)) for chunk, hit in found[: place.most]]


def _titles(hit: Hit, line: re.Pattern[str]) -> list[tuple[int, str]]:
    """Return the headings of a section that match, those above it first, each with its depth from 1; without
    those of details.
    """
    above = [*filter(None, hit.scope.split(".")), hit.symbol]
    lines = _outside_fences(lines_of(hit.text))
    inside = [
        (len(one) - len(one.lstrip("#=")) or len(above), one.strip(_MARKS))
        for one, below in pairwise([*lines, ""])
        if _is_heading(one, below)
    ]
    titles = dict.fromkeys([*enumerate(above, 1), *inside])
    return [(depth, title) for depth, title in titles if depth <= _MAX_DEPTH and line.search(title)]


def _outside_fences(lines: list[str]) -> list[str]:
    """Return the lines, those of blocks of code blank."""
    inside, outside = False, []
    for line in lines:
        is_fence = line.lstrip().startswith(("```", "~~~"))
        outside.append("" if inside or is_fence else line)
        inside ^= is_fence
    return outside


def _is_heading(line: str, below: str) -> bool:
    return line.startswith(("# ", "##", "= ", "==")) or (
        bool(line.strip()) and _UNDERLINE.match(below) is not None
    )


def _is_section(hit: Hit, line: re.Pattern[str]) -> bool:
    """Return whether a heading matches, or in a text without headings any line."""
    return bool(_titles(hit, line)) or (not hit.symbol and line.search(hit.text) is not None)


def _heads(hit: Hit, line: re.Pattern[str], asked: Set[str]) -> tuple[bool, int]:
    """Return whether a heading matches, and how well the best of them does: by the terms asked for that it
    has, by its depth, where those below the title of a file come first, and by the terms of another subject.
    """
    fits = [
        3 * len(asked & term_set(title))
        - (1, 0, 2)[depth - 1]
        - 2 * len(term_set(line.sub("", title)) - asked)
        for depth, title in _titles(hit, line)
    ]
    return bool(fits), max(fits, default=0)


def _line_asked(hit: Hit, line: re.Pattern[str], place: Place) -> int:
    """Return the line of a matching chunk at which the answer begins."""
    titles = {title for _, title in _titles(hit, line)} if place.headed else ()
    for n, text in enumerate(lines_of(hit.text)) if titles else ():
        if text.strip(_MARKS) in titles:
            return hit.start + n
    matched = None if titles else line.search(hit.text)
    return hit.start + (hit.text.count("\n", 0, matched.end()) if matched else 0)


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
    """Return the files whose paths match, the nearest to the root first, of these the one named like the
    repository, then by path.
    """
    name = f"/{index.hit(0, 0.0, {}).repo.lower()}." if len(index) else ""
    paths = [
        (path.count("/"), name not in f"/{path.lower()}", path, file)
        for file in range(index.total_files)
        if wanted(path := index.file_path(file))
    ]
    return [file for *_, file in sorted(paths)]


def _of_file(index: ChunkIndex, file: int) -> list[int]:
    """Return the live chunks of a file, ascending."""
    first, end = (int(find_sorted(index.file, file, side)) for side in ("left", "right"))
    return [chunk for chunk in range(first, end) if index.dead is None or not index.dead[chunk]]
