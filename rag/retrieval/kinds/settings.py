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
from itertools import accumulate
from math import fsum

from rag.analysis import is_stop_word, term_set, terms
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
from rag.retrieval.kinds.recognition import SETTING, is_pasted
from rag.retrieval.lexical import Rarity
from rag.retrieval.question import last_part
from rag.retrieval.synonyms import meanings
from rag.types import CodeFacts

_FILES = 12
_MAX_LINES_READ = 12_000
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
    r"|\b(?:which|what) ([\w-]+) (?:is|are) (?:used )?by default",
    re.I,
)
"""The word that is the setting: "the default *port* of the server"."""
_ENVIRONMENT_TERMS = frozenset(terms("environment env"))
_ASKS_NUMBER = re.compile(r"\bhow (?:many|much|long|big|large|often|far|old|deep|wide|fast)\b", re.I)
_CONSTANT = re.compile(r"(?:[=:,(]|=>)\s*(?:\w+\.|\w+::)*([A-Z][A-Z0-9_]{3,})\b")
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
_OF_DEFAULT = re.compile(r"defaults?|(?:config|value|options?)$")
_FLAG = re.compile(r"(?<![\w-])--([A-Za-z][\w-]{1,60})")
_UPPER_NAME = re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]\b")
_OF_ANOTHER = re.compile(
    r"(?:^|/)(?:templates?|skeletons?|scaffolds?|k8s|kubernetes|helm|charts?|deploy(?:ment)?s?|docker)/"
    r"|\.(?:jinja2?|j2|tmpl|tpl|erb|hbs|mustache|tt)$",
    re.I,
)
"""Files with the settings of something else: of a project made from a template, or of a deployment."""
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


def find(asked: Asked) -> CodeFacts | None:
    """Return the places of the setting that fits the question best; None if none fits well enough."""
    text = asked.question.question.text
    if is_pasted(text) and any(one.hit.legs.get("phrase") for one in asked.best[:_FIRST]):
        return None  # a message that the code has word for word
    found = _settings(asked)
    literal = _literal(asked, found)
    best = literal or max(found.values(), key=lambda one: one.score, default=None)
    if best is None or (not literal and (best.score < _MIN_SCORE or best.coverage < _MIN_COVERAGE)):
        return None
    if not literal and (_FLAG.search(text) or _UPPER_NAME.search(text)):
        return None  # any other setting is not what was asked for
    rows = Counter(place.file.path for one in found.values() for place in one.places if place.sort in _ROWS)
    most = max(rows.values(), default=1)
    sorts = {id(one): "documented" if asked.kind_of(one.file) == "doc" else one.sort for one in best.places}
    places = sorted(
        best.places,
        key=lambda one: (
            _SORTS[sorts[id(one)]],
            _OF_ANOTHER.search(one.file.path) is not None,
            one.is_change,
            "default" not in one.what.name.lower(),
            -one.near - _HUB * rows[one.file.path] / most,
        ),
    )
    first_of = {place.text: place for place in reversed(places)}
    places.sort(key=lambda one: first_of[one.text] is not one)  # repeated lines last
    name = places[0].what.name
    facts = list(_constants(asked, places[0]))
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
        return code_facts(SETTING, name, summary, facts, is_doubtful=True)
    return code_facts(SETTING, name, summary, facts)


def _is_named(asked: Asked, name: str) -> bool:
    """Return whether the name of a setting has a word of the question or a synonym, also within a word."""
    own = asked.question.terms.keys() - _WEAK
    meant = {other for term in own for other in meanings(term)}
    key = _NO_LETTERS.sub("", name).lower()
    return not meant.isdisjoint(terms(name)) or any(len(term) >= _PART and term in key for term in own)


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


def _literal(asked: Asked, found: Mapping[str, _Setting]) -> _Setting | None:
    """Return the setting that the question names as code does; None if no place declares it.

    It is looked for in the files that were read, then in all that hold the name.
    """
    question = asked.question.question
    names = dict.fromkeys((*_FLAG.findall(question.text), *(name for name in question.names if "_" in name)))
    for name in names:
        key = _key(last_part(name))
        if key in found and any(place.sort not in _SUPPORTING for place in found[key].places):
            return found[key]
        whole = terms(name)[-1:]
        setting = _Setting()
        for index in asked.indexes if whole else ():
            holding = index.postings(whole[0]).chunks
            paths = dict.fromkeys(index.hit(int(chunk), 0.0, {}).path for chunk in holding[:_MAX_HOLDING])
            for path in paths:
                file = asked.file(index, path)
                if file is not None and asked.kind_of(file) != "test":
                    lines = enumerate((line[:MAX_LINE_CHARS] for line in file.lines), 1)
                    numbers = [number for number, line in lines if name in line]
                    setting.places += [
                        place for place in _places(asked, file, numbers) if _key(place.what.name) == key
                    ]
        if setting.places:
            return setting
    return None


def _key(name: str) -> str:
    """Return what the spellings of a setting share: `no-color`, `noColor` and `NO_COLOR`.

    The constant of its default, `DEFAULT_TIMEOUT_CONFIG` of `timeout`, has the same key.
    """
    key = _NO_LETTERS.sub("", name).lower()
    return _OF_DEFAULT.sub("", key) or key if "default" in key else key


def _settings(asked: Asked) -> Mapping[str, _Setting]:
    """Return the settings in the best files by their key, each with its score."""
    wanted = _weights(asked)
    text = asked.question.question.text
    found: dict[str, _Setting] = {}
    left = _MAX_LINES_READ
    for file in asked.best_files(_FILES):
        if asked.kind_of(file) == "test":
            continue
        if left <= 0:
            break
        lines = asked.lines_near(file, _LONG_FILE)
        for place in _places(asked, file, _lines_near(lines, wanted)):
            if place.what.name.startswith("_") and place.what.name not in text:
                continue  # private to its file
            key = _key(place.what.name)
            found.setdefault(key, _Setting()).places.append(place)
        left -= sum(map(bool, lines))
    total = sum(wanted.values()) or 1.0
    compounds = asked.question.question.compounds
    of = _DEFAULT_OF_WHAT.search(text)
    default_of = set(terms(of[1] or of[2])) if of else None
    asks_number = _ASKS_NUMBER.search(text) is not None
    asks_environment = not _ENVIRONMENT_TERMS.isdisjoint(wanted)
    for setting in found.values():
        share: dict[str, float] = {}
        name = setting.places[0].what.name
        words = set(terms(name))
        parts = {(_NAME_SHARE, name): None}
        for place in setting.places[:_MAX_READ_PLACES]:
            parts |= {(_TEXT_SHARE, _around(place)): None, (_PATH_SHARE, place.file.path): None}
        for most, text in parts:
            for term in term_set(text) & wanted.keys():
                for one in (term, *compounds.get(term, ())):
                    share[one] = max(share.get(one, 0.0), most)
        setting.coverage = fsum(wanted.get(term, 0.0) * value for term, value in share.items()) / total
        setting.score = setting.coverage + _PRECISION * len(words & wanted.keys()) / max(len(words), 1)
        if words == default_of:
            setting.score += _DEFAULT_OF
        elif len(words) < 2 and not words & compounds.keys():
            setting.score += _ONE_WORD
        setting.score += _RANK * max(place.near for place in setting.places)
        setting.score += _LOCAL * all(place.sort in _SUPPORTING for place in setting.places)
        if asks_environment:
            setting.score += _ENVIRONMENT_ASKED * any(place.sort == "environment" for place in setting.places)
        setting.score += _ONLY_DOCUMENTED * all(
            asked.kind_of(place.file) == "doc" for place in setting.places
        )
        if asks_number:
            setting.score += _number_score(setting)
        setting.score += _DEFAULTED * any(place.sort in _WITH_DEFAULT for place in setting.places)
    return found


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


def _lines_near(lines: Sequence[str], wanted: Mapping[str, float]) -> list[int]:
    """Return the numbers of the lines, ascending, that have a word of the question a few lines away.

    Words of any setting, such as "option", do not count if the question has others.
    """
    counting = wanted.keys() - _WEAK
    stems = {term[:_STEM].lower() for term in counting or wanted if len(term) > 2}
    if not stems:
        return []
    held = _holding([line[:MAX_LINE_CHARS] for line in lines], stems)
    near, above = bytearray(len(lines) + 1), bytearray(len(lines) + 1)
    for at in held:
        first, end = max(at - _BELOW, 1), min(at + _ABOVE, len(lines)) + 1
        near[first:end] = b"\1" * (end - first)
        first = max(at - RECORD_LINES, 1)
        above[first:at] = b"\1" * (at - first)
    return [
        number
        for number, line in enumerate(lines, 1)
        if near[number] or (above[number] and begins_record(line))
    ]


def _holding(lines: Sequence[str], stems: Collection[str]) -> set[int]:
    """Return the numbers of the lines that hold one of the stems, ignoring case."""
    word = re.compile("|".join(map(re.escape, stems)), re.I)
    if not all(stem.isascii() for stem in stems):
        return {n for n, line in enumerate(lines, 1) if word.search(line)}
    held = {n for n, line in enumerate(lines, 1) if not line.isascii() and word.search(line)}
    # Searching all ASCII lines at once, lowered, finds the same as the expression, far faster.
    lines = [line if line.isascii() else "" for line in lines]
    text = "\n".join(lines).lower()
    begins = list(accumulate((len(line) + 1 for line in lines), initial=0))
    for stem in stems:
        at = text.find(stem)
        while at >= 0:
            number = bisect_right(begins, at)
            held.add(number)
            at = text.find(stem, begins[number])
    return held


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
