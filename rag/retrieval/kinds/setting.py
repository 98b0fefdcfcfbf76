"""Find a setting that is asked for by its name: an option, an environment variable, a key or a constant.

The index has the lines that hold the name. First are those that give it a value or a default, those of the
program before those of what deploys, builds or tests it; then those that read it, then those of documents,
then those of code with the name only in a text. A question for a default that has no such name ("which port
by default?") is answered by the lines that give a literal value to a name of its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain

import numpy as np

from rag.analysis import is_stop_word, term_set, terms
from rag.code.entry_points import MANIFESTS
from rag.code.languages import kind_of_path
from rag.code.roles import is_carried, is_generated, is_tool
from rag.ports import ChunkIndex
from rag.quoting import code_span, one_line
from rag.retrieval.kinds.asked import Asked, FactPlace, FileText, code_facts, named
from rag.retrieval.kinds.recognition import asking_part, settings_named
from rag.retrieval.kinds.value import default_near, is_literal, is_name_of, value_at
from rag.retrieval.mentions import is_path
from rag.retrieval.question import last_part
from rag.retrieval.shown_definition import is_in_test
from rag.types import CodeFacts, Kind
from rag.types.question_kinds import SETTING

_MAX_FILES = 12
_MAX_PLACES = 6
_MAX_LINE_CHARS = 500
_COMMENT = re.compile(r"\s*(?:#(?!\[|\s*define\b)|//|/?\*)")
_TEXT = re.compile(
    r"\"(?:[^\"\\]|\\.)*+\"|(?<![\w&<])'(?:[^'\\]|\\.)*+'|(?<!\S)(?:#(?![\[{!]|\s*define\b)|//|--\s).*"
)
"""A string literal, or the comment at the end of a line."""
_INSERTED = re.compile(r"\{[^{}]*\}|\$\w+")
_OUTSIDE_EXPRESSION = re.compile(r"(?:\A|[}%]\})(?:(?!\{[{%]).)*")
"""What of a line is in no expression of a template: `{{ port }}`."""
_KEY = re.compile(r"\s*+(?:-\s++)*+[\"']?([\w.-]++)[\"']?\s*[:=]")
_VALUE = r"[\"'`\])]*\s*(?:\??:[^=]{1,40}?)?(?::?=|:)-?\s*(?!=|>(?!-?$))\S"
_FIELD = r"\s+[*\[\]]*[A-Za-z][\w.\[\]*]*\s*(?:[`/].*)?$"
"""What follows the name of a field in Go: its type, and its tags."""
_READS = re.compile(r"\b(?:reads?|uses?|used)\b", re.I)
_DEFAULT = re.compile(r"default", re.I)
_PREFIX = re.compile(r"(?:prefix\w*|envconfig\.\w+)\W+[\"'](\w+)[\"']", re.I)
"""What says how the environment variables of all settings begin."""
_ASKS = frozenset(
    "default defaults value values set setting which what how many much long often"
    " function method class file".split()
)
"""The words that ask for a default, rather than say of what."""
_UNIT = r"(?:_?(?:ms|s|secs?|seconds?|minutes?|hours?|days?|bytes|[kmg]b))?"
"""What a name may have after the words that are asked for."""
_DECLARING = re.compile(
    r"(?:^|/)[^/]*(?:config|settings?|defaults?|values|options|constants)[^/]*(?:/[^/]*)?$", re.I
)
"""The files and folders that settings are declared in."""
_DEPLOYS = re.compile(
    r"(?:^|/)(?:[^/]*compose[^/]*\.ya?ml|[^/]*dockerfile[^/]*|[^/]*[._-](?:example|sample|template|dist)(?:\.\w+)?)$",
    re.I,
)
_MIN_SHORT = 4
_MAX_NAMES, _WINDOW, _MAX_SHOWN_CHARS = 8, 4, 80
_ASIDE = 2
_GIVEN, _DEFAULTED, _READ, _DOCUMENTED, _MENTIONED = range(5)
_VERBS = ("sets {}", "declares {} with its default", "reads {}", "documents {}", "mentions {}")


def declares_settings(path: str) -> bool:
    """Return whether a file declares settings, by its path."""
    return _DECLARING.search(path) is not None


@dataclass(frozen=True, slots=True)
class _Line:
    """A line with a setting, what it does with it, and the value that it gives, "" if it gives none."""

    what: int
    place: FactPlace
    value: str = ""
    is_default: bool = False

    @property
    def rank(self) -> tuple[int, ...]:
        """The order of the lines where the value is asked for."""
        path, declares = self.place.file.path, self.what < _READ
        is_default = self.is_default or declares_settings(path)
        rank = _path_rank(path)
        return not declares, rank == _ASIDE, not self.value, rank, not is_default, self.what

    @property
    def rank_as_reader(self) -> tuple[int, ...]:
        """The order of the lines where those that read it are asked for."""
        return self.what != _READ, not self.what < _READ, _path_rank(self.place.file.path) == _ASIDE

    def said_of(self, name: str) -> str:
        """Say what the setting is."""
        verb = "read" if self.what == _READ else "declared"
        if not self.value or self.what == _READ:
            return f"{named(name)} is {verb} in {named(self.place.file.path)}"
        by_default = " by default" if self.is_default else ""
        at = f"`{one_line(self.place.file.path)}:{self.place.line}`"
        return f"{named(name)} is {code_span(self.value)}{by_default} ({at})"


def find(asked: Asked) -> CodeFacts | None:
    """Return the places of the first name of the question that the code declares; None if it has none.

    Those that read it come first if a question asks for them.
    """
    text, setting = asked.question.question.text, asked.question.setting
    wants_readers = _READS.search(text) is not None
    names = [setting] if setting else settings_named(_without_files(asked, text))
    for name in names:
        every = [one for index in asked.indexes for one in _lines(asked, index, name)]
        found = sorted(every, key=lambda one: one.rank_as_reader if wants_readers else one.rank)
        if any(one.what < _READ for one in found):
            places = [one.place for one in found[:_MAX_PLACES]]
            return code_facts(asked, SETTING, name, found[0].said_of(name), places, count=len(found))
    return None if names else _of_words(asked)


def _without_files(asked: Asked, text: str) -> str:
    """Return a text without the paths of indexed files in it: `app.py` is no setting."""
    for path in asked.question.question.paths:
        if any(
            is_path(index.file_path(n), path) for index in asked.indexes for n in range(index.total_files)
        ):
            text = text.replace(path, " ")
    return text


def _of_words(asked: Asked) -> CodeFacts | None:
    """Return the lines that give a literal value to a name of the words whose default is asked for; None if
    there are none or many. Those that declare settings come first, then those with the most words near them.
    """
    question = asked.question.question
    text = asking_part(question.text)
    runs = _runs(text) if _DEFAULT.search(text) else []
    wanted = term_set(" ".join(chain.from_iterable(runs)))
    for run, words in ((each, each[first:]) for each in runs for first in range(len(each))):
        found: dict[tuple[str, str], tuple[tuple[int, ...], _Line]] = {}
        for index in asked.indexes:
            for one in _given(asked, index, words):
                path, name = one.place.file.path, one.place.key
                said = one.place.file.lines[max(one.place.line - _WINDOW, 0) : one.place.line]
                near = wanted & term_set(" ".join([path, *said]))
                if 2 * len(near) < len(wanted) or (
                    words != run and not near.issuperset(terms(" ".join(run)))
                ):
                    continue
                more = len(terms(name)) > len(words) + 1, not declares_settings(path)
                rank, key = (_path_rank(path), *more, -len(near)), (name.lower(), one.value)
                found[key] = min(found.get(key, (rank, one)), (rank, one), key=lambda each: each[0])
        every = sorted(found.values(), key=lambda each: each[0])
        lines = [one for rank, one in every if rank[0] < _ASIDE or rank[0] == every[0][0][0]]
        if lines and len(lines) <= _MAX_NAMES:
            name, places = lines[0].place.key, [one.place for one in lines]
            return code_facts(asked, SETTING, name, lines[0].said_of(name), places, is_doubtful=True)
    return None


def _runs(text: str) -> list[list[str]]:
    """Return what a default may be asked of: the words of a question that follow each other, in order."""
    runs: list[list[str]] = [[]]
    for word in re.findall(r"[\w.]+", text.rstrip("?.! ")):
        if word.lower() in _ASKS or is_stop_word(word):
            runs.append([])
        else:
            runs[-1].append(word)
    return [run for run in runs if run]


def _given(asked: Asked, index: ChunkIndex, words: list[str]) -> Iterator[_Line]:
    """Yield the lines that give a literal value to a name that ends in some words, which is their key."""
    spelled = r"[\s_.-]?".join(_spelled(word, len(words) > 1) for word in words)
    given = re.compile(
        rf"(?<![\w.-])(?P<name>(?:[\w.-]*[_.-]|[\w.]*[a-z0-9](?=[A-Z]))?(?P<tail>(?i:{spelled}s?{_UNIT})))(?![\w-])"
    )
    for path in asked.first(_paths(index, words[-1]), _MAX_FILES, "files were read"):
        file = asked.file(index, path) if kind_of_path(path) not in ("test", "doc") else None
        comment = False
        for number, line in enumerate(file.lines, 1) if file else ():
            line = line[:_MAX_LINE_CHARS]
            comment = "*/" not in line and (comment or line.lstrip().startswith("/*"))
            match = None if comment else given.search(line)
            if file and match and not _COMMENT.match(line):
                value, is_default = value_at(file.lines, number, match.end(), is_code=True)
                if not value or not is_literal(value):
                    value, is_default = default_near(file.lines, number)[1], True
                if value and not is_name_of(value, match["tail"]):
                    said = one_line(line.strip()[:_MAX_SHOWN_CHARS])
                    name = last_part(match["name"]) if kind_of_path(path) == "code" else match["name"]
                    is_whole = name.lower() == "".join(words).lower() and name in _without_texts(line)
                    place = FactPlace(file, number, f"`{said}`", certain=is_whole, key=name)
                    yield _Line(_GIVEN, place, value, is_default)


def _spelled(word: str, may_be_short: bool) -> str:
    """Return a pattern for a word, or for its beginning: `pass_strength` is the strength of a password."""
    short = min(_MIN_SHORT, len(word)) if may_be_short else len(word)
    return f"(?:{'|'.join(re.escape(word[:end]) for end in range(len(word), short - 1, -1))})"


def places_of(asked: Asked, index: ChunkIndex, name: str) -> list[FactPlace]:
    """Return the lines that set, declare, read or document a setting, in that order; examples come last."""
    found = sorted(_lines(asked, index, name), key=lambda one: (_path_rank(one.place.file.path), one.what))
    return [one.place for one in found]


def _lines(asked: Asked, index: ChunkIndex, name: str) -> Iterator[_Line]:
    """Yield the lines with a name, each with what it does with it, one file after the other; then those that
    read it by another name.
    """
    aliases = dict[str, None]()
    held = re.compile(rf"(?<![\w.])(\w+)\s*(?::\s*[\w&' ]+)?=\s*[\"']{re.escape(name)}[\"']")
    for file in _files(asked, index, name):
        kind = asked.kind_of(file)
        for one in _in_file(file, name, kind):
            constant = (
                held.search(file.lines[one.place.line - 1][:_MAX_LINE_CHARS]) if kind == "code" else None
            )
            aliases |= {constant[1]: None} if constant else {}
            yield replace(one, what=_GIVEN) if constant and one.what == _READ else one
    for alias in [*aliases, *_without_prefix(asked, index, name)]:
        for file in _files(asked, index, alias):
            found = _in_file(file, alias, asked.kind_of(file))
            yield from (one for one in found if one.what == _READ or alias not in aliases)


def _files(asked: Asked, index: ChunkIndex, name: str) -> Iterator[FileText]:
    """Yield the files that may have a name, without tests."""
    for path in asked.first(_paths(index, name), _MAX_FILES, "files were read"):
        file = asked.file(index, path)
        if file is not None and asked.kind_of(file) != "test":
            yield file


def _without_prefix(asked: Asked, index: ChunkIndex, name: str) -> Iterator[str]:
    """Yield the name that an environment variable has where the code says how all of them begin."""
    if not name.isupper():
        return
    for hit in asked.hits_with(index, terms("prefix envconfig"), code=True):
        for found in _PREFIX.finditer(hit.text):
            begin = f"{found[1].rstrip('_').upper()}_"
            if name.startswith(begin):
                yield name.removeprefix(begin).lower()
                return


def _paths(index: ChunkIndex, name: str) -> list[str]:
    *parts, whole = terms(name) or [name]
    held = [index.postings(term).chunks for term in parts or [whole]]
    chunks = reduce(np.intersect1d, held) if held else np.zeros(0, np.int32)
    paths = map(index.file_path, set(index.file[chunks].tolist()))
    return sorted(
        paths, key=lambda path: (_path_rank(path), not declares_settings(path), path.count("/"), path)
    )


def _path_rank(path: str) -> int:
    """Return how far a file is from what is run: 1 for what deploys it, 2 for an example, a test, a document,
    what builds it or a part of CI.
    """
    is_hidden = path.startswith(".") and not path.startswith(".env")
    is_built = is_tool(path) or is_generated(path) or path.rpartition("/")[2] in MANIFESTS
    if is_hidden or is_carried(path) or is_built or kind_of_path(path) in ("test", "doc"):
        return _ASIDE
    return int(_DEPLOYS.search(path) is not None)


def _in_file(file: FileText, name: str, kind: Kind) -> Iterator[_Line]:
    spelled = rf"(?<!\w){'[_-]'.join(map(re.escape, re.split('[_-]', name)))}(?![\w-])"
    flags = re.NOFLAG if name.isalpha() else re.I
    written, given = (
        re.compile(spelled, flags),
        re.compile(rf"{spelled}{_VALUE}|^\s*(?:#\s*define\s+{spelled}\b|{spelled}{_FIELD})", flags),
    )
    is_in_text = False
    for number, line in enumerate(file.lines, 1):
        line, was_in_text = line[:_MAX_LINE_CHARS], is_in_text
        is_in_text ^= line.count('"""') % 2 == 1
        if not (names := [*written.finditer(line)]) or is_in_test(file.index, file.path, number):
            continue
        is_given = given.search(line) is not None
        value, is_default = value_at(file.lines, number, names[0].end(), is_code=kind == "code")
        near, default = default_near(file.lines, number, is_document=kind == "doc")
        what, end = _READ, 0
        if kind == "doc" or (_COMMENT.match(line) and not (is_given and kind == "config")):
            what = _DOCUMENTED
        elif kind == "code" and not written.search(_without_texts(f'"{line}"' if was_in_text else line)):
            what = _MENTIONED
        elif not written.search(" ".join(_OUTSIDE_EXPRESSION.findall(line))):
            what = _READ
        elif near and near < number:
            what = _DEFAULTED
        elif (is_given and all(line[one.start() - 1] in "\"'" for one in names[1:])) or (
            value and is_default
        ):
            what = _GIVEN  # a value that has the name itself, not in quotes, is read there
        elif near:
            what, end = _DEFAULTED, near
        elif kind == "config" and line[names[0].start() - 1 : names[0].start()] not in tuple("$({."):
            what = _MENTIONED
        if default and not (value and what == _GIVEN):
            value, is_default = default, True
        key = _KEY.match(line) if kind == "config" else None
        verb = "declares {}" if what == _GIVEN and not value else _VERBS[what]
        place = FactPlace(file, number, verb.format(f"`{name}`"), end, key=key[1] if key else "")
        yield _Line(what, place, value, is_default)


def _without_texts(line: str) -> str:
    """Return a line without its comment, and of its literals of several words only what is inserted."""
    return _TEXT.sub(lambda one: " ".join(_INSERTED.findall(one[0])) if " " in one[0] else one[0], line)
