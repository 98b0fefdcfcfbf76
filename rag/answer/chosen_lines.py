"""Choose the lines of a source that are quoted: a few in one piece, with the line that decides.

The line that decides has the most informative words of the question; for a question about callers it is a
call, for one with facts a fact. A word is more informative the fewer of the shown sources hold it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from rag.analysis import WORD, term_set, terms, without_clitics, words
from rag.cut_code import Constructs
from rag.identifiers import CAMEL
from rag.lines import lines_of
from rag.quoting import one_line
from rag.types import CodeFact, Hit, Prepared
from rag.types.question_kinds import COMMAND, LINES, LISTS

_WHOLE_LINES = 15
"""A source with at most this many lines is quoted as a whole."""
_MAX_LINES = 12
_MAX_ASKED_LINES = 60
_AROUND = 3
_ABOVE = 4
"""How far above the members of a list its name is."""
_MAX_WIDTH = 240
_CONTEXT_WEIGHT = 0.4
"""The weight of terms that a follow-up has from its context; its own terms weigh 1."""
_HEAD_WEIGHT = 0.5
"""The weight of the head of a definition and of its documentation, which the first sentence names already."""

_COMMENT = re.compile(r"""\s*(?:[rRuU]?(?:\"{3}|'{3})|//|/\*|\*|--|#(?!include|define|if))""")
_DOC_QUOTES = re.compile(r"""\s*[rRuU]?(\"{3}|'{3})""")
_DECORATES = re.compile(r"\s*(?:@\w|#\[)")
_CLOSES = re.compile(r"\s*[)\]}]+[,;]?\s*$")
_CALLERS = re.compile(
    r"\b(who|what|which|where|anything|anyone)\b[^?.]{0,60}\b(calls?|called|callers?|invokes?|invoked|uses?|used"
    r"|triggers?|triggered|call sites?)\b",
    re.IGNORECASE,
)
_FACET_LINES = (
    (
        re.compile(
            r"\b(?:fails?|failed|failure|raises?|throws?|goes wrong|errors?|invalid|broken|unknown)\b", re.I
        ),
        re.compile(r"\b(?:raise|throw|except|catch|rescue|panic|abort|assert|err(?:or)?|fail\w*)\b", re.I),
    ),
    (
        re.compile(r"\b(?:returns?|returned|gives? back|comes? (?:back|out))\b", re.I),
        re.compile(r"\b(?:return|yield)\b"),
    ),
    (
        re.compile(r"\b(?:limit|at most|maximum|minimum|too (?:big|large|long|many|small))\b", re.I),
        re.compile(r"[<>]=?\s*\w"),
    ),
)
"""What a question asks of a definition, and the lines in which code does that."""
_QUOTED = frozenset({LINES, COMMAND})
"""Kinds whose facts are lines to quote: all of them, or the first command."""
_ORNAMENT = re.compile(r"""\s*(?:\[?!\[[^\]]*\]\(|<[^>]*>\s*$|[\w-]+="[^"]*"\s*/?>?\s*$)""")
_HEADING = re.compile(r"\s*(?:#{1,6}|={1,6})\s")
_SAYS = re.compile(r"\s*[^\s<>=#]+(?:\s+[^\s<>=]+){3}")
_LISTED = re.compile(r"\s*(?:[-*+•|]\s|\d{1,3}[.)]\s|[(\[{\"'`].*,\s*$)")
"""An item of a list, a row of a table, or a literal of one."""
_WORD = re.compile(r"\w")
_NAME = re.compile(rf"`([^`\s]+?)(?:\(\))?`|\b(?=\w)(\w*(?:{CAMEL}|_)\w*)\b")


def names_of_code(question: str) -> tuple[str, ...]:
    """Return the last parts of the names that a question writes as code: quoted, in camel case, with `_`."""
    names = ((quoted or bare).rpartition(".")[2] for quoted, bare in _NAME.findall(question))
    return tuple(dict.fromkeys(filter(None, names)))


@dataclass(frozen=True, slots=True)
class Sought:
    """The question, the weights of its terms, the names whose callers are asked for, the lines of the facet
    that is asked for, the lines that are facts, as (location, path, line), other than members of a list,
    those that the question names, and the members of the list, if all are known.
    """

    question: str
    weights: Mapping[str, float]
    called: tuple[str, ...] = ()
    facet: re.Pattern[str] | None = None
    facts: frozenset[tuple[str, str, int]] = frozenset()
    asked_lines: tuple[CodeFact, ...] = ()
    listed: tuple[CodeFact, ...] = ()

    @classmethod
    def of(cls, prepared: Prepared, hits: Sequence[Hit]) -> Sought:
        """Return what a question seeks in these sources."""
        asked = prepared.question
        question = prepared.standalone_question or asked
        weights, own = _weights(question, hits), set(terms(asked))
        weights = {term: w if term in own else _CONTEXT_WEIGHT * w for term, w in weights.items()}
        facet = next((lines for asks, lines in _FACET_LINES if asks.search(asked)), None)
        names = names_of_code(question) if _CALLERS.search(question) else ()
        found = prepared.code_facts
        # All lines of a list are shown: the quote shows what is around them.
        items = found.items if found and found.kind not in LISTS else ()
        facts = frozenset((item.location, item.path, item.start) for item in items)
        shown = found.items[: None if found.kind == LINES else 1] if found and found.kind in _QUOTED else ()
        is_whole = found is not None and (found.count == len(found.items) or len(found.items) == 1)
        listed = found.items if found and found.kind in LISTS and is_whole else ()
        return cls(question, weights, names, facet, facts, shown, listed)

    def score(self, line: str) -> float:
        """Return the weight of the terms in a line; a line of the facet has that of the best term more."""
        is_facet = self.facet is not None and self.facet.search(line) is not None
        return _score(line, self.weights) + (max(self.weights.values(), default=1.0) if is_facet else 0.0)

    def is_fact(self, hit: Hit, row: int) -> bool:
        """Return whether a line of a hit, from 0, is one of the facts of the answer."""
        return (hit.location, hit.path, hit.start + row) in self.facts

    def named_lines(self, hit: Hit) -> range:
        """Return the lines of a hit, from 0, that the question names, with those around a single one."""
        for item in self.asked_lines:
            first, last = max(item.start, hit.start), min(item.end, hit.end)
            if (item.location, item.path) == (hit.location, hit.path) and first <= last:
                around = _AROUND if first == last else 0
                return range(
                    max(first - around, hit.start) - hit.start, min(last + around, hit.end) - hit.start + 1
                )
        return range(0)

    def members(self, hit: Hit) -> range:
        """Return the lines of a hit, from 0, with all members of the list that was found, if they are few."""
        first = min((item.start for item in self.listed), default=0)
        last = max((item.end for item in self.listed), default=0)
        is_here = all((item.location, item.path) == (hit.location, hit.path) for item in self.listed)
        if not is_here or not hit.start <= first <= last <= hit.end or last - first > _MAX_LINES:
            return range(0)
        lines, begin, end = lines_of(hit.text), first - hit.start, last - hit.start + 1
        depth = _indent(lines[begin])
        above = range(begin - 1, max(begin - _ABOVE - 1, -1), -1)
        begin = next((n for n in above if lines[n].strip() and _indent(lines[n]) < depth), begin)
        while end < min(len(lines), begin + _WHOLE_LINES) and (
            _indent(lines[end]) > depth or _CLOSES.match(lines[end])
        ):
            end += 1
        return range(begin, end)

    def calling(self, hit: Hit) -> list[int]:
        """Return the lines, from 0, that call one of the names; none in the definition of one."""
        names = "|".join(re.escape(name) for name in self.called if name != hit.symbol)
        if not names:
            return []
        call = re.compile(rf"(?<![\w$])(?:{names})\s*(?:\(|<|::|!\()")
        return [i for i, line in enumerate(lines_of(hit.text)) if call.search(line)]

    def words_in(self, text: str) -> list[str]:
        """Return the words of the question that occur in a text, in any form, each once, as typed."""
        held = term_set(text)
        found: dict[str, str] = {}
        for word in words(without_clitics(self.question)):
            whole = terms(word)[-1:]  # for an identifier only the whole: a part of it is another word
            if held.issuperset(whole) and whole:
                found.setdefault(word.lower(), one_line(word))
        return list(found.values())


@dataclass(frozen=True, slots=True)
class ChosenLines:
    """Lines of a source in one piece, from 0, both ends inclusive; `best` is the line that decides."""

    first: int
    last: int
    best: int


def list_goes_on(lines: Sequence[str], last: int) -> int:
    """Return the last line, from 0, of the list that a quotation up to a line ends in, else `last`."""
    depth = _indent(lines[last])
    for row in range(last + 1, len(lines)) if _LISTED.match(lines[last]) else ():
        indent = _indent(lines[row])
        if not lines[row].strip() or indent < depth or (indent == depth and not _LISTED.match(lines[row])):
            return row - 1
    return len(lines) - 1 if _LISTED.match(lines[last]) else last


def chosen_lines(hit: Hit, sought: Sought) -> ChosenLines:
    """Return the lines of a hit to quote: all when they are few, else those around the one that decides.

    The lines that the question names are quoted as they are. Of a document, logos, badges and lines of HTML
    are left out.
    """
    lines = lines_of(hit.text)
    if asked := sought.named_lines(hit) or sought.members(hit):
        last = min(asked[-1], asked[0] + _MAX_ASKED_LINES - 1, len(lines) - 1)
        return ChosenLines(min(asked[0], last), last, asked[len(asked) // 2])
    defines = defining_row(hit, lines)
    is_document = hit.kind == "doc"
    ornaments = {n for n, line in enumerate(lines) if _ORNAMENT.match(line)} if is_document else set()
    if hit.start <= hit.asked_line < hit.start + len(lines):
        best = hit.asked_line - hit.start
        low, high = _run(lines, best, ornaments)
        return _trimmed(ChosenLines(best, min(high, best + _MAX_LINES - 1), best), lines)
    scores = _scores(hit, lines, sought, defines, ornaments)
    if any(scores):
        best = max(range(len(lines)), key=lambda n: scores[n])
    else:
        best = _prose(lines, ornaments) if is_document else defines or 0
    low, high = _run(lines, best, ornaments)
    if high - low < _WHOLE_LINES:
        return _trimmed(ChosenLines(low, high, best), lines)
    begin = _head(lines, defines, best, is_document=is_document)
    if begin is None or begin < low or best - begin >= _MAX_LINES:
        begin = _best_begin(lines, scores, best, low)
    return _trimmed(ChosenLines(begin, min(begin + _MAX_LINES - 1, high), best), lines)


def preview(hit: Hit, question: str, hits: Sequence[Hit], count: int) -> list[tuple[int, str]]:
    """Return a few lines of a hit with their numbers: around the line that has most of the question."""
    lines = lines_of(hit.text)
    rows = [n for n, line in enumerate(lines) if line.strip()]
    best = chosen_lines(hit, Sought(question, _weights(question, hits))).best
    first = max(sum(n < best for n in rows) - count // 2, 0)
    return [(hit.start + n, lines[n]) for n in rows[first : first + count]]


def _scores(
    hit: Hit, lines: Sequence[str], sought: Sought, defines: int | None, ornaments: Set[int]
) -> list[float]:
    named_already = {defines, *_documentation_below(lines, defines)}
    scores = [0.0 if n in ornaments else sought.score(line) for n, line in enumerate(lines)]
    for n, line in enumerate(lines):
        if scores[n] and (n in named_already or (hit.kind == "code" and _COMMENT.match(line))):
            scores[n] *= _HEAD_WEIGHT
    for n in {*sought.calling(hit), *(n for n in range(len(lines)) if sought.is_fact(hit, n))}:
        if n < len(lines):
            scores[n] += 2 * sum(sought.weights.values()) + 1
    return scores


def _run(lines: Sequence[str], best: int, ornaments: Set[int]) -> tuple[int, int]:
    """Return the first and last of the lines around one that are no ornaments."""
    low = max((n + 1 for n in ornaments if n < best), default=0)
    high = min((n - 1 for n in ornaments if n > best), default=len(lines) - 1)
    return low, high


def _head(lines: Sequence[str], defines: int | None, best: int, *, is_document: bool) -> int | None:
    """Return where the definition or the section with a line begins, with its decorators; None if unknown."""
    if is_document:
        return next((n for n in range(best, -1, -1) if _HEADING.match(lines[n])), None)
    if defines is None or defines > best:
        return None
    while defines and _DECORATES.match(lines[defines - 1]):
        defines -= 1
    return defines


def _best_begin(lines: Sequence[str], scores: Sequence[float], best: int, low: int) -> int:
    """Return where the best run with the best line begins: its best lines are in the middle."""
    found, most = best, 0.0
    for begin in range(max(low, best - _MAX_LINES + 1), best + 1):
        if not lines[begin].strip() or _CLOSES.match(lines[begin]):
            continue
        middle = begin + (_MAX_LINES - 1) / 2
        within = range(begin, min(begin + _MAX_LINES, len(lines)))
        value = sum([scores[n] * (1 - abs(n - middle) / (2 * _MAX_LINES)) for n in within])
        if value > most:
            found, most = begin, value
    return found


def _trimmed(chosen: ChosenLines, lines: Sequence[str]) -> ChosenLines:
    """Return the lines without blank ones at the ends."""
    first, last = chosen.first, chosen.last
    while first < last and not lines[first].strip():
        first += 1
    while last > first and (not lines[last].strip() or _closes_more(lines[last], lines[first])):
        last -= 1
    return ChosenLines(first, last, min(max(chosen.best, first), last))


def _closes_more(line: str, first: str) -> bool:
    """Return whether a line closes what encloses the first line."""
    return _CLOSES.match(line) is not None and _indent(line) < _indent(first)


def _prose(lines: Sequence[str], ornaments: Set[int]) -> int:
    """Return where the text of a page begins, below logos and badges: its first line of a few words."""
    return next((n for n, line in enumerate(lines) if n not in ornaments and _SAYS.match(line)), 0)


def without_marks(chosen: ChosenLines, lines: Sequence[str], constructs: Constructs) -> ChosenLines:
    """Return lines without those at their ends that have only the mark of a comment that is cut."""
    first, last = chosen.first, chosen.last
    parts = constructs.parts(first, last)
    if len(parts) > 1:
        (_, end, is_code), (begin, _, ends_in_code) = parts[0], parts[-1]
        while not is_code and first <= end and not _WORD.search(lines[first]):
            first += 1
        while not ends_in_code and last >= begin and not _WORD.search(lines[last]):
            last -= 1
    return ChosenLines(first, last, min(max(chosen.best, first), last))


def defining_row(hit: Hit, lines: Sequence[str]) -> int | None:
    """Return the line, from 0, that names the hit's definition; None when there is none."""
    if not hit.symbol:
        return None
    for n, line in enumerate(lines):
        if _names(line, hit.symbol) and not _COMMENT.match(line):
            return n
    return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _names(line: str, symbol: str) -> bool:
    """Return whether the symbol occurs in the line as a whole word."""
    at = line.find(symbol)
    while at >= 0:
        end = at + len(symbol)
        if not _WORD.match(line, end) and not (at and _WORD.match(line, at - 1)):
            return True
        at = line.find(symbol, at + 1)
    return False


def _documentation_below(lines: Sequence[str], defines: int | None) -> range:
    """Return the lines of a docstring that begins within four lines below the definition."""
    for begin in range(defines + 1, min(defines + 5, len(lines))) if defines is not None else ():
        if opened := _DOC_QUOTES.match(lines[begin]):
            end = begin
            while end < len(lines) - 1 and opened[1] not in lines[end][opened.end() if end == begin else 0 :]:
                end += 1
            return range(begin, end + 1)
    return range(0)


def _weights(question: str, hits: Sequence[Hit]) -> dict[str, float]:
    """Return the weight of each term of the question: log(1 + sources / sources that hold it)."""
    bags = [term_set(hit.text) for hit in hits]
    return {
        term: math.log(1 + len(bags) / held)
        for term in dict.fromkeys(terms(without_clitics(question)))
        if (held := sum(term in bag for bag in bags))
    }


def _score(line: str, weights: Mapping[str, float]) -> float:
    held = terms(line)
    if weights.keys().isdisjoint(held):  # most lines
        return 0.0
    there = set(held)
    return sum([weight for term, weight in weights.items() if term in there])


def short(line: str, sought: Sought, width: int = _MAX_WIDTH) -> str:
    """Return a line as it is quoted; a very long one is cut around a word of the question."""
    if len(line) <= width:
        return line
    named = (w.start() for w in WORD.finditer(line) if not sought.weights.keys().isdisjoint(terms(w[0])))
    first = max(0, min(next(named, 0) - width // 4, len(line) - width))
    end = first + width
    return f"{'…' if first else ''}{line[first:end]}{'…' if end < len(line) else ''}"
