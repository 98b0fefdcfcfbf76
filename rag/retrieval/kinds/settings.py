"""Find the setting that a question describes: its declaration with the default, its option, its description.

Every line of the best files that declares a value, an option of the command line, an environment variable or
a field with documentation is a place of a setting; places with equal names, ignoring case and punctuation,
are one setting. The setting is chosen by the share of the question's words, weighted by rarity, in its name
and in the comments and help texts around its places.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby
from math import fsum

import numpy as np
import numpy.typing as npt

from rag.analysis import is_stop_word, term_set, terms, words
from rag.identifiers import UPPER
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import Asked, FactPlace, FileText, code_facts, named
from rag.retrieval.kinds.declared import (
    COMMENT,
    MAX_LINE_CHARS,
    RECORD_LINES,
    Declared,
    begins_record,
    changes_another,
    declared,
)
from rag.retrieval.kinds.recognition import is_pasted
from rag.retrieval.kinds.word_lines import Flags, WordLines, beginning, near
from rag.retrieval.lexical import Rarity
from rag.retrieval.question import last_part
from rag.retrieval.synonyms import meanings
from rag.types import CodeFacts
from rag.types.question_kinds import SETTING

_FILES = 12
_MAX_LINES_READ = 12_000
_MAX_LINES_DECLARED = 600
_LONG_FILE = 4_000
_MAX_PLACES = 6
_MAX_READ_PLACES = 12
_ABOVE, _BELOW = 6, 5
_WEAK = frozenset(
    terms(
        """option options setting settings flag flags switch parameter parameters environment variable
        variables default defaults configure configured configuration config directive set change changes
        value field key say said give given nothing use used using long many much big large often name global
        globally one"""
    )
)
_WEAK_WEIGHT = 0.15
_NAME_SHARE, _TEXT_SHARE, _PATH_SHARE = 1.0, 0.7, 0.3
_PRECISION, _RANK, _DEFAULTED, _LOCAL = 0.15, 0.15, 0.1, -0.3
_ENVIRONMENT_ASKED, _ONLY_DOCUMENTED, _ONE_WORD = 0.3, -0.15, -0.2
_DEFAULT_OF = 0.2
_DEFAULT_OF_WHAT = re.compile(
    r"\bdefaults? (?:values? )?(?:(?:of|for) )?(?:the )?([\w-]+)(?= (?:of|for|in|on|to)\b|\s*[?.]|\s*$)"
    r"|\b(?:which|what) ([\w-]+) (?:(?:is|are) (?:used )?|(?:does|do|will) [^?.]{1,60} )by default",
    re.I,
)
"""The word that is the setting: "the default *port* of the server"."""
_ENVIRONMENT_TERMS = frozenset(terms("environment env"))
_ASKS_NUMBER = re.compile(r"\bhow (?:many|much|long|big|large|often|far|old|deep|wide|fast)\b", re.I)
_HYPHENED = re.compile(r"(?<![\w-])[a-z][a-z0-9]+(?:-[a-z0-9]+)+(?![\w-])")
"""A word with hyphens, which is a setting only where one is written so."""
_CONSTANT = re.compile(rf"(?:[=:,(]|=>)\s*(?:\w{{1,60}}(?:\.|::)){{0,8}}([{UPPER}][{UPPER}0-9_]{{3,}})\b")
_VALUE = re.compile(
    r"(?:[=:,(]|=>)\s*(?:(?P<number>[-+]?\.?\d)|(?P<switch>(?:true|false|on|off|yes|no)\b))", re.I
)
_HAS_NUMBER, _HAS_SWITCH = 0.1, -0.2
_MIN_SCORE, _MIN_COVERAGE = 0.5, 0.15
_NEAR = 30
_NO_LETTERS = re.compile(r"[\W_]")
_HUB = 0.5
_STEM = 6
_PART = 4
"""The letters of a word that is looked for within names: `promptfmt`."""
_NAMED_BELOW = 5
"""How many lines below an attribute the name that it describes can be."""
_SORTS = {
    "record": 0,
    "default": 1,
    "environment": 2,
    "option": 3,
    "field": 4,
    "documented": 5,
    "compared": 6,
    "local": 7,
}
_SUPPORTING = frozenset({"local", "documented", "compared"})
_WITH_DEFAULT = frozenset({"record", "default", "environment"})
_ROWS = frozenset({"record", "default", "option", "environment"})
"""A file with many of these is where settings are declared."""
_DEFAULT_WORD = re.compile(r"[Dd]efaults?(?![a-z])|DEFAULTS?(?![A-Z])")
_OF_DEFAULT = re.compile(r"default|(?:config|value|options?)$")
_FLAG = re.compile(r"(?<![\w-])--([^\W\d_][\w-]{1,60})")
_UPPER_NAME = re.compile(rf"\b[{UPPER}][{UPPER}0-9]*_[{UPPER}0-9_]*[{UPPER}0-9]\b")
_ENDS_OF_NAMES = ('"', "'", ",")
"""What the line with the name of a record ends with."""
_OF_ANOTHER = re.compile(
    r"(?:^|/)(?:templates?|skeletons?|scaffolds?|k8s|kubernetes|helm|charts?|deploy(?:ment)?s?|docker)/"
    r"|\.(?:jinja2?|j2|tmpl|tpl|erb|hbs|mustache|tt)$",
    re.I,
)
"""Files with the settings of something else: of a project made from a template, or of a deployment."""
_LOCALE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?")
_ENGLISH = ("en", "en-US", "en_US", "en-GB", "en_GB")
_FIRST, _MAX_HOLDING = 3, 40
_REASONS = {
    "record": "declares `{}` and describes it",
    "default": "declares `{}` with its default",
    "environment": "reads the environment variable `{}`",
    "option": "declares the option `{}`",
    "documented": "documents `{}`",
    "field": "declares `{}`",
    "compared": "reads `{}`",
    "local": "sets `{}`",
}


@dataclass(frozen=True, slots=True)
class _Place:
    """A line of a setting: what it declares, and how high the ranking has it, from 1 to 0."""

    file: FileText
    line: int
    what: Declared
    near: float
    is_config: bool

    @property
    def sort(self) -> str:
        """What sort of line it is."""
        return self.what.sort

    @property
    def text(self) -> str:
        """The line."""
        return self.file.lines[self.line - 1].strip()

    @property
    def is_change(self) -> bool:
        """Whether the line sets a field of another object, which may be a later change of the default."""
        return changes_another(self.file.lines[self.line - 1])


@dataclass(slots=True)
class _Setting:
    """The places of a setting."""

    places: list[_Place] = field(default_factory=list)
    score: float = 0.0
    coverage: float = 0.0
    order: tuple[int, int] = (0, 0)

    def is_better(self, other: _Setting) -> bool:
        """Return whether it has a higher score, or the same one and comes first in the best files."""
        return (-self.score, self.order) < (-other.score, other.order)


def find(asked: Asked) -> CodeFacts | None:
    """Return the places of the setting that fits the question best; None if none fits well enough."""
    text = asked.question.question.text
    if is_pasted(text) and any(one.hit.legs.get("phrase") for one in asked.best[:_FIRST]):
        return None  # a message that the code has word for word
    settings = _Settings(asked)
    literal = _literal(asked, settings)
    best = literal or settings.best()
    if best is None or (not literal and (best.score < _MIN_SCORE or best.coverage < _MIN_COVERAGE)):
        return None
    if not literal and (_FLAG.search(text) or _UPPER_NAME.search(text)):
        return None  # any other setting is not what was asked for
    if all(place.sort == "documented" for place in best.places):  # the best files only mention it
        key = _key(name := best.places[0].what.name)
        best.places += [one for one in _places_holding(asked, {name}) if _key(one.what.name) == key]
    sorts = {id(one): "documented" if asked.kind_of(one.file) == "doc" else one.sort for one in best.places}
    places = _ordered(best.places, sorts, settings)
    first_of = {place.text: place for place in reversed(places)}
    places.sort(key=lambda one: first_of[one.text] is not one)  # repeated lines last
    name = places[0].what.name
    facts = list(_constants(asked, places[0]))
    every = {(id(one.file), one.line) for one in facts} | {(id(one.file), one.line) for one in places}
    facts += [
        FactPlace(one.file, one.line, _REASONS[sorts[id(one)]].format(one.what.name), one.what.end)
        for one in places[:_MAX_PLACES]
    ]
    is_documented = sorts[id(places[0])] == "documented"
    where = f"{'documented' if is_documented else 'declared'} in {named(places[0].file.path)}"
    summary = f"{named(name)} is the setting that fits best; it is {where}"
    if not literal and not _is_named(asked, name):
        summary = f"No setting was found by name; the nearest is {named(name)}, {where}"
        facts = [replace(fact, certain=False) for fact in facts]
        return code_facts(asked, SETTING, name, summary, facts, count=len(every), is_doubtful=True)
    return code_facts(asked, SETTING, name, summary, facts, count=len(every))


def _is_named(asked: Asked, name: str) -> bool:
    """Return whether the name of a setting has a word of the question or a synonym, also within a word."""
    own = asked.question.terms.keys() - _WEAK
    meant = {other for term in own for other in meanings(term)}
    key = _NO_LETTERS.sub("", name).lower()
    return not meant.isdisjoint(terms(name)) or any(len(term) >= _PART and term in key for term in own)


def _ordered(places: Sequence[_Place], sorts: Mapping[int, str], settings: _Settings) -> list[_Place]:
    """Return places in the order in which they are shown: declarations with a default first, and of equal
    ones those in the files that declare most settings.
    """

    def order(one: _Place) -> tuple[object, ...]:
        path = one.file.path
        depth = path.count("/") if path.endswith(".tf") else 0  # users set the variables of the outer module
        is_change = _OF_ANOTHER.search(path) is not None, one.is_change
        return _SORTS[sorts[id(one)]], *is_change, "default" not in one.what.name.lower(), depth

    found = {(order(one), one.file.path) for one in places}
    several = {first for first, count in Counter(first for first, _ in found).items() if count > 1}
    rows = settings.rows_in({path for first, path in found if first in several})
    most = max(rows.values(), default=1)
    return sorted(places, key=lambda one: (order(one), -one.near - _HUB * rows[one.file.path] / most))


def _constants(asked: Asked, place: _Place) -> Iterator[FactPlace]:
    """Yield where the constant that a setting has as its default gets its value."""
    after = place.text[:MAX_LINE_CHARS].partition(place.what.name)[2]
    matched = _CONSTANT.search(after)
    whole = terms(matched[1])[-1:] if matched else []
    if not matched or not whole:
        return
    index, name = place.file.index, re.escape(matched[1])
    given = re.compile(
        rf"(?<![\w.]){name}\b\s*(?::[^=]{{1,40}})?:?=\s*[-+\d\"'(\[{{]|#\s*define\s+{name}\s+\S"
    )
    holding = index.postings(whole[0]).chunks
    for path in dict.fromkeys(index.hit(int(chunk), 0.0, {}).path for chunk in holding[:_MAX_HOLDING]):
        file = asked.file(index, path)
        for number, text in enumerate(file.lines if file and asked.kind_of(file) == "code" else [], 1):
            if file and matched[1] in text and given.search(text[:MAX_LINE_CHARS]):
                yield FactPlace(
                    file, number, f"sets {named(matched[1])}, the default of {named(place.what.name)}"
                )
                return


def _literal(asked: Asked, settings: _Settings) -> _Setting | None:
    """Return the setting that the question names as code does; None if no place declares it.

    It is looked for in the files that were read, then in all that hold the name.
    """
    question = asked.question.question
    asked_for = _DEFAULT_OF_WHAT.search(question.text)
    names = [
        name
        for name in question.names
        if "_" in name or (name.isupper() and asked_for and name in asked_for.groups())
    ]
    hyphened = _HYPHENED.findall(question.text)
    for name in dict.fromkeys((*_FLAG.findall(question.text), *names, *hyphened)):
        written = {name, name.removeprefix("CONFIG_")}  # as the programs write an option of Kconfig
        key = _key(last_part(name))
        # A word in capitals is often none of a setting (HTTP, TLS), so it is one only as a record names it.
        is_word = name.isupper() and "_" not in name

        def is_meant(place: _Place, written: set[str] = written, key: str = "" if is_word else key) -> bool:
            is_written = place.what.name in written and (key or place.what.sort == "record")
            return bool(is_written) or _key(place.what.name) == key

        def is_known(places: Sequence[_Place], name: str = name) -> bool:
            declaring = [place for place in places if place.sort not in _SUPPORTING]
            return any(name not in hyphened or place.what.name == name for place in declaring)

        known = list(filter(is_meant, settings.with_key(key).places))
        if is_known(known):
            return _Setting(known)
        places = list(filter(is_meant, _places_holding(asked, written)))
        if is_known(places) or (places and name not in hyphened):
            return _Setting(places)
    return None


def _places_holding(asked: Asked, names: Collection[str]) -> Iterator[_Place]:
    """Yield the places of settings in lines that hold one of some names, in any file."""
    for index in asked.indexes:
        for path in _paths_holding(index, names):
            file = asked.file(index, path)
            if file is not None and asked.kind_of(file) != "test":
                lines = enumerate((line[:MAX_LINE_CHARS] for line in file.lines), 1)
                numbers = [number for number, line in lines if any(one in line for one in names)]
                yield from _places(asked, file, numbers)


def _is_translation(file: FileText) -> bool:
    """Return whether a file has the texts of a program in one language, next to those in English."""
    folder, slash, name = file.path.rpartition("/")
    stem, _, extension = name.partition(".")
    english = (f"{folder}{slash}{one}.{extension}" for one in _ENGLISH)
    return bool(_LOCALE.fullmatch(stem)) and any(len(file.index.chunks_of(path)) for path in english)


def _paths_holding(index: ChunkIndex, names: Collection[str]) -> list[str]:
    """Return the files that hold one of some names, those that define it first; not more than read."""
    chunks = [chunk for name in names for chunk in index.defining(name)[:_MAX_HOLDING]]
    for name in names:
        held = [index.postings(term).chunks for term in set(terms(name))]
        chunks += reduce(np.intersect1d, held)[:_MAX_HOLDING].tolist() if held else []
    return list(dict.fromkeys(index.hit(chunk, 0.0, {}).path for chunk in chunks))


def _key(name: str) -> str:
    """Return what the spellings of a setting share: `no-color`, `noColor` and `NO_COLOR`.

    The constant of its default, `DEFAULT_TIMEOUT_CONFIG` of `timeout`, has the same key.
    """
    key = _NO_LETTERS.sub("", name).lower()
    own = _NO_LETTERS.sub("", _DEFAULT_WORD.sub("", name)).lower()  # of DEFAULT_SEPARATOR: with its S
    return _OF_DEFAULT.sub("", own) or key if "default" in key else key


class _Settings:
    """The settings that the best files declare near words of the question.

    Most lines declare nothing, and reading one takes long. So they are read from the one that has most words
    of the question in it and around it, by weight, and only as long as one can declare a setting that fits
    better than the best so far.
    """

    def __init__(self, asked: Asked) -> None:
        self._asked, self._wanted = asked, _weights(asked)
        self._total = sum(self._wanted.values()) or 1.0
        self._asks_number = _ASKS_NUMBER.search(asked.question.question.text) is not None
        of = _DEFAULT_OF_WHAT.search(asked.question.question.text)
        self._default_of = set(terms(of[1] or of[2])) if of else None
        self._asks_environment = not _ENVIRONMENT_TERMS.isdisjoint(self._wanted)
        question = asked.question.question
        self._firsts = {whole: parts[0] for whole, parts in question.compounds.items()}
        self._firsts |= {split[-1]: split[0] for split in map(terms, words(question.text)) if len(split) > 1}
        self._near_terms: dict[str, Flags] = {}
        self._files: list[FileText] = []
        self._begins: list[int] = []
        lines: list[str] = []
        left = _MAX_LINES_READ
        for file in asked.best_files(_FILES):
            if asked.kind_of(file) == "test" or _is_translation(file):
                continue
            if left <= 0:
                break
            read = asked.lines_near(file, _LONG_FILE)
            left -= sum(map(bool, read))
            self._files.append(file)
            self._begins.append(len(lines))
            lines += read
            lines += [""] * RECORD_LINES  # no line is near one of another file
        self._lines = WordLines(lines, MAX_LINE_CHARS)
        self._near = self._near_words(lines)

    def _near_words(self, lines: Sequence[str]) -> Flags:
        """Return which lines have a word of the question a few lines away.

        Words of any setting, such as "option", do not count if the question has others.
        """
        counting = self._wanted.keys() - _WEAK or self._wanted
        held = self._lines.having_any(term[:_STEM].lower() for term in counting if len(term) > 2)
        found = near(held, _ABOVE, _BELOW)
        for at in np.flatnonzero(near(held, 0, RECORD_LINES) & ~found).tolist():
            found[at] = lines[at].rstrip()[-1:] in _ENDS_OF_NAMES and begins_record(lines[at])
        return found

    def best(self) -> _Setting | None:
        """Return the setting with the highest score, of equal ones the first; None if none is declared."""
        found: dict[str, _Setting] = {}
        for place in self._places(self._best_lines()):
            found.setdefault(_key(place.what.name), _Setting()).places.append(place)
        highest = {key: self._highest_score(setting.places) for key, setting in found.items()}
        best: _Setting | None = None
        for key in sorted(found, key=lambda key: -highest[key]):
            if best is not None and highest[key] < best.score:
                break
            self._score(found[key])
            if best is not None and found[key].score + self._missing(found[key]) < best.score:
                continue
            setting = self.with_key(key)
            if not setting.places:  # none is near a word that counts
                setting = found[key]
            self._score(setting)
            if best is None or setting.is_better(best):
                best = setting
        return best

    def _missing(self, setting: _Setting) -> float:
        """Return how much other places with fewer words of the question can add to the score of a setting."""
        places = setting.places
        sorts = {place.sort for place in places}
        missing = _RANK * (1 - max(place.near for place in places))
        missing += _DEFAULTED * sorts.isdisjoint(_WITH_DEFAULT) - _LOCAL * (sorts <= _SUPPORTING)
        missing -= _ONLY_DOCUMENTED * all(self._asked.kind_of(place.file) == "doc" for place in places)
        missing += _ENVIRONMENT_ASKED * (self._asks_environment and "environment" not in sorts)
        return missing + (_HAS_NUMBER - _number_score(setting) if self._asks_number else 0.0)

    def with_key(self, key: str) -> _Setting:
        """Return the setting with a key, not scored; one without places if none is declared."""
        held = self._lines.having_letters(key) | self._lines.having_letters(key, apart_from="default")
        held |= self._lines.having_any("@[") & near(held, 0, _NAMED_BELOW)
        places = self._places(np.flatnonzero(held & self._near).tolist())
        return _Setting([one for one in places if _key(one.what.name) == key])

    def rows_in(self, paths: Collection[str]) -> Counter[str]:
        """Return how many settings each of some files declares near words of the question."""
        lines = np.zeros(len(self._lines), np.bool_)
        for begin, file in zip(self._begins, self._files, strict=True):
            lines[begin : begin + len(file.lines)] = file.path in paths
        places = self._places(np.flatnonzero(lines & self._near).tolist())
        return Counter(one.file.path for one in places if one.sort in _ROWS)

    def _best_lines(self) -> list[int]:
        """Return the lines with most words of the question in them and around them, by weight, ascending."""
        value = np.zeros(len(self._lines))
        for term, weight in self._wanted.items():
            if term not in _WEAK:
                value += weight * np.where(self._near_term(term), _TEXT_SHARE, self._in_path(term))
                value[self._held(term)] += weight * (_NAME_SHARE - _TEXT_SHARE)
        value[~self._near] = -1
        count = min(_MAX_LINES_DECLARED, int(np.count_nonzero(self._near)))
        best: list[int] = np.sort(np.argsort(-value, kind="stable")[:count]).tolist()
        return best

    def _highest_score(self, places: Sequence[_Place]) -> float:
        """Return the highest score that a setting with these places can have, without reading their text."""
        in_name = {term for place in places for term in terms(place.what.name)}
        in_path = {term for place in places for term in term_set(place.file.path)}
        at = [self._begins[self._files.index(place.file)] + place.line - 1 for place in places]
        share: dict[str, float] = {}
        for term in self._wanted:
            is_near = self._near_term(term)[at].any()
            most = (
                _NAME_SHARE
                if term in in_name
                else _TEXT_SHARE
                if is_near
                else _PATH_SHARE * (term in in_path)
            )
            for one in (term, *self._asked.question.question.compounds.get(term, ())) if most else ():
                share[one] = max(share.get(one, 0.0), most)
        score = fsum(self._wanted.get(term, 0.0) * value for term, value in share.items()) / self._total
        score += _PRECISION * (not in_name.isdisjoint(self._wanted)) + _DEFAULTED
        if self._default_of and self._default_of <= in_name:
            score += _DEFAULT_OF
        return score + _RANK + _ENVIRONMENT_ASKED * self._asks_environment + _HAS_NUMBER * self._asks_number

    def _places(self, positions: Sequence[int]) -> Iterator[_Place]:
        """Yield the places in some of the lines of all files, ascending."""
        text = self._asked.question.question.text
        for begin, group in groupby(positions, lambda at: self._begins[bisect_right(self._begins, at) - 1]):
            file = self._files[self._begins.index(begin)]
            numbers = [at - begin + 1 for at in group if at - begin < len(file.lines)]
            for place in _places(self._asked, file, numbers):
                if not place.what.name.startswith("_") or place.what.name in text:  # not private to its file
                    yield place

    def _near_term(self, term: str) -> Flags:
        """Return which lines have a term in them, in the comment above them, or in what they describe."""
        found = self._near_terms.get(term)
        if found is None:
            found = self._near_terms[term] = near(self._held(term), _ABOVE, RECORD_LINES)
        return found

    def _held(self, term: str) -> Flags:
        return self._lines.having_words(beginning(self._firsts.get(term, term)))

    def _in_path(self, term: str) -> npt.NDArray[np.float64]:
        """Return for each line the share of a term that the path of its file may have."""
        share = np.zeros(len(self._lines))
        for begin, file in zip(self._begins, self._files, strict=True):
            if term in term_set(file.path):
                share[begin : begin + len(file.lines)] = _PATH_SHARE
        return share

    def _score(self, setting: _Setting) -> None:
        """Compute the score of a setting, and the share of the question's words that it has."""
        wanted, compounds = self._wanted, self._asked.question.question.compounds
        share: dict[str, float] = {}
        name = setting.places[0].what.name
        in_name = set(terms(name))
        parts = {(_NAME_SHARE, name): None}
        for place in setting.places[:_MAX_READ_PLACES]:
            parts |= {(_TEXT_SHARE, _around(place)): None, (_PATH_SHARE, place.file.path): None}
        for most, text in parts:
            for term in term_set(text) & wanted.keys():
                for one in (term, *compounds.get(term, ())):
                    share[one] = max(share.get(one, 0.0), most)
        setting.coverage = fsum(wanted.get(term, 0.0) * value for term, value in share.items()) / self._total
        score = setting.coverage + _PRECISION * len(in_name & wanted.keys()) / max(len(in_name), 1)
        if in_name == self._default_of:
            score += _DEFAULT_OF
        elif len(in_name) < 2 and not in_name & compounds.keys():
            score += _ONE_WORD
        score += _RANK * max(place.near for place in setting.places)
        score += _LOCAL * all(place.sort in _SUPPORTING for place in setting.places)
        if self._asks_environment:
            score += _ENVIRONMENT_ASKED * any(place.sort == "environment" for place in setting.places)
        score += _ONLY_DOCUMENTED * all(self._asked.kind_of(place.file) == "doc" for place in setting.places)
        score += _number_score(setting) if self._asks_number else 0.0
        setting.score = score + _DEFAULTED * any(place.sort in _WITH_DEFAULT for place in setting.places)
        setting.order = self._files.index(setting.places[0].file), setting.places[0].line


def _number_score(setting: _Setting) -> float:
    """Return how likely a setting has a number, by the values of its places."""
    values = [_VALUE.search(place.text[:MAX_LINE_CHARS]) for place in setting.places[:_MAX_READ_PLACES]]
    if any(value and value["number"] for value in values):
        return _HAS_NUMBER
    return _HAS_SWITCH if any(value and value["switch"] for value in values) else 0.0


def _weights(asked: Asked) -> dict[str, float]:
    """Return the terms of the question with their weights: their rarity, less for words of any setting."""
    rarity = Rarity(asked.indexes)
    return {
        term: max(rarity(term), 0.1) * (_WEAK_WEIGHT if term in _WEAK else weight)
        for term, weight in asked.question.terms.items()
    }


def _places(asked: Asked, file: FileText, numbers: Sequence[int]) -> Iterator[_Place]:
    """Yield the places of settings in some lines of a file."""
    near = _nearness(asked, file)
    is_config = asked.kind_of(file) == "config"
    for number in numbers:
        for one in declared(file.lines, number, is_config=is_config):
            if not is_stop_word(one.name):
                yield _Place(file, number, one, near.get(number, 0.0), is_config)


def _around(place: _Place) -> str:
    """Return a line with the comment above it, and what follows an option or a documented name up to the next
    one.
    """
    lines, number, what = place.file.lines, place.line, place.what
    above: list[str] = []
    for text in reversed(lines[max(number - 1 - _ABOVE, 0) : number - 1]):
        if not COMMENT.match(text):
            break
        above.append(text[:MAX_LINE_CHARS])
    own = what.text or lines[number - 1]
    below: list[str] = []
    if what.sort not in _WITH_DEFAULT:
        for at in range(number + 1, min(number + _BELOW, len(lines)) + 1):
            others = declared(lines, at, is_config=place.is_config)
            if any(other.sort == what.sort and other.name != what.name for other in others):
                break
            below.append(lines[at - 1][:MAX_LINE_CHARS])
    return " ".join((*above, own, *below))


def _nearness(asked: Asked, file: FileText) -> dict[int, float]:
    """Return how high the ranking has the lines of a file that a hit holds."""
    near: dict[int, float] = {}
    for rank, one in enumerate(asked.best):
        if one.hit.path == file.path and one.index is file.index:
            value = max(1 - rank / _NEAR, 0.0)
            near = dict.fromkeys(range(one.hit.start, one.hit.end + 1), value) | near
    return near
