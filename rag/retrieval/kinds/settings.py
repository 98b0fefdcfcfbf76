"""Find the setting that a question describes: its declaration with the default, its option, its description.

Every line of the best files that declares a value, an option of the command line, an environment variable or
a field with documentation is a place of a setting; places with equal names, ignoring case and punctuation,
are one setting. The setting is chosen by the share of the question's words, weighted by rarity, in its name
and in the comments and help texts around its places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from rag.analysis import is_stop_word, terms
from rag.retrieval.context import ContextualQuestion
from rag.retrieval.kinds.asked import Asked, FactPlace, FileText, code_facts, named
from rag.retrieval.kinds.series import indentation
from rag.retrieval.lexical import Rarity
from rag.types import CodeFacts

NAME = "setting"
_FILES = 12
_MAX_LINES_READ = 12_000
_MAX_LINE_CHARS = 400
_MAX_PLACES = 6
_MAX_READ_PLACES = 12
_ABOVE, _BELOW = 6, 5
_ASKS = re.compile(
    r"\b(?:options?|settings?|flags?|switch(?:es)?|parameters?|env(?:ironment)? var(?:iable)?s?|directives?"
    r"|config\w*|defaults?|by default|fallback|limit|in \w+\.(?:ya?ml|toml|ini|conf|json|cfg))\b",
    re.I,
)
_ASKS_HOW = re.compile(
    r"\b(?:which|what|is there|are there|can i|could i|do i|how (?:many|much|long|big|large|often|far|old)"
    r"|where (?:can|do) i set|option|setting|flag|default|limit|environment variable)\b",
    re.I,
)
_NOT = re.compile(
    r"\b(?:who|what|where)\b[^?.]{0,40}\b(?:calls?|callers?)\b|\b(?:happens|tested|tests?)\b"
    r"|^\s*where\b(?!.*\b(?:default|set|configur\w*|options?|settings?)\b)",
    re.I,
)
_LITERAL = (
    r"(?:[\"'`]|[-+(]*\d|\[|\{|(?:[Tt]rue|[Ff]alse|[Nn]one|null|nil|undefined|yes|no|on|off)\b|:\w"
    r"|[A-Z][A-Z0-9_]{2,}\b|(?:time|datetime|timedelta|Duration|TimeSpan)\b|@\w)"
)
_GIVEN = rf"(?P<sign>=>|:=|\|\|=|=(?![=>])|:(?!:))\s*{_LITERAL}"
_VALUE = re.compile(_GIVEN)
"""The end of `_DEFAULT`, which takes far longer to find nothing."""
_DEFAULT = re.compile(
    r"\s*(?P<mark>[-*+#;/,|]{0,3}\s*)(?P<type>(?:[\w.<>\[\]*&:?!]+\s+){0,5}?)"
    r"(?P<owner>(?:[a-z]\w{0,20}(?:\.|->)){1,3}|[@$&]|)(?P<quote>[\"']?)(?P<name>[A-Za-z_][\w-]{2,60})[\"']?\]?\s*"
    rf"(?P<typed>:\s*[\w.\[\]|<> ]{{1,40}})?{_GIVEN}"
)
_NOTHING = re.compile(r"\s*(?:None|null|NULL|nil|undefined|\[\]|\{\}|\"\"|'')\s*[;,]?\s*$")
_MODIFIER = re.compile(
    r"\b(?:static|public|private|protected|internal|const|final|readonly|pub|val|export|extern)\b"
)
_DEFINE = re.compile(r"\s*#\s*define\s+(\w+)\s+\S")
_FIELD = re.compile(
    r"\s*(?:,\s*)?(?:(?:public|readonly|pub|val|var|let|final|static)\s+){0,3}([A-Za-z_]\w{2,60})\??\s*::?\s*[\w!(\[&]"
)
_OPTION = re.compile(r"[\"'`\s#|]--?([A-Za-z][\w-]{2,60})\b")
_CALL_OPTION = re.compile(
    r"\b\w*(?:flag|option|opt|setting|config|param|attr|accessor|var|arg)\w*[\w.]*\s*[(! ]\s*[^\"':]{0,60}"
    r"[\"':]([A-Za-z][\w.-]{2,60})",
    re.I,
)
_CALL_WORD = re.compile("flag|opt|setting|config|param|attr|accessor|var|arg", re.I)
"""A line without any of them has no `_CALL_OPTION`."""
_ENVIRONMENT = re.compile(
    r"(?:[Gg]et_?[Ee]nv\w{0,12}|environ(?:\.get)?|\benv(?:_?vars?|::vars?|::var_os|\.fetch|\.get)?|\bENV(?:\.fetch)?"
    r"|[Ll]ookup_?[Ee]nv|process\.env)[\s(\[.!?\"'{:$]{1,4}([A-Z][A-Z0-9_]{2,60})\b"
)
_RECORD_NAME = re.compile(
    r"\s*\.?[\"']?(?:name|key|option|flag|id|long|setting)[\"']?\s*(?::|=>?)\s*"
    r"[\"']-{0,2}([A-Za-z][\w.-]{2,60})[\"']\s*,?\s*$"
)
_RECORD_KEY = re.compile(r"\s*[\"']?([A-Za-z][\w.-]{2,60})[\"']?\s*(?::|=>?)\s*(?:[\w.]{0,60}\()?\{\s*$")
_RECORD_PART = re.compile(
    r"\s*\.?[\"']?(?:default\w*|desc\w*|help\w*|usage|doc\w*|summary)[\"']?\s*(?::|=>?)", re.I
)
_RECORD_LINES = 24
_DOCUMENTED = re.compile(
    r"\s*(?:[*+-]|#{1,6}|\*\s+-|:|<dt>|\|)\s*[`*:+\"<\[(]{0,3}(?:\w+>)?-{0,2}([A-Za-z][\w.-]{2,60})"
)
_COMMENT = re.compile(r"\s*(?://|#|/\*|\*|--|;|\"{3}|'{3}|<!--|%)")
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
_ENVIRONMENT_TERMS = frozenset(terms("environment env"))
_MIN_SCORE, _MIN_COVERAGE = 0.65, 0.15
_NEAR = 30
_STEM = 6
_SORTS = {"record": 0, "default": 1, "environment": 2, "option": 3, "field": 4, "documented": 5, "local": 6}
_WITH_DEFAULT = frozenset({"record", "default", "environment"})
_REASONS = {
    "record": "declares `{}` and describes it",
    "default": "declares `{}` with its default",
    "environment": "reads the environment variable `{}`",
    "option": "declares the option `{}`",
    "documented": "documents `{}`",
    "field": "declares `{}`",
    "local": "sets `{}`",
}


@dataclass(frozen=True, slots=True)
class _Place:
    """A line of a setting, of one of the sorts; `name` is written there, `text` describes it."""

    file: FileText
    line: int
    sort: str
    name: str
    text: str
    near: float
    end: int = 0

    @property
    def is_change(self) -> bool:
        """Whether the line sets a field of another object, which may be a later change of the default."""
        matched = _DEFAULT.match(self.file.lines[self.line - 1])
        return matched is not None and matched["owner"] not in ("", "self.", "this.", "@", "$", "&")


@dataclass(slots=True)
class _Setting:
    """The places of a setting."""

    places: list[_Place] = field(default_factory=list)
    score: float = 0.0
    coverage: float = 0.0


def is_asked(question: ContextualQuestion) -> bool:
    """Return whether a question asks for a setting or its default."""
    text = question.question.text
    return bool(_ASKS.search(text) and _ASKS_HOW.search(text)) and not _NOT.search(text)


def find(asked: Asked) -> CodeFacts | None:
    """Return the places of the setting that fits the question best; None if none fits well enough."""
    best = max(_settings(asked).values(), key=lambda one: one.score, default=None)
    if best is None or best.score < _MIN_SCORE or best.coverage < _MIN_COVERAGE:
        return None
    places = sorted(best.places, key=lambda place: (_SORTS[place.sort], place.is_change, -place.near))
    name = places[0].name
    facts = [
        FactPlace(one.file, one.line, _REASONS[one.sort].format(one.name), one.end)
        for one in places[:_MAX_PLACES]
    ]
    is_documented = places[0].sort == "documented" or asked.kind_of(places[0].file) == "doc"
    where = f"{'documented' if is_documented else 'declared'} in {named(places[0].file.path)}"
    summary = f"{named(name)} is the setting that fits best; it is {where}"
    return code_facts(NAME, name, summary, facts)


def _settings(asked: Asked) -> Mapping[str, _Setting]:
    """Return the settings in the best files by their key, each with its score."""
    wanted = _weights(asked)
    found: dict[str, _Setting] = {}
    left = _MAX_LINES_READ
    for file in asked.best_files(_FILES):
        if asked.kind_of(file) == "test":
            continue
        for place in _places(asked, file, _lines_near(file.lines[: max(left, 0)], wanted)):
            key = re.sub(r"[\W_]", "", place.name).lower()
            found.setdefault(key, _Setting()).places.append(place)
        left -= len(file.lines)
    total = sum(wanted.values()) or 1.0
    asks_environment = not _ENVIRONMENT_TERMS.isdisjoint(wanted)
    for setting in found.values():
        share: dict[str, float] = {}
        words = set(terms(setting.places[0].name))
        for place in setting.places[:_MAX_READ_PLACES]:
            for term in set(terms(place.text)) & wanted.keys():
                share[term] = max(share.get(term, 0.0), _TEXT_SHARE)
            for term in set(terms(place.file.path)) & wanted.keys():
                share[term] = max(share.get(term, 0.0), _PATH_SHARE)
        for term in words & wanted.keys():
            share[term] = _NAME_SHARE
        setting.coverage = sum(wanted[term] * value for term, value in share.items()) / total
        setting.score = setting.coverage + _PRECISION * len(words & wanted.keys()) / max(len(words), 1)
        setting.score += _ONE_WORD if len(words) < 2 else 0.0
        setting.score += _RANK * max(place.near for place in setting.places)
        setting.score += _LOCAL * all(place.sort in ("local", "documented") for place in setting.places)
        if asks_environment:
            setting.score += _ENVIRONMENT_ASKED * any(place.sort == "environment" for place in setting.places)
        setting.score += _ONLY_DOCUMENTED * all(
            asked.kind_of(place.file) == "doc" for place in setting.places
        )
        setting.score += _DEFAULTED * any(place.sort in _WITH_DEFAULT for place in setting.places)
    return found


def _weights(asked: Asked) -> dict[str, float]:
    """Return the terms of the question with their weights: their rarity, less for words of any setting."""
    rarity = Rarity(asked.indexes)
    return {
        term: max(rarity(term), 0.1) * (_WEAK_WEIGHT if term in _WEAK else weight)
        for term, weight in asked.question.terms.items()
    }


def _lines_near(lines: Sequence[str], wanted: Mapping[str, float]) -> list[int]:
    """Return the numbers of the lines, ascending, that have a word of the question a few lines away."""
    words = "|".join(re.escape(term[:_STEM]) for term in wanted if len(term) > 2)
    if not words:
        return []
    word = re.compile(
        words,
        re.I,
    )
    stems = [term[:_STEM].lower() for term in wanted if len(term) > 2]
    plain = all(stem.isascii() for stem in stems)

    def holds(line: str) -> bool:
        if not plain or not line.isascii():
            return word.search(line) is not None
        lowered = line.lower()  # of ASCII text this finds the same, ten times faster
        return any(stem in lowered for stem in stems)

    held = [n for n, line in enumerate(lines, 1) if line and holds(line[:_MAX_LINE_CHARS])]
    near = {n for at in held for n in range(max(at - _BELOW, 1), min(at + _ABOVE, len(lines)) + 1)}
    above = {n for at in held for n in range(max(at - _RECORD_LINES, 1), at)} - near
    return sorted(near | {n for n in above if _RECORD_NAME.match(lines[n - 1])})


def _places(asked: Asked, file: FileText, numbers: Sequence[int]) -> Iterator[_Place]:
    """Yield the places of settings in some lines of a file."""
    near = _nearness(asked, file)
    for number in numbers:
        line = file.lines[number - 1]
        if not line.strip() or len(line) > _MAX_LINE_CHARS:
            continue
        if record := _record(file.lines, number):
            rank = max((value for first, last, value in near if first <= number <= last), default=0.0)
            yield _Place(file, number, "record", record.name, record.text, rank, record.end)
            continue
        for sort, name in _named(line):
            if is_stop_word(name) or (sort == "field" and not _is_commented(file.lines, number)):
                continue
            rank = max((value for first, last, value in near if first <= number <= last), default=0.0)
            yield _Place(file, number, sort, name, _around(file.lines, number, sort), rank)


class _Record(NamedTuple):
    """A block that describes a setting: its name, the text, and the line of its default or description."""

    name: str
    text: str
    end: int


def _record(lines: Sequence[str], number: int) -> _Record | None:
    """Return the record of a setting that begins in a line: its name is the value of a key as `name`, or the
    key of the record itself, and a default or a description follows. None if none begins there.
    """
    line = lines[number - 1]
    if not line.rstrip().endswith(("{", ",", '"', "'")):
        return None
    inside = _RECORD_NAME.match(line)
    matched = inside or _RECORD_KEY.match(line)
    if matched is None:
        return None
    least = indentation(line) + (0 if inside else 1)
    body: list[str] = []
    for text in lines[number : number + _RECORD_LINES]:
        if text.strip() and indentation(text) < least:
            break
        body.append(text[:_MAX_LINE_CHARS])
    level = min((indentation(text) for text in body if text.strip()), default=0)
    parts = [n for n, text in enumerate(body, 1) if indentation(text) == level and _RECORD_PART.match(text)]
    if not parts:
        return None
    default = next((n for n in parts if "default" in body[n - 1].lower()), parts[0])
    return _Record(matched[1], " ".join((line, *body)), number + default)


@lru_cache(maxsize=32_768)
def _named(line: str) -> tuple[tuple[str, str], ...]:
    """Return the settings that a line declares, each with its sort."""
    return tuple(dict.fromkeys(_declared(line)))


def _declared(line: str) -> Iterator[tuple[str, str]]:
    # Most lines lack a character without which an expression cannot match; that is found far faster.
    if ("env" in line or "ENV" in line or "Env" in line) and (matched := _ENVIRONMENT.search(line)):
        yield "environment", matched[1]
    if "#" in line and (matched := _DEFINE.match(line)):
        yield "default", matched[1]
    elif _VALUE.search(line) and (matched := _DEFAULT.match(line)):
        yield "default" if _is_declared(line, matched) else "local", matched["name"]
    elif matched := _option(line):
        yield "option", matched[1]
    elif matched := _DOCUMENTED.match(line):
        yield "documented", matched[1]
    elif ":" in line and (matched := _FIELD.match(line)):
        yield "field", matched[1]


def _option(line: str) -> re.Match[str] | None:
    """Return where a line declares an option of the command line, by a call or as it is typed."""
    may_call = ("'" in line or '"' in line or ":" in line) and _CALL_WORD.search(line)
    matched = _CALL_OPTION.search(line) if may_call else None
    return matched or (_OPTION.search(line) if "-" in line else None)


def _is_commented(lines: Sequence[str], number: int) -> bool:
    """Return whether a line has a comment in it, above or below."""
    line, around = lines[number - 1], lines[max(number - 2, 0) : number + 1]
    return any(_COMMENT.match(text) for text in around) or re.search(r"//|#|--|/\*", line) is not None


def _is_declared(line: str, matched: re.Match[str]) -> bool:
    """Return whether a line that gives a name a value declares more than a local variable."""
    if matched["quote"] or matched["sign"] == ":":
        return True
    if _NOTHING.match(line, matched.end("sign")):
        return False
    if matched["owner"] or not line[0].isspace():
        return True
    return bool(_MODIFIER.search(matched["type"]))


def _around(lines: Sequence[str], number: int, sort: str) -> str:
    """Return a line with the comment above it, and what follows an option or a documented name."""
    above: list[str] = []
    for text in reversed(lines[max(number - 1 - _ABOVE, 0) : number - 1]):
        if not _COMMENT.match(text):
            break
        above.append(text)
    below = [] if sort in ("default", "environment") else lines[number : number + _BELOW]
    return " ".join(text[:_MAX_LINE_CHARS] for text in (*above, lines[number - 1], *below))


def _nearness(asked: Asked, file: FileText) -> list[tuple[int, int, float]]:
    """Return the lines of the hits in a file, each with how high the ranking has them."""
    return [
        (one.hit.start, one.hit.end, max(1 - rank / _NEAR, 0.0))
        for rank, one in enumerate(asked.best)
        if one.hit.path == file.path and one.index is file.index
    ]
