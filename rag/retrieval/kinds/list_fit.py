"""How well a series of lines fits a question that asks for a list.

The score is the share of the question's words, weighted by rarity, in what describes the series: the line
that holds it, the comment above, what its lines share, its path. To this comes how likely lines of its shape,
in what holds them, are the members of a list at all, and how high the ranking has the series and its file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from math import fsum

import numpy as np

from rag.analysis import terms
from rag.retrieval.kinds.asked import Asked, FileText
from rag.retrieval.kinds.line_series import Series, families, indentation, series_of
from rag.retrieval.lexical import Rarity
from rag.retrieval.rank import is_aside

MAX_FILES = 24
_MIN_FILES = 3
_MIN_MEMBERS = 2
_COMMENT_LINES = 12
_MAX_COMMENT_CHARS = 200
_MAX_HEADER_LINES = 30
_MAX_CACHED_LINES = 4_096
_MAX_NAMES_READ = 30
_MAX_LINES_READ = 6_000
_LONG_FILE = 1_500
_UNLIKELY = -0.1
"""A series that is less likely a list, by its shape and what holds it, is left out."""
_PARTS = {"holder": 1.0, "anchor": 0.9, "comment": 0.6, "scope": 0.5, "stem": 0.5, "folders": 0.25}
"""The weights of the words of each part that describes a series."""
_MOST_MEMBERS, _SOME_MEMBERS = 0.8, 0.15
"""The weights of the words that most, or some, of the names of the members hold."""
_RANK, _FILE_RANK, _SIZE, _FEW, _TEST, _DOC, _ASIDE = 0.2, 0.15, 0.02, -0.3, -0.35, -0.15, -0.2
_NAMED, _PLURAL, _ONE_MEMBER, _WHOLE_NAME = 0.2, 0.15, -0.3, 0.5
_NEAR, _NEXT_LINES = 30, 3
_FEW_MEMBERS = 3
_MANY = 12
_HOLDERS = (
    ("enum", re.compile(r".*\b(?:enum|Enum|IntEnum|StrEnum|Flag|Literal|\w*Choices)\b|\s*const\s*\(\s*$")),
    (
        "function",
        re.compile(
            r"\s*(?:[\w<>]+\s+){0,3}(?:def|defp|func|fn|fun|function|sub|if|for|while|else|elif|elsif|try|with|do"
            r"|loop|when|switch|catch|except|foreach|unless|return|lambda)\b|[^=]*\)[^={]{0,60}\{\s*$|.*=>\s*\{$"
        ),
    ),
    ("literal", re.compile(r".*\]\s*=\s*\{\s*$")),
    (
        "class",
        re.compile(
            r"\s*(?:[\w@]+\s+){0,4}(?:class|struct|interface|trait|module|defmodule|object|record|type|data|newtype"
            r"|protocol|impl|union|typedef)\b"
        ),
    ),
    (
        "literal",
        re.compile(
            r".*(?:[:=>]\s*|\b(?:list|dict|set|tuple|new|Map|Set|freeze)\b.{0,30})[\[({|]+\s*$|.*=\s*$"
        ),
    ),
    ("call", re.compile(r".*\(\s*$")),
)  # fmt: skip
"""The sorts of lines that hold a series, by the first pattern that matches."""
_PRIOR = {
    "key": {"literal": 0.25, "call": 0.1, "class": 0.1, "function": -0.1, "": -0.1},
    "string": {"literal": 0.25, "call": 0.1, "enum": 0.2, "": -0.1},
    "strings": {"literal": 0.2, "": 0.0},
    "entry": {"literal": 0.25, "enum": 0.2, "call": 0.0, "": -0.2},
    "name": {"enum": 0.3, "literal": 0.15, "class": 0.05, "function": -0.4, "call": -0.4, "": -0.3},
    "variant": {"enum": 0.3, "": -0.4},
    "define": {"": 0.1},
    "family": {"": 0.15},
    "field": {"class": 0.15, "enum": 0.15, "literal": 0.1, "function": -0.4, "": -0.3},
    "constant": {"class": 0.2, "enum": 0.2, "function": -0.4, "": 0.0},
    "typed": {"class": 0.15, "enum": 0.2, "": -0.3},
    "case": {"": 0.05},
    "arm": {"": 0.1},
    "alternative": {"class": 0.2, "literal": 0.2, "enum": 0.2, "": 0.0},
    "bullet": {"": 0.05},
    "decorated": {"": 0.15},
    "subclass": {"": 0.15},
    "call": {"": 0.0},
    "declaration": {"function": -0.3, "": -0.05},
    "assignment": {"": -0.5},
}
"""How likely lines of a shape, in a holder of a sort, are the members of a list."""


SHARED = {"subclass", "call", "declaration", "decorated", "assignment"}
_SPREAD = {"subclass": 0.2, "call": 0.1, "declaration": 0.1, "decorated": 0.0, "assignment": 0.25}
_REGISTERS = re.compile(
    r"^\s*[^\W\d][\w.:]{0,80}[?!]?\s*+\(?\s*+(?:['\"]|:{1,2}\w|&\w|[A-Z]\w{0,80}(?:\.|::))"
)
_TALKS = re.compile(
    r"(?:^|[._:])(?:f?printf?|print\w*|write\w*|log\w*|assert\w*|expect|debug|warn\w*|error|info|throw|raise|puts"
    r"|free|format|echo|append\w*|describe|it|test|translate|gettext|_)$|\bassert",
    re.I,
)
"""Calls that say something or check something, and register nothing."""
_DECLARES = re.compile(
    r"(?:^|[._:a-z])(?:add|register|define|declare|use|insert|provide|bind|route|option|flag|command|argument|param"
    r"|field|column|handle|install|new|map|enable|support|include)|(?:^|[._:])(?:on|var|opt|arg)(?:[A-Z_]|$)"
    r"|[._:](?:get|put|post|patch|delete|set)$"
    r"|(?:Add|Register|Define|Declare|Use|Option|Flag|Command|Arg|Param|Field|Var)"
)
"""The names of calls in a function that add something to what the program has."""
CLASS_KEYWORDS = frozenset({"class", "struct", "interface", "trait", "object", "module", "defmodule", "type"})
_CLASS = frozenset(terms("class subclass"))
CLASS_TERMS = frozenset(terms("class subclass exception error interface trait struct inherit derive derived"))
FUNCTION_KEYWORDS = frozenset({"def", "defp", "func", "fn", "fun", "function", "sub", "defmacro"})
_FUNCTION_TERMS = frozenset(terms("function method macro"))
WEAK = frozenset(
    terms(
        """list all every each available there kinds kind type types sort sorts value values possible
        supported support one ones name names built-in come comes exist exists repository ship ships have has
        can accept accepts know knows understand given give use used class classes default defaults complete
        together order please define defines defined allowed offer offers take takes choose pick"""
    )
)
_HOLDS = WEAK | frozenset(terms("data enum id ids map mapping set table"))
"""Words of the names of what holds members, after the noun: `FormatType`, `mouse_action_enum_data`."""
KINDS = frozenset(terms("type kind sort mode format style option"))
_WEAK_WEIGHT = 0.25
_PHRASE = re.compile(
    r"\b(?:list|enumerate|name|which|what|all|every|each)"
    r"(?:\s+(?:me|are|all|every|each|of|the|its|their|different|kinds?|types?|sorts?|list|names?|complete|full|possible))*"
    r"\s+((?:[\w/-]{1,40}\s{1,3}){0,4}?[\w/-]{1,40})"
    r"(?=\s+(?:(?:and|or)\s+(?:its|their|the|where|how|what)\b|are|is|can|could|do|does|did|have|has|that|which|who|of|in|for|from|to|on|with|by|there|exists?|one"
    r"|ships?|come|comes|may|might|must|will|be|you|i|we|the|a|an|this"
    r"|run(?=\s+(?:in|at|on|before|after|during|when|while|and|first|for|with|by)\b|\W*\Z))\b|\s*[?.,;:()!]|\s*$)",
    re.I,
)
"""The members that a question asks for, as the question calls them: "list all *glaze colours* that …"."""
_ASKED_FOR, _LAST, _ELSEWHERE = 1.2, 1.6, 0.7
"""The weights of the words of that phrase, of its last word, and of the other words."""
_WORD = re.compile(r"\w")
_METHOD_OF_GO = re.compile(r"func \([^()]*\) (\w+)")
_ASSIGNED = re.compile(r"(?<![\w$])((?!\d)[\w$]+)\s*(?:\[[^\]]*\]\s*){0,3}(?::[^=({]{1,80})?:?=(?![=>])")
"""What a line assigns to: `methods` of `static struct method methods[] = {`."""
_NAMED_ON_LINE = re.compile(rf"\benum\s+(?:class\s+)?(\w+)|{_ASSIGNED.pattern}")
_ABOVE = re.compile(r"\s*(?://|#|/\*|\*|--|;;|@|\"{3}|'{3}|<!--|%)")
_FIELDS = frozenset({"field", "key"})
"""The shapes of the lines of a record."""
_KEYWORDS = frozenset(
    """class enum struct interface type typedef const static public private protected export final var let
    def val object data newtype union trait impl extern readonly internal abstract sealed pub local
    module mod defmodule namespace package func fn fun function defp sub async self this""".split()
)
_CONTROL = frozenset(
    "if else elif elsif elseif unless switch match case for foreach while until do try catch finally".split()
)
"""Words that begin a block or go on after one, and are no name of it: `} else if (is_open) {`."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A series, and how well it fits the question. `parts` are the series of several files, if any."""

    file: FileText
    series: Series
    score: float
    parts: tuple[tuple[FileText, Series], ...] = ()
    is_cut: bool = False
    """Whether lines next to the members were not read."""


def phrase_of(asked: Asked) -> str:
    """Return what a question calls the members that it asks for; "" if that is not clear."""
    found = _PHRASE.search(asked.question.question.text)
    return found[1] if found else ""


def weights(asked: Asked) -> dict[str, float]:
    """Return the terms of the question with their weights: their rarity, less for words of any list."""
    rarity = Rarity(asked.indexes)
    own = [term for term in asked.question.terms if term in asked.question.question.terms]
    asked_for = phrase_of(asked)
    phrase = terms(asked_for)
    last = terms(asked_for.split()[-1]) if asked_for else []

    def weight(term: str) -> float:
        if term in WEAK:
            return _WEAK_WEIGHT
        part = _LAST if term in last else _ASKED_FOR if term in phrase or not phrase else _ELSEWHERE
        return part * asked.question.terms[term]

    return {term: max(rarity(term), 0.1) * weight(term) for term in own}


def candidates(asked: Asked, wanted: Mapping[str, float]) -> Iterator[Fit]:
    """Yield the series of the best files that hold some of the words, then those that several files share."""
    shared: dict[tuple[str, str], list[tuple[int, FileText, Series]]] = {}
    left = _MAX_LINES_READ
    for rank, file in enumerate(asked.best_files(MAX_FILES)):
        lines = asked.lines_near(file, _LONG_FILE)[: max(left, 0)]
        left -= sum(map(bool, lines))
        every = _with_records(lines, series_of(lines))
        for series in (*every, *families(every)):
            if _may_be_shared(file, series):
                shared.setdefault((series.shape, series.anchor), []).append((rank, file, series))
            if len(series.members) >= _MIN_MEMBERS or series.shape == "strings":
                fit = _fit(asked, file, series, wanted, rank)
                if fit is not None:
                    yield replace(fit, is_cut=_is_cut(file, lines, series))
    for parts in shared.values():
        if len({id(file) for _, file, _ in parts}) >= _MIN_FILES:
            fit = _shared_fit(asked, parts, wanted)
            if fit is not None:
                yield fit


def _is_cut(file: FileText, lines: Sequence[str], series: Series) -> bool:
    """Return whether lines near the first or last member of a series are not among those that were read."""
    first, last = (min(series.members), max(series.members)) if series.members else (1, 1)
    near = slice(max(first - 1 - _NEXT_LINES, 0), last + _NEXT_LINES)
    return file.lines[near] != lines[near]


def _with_records(lines: Sequence[str], every: Sequence[Series]) -> list[Series]:
    """Return series with those of the fields of records as one of the records, each with its first field.

    The records of a list begin with brackets alone, below the same line: `jobs = [`.
    """
    records: dict[int, dict[int, Series]] = {}
    for series in every:
        is_record = series.shape in _FIELDS and series.header and not _WORD.search(lines[series.header - 1])
        if is_record and (holder := _holder(lines, series)) != series.header:
            records.setdefault(holder, {}).setdefault(series.header, series)
    lists = {holder: fields for holder, fields in records.items() if len(fields) >= _MIN_MEMBERS}
    of_fields = {id(one) for fields in lists.values() for one in fields.values()}
    found = [one for one in every if id(one) not in of_fields]
    for holder, fields in lists.items():
        firsts = [next(iter(one.members)) for one in fields.values()]
        indent = indentation(lines[next(iter(fields)) - 1])
        members = {first: lines[first - 1].strip()[:_MAX_COMMENT_CHARS] for first in firsts}
        found.append(Series("entry", "", holder, indent, members))
    return found


def _fit(asked: Asked, file: FileText, series: Series, wanted: Mapping[str, float], rank: int) -> Fit | None:
    """Return how well a series fits; None if it has too few members or none of the words."""
    prior = _prior(file, series, wanted.keys())
    score = (
        _coverage(_described(file, series), list(series.members.values()), wanted)
        if prior > _UNLIKELY
        else 0.0
    )
    if not score:
        return None
    score += _RANK * _nearness(asked, file, series) + _FILE_RANK * (1 - rank / MAX_FILES)
    score += prior + _kind(asked, file)
    subject = subject_of(file, series)
    if common := set(terms(subject)) & wanted.keys():
        score += _NAMED * len(common) / len(set(terms(subject)))
        score += _noun(asked, file, series, subject)
    return Fit(file, series, score)


def _noun(asked: Asked, file: FileText, series: Series, subject: str) -> float:
    """Return what it means for the score that the name of what holds a series has the noun asked for.

    A table of methods has it in the plural (`gamma_methods`), an enum, a base class or a function that
    registers also in the singular. A table with the noun in the singular is one of the members. A name that
    is the whole phrase counts most: `MailActionType` for the "mail action types".
    """
    every = _split(phrase := phrase_of(asked))
    may_be_whole = series.shape == "subclass" or _CLASS.isdisjoint(asked.question.terms)
    if may_be_whole and names_all(asked, phrase, subject):
        return _WHOLE_NAME
    nouns = [word for word in every if not WEAK.issuperset(terms(word))]
    named = [word for word in _split(subject) if not _HOLDS.issuperset(terms(word))]
    if not nouns or not named:
        return 0.0
    sort = _sort_of(file, series)
    if sort == "enum" and may_be_whole and is_whole(" ".join(nouns), "_".join(named)):
        return _WHOLE_NAME
    if nouns[-1].endswith("s") and nouns[-1] in named:
        return _PLURAL
    if terms(nouns[-1]) != terms(named[-1]):
        return 0.0
    if nouns[-1].endswith("s") and named[-1].endswith("s"):
        return _PLURAL  # mistyped: "moduls"
    if series.shape in SHARED or sort == "enum":
        return _PLURAL
    return _ONE_MEMBER if sort == "literal" and every[-1].endswith("s") else 0.0


def is_whole(phrase: str, name: str) -> bool:
    """Return whether a name is a whole phrase of several words: `MailActionType` for "mail action types"."""
    words, parts = _split(phrase), _split(name)
    return len(words) > 1 and list(map(terms, words)) == list(map(terms, parts))


def names_all(asked: Asked, phrase: str, name: str) -> bool:
    """Return whether a name is the whole phrase, and a question says nothing else of what it asks for."""
    said = {term for term in terms(asked.question.question.text) if term not in WEAK}
    return is_whole(phrase, name) and said <= set(terms(phrase))


def is_one_member(asked: Asked, fit: Fit) -> bool:
    """Return whether a series describes one of the members that are asked for, rather than lists them."""
    subject = subject_of(fit.file, fit.series)
    if fit.parts:
        return False
    if subject[:1].isupper():  # a type; a class with methods that is called like a member is one of them
        is_called_so = terms(subject)[-1:] == words_of_phrase(asked)[-1:] and not subject.endswith("s")
        inside = fit.file.index.graph.defined_in(fit.file.path) if is_called_so else ()
        is_class = _sort_of(fit.file, fit.series) == "class"
        return is_class and any(one.scope == subject and one.unit == "function" for one in inside)
    return _noun(asked, fit.file, fit.series, subject) < 0


def is_of_kinds(fit: Fit) -> bool:
    """Return whether what holds a series is called the kinds of something: `ExportType`, `export_modes`."""
    *_, last = _split(subject_of(fit.file, fit.series)) or [""]
    return not KINDS.isdisjoint(terms(last))


def words_of_phrase(asked: Asked) -> list[str]:
    """Return the terms of what a question calls the members, without those of any list."""
    words = _split(phrase_of(asked))
    return [term for word in words for term in terms(word)[-1:] if term not in WEAK]


def described_by(fit: Fit) -> list[tuple[str, str]]:
    """Return the texts that describe a series, each with its part."""
    if fit.parts:
        return [("anchor", fit.series.anchor), ("stem", fit.file.path.rpartition("/")[0])]
    return list(_described(fit.file, fit.series))


def _split(name: str) -> list[str]:
    """Return the words of a name or phrase as they are written, lower."""
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


def _may_be_shared(file: FileText, series: Series) -> bool:
    """Return whether a series may be a part of one over several files."""
    if series.shape not in SHARED or not series.anchor:
        return False
    if series.shape == "assignment":
        return bool(series.header) and _sort_of(file, series) == "class"
    if series.shape == "declaration":
        return " " in series.anchor
    return series.shape != "call" or _prior(file, series, frozenset()) > 0


def _shared_fit(
    asked: Asked, parts: Sequence[tuple[int, FileText, Series]], wanted: Mapping[str, float]
) -> Fit | None:
    """Return how well the series of several files fit that share what they call, derive from or assign."""
    rank, file, series = parts[0]
    named = set(terms(series.anchor))
    is_known = series.shape != "subclass" or bool(len(file.index.defining(series.anchor)))
    if named.isdisjoint(wanted) or not (is_known or _are_in_one_folder(parts)):
        return None
    names = [name for _, _, one in parts for name in one.members.values()]
    described = [("anchor", series.anchor), ("stem", file.path.rpartition("/")[0])]
    score = _coverage(described, names, wanted)
    score += _RANK * _nearness(asked, file, series) + _FILE_RANK * (1 - rank / MAX_FILES)
    score += max(_prior(file, series, wanted.keys()), 0.0) + _kind(asked, file) + _SPREAD[series.shape]
    score += _SIZE * min(len(names), _MANY)
    score += (2 if is_known else 1) * _NAMED * len(named & wanted.keys()) / len(named)
    return Fit(file, series, score, tuple((file, one) for _, file, one in parts))


def _are_in_one_folder(parts: Sequence[tuple[int, FileText, Series]]) -> bool:
    """Return whether most of some files are in one folder, as the classes of a framework's base class are."""
    folders = Counter(path.rpartition("/")[0] for path in {file.path for _, file, _ in parts})
    return 2 * max(folders.values()) > folders.total()


def _coverage(
    described: Iterable[tuple[str, str]], names: Sequence[str], wanted: Mapping[str, float]
) -> float:
    """Return the share of the question's words, by weight, that describe a series or are in its names."""
    share: dict[str, float] = {}
    for part, text in described:
        for term in set(terms(text)) & wanted.keys():
            share[term] = max(share.get(term, 0.0), _PARTS[part])
    read = names[:_MAX_NAMES_READ]
    held = Counter(term for name in read for term in set(terms(name)))
    for term in held.keys() & wanted.keys():
        part_of = _MOST_MEMBERS if 2 * held[term] >= len(read) else _SOME_MEMBERS
        share[term] = max(share.get(term, 0.0), part_of)
    return fsum(wanted[term] * value for term, value in share.items()) / sum(wanted.values())


def _kind(asked: Asked, file: FileText) -> float:
    kind = asked.kind_of(file)
    aside = _ASIDE if is_aside(file.path) else 0.0
    return aside + (_TEST if kind == "test" else _DOC if kind == "doc" else 0.0)


def _prior(file: FileText, series: Series, asks: Set[str]) -> float:
    """Return how likely a series is a list at all; `asks` are the terms of the question."""
    lines = [file.lines[number - 1] for number in series.members]
    above = file.lines[_holder(file.lines, series) - 1] if series.header else ""
    holder = _sort_of(file, series)
    priors = _PRIOR[series.shape]
    prior = priors.get(holder, priors[""])
    if series.shape == "call":
        named = sum(_REGISTERS.search(line) is not None for line in lines)
        prior += 0.15 if 2 * named >= len(lines) and not _TALKS.search(series.anchor) else -0.4
        prior -= 0.3 if holder == "call" else 0.0
        is_statement = series.header and holder != "class" and not _DECLARES.search(series.anchor)
        prior -= 0.3 if is_statement else 0.0
    elif series.shape == "string" and 2 * sum(line.rstrip().endswith(",") for line in lines) < len(lines):
        prior -= 0.5  # parts of one long string
    elif series.shape == "subclass" or series.anchor in CLASS_KEYWORDS:
        prior += 0.25 if asks & CLASS_TERMS else 0.0
    elif series.shape == "declaration" and " " in series.anchor:
        prior += 0.2
    elif series.anchor in FUNCTION_KEYWORDS:
        prior += 0.1 if asks & _FUNCTION_TERMS else -0.3
    if "__all__" in above or "export" in above.lower().split():
        prior -= 0.3
    if holder == "enum" and asks & _CLASS:
        prior -= 0.3  # its members are no classes
    count = int(series.anchor) if series.shape == "strings" else len(series.members)
    few = _FEW if count <= _FEW_MEMBERS and series.shape not in SHARED else 0.0
    return prior + few + _SIZE * min(count, _MANY)


def _sort_of(file: FileText, series: Series) -> str:
    """Return the sort of line that holds a series, "" for another sort or none."""
    above = file.lines[_holder(file.lines, series) - 1] if series.header else ""
    holder = _sort_of_line(above)
    is_call = series.shape == "name" and holder == "literal" and above.rstrip().endswith("(")
    return "call" if is_call and "=" not in above else holder


@lru_cache(maxsize=_MAX_CACHED_LINES)
def _sort_of_line(line: str) -> str:
    return next((name for name, pattern in _HOLDERS if line and pattern.match(line)), "")


def _holder(lines: Sequence[str], series: Series) -> int:
    """Return the number of the line that names what holds a series: not one of brackets alone."""
    number = series.header
    indent = indentation(lines[number - 1])
    while number > 1 and not _WORD.search(lines[number - 1]):
        above = number - 1
        while above and (not lines[above - 1].strip() or indentation(lines[above - 1]) > indent):
            above -= 1
        if not above or series.header - above > _MAX_HEADER_LINES:
            break
        number = above
    return number


def _nearness(asked: Asked, file: FileText, series: Series) -> float:
    """Return how high the ranking has a chunk with lines of a series: from 1 for the first to 0."""
    first, last = min(series.members), max(series.members)
    for rank, one in enumerate(asked.best):
        is_near = one.hit.start <= last and first <= one.hit.end
        if is_near and one.hit.path == file.path and one.index is file.index:
            return max(1 - rank / _NEAR, 0.0)
    return 0.0


def _described(file: FileText, series: Series) -> Iterator[tuple[str, str]]:
    """Yield the texts that describe a series, each with its part."""
    lines, first, last = file.lines, min(series.members), max(series.members)
    if series.header:
        holder = _holder(lines, series)
        yield "holder", lines[holder - 1]
        yield "comment", " ".join(_comment_above(lines, holder))
        below = lines[series.header : min(first - 1, series.header + _COMMENT_LINES)]
        yield "comment", " ".join(line[:_MAX_COMMENT_CHARS] for line in below)
        if series.shape == "bullet":
            above = lines[max(holder - 5, 0) : holder - 1]
            yield "comment", " ".join(line[:_MAX_COMMENT_CHARS] for line in above)
    yield "holder", _closing(lines, last, series.indent)
    yield "comment", " ".join(_comment_above(lines, first))
    yield "anchor", series.anchor
    if series.shape == "strings":
        yield "holder", lines[first - 1]
    ((symbol, scope),) = file.index.names(np.asarray([file.chunk_at(first)], np.int64))
    yield "scope", f"{scope} {symbol}"
    folder, _, name = file.path.rpartition("/")
    yield "stem", name.partition(".")[0]
    yield "folders", folder


def _comment_above(lines: Sequence[str], line: int) -> list[str]:
    """Return the lines of the comment that ends above a line, from 1; of a decorated one, above that."""
    found: list[str] = []
    for text in reversed(lines[max(line - 1 - _COMMENT_LINES, 0) : line - 1]):
        if not text.strip() or not _ABOVE.match(text):
            break
        found.append(text[:_MAX_COMMENT_CHARS])
    return found


def _closing(lines: Sequence[str], last: int, indent: int) -> str:
    """Return what names a block at its end, as `} state_t;` does; "" for most."""
    for text in lines[last : last + _COMMENT_LINES]:
        if text.strip() and indentation(text) < indent:
            return text if text.lstrip().startswith("}") else ""
    return ""


def subject_of(file: FileText, series: Series) -> str:
    """Return the name of what holds a series."""
    is_keyword = series.shape == "declaration" and series.anchor in CLASS_KEYWORDS | FUNCTION_KEYWORDS
    if series.shape in ("call", "subclass", "decorated", "family"):
        return series.anchor
    on_line = (
        _NAMED_ON_LINE.search(file.lines[min(series.members) - 1]) if series.shape == "strings" else None
    )
    if on_line:
        return on_line[1] or on_line[2]
    if series.anchor and not series.header and not is_keyword:
        return series.anchor
    closing = _closing(file.lines, max(series.members), series.indent)
    named = re.findall(r"[^\W\d][\w.]*", closing) if closing else []
    if named and named[0] not in _CONTROL:
        return str(named[-1])
    if series.header:
        above = file.lines[_holder(file.lines, series) - 1]
        if held := _METHOD_OF_GO.match(above) or _ASSIGNED.search(above):
            return held[1]
        words = [w for w in re.findall(r"(?!\d)[\w$]+", above) if w not in _KEYWORDS | _CONTROL]
        if words:
            return str(words[0])
    return file.path.rpartition("/")[2]
