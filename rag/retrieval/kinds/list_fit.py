"""How well a series of lines fits a question that asks for a list, and whether it is the list.

The score is the share of the question's words, weighted by rarity, in what describes the series: the line
that holds it, the comment above, what its lines share, its path. To this comes how likely lines of its shape,
in what holds them, are the members of a list at all, and how high the ranking has its file.
A series is the list only if it names its members as the question does: another one is not shown.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from math import fsum

import numpy as np

from rag.analysis import terms
from rag.retrieval.kinds.asked import Asked, FileText
from rag.retrieval.kinds.line_series import Series, families, indentation, series_of
from rag.retrieval.lexical import Rarity

_MAX_FILES, _MIN_FILES, _MIN_MEMBERS = 24, 3, 2
_COMMENT_LINES, _MAX_COMMENT_CHARS, _MAX_HEADER_LINES = 12, 200, 30
_MAX_NAMES_READ, _MAX_LINES_READ, _LONG_FILE, _NEXT_LINES = 30, 6_000, 1_500, 3
_PARTS = {"name": 1.0, "holder": 1.0, "comment": 0.6, "scope": 0.5, "stem": 0.5, "folders": 0.25}
"""The weights of the words of each part that describes a series."""
_MOST_MEMBERS, _SOME_MEMBERS = 0.8, 0.15
"""The weights of the words that most, or some, of the names of the members hold."""
_FILE_RANK, _NAMED, _WHOLE_NAME, _SHARED = 0.15, 0.2, 0.5, 0.3
_SIZE, _MANY, _FEW, _FEW_MEMBERS, _ASIDE = 0.02, 12, -0.3, 3, {"test": -0.35, "doc": -0.15}
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
_HELD = {"enum": 0.3, "literal": 0.2, "class": 0.15, "call": -0.2, "function": -0.4, "": -0.25}
"""How likely the lines in a holder of a sort are the members of a list."""
_SHAPES = {
    **{"define": 0.1, "family": 0.15, "case": 0.05, "arm": 0.1, "alternative": 0.1, "bullet": 0.05},
    **{"decorated": 0.15, "subclass": 0.15, "strings": 0.1, "call": 0.15, "declaration": -0.35},
}
"""The same for shapes that are lists in any holder."""
SHARED = frozenset(("subclass", "call", "declaration", "decorated"))
"""Shapes whose lines share a name, which other files may have, too."""
_REGISTERS = re.compile(
    r"^\s*[^\W\d][\w.:]{0,80}[?!]?\s*+\(?\s*+(?:['\"]|:{1,2}\w|&\w|[A-Z]\w{0,80}(?:\.|::))"
)
_TALKS = re.compile(
    r"(?:^|[._:])(?:f?printf?|print\w*|write\w*|log\w*|assert\w*|expect|debug|warn\w*|error|info|throw|raise|puts"
    r"|free|format|echo|append\w*|describe|it|test|translate|gettext|_)$|\bassert",
    re.I,
)
"""Calls that say something or check something, and register nothing."""
_CLASS_TERMS = frozenset(
    terms("class subclass exception error interface trait struct inherit derive derived")
)
_ANY_TERMS = frozenset(terms("thing way module"))
KEYWORDS = frozenset(
    """class struct interface trait object module defmodule type def defp func fn fun function sub defmacro
    enum instance impl @callback""".split()
)
"""What declarations share that share nothing else."""
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
_KINDS = frozenset(terms("type kind sort mode format style option"))
_RECORDS, _FIELDS = ("class", "literal"), ("field", "key", "name", "entry", "string")
"""What has the lines of one member of a list, and their shapes."""
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
_WITHIN = r"\s+(?:of|in)\s+(?:the|an?)\s+([\w-]+(?:\s+[\w-]+)?)"
"""What the members belong to: "all states *of a parcel*"."""
_JOINED = re.compile(r"\b(?:and|or)\b|/", re.I)
_ENTRY = re.compile(r"\s*[\w.$]+\[[^\W\d].*\]\s*=\s*\W$|.*\[\s*\{$")
"""What begins one entry of a list or table that its lines do not show: `rows[key] = {`, `rows = [{`."""
_WORD = re.compile(r"\w")
_METHOD_OF_GO = re.compile(r"func \([^()]*\) (\w+)")
_ASSIGNED = re.compile(r"(?<![\w$])((?!\d)[\w$]+)\s*(?:\[[^\]]*\]\s*){0,3}(?::[^=({]{1,80})?:?=(?![=>])")
"""What a line assigns to: `methods` of `static struct method methods[] = {`."""
_NAMED_ON_LINE = re.compile(rf"\benum\s+(?:class\s+)?(\w+)|{_ASSIGNED.pattern}")
_REMARK = re.compile(r"\s*(?://|#|/\*|--)")
_ABOVE = re.compile(r"\s*(?://|#|/\*|\*|--|;;|@|\"{3}|'{3}|<!--|%)")
_NO_NAMES = frozenset(
    """class enum struct interface type typedef const static public private protected export final var let
    def val object data newtype union trait impl extern readonly internal abstract sealed pub local
    module mod defmodule namespace package func fn fun function defp sub async self this crate super
    if else elif elsif elseif unless switch match case for foreach while until do try catch finally""".split()
)
"""Words of a line that are no name of a block: `} else if (is_open) {`."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A series, how well it fits the question, and the name of what holds it.

    `named` are the terms of that name and of most of its members, `described` those of the lines and comments
    around it as well.
    """

    file: FileText
    series: Series
    score: float
    subject: str
    named: Set[str]
    described: Set[str]
    is_shared: bool = False
    """Whether the members are in several files."""
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


def best_fit(asked: Asked, wanted: Mapping[str, float]) -> Fit | None:
    """Return the series of the best files that fits the question best, alone or together with others."""
    words = _nouns(phrase_of(asked))
    fits = (fit for fit in _candidates(asked, wanted) if not _is_one_member(fit, words))
    return max(fits, key=lambda fit: fit.score, default=None)


def is_the_list(asked: Asked, fit: Fit) -> bool:
    """Return whether a series names its members as the question does: by the noun that it asks for."""
    if fit.subject in asked.question.question.names:
        return True  # it is asked for by its name
    phrase = phrase_of(asked)
    words = [word for word in _nouns(phrase) if word not in _ANY_TERMS]
    if fit.series.shape == "subclass":
        words = [word for word in words if word not in _CLASS_TERMS]
    if not _is_within(asked, fit, phrase):
        return False
    if not words:
        return not fit.named.isdisjoint(asked.question.question.terms)
    around = fit.described | set(terms(fit.file.path))
    shares = sum(word in around for word in words) / len(words)
    heads = words if _JOINED.search(phrase) else words[-1:]
    if words[-1] in _KINDS and not _KINDS.isdisjoint(_split(fit.subject)[-1:]):
        heads = words[:-1] or heads  # `ExportType` for the export formats
    if len(fit.subject) == 1 or _only_qualifies(fit, heads):
        return False
    return not fit.described.isdisjoint(heads) and (shares > 0.5 or not fit.named.isdisjoint(heads))


def _is_within(asked: Asked, fit: Fit, phrase: str) -> bool:
    """Return whether a series is in what the question says that the members belong to, if it says so."""
    found = re.search(re.escape(phrase) + _WITHIN, asked.question.question.text, re.I) if phrase else None
    within = {*terms(found[1]), *terms(found[1].replace(" ", ""))} - WEAK if found else set()
    return not within or not within.isdisjoint(fit.described | set(terms(fit.file.path)))


def _only_qualifies(fit: Fit, heads: Sequence[str]) -> bool:
    """Return whether the name of a record is that of something else: a `JobResult` has no jobs."""
    *before, last = _nouns(fit.subject) or [""]
    is_record = fit.series.shape in _FIELDS and sort_of(fit.file, fit.series) in _RECORDS
    return is_record and last not in _HOLDS and last not in heads and not set(heads).isdisjoint(before)


def _is_one_member(fit: Fit, words: Sequence[str]) -> bool:
    """Return whether a class or a table in the singular is one of the members: `gas_kiln` of the kilns."""
    is_called_so = _nouns(fit.subject)[-1:] == words[-1:] and not fit.subject.lower().endswith("s")
    return is_called_so and fit.series.shape in _FIELDS and sort_of(fit.file, fit.series) in _RECORDS


def _nouns(phrase: str) -> list[str]:
    """Return the terms of a phrase or name, without those of any list."""
    return [term for word in _split(phrase) for term in terms(word)[-1:] if term not in WEAK]


def _split(name: str) -> list[str]:
    """Return the words of a name or phrase as they are written, lower."""
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


def _candidates(asked: Asked, wanted: Mapping[str, float]) -> Iterator[Fit]:
    shared: dict[tuple[str, str], list[tuple[int, FileText, Series]]] = defaultdict(list)
    left = _MAX_LINES_READ
    for rank, file in enumerate(asked.best_files(_MAX_FILES)):
        lines = asked.lines_near(file, _LONG_FILE)[: max(left, 0)]
        left -= sum(map(bool, lines))
        every = series_of(lines)
        for series in (*every, *families(every)):
            is_statement = series.shape == "call" and sort_of(file, series) in ("function", "call")
            if series.shape in SHARED and series.anchor not in KEYWORDS and not is_statement:
                shared[series.shape, series.anchor].append((rank, file, series))
            if len(series.members) >= _MIN_MEMBERS or series.shape == "strings":
                yield from _fits(asked, rank, file, series, wanted, is_cut=_is_cut(file, lines, series))
    for (shape, anchor), parts in shared.items():
        asks = terms(anchor) if shape != "subclass" else [*terms(anchor), *_CLASS_TERMS]
        if len({id(file) for _, file, _ in parts}) >= _MIN_FILES and not wanted.keys().isdisjoint(asks):
            rank, file, first = parts[0]
            names = [name for _, _, one in parts for name in one.members.values()]
            together = Series(shape, anchor, 0, 0, dict(zip(first.members, names, strict=False)))
            yield from _fits(asked, rank, file, together, wanted, names=names)


def _is_cut(file: FileText, lines: Sequence[str], series: Series) -> bool:
    """Return whether lines near the first or last member of a series are not among those that were read."""
    near = slice(max(min(series.members) - 1 - _NEXT_LINES, 0), max(series.members) + _NEXT_LINES)
    return file.lines[near] != lines[near]


def _fits(
    asked: Asked,
    rank: int,
    file: FileText,
    series: Series,
    wanted: Mapping[str, float],
    *,
    names: Sequence[str] = (),
    is_cut: bool = False,
) -> Iterator[Fit]:
    """Yield how well a series fits, unless it is no list or has none of the words; `names` are those of the
    members in several files.
    """
    likely = _prior(asked, file, series, wanted.keys(), len(names)) + (_SHARED if names else 0.0)
    if likely <= -0.1:
        return
    subject = series.anchor if names else subject_of(file, series)
    described = [("name", subject), *(() if names else _described(file, series)), *_path_of(file)]
    members = list(names or series.members.values())[:_MAX_NAMES_READ]
    counts = Counter(term for name in members for term in set(terms(name)))
    score = _coverage(described, counts, len(members), wanted)
    if not score:
        return
    if not names and (whole := _whole(file.lines, series)) is not series:
        yield from _fits(asked, rank, file, whole, wanted, is_cut=is_cut) if whole else ()
        return
    own = set(terms(subject))
    score += likely + _FILE_RANK * (1 - rank / _MAX_FILES)
    score += _NAMED * len(own & wanted.keys()) / max(len(own), 1)
    if _is_whole_name(asked, series, subject):
        score += _WHOLE_NAME
    named = own | {term for term, count in counts.items() if 2 * count > len(members)}
    around = {term for part, text in described if part in ("holder", "comment") for term in terms(text)}
    yield Fit(file, series, score, subject, named, named | around, bool(names), is_cut)


def _is_whole_name(asked: Asked, series: Series, subject: str) -> bool:
    """Return whether a name is in the question, or the whole phrase: `ActionType` for "action types"."""
    phrase = _nouns(phrase_of(asked))
    name = [term for word in _split(subject) for term in terms(word)[-1:] if term not in _HOLDS]
    is_other = series.shape != "subclass" and "class" in asked.question.terms
    is_named = subject in asked.question.question.names
    return is_named or (len(phrase) > 1 and phrase == name and not is_other)


def _coverage(
    described: Iterable[tuple[str, str]], names: Mapping[str, int], count: int, wanted: Mapping[str, float]
) -> float:
    """Return the share of the question's words, by weight, that describe a series or are in its names."""
    share: dict[str, float] = {}
    for part, text in described:
        for term in set(terms(text)) & wanted.keys():
            share[term] = max(share.get(term, 0.0), _PARTS[part])
    for term in names.keys() & wanted.keys():
        part_of = _MOST_MEMBERS if 2 * names[term] >= count else _SOME_MEMBERS
        share[term] = max(share.get(term, 0.0), part_of)
    return fsum(wanted[term] * value for term, value in share.items()) / sum(wanted.values())


def _prior(asked: Asked, file: FileText, series: Series, asks: Set[str], count: int) -> float:
    """Return how likely a series is a list at all; `asks` are the terms of the question."""
    holder = sort_of(file, series)
    prior = _SHAPES[series.shape] if series.shape in _SHAPES else _HELD[holder]
    if series.shape == "call":
        lines = [file.lines[number - 1] for number in series.members]
        registers = 2 * sum(_REGISTERS.search(line) is not None for line in lines) >= len(lines)
        holds = file.lines[_holder(file.lines, series) - 1].partition("(")[0] if series.header else ""
        talks = _TALKS.search(series.anchor) or _TALKS.search(holds)
        prior -= 0.0 if registers and not talks else 0.55
        prior -= 0.3 if holder in ("function", "call") else 0.0
    elif series.shape == "subclass":
        prior += 0.25 if asks & _CLASS_TERMS else 0.0
    elif series.shape == "declaration" and " " in series.anchor:
        prior += 0.5
    elif series.shape == "string":
        lines = [file.lines[number - 1].rstrip() for number in series.members]
        prior -= 0.5 if 2 * sum(line.endswith(",") for line in lines) < len(lines) else 0.0  # of one string
    above = file.lines[_holder(file.lines, series) - 1] if series.header else ""
    if "__all__" in above or "export" in above.lower().split():
        prior -= 0.3
    if holder == "enum" and "class" in asks:
        prior -= 0.3  # its members are no classes
    count = count or (int(series.anchor) if series.shape == "strings" else len(series.members))
    few = _FEW if count <= _FEW_MEMBERS and series.shape not in SHARED else 0.0
    return prior + few + _ASIDE.get(asked.kind_of(file), 0.0) + _SIZE * min(count, _MANY)


def sort_of(file: FileText, series: Series) -> str:
    """Return the sort of line that holds a series, "" for another sort or none."""
    return _sort_of_line(file.lines[_holder(file.lines, series) - 1]) if series.header else ""


@lru_cache(maxsize=4_096)
def _sort_of_line(line: str) -> str:
    return next((name for name, pattern in _HOLDERS if line and pattern.match(line)), "")


def _holder(lines: Sequence[str], series: Series) -> int:
    """Return the number of the line that names what holds a series: not one of brackets alone."""
    number = series.header
    indent = indentation(lines[number - 1])
    while number > 1 and not _WORD.search(lines[number - 1]):
        above = number - 1
        while above and (
            not lines[above - 1].strip()
            or indentation(lines[above - 1]) > indent
            or _REMARK.match(lines[above - 1])
        ):
            above -= 1
        if not above or series.header - above > _MAX_HEADER_LINES:
            break
        number = above
    return number


def _whole(lines: Sequence[str], series: Series) -> Series | None:
    """Return the list that a series is one entry of, by the first lines of its entries in brackets; None if
    it has other entries, too, or is not found; the series itself if it is no entry.
    """
    holder = _holder(lines, series) if series.header else 0
    above = lines[holder - 1] if holder else ""
    if _ENTRY.match(above) or (holder > 1 and not _WORD.search(above)):
        return None
    indent = indentation(lines[series.header - 1])
    if holder == series.header or indentation(above) >= indent:
        return series
    inside = takewhile(
        lambda at: not lines[at].strip() or indentation(lines[at]) >= indent, range(holder, len(lines) - 1)
    )
    level = [at for at in inside if indentation(lines[at]) == indent and not _REMARK.match(lines[at])]
    opened = [at for at in level if lines[at].rstrip().endswith(("(", "[", "{"))]
    if len(opened) < _MIN_MEMBERS:
        return series
    is_mixed = any(_WORD.search(lines[at]) for at in level)
    return (
        None
        if is_mixed
        else Series("entry", "", holder, indent, {at + 2: lines[at + 1][:60] for at in opened})
    )


def _described(file: FileText, series: Series) -> Iterator[tuple[str, str]]:
    """Yield the texts that describe a series, each with its part."""
    lines, first = file.lines, min(series.members)
    if series.header:
        holder = _holder(lines, series)
        below = lines[series.header : min(first - 1, series.header + _COMMENT_LINES)]
        yield "holder", lines[holder - 1]
        yield (
            "comment",
            " ".join((*_comment_above(lines, holder), *(line[:_MAX_COMMENT_CHARS] for line in below))),
        )
    yield "comment", " ".join(_comment_above(lines, first))
    if series.shape == "strings":
        yield "holder", lines[first - 1]
    ((symbol, scope),) = file.index.names(np.asarray([file.chunk_at(first)], np.int64))
    yield "scope", f"{scope} {symbol}"


def _path_of(file: FileText) -> Iterator[tuple[str, str]]:
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
    if series.shape in ("call", "subclass", "decorated", "family"):
        return series.anchor
    first = file.lines[min(series.members) - 1]
    if series.shape == "strings" and (on_line := _NAMED_ON_LINE.search(first)):
        return on_line[1] or on_line[2]
    if series.anchor and not series.header and series.anchor not in KEYWORDS:
        return series.anchor
    closing = _closing(file.lines, max(series.members), series.indent)
    if (named := re.findall(r"[^\W\d][\w.]*", closing)) and named[0] not in _NO_NAMES:
        return str(named[-1])
    above = file.lines[_holder(file.lines, series) - 1] if series.header else ""
    if held := _METHOD_OF_GO.match(above) or _ASSIGNED.search(above):
        return held[1]
    words = (word for word in re.findall(r"(?!\d)[\w$]+", above) if word not in _NO_NAMES)
    return next(words, "") or file.path.rpartition("/")[2]
