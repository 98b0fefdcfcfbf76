"""Find a setting that is asked for by its name: an option, an environment variable, a key or a constant.

The index has the lines that hold the name. First are those that give it a value, then those that declare it
with a default or read it, then those of documents, then those of code with the name only in a text. A
question for a default that names only what it is of ("which port by default?") is answered by the lines that
give a value to such a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce

import numpy as np

from rag.analysis import term_set, terms
from rag.code.languages import kind_of_path
from rag.code.roles import is_carried
from rag.ports import ChunkIndex
from rag.quoting import one_line
from rag.retrieval.kinds.asked import Asked, FactPlace, FileText, code_facts, named
from rag.retrieval.kinds.recognition import settings_named
from rag.retrieval.shown_definition import is_in_test
from rag.types import CodeFacts, Kind
from rag.types.question_kinds import SETTING

_MAX_FILES = 12
_MAX_PLACES = 6
_MAX_LINE_CHARS = 500
_NEXT_LINES = 5
"""How many lines below a name a default that belongs to it may be."""
_VALUE = r"[\"'`\])]*\s*(?:\??:[^=]{1,40}?)?(?::?=|:)-?\s*(?![=>])\S"
_DEFAULT = re.compile(r"default", re.I)
_ATTRIBUTE = re.compile(r"\s*(?:#\[|@)")
"""The beginning of an attribute or annotation, which belongs to the line below."""
_COMMENT = re.compile(r"\s*(?:#(?!\[|\s*define\b)|//|/?\*)")
_TEXT = re.compile(
    r"\"(?:[^\"\\]|\\.)*+\"|(?<![\w&<])'(?:[^'\\]|\\.)*+'|(?<!\S)(?:#(?![\[{!]|\s*define\b)|//|--\s).*"
)
"""A string literal, or the comment at the end of a line."""
_INSERTED = re.compile(r"\{[^{}]*\}|\$\w+")
_OUTSIDE_EXPRESSION = re.compile(r"(?:\A|[}%]\})(?:(?!\{[{%]).)*")
"""What of a line is in no expression of a template: `{{ port }}`."""
_KEY = re.compile(r"\s*+(?:-\s++)*+[\"']?([\w.-]++)[\"']?\s*[:=]")
_READS = re.compile(r"\b(?:reads?|uses?|used)\b", re.I)
_NOUN = re.compile(r"\b(?:what|which|how many|default) (?!is\b|are\b|the\b|default)([a-z]{3,30}?)s?\b", re.I)
_LITERAL = r"(?:\d|[\"'][^\"'{$%]+[\"'][\s,;)]*$)"
_MAX_NAMES, _WINDOW, _MAX_SHOWN_CHARS = 8, 4, 80
_GIVEN, _DEFAULTED, _READ, _DOCUMENTED, _MENTIONED = range(5)
_VERBS = ("sets {}", "declares {} with its default", "reads {}", "documents {}", "mentions {}")


def find(asked: Asked) -> CodeFacts | None:
    """Return the places of the first name of the question that the code declares; None if it has none.

    Those that read it come first if a follow-up asks for them.
    """
    text, setting = asked.question.question.text, asked.question.setting
    wanted = _READ if setting and _READS.search(text) else _GIVEN
    names = [setting] if setting else settings_named(text)
    for name in names:
        every = (one for index in asked.indexes for one in _places(asked, index, name))
        found = sorted(every, key=lambda one: (one[0] != wanted, one[0]))
        if any(what < _READ for what, _ in found):
            first = found[0][1]
            places = asked.first([place for _, place in found], _MAX_PLACES, "places are shown")
            verb = "read" if found[0][0] == _READ else "declared"
            summary = f"{named(name)} is {verb} in {named(first.file.path)}"
            return code_facts(asked, SETTING, name, summary, places, count=len(found))
    return None if names else _of_noun(asked)


def _of_noun(asked: Asked) -> CodeFacts | None:
    """Return the lines that give a literal value to names ending in what a default is asked of; None if there
    are none or many. Those with the most words of the question near them come first.
    """
    question = asked.question.question
    noun = _NOUN.search(question.text)
    if not noun or not _DEFAULT.search(question.text):
        return None
    given = re.compile(
        rf"(?<![\w.-])(?P<name>(?:[\w.-]*[_.-]|[\w.]*[a-z0-9](?=[A-Z]))?(?i:{noun[1]}s?))[\"']?(?:\s*:\s*\w+(?=\s*=))?"
        rf"\s*(?::?=|:)\s*(?:[\w.:]+\()*(?:[\"']\w+[\"'],\s*)?{_LITERAL}"
    )
    found: dict[str, tuple[int, FactPlace]] = {}
    for index in asked.indexes:
        for path in asked.first(_paths(index, noun[1]), _MAX_FILES, "files were read"):
            file = None if _is_beside(path) else asked.file(index, path)
            if file is None:
                continue
            for number, line in enumerate(file.lines, 1):
                if match := given.search(line[:_MAX_LINE_CHARS]):
                    around = term_set(" ".join(file.lines[max(number - _WINDOW, 0) : number]))
                    said = one_line(line.strip()[:_MAX_SHOWN_CHARS])
                    place = FactPlace(file, number, f"`{said}`", certain=False)
                    value, name = (len(around & question.terms.keys()), place), match["name"].lower()
                    found[name] = max(found.get(name, value), value, key=lambda one: one[0])
    places = [place for _, place in sorted(found.values(), key=lambda one: -one[0])]
    if not 0 < len(places) <= _MAX_NAMES:
        return None
    summary = f"The value of {named(noun[1])} is given in {named(places[0].file.path)}"
    return code_facts(asked, SETTING, noun[1], summary, places, is_doubtful=True)


def places_of(asked: Asked, index: ChunkIndex, name: str) -> list[FactPlace]:
    """Return the lines that set, declare, read or document a setting, in that order; examples come last."""
    found = sorted(_places(asked, index, name), key=lambda one: (_is_beside(one[1].file.path), one[0]))
    return [place for _, place in found]


def _places(asked: Asked, index: ChunkIndex, name: str) -> Iterator[tuple[int, FactPlace]]:
    """Yield the lines with a name, each with what it does with it, one file after the other."""
    for path in asked.first(_paths(index, name), _MAX_FILES, "files were read"):
        file = asked.file(index, path)
        if file is not None and (kind := asked.kind_of(file)) != "test":
            yield from _in_file(file, name, kind)


def _paths(index: ChunkIndex, name: str) -> list[str]:
    *parts, whole = terms(name) or [name]
    held = [index.postings(term).chunks for term in parts or [whole]]
    chunks = reduce(np.intersect1d, held) if held else np.zeros(0, np.int32)
    paths = map(index.file_path, set(index.file[chunks].tolist()))
    return sorted(paths, key=lambda path: (_is_beside(path), path.count("/"), path))


def _is_beside(path: str) -> bool:
    """Return whether a file is not part of what is run: an example, a test, a document, a part of CI."""
    is_hidden = path.startswith(".") and not path.startswith(".env")
    return is_hidden or is_carried(path) or kind_of_path(path) in ("test", "doc")


def _in_file(file: FileText, name: str, kind: Kind) -> Iterator[tuple[int, FactPlace]]:
    spelled = rf"(?<!\w){'[_-]'.join(map(re.escape, re.split('[_-]', name)))}(?![\w-])"
    flags = re.NOFLAG if name.isalpha() else re.I
    written, given = re.compile(spelled, flags), re.compile(spelled + _VALUE, flags)
    is_in_text = False
    for number, line in enumerate(file.lines, 1):
        line, was_in_text = line[:_MAX_LINE_CHARS], is_in_text
        is_in_text ^= line.count('"""') % 2 == 1
        if not (names := [*written.finditer(line)]) or is_in_test(file.index, file.path, number):
            continue
        is_given = given.search(line) is not None
        what, end = _READ, 0
        if kind == "doc" or (_COMMENT.match(line) and not (is_given and kind == "config")):
            what = _DOCUMENTED
        elif kind == "code" and not written.search(_without_texts(f'"{line}"' if was_in_text else line)):
            what = _MENTIONED
        elif not written.search(" ".join(_OUTSIDE_EXPRESSION.findall(line))):
            what = _READ
        elif (default := _default_near(file, number)) and default < number:
            what = _DEFAULTED
        elif is_given and all(line[one.start() - 1] in "\"'" for one in names[1:]):
            what = _GIVEN  # a value that has the name itself, not in quotes, is read there
        elif default:
            what, end = _DEFAULTED, default
        key = _KEY.match(line) if kind == "config" else None
        yield what, FactPlace(file, number, _VERBS[what].format(f"`{name}`"), end, key=key[1] if key else "")


def _without_texts(line: str) -> str:
    """Return a line without its comment, and of its literals of several words only what is inserted."""
    return _TEXT.sub(lambda one: " ".join(_INSERTED.findall(one[0])) if " " in one[0] else one[0], line)


def _default_near(file: FileText, number: int) -> int:
    """Return the line that has the default of a name: of its attributes, its own or below; 0 for none."""
    first = number - 1
    while first > 0 and _ATTRIBUTE.match(file.lines[first - 1]):
        first -= 1
    near = range(first, min(number + _NEXT_LINES, len(file.lines)))
    return next((n + 1 for n in near if _DEFAULT.search(file.lines[n][:_MAX_LINE_CHARS])), 0)
