"""Answer without a model: quote the lines nearest to the question from the files.

From each of the best sources it quotes the defining line, the first lines of its documentation, and the
ranges of lines that share the most informative words with the question; for a question about callers, the
calling lines. A word is more informative the fewer of the shown sources hold it. Omitted lines show as `…`,
and the quoted lines are named. The next sources are listed with one line each. The answer claims nothing
except that the named words occur in the quoted lines. Facts for a question of a known kind come first.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice

from rag.analysis import term_set, terms, without_clitics, words
from rag.answer.sections import label_at
from rag.cut_code import Constructs
from rag.identifiers import CAMEL
from rag.lines import lines_of
from rag.quoting import code_span, fence, one_line, visible
from rag.types import CodeFact, CodeFacts, Hit, NumberedSource, Prepared, Usage, source_of
from rag.types.question_kinds import LINES, LIST

QUOTED_SOURCES = 3
_NAMED_SOURCES = 5
_MAX_LINES = 14
_MAX_STRETCHES = 2
_MIN_LINES = 8
_MAX_WIDTH = 240
_MAX_NAMED_WIDTH = 100

_NO_MODEL = "No language model is configured, so nothing is explained here"

_DOC_LINE = re.compile(r"""\s*(?:[rRuU]?(?:\"{3}|'{3})|//|/\*|\*|--|#(?!include|define|if))""")
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
_AROUND = 3
_MAX_ASKED_LINES = 60
_CONTEXT_WEIGHT = 0.4
"""The weight of terms that a follow-up has from its context; its own terms weigh 1."""
_ORNAMENT = re.compile(r"""\s*(?:\[?!\[[^\]]*\]\(|<[^>]*>\s*$|[\w-]+="[^"]*"\s*/?>?\s*$)""")
_SAYS = re.compile(r"\s*[^\s<>=#]+(?:\s+[^\s<>=]+){3}")
_WORD = re.compile(r"\w")
_NAME = re.compile(rf"`([^`\s]+?)(?:\(\))?`|\b(?=\w)(\w*(?:{CAMEL}|_)\w*)\b")


class ExtractiveGenerator:
    """A generator that needs no model. It sends nothing over the network and costs nothing."""

    model = "extractive"

    quoted_sources = QUOTED_SOURCES
    """The number of sources whose lines are quoted; the next ones are only named."""

    def __init__(self) -> None:
        self.quoted: list[tuple[int, str, int, int]] = []
        """Each range that the last answer quotes, then each line that it names, if it was written here: the
        number of the source, path, first and last line."""
        self.sources: tuple[NumberedSource, ...] = ()
        """The sources of the last answer."""

    @property
    def usage(self) -> Usage | None:
        """None: it uses no tokens."""
        return Usage(estimated=False, cost_usd=0.0)

    def stream(self, prepared: Prepared) -> Iterator[str]:
        """Yield the quotes, one source per piece."""
        self.quoted, self.sources = [], prepared.prompt.sources
        return extract(prepared, self.quoted) if prepared.quotes is None else iter(prepared.quotes)


def extract(
    prepared: Prepared, quoted: list[tuple[int, str, int, int]] | None = None, *, why: str = _NO_MODEL
) -> Iterator[str]:
    """Quote the best lines of three sources, each under its number, and one line of the next five.

    If the question names lines, these alone are quoted. If there are no sources, the answer says so. The
    quoted places are appended to `quoted` as they are written. `why` is a sentence without full stop that
    says why nothing is explained.
    """
    sources = prepared.prompt.sources
    if not sources:
        found = (
            "The template in use shows no sources" if prepared.hits else "Nothing was found on this question"
        )
        yield f"{found}. {why}.\n"
        return
    sought = _Query.of(prepared, [s.hit for s in sources])
    several = len({(source.hit.repo, source.hit.location) for source in sources}) > 1
    places = quoted if quoted is not None else []
    ordered = sources
    if prepared.code_facts:
        yield _code_facts(prepared.code_facts, sources, places, several=several) + "\n"
    elif sought.called:
        ordered = tuple(sorted(sources, key=lambda source: not sought.calling(source.hit)))
    asked_for = [source for source in sources if sought.named_lines(source.hit)]
    what = "asked for" if asked_for else "nearest to the question"
    yield f"{why}; these are the lines {what}, quoted word for word.\n"
    quotes = [(one, _chosen_lines(one.hit, sought)) for one in asked_for] or _different(ordered, sought)
    for source, quote in quotes:
        hit, n = source.hit, source.n
        places += [(n, hit.path, hit.start + a, hit.start + b) for a, b in quote.spans]
        yield "\n" + _quoted(source, quote, sought.question, several=several)
    numbers = {source.n for source, _ in quotes}
    further = [source for source in ordered if source.n not in numbers][:_NAMED_SOURCES]
    if further and not asked_for:
        yield "\nFurther places:\n\n" + "".join(
            _named(source, sought, places, several=several) for source in further
        )


@dataclass(frozen=True, slots=True)
class _Query:
    """The question, the weights of its terms, the names whose callers are asked for, the lines of the facet
    that is asked for, the lines that are facts, as (location, path, line), other than members of a list, and
    those that the question names.
    """

    question: str
    weights: Mapping[str, float]
    called: tuple[str, ...] = ()
    facet: re.Pattern[str] | None = None
    facts: frozenset[tuple[str, str, int]] = frozenset()
    asked_lines: tuple[CodeFact, ...] = ()

    @classmethod
    def of(cls, prepared: Prepared, hits: Sequence[Hit]) -> _Query:
        asked = prepared.question
        question = prepared.standalone_question or asked
        weights, own = _weights(question, hits), set(terms(asked))
        weights = {term: w if term in own else _CONTEXT_WEIGHT * w for term, w in weights.items()}
        facet = next((lines for asks, lines in _FACET_LINES if asks.search(asked)), None)
        called = []
        if _CALLERS.search(question):
            called = [(quoted or bare).rpartition(".")[2] for quoted, bare in _NAME.findall(question)]
        found = prepared.code_facts
        # All lines of a list are shown: quotes show what is around them.
        items = found.items if found and found.kind != LIST else ()
        facts = frozenset((item.location, item.path, item.start) for item in items)
        shown = found.items if found and found.kind == LINES else ()
        return cls(question, weights, tuple(dict.fromkeys(filter(None, called))), facet, facts, shown)

    def score(self, line: str) -> float:
        """Return the weight of the terms in a line; a line of the facet has that of the best term more."""
        is_facet = self.facet is not None and self.facet.search(line) is not None
        return _score(line, self.weights) + (max(self.weights.values(), default=1.0) if is_facet else 0.0)

    def is_fact(self, hit: Hit, line: int) -> bool:
        """Return whether a line of a hit, from 0, is one of the facts of the answer."""
        return (hit.location, hit.path, hit.start + line) in self.facts

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

    def calling(self, hit: Hit) -> list[int]:
        """Return the lines, from 0, that call one of the names; none in the definition of one."""
        names = "|".join(re.escape(name) for name in self.called if name != hit.symbol)
        if not names:
            return []
        call = re.compile(rf"(?<![\w$])(?:{names})\s*(?:\(|<|::|!\()")
        return [i for i, line in enumerate(lines_of(hit.text)) if call.search(line)]


@dataclass(frozen=True, slots=True)
class _Quote:
    """Lines of a hit: `spans` are 0-based and inclusive, ascending, with a gap between each two."""

    lines: list[str]
    spans: list[tuple[int, int]]
    constructs: Constructs

    @property
    def text(self) -> str:
        """The quoted lines."""
        return "\n".join(self._part(*span) for span in self.spans)

    def _part(self, first: int, last: int) -> str:
        return "\n".join(_short(line) for line in self.lines[first : last + 1])

    def fenced(self, language: str) -> str:
        """Return the lines as Markdown, each range in a fence of its own, with `…` where lines are left out.

        A string or comment that is cut does not colour the next range; its own lines are in a fence without
        language, so that its closing mark is not taken for an opening one.
        """
        marks = fence(self.text)
        parts = [
            "\n".join(
                f"{marks}{language if is_code else ''}\n{self._part(first, last)}\n{marks}"
                for first, last, is_code in self.constructs.parts(*span)
            )
            for span in self.spans
        ]
        before, after = self.lines[: self.spans[0][0]], self.lines[self.spans[-1][1] + 1 :]
        return "\n".join([*_gap(before), "\n…\n".join(parts), *_gap(after)])


def _different(sources: Sequence[NumberedSource], sought: _Query) -> list[tuple[NumberedSource, _Quote]]:
    """Return the first three sources with their quotes; copies in the same repository count as one."""
    found: dict[tuple[str, ...], tuple[NumberedSource, _Quote]] = {}
    for source in sources:
        quote = _chosen_lines(source.hit, sought)
        found.setdefault((source.hit.repo, source.hit.location, *quote.text.split()), (source, quote))
        if len(found) == QUOTED_SOURCES:
            break
    return list(found.values())


def _gap(left_out: Sequence[str]) -> list[str]:
    return ["…"] if any(line.strip() for line in left_out) else []


def _quoted(source: NumberedSource, quote: _Quote, question: str, *, several: bool) -> str:
    hit = source.hit
    first, *more = [_range(hit.start + a, hit.start + b) for a, b in quote.spans]
    place = f"`{_path(hit, several=several)}:{first}`"
    also = "".join(f", {lines}" for lines in more)
    matched = _matched(question, quote.text)
    why = f" — matches {', '.join(f'*{word}*' for word in matched)}" if matched else ""
    language = re.sub(r"[^A-Za-z0-9+#._-]", "", hit.language)
    heading = _heading(hit, quote.spans[0][0])
    return f"{heading}{place}{also} [{source.n}]{why}\n\n{quote.fenced(language)}\n"


def _named(
    source: NumberedSource, sought: _Query, places: list[tuple[int, str, int, int]], *, several: bool
) -> str:
    """Return a source on one line: its place, and its most informative line."""
    hit = source.hit
    lines = lines_of(hit.text)
    best = next(iter(sought.calling(hit)), _defining(hit, lines))
    if best is None:
        best = max(range(len(lines)), key=lambda i: (sought.score(lines[i]), bool(lines[i].strip())))
    places.append((source.n, hit.path, hit.start + best, hit.start + best))
    return f"- `{_path(hit, several=several)}:{hit.start + best}` [{source.n}] {_shown(lines[best])}\n"


def _code_facts(
    found: CodeFacts,
    sources: Sequence[NumberedSource],
    places: list[tuple[int, str, int, int]],
    *,
    several: bool,
) -> str:
    """Return the facts: one sentence, then each on a line with its place, number and text."""
    lines = [f"{visible(found.summary)}:", ""]
    told_apart = len({item.reason for item in found.items}) > 1
    for item in found.items:
        n = source_of(item, sources)
        places.append((n, item.path, item.start, item.end))
        path = one_line(f"{item.repo}:{item.path}" if several else item.path)
        number = f" [{n}]" if n else ""
        doubt = "" if item.certain or found.is_only_nearest else ", possibly"
        reason = f" — {visible(item.reason)}{doubt}" if told_apart or doubt else ""
        lines.append(f"- `{path}:{_range(item.start, item.end)}`{number} {_first_line(item.text)}{reason}")
    if (more := found.count - len(found.items)) > 0:
        lines.append(f"- and {more:,} more")
    lines += ["", f"{visible(found.note)}."] if found.note else []
    return "\n".join(lines) + "\n"


def _first_line(text: str) -> str:
    line = next((line for line in lines_of(text) if line.strip()), "")
    return _shown(line) if line else "(empty)"


def _shown(line: str) -> str:
    """Return a line of code as inline code, cut to the width of a list."""
    shown = visible(line.strip())
    return code_span(shown if len(shown) <= _MAX_NAMED_WIDTH else shown[:_MAX_NAMED_WIDTH].rstrip() + "…")


def _range(first: int, last: int) -> str:
    return f"{first}-{last}" if last > first else str(first)


def _path(hit: Hit, *, several: bool) -> str:
    return one_line(f"{hit.repo}:{hit.path}" if several else hit.path)


def _heading(hit: Hit, line: int) -> str:
    name = label_at(hit, line)
    if not hit.symbol or hit.unit == "block":
        return f"In `{one_line(name)}`, " if name else ""
    return f"{hit.unit.capitalize()} `{one_line(name)}`, "


def _chosen_lines(hit: Hit, sought: _Query) -> _Quote:
    """Choose at most 14 lines of a hit: all when it has no more, else its head and its best ranges."""
    lines = [line.rstrip("\r") for line in lines_of(hit.text)]
    while len(lines) > 1 and not lines[-1].strip():
        lines.pop()
    if asked := sought.named_lines(hit):
        return _quote(
            lines, set(asked[:_MAX_ASKED_LINES]).intersection(range(len(lines))) or {0}, hit.language
        )
    if len(lines) <= _MAX_LINES:
        return _quote(lines, set(range(len(lines))), hit.language)
    chosen = set(_head(hit, lines))
    ornaments = {i for i, line in enumerate(lines) if _ORNAMENT.match(line)} if hit.kind == "doc" else set()
    if hit.start <= hit.asked_line < hit.start + len(lines):
        below = (i for i in range(hit.asked_line - hit.start, len(lines)) if i not in ornaments)
        return _quote(lines, set(islice(below, _MAX_LINES)), hit.language)
    scores = [0.0 if i in ornaments else sought.score(line) for i, line in enumerate(lines)]
    for i in {*sought.calling(hit), *(i for i in range(len(lines)) if sought.is_fact(hit, i))}:
        if i < len(lines):
            scores[i] += 2 * sum(sought.weights.values()) + 1
    if not any(scores):
        begins = _prose(lines, ornaments) if hit.kind == "doc" else 0
        chosen |= set(range(begins, min(begins + _MIN_LINES, len(lines))))
    inner = ornaments | {i for i, line in enumerate(lines) if not line.strip() or _CLOSES.match(line)}
    for left in range(_MAX_STRETCHES, 0, -1):
        chosen |= _stretch(scores, chosen, inner, (_MAX_LINES - len(chosen)) // left)
    # The defining line alone is not informative.
    below = (i for i in range(min(chosen), len(lines)) if i not in chosen)
    chosen |= set(islice(below, max(_MIN_LINES - len(chosen), 0)))
    return _quote(lines, chosen, hit.language)


def _quote(lines: list[str], chosen: Set[int], language: str) -> _Quote:
    constructs = Constructs(lines, language)
    spans = [_without_marks(*span, lines, constructs) for span in _spans(chosen, lines)]
    return _Quote(lines, spans, constructs)


def _without_marks(first: int, last: int, lines: Sequence[str], constructs: Constructs) -> tuple[int, int]:
    """Return a range without the lines at its ends that have only the mark of a comment that is cut."""
    parts = constructs.parts(first, last)
    if len(parts) > 1:
        (_, end, is_code), (begin, _, ends_in_code) = parts[0], parts[-1]
        while not is_code and first <= end and not _WORD.search(lines[first]):
            first += 1
        while not ends_in_code and last >= begin and not _WORD.search(lines[last]):
            last -= 1
    return first, last


def _prose(lines: Sequence[str], ornaments: Set[int]) -> int:
    """Return where the text of a page begins, below logos and badges: its first line of a few words."""
    return next((i for i, line in enumerate(lines) if i not in ornaments and _SAYS.match(line)), 0)


def _stretch(scores: Sequence[float], chosen: Set[int], inner: Set[int], room: int) -> set[int]:
    """Return the best run of at most `room` lines besides the chosen ones, its best lines in the middle.

    It does not begin with one of the `inner` lines. Empty when no other line has a score.
    """
    best: Sequence[int] = ()
    best_score = 0.0
    scored = [i for i, score in enumerate(scores) if score and i not in chosen]
    for begin in range(len(scores)):
        within = scored[bisect_left(scored, begin) : bisect_left(scored, begin + room)]
        if not within or begin in inner or begin in chosen:
            continue
        middle = begin + (room - 1) / 2
        value = sum([scores[i] * (1 - abs(i - middle) / (4 * room)) for i in within])
        if value > best_score:
            best, best_score = range(begin, min(begin + room, len(scores))), value
    return {i for i in best if i not in chosen}


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


def _head(hit: Hit, lines: Sequence[str]) -> list[int]:
    """Return the line that names the definition, its decorators, and up to three lines of documentation.

    Empty for a later part of a definition, which does not name it.
    """
    defines = _defining(hit, lines)
    if defines is None:
        return []
    above = [i for i in range(defines) if _DOC_LINE.match(lines[i])][:2]
    decorated = [i for i in range(max(defines - 2, 0), defines) if _DECORATES.match(lines[i])]
    return [*above, *decorated, defines, *_documentation_below(lines, defines)]


def _defining(hit: Hit, lines: Sequence[str]) -> int | None:
    """Return the line that names the hit's definition; None when there is none."""
    if not hit.symbol:
        return None
    for i, line in enumerate(lines):
        if _names(line, hit.symbol) and not _DOC_LINE.match(line):
            return i
    return None


def _names(line: str, symbol: str) -> bool:
    """Return whether the symbol occurs in the line as a whole word."""
    at = line.find(symbol)
    while at >= 0:
        end = at + len(symbol)
        if not _WORD.match(line, end) and not (at and _WORD.match(line, at - 1)):
            return True
        at = line.find(symbol, at + 1)
    return False


def _documentation_below(lines: Sequence[str], defines: int) -> list[int]:
    """Return up to three lines of a docstring that begins within four lines below the definition."""
    for begin in range(defines + 1, min(defines + 5, len(lines))):
        if opened := _DOC_QUOTES.match(lines[begin]):
            end = begin
            while end < len(lines) - 1 and opened[1] not in lines[end][opened.end() if end == begin else 0 :]:
                end += 1
            return list(range(defines + 1, min(end, begin + 2) + 1))
    return []


def _spans(chosen: Set[int], lines: Sequence[str]) -> list[tuple[int, int]]:
    """Join neighbouring lines, fill gaps of one line, and drop blank edges."""
    filled = set(chosen) | {i + 1 for i in chosen if i + 2 in chosen and i + 1 < len(lines)}
    spans: list[tuple[int, int]] = []
    for i in sorted(filled):
        if spans and spans[-1][1] == i - 1:
            spans[-1] = (spans[-1][0], i)
        else:
            spans.append((i, i))
    return [span for a, b in spans if (span := _trimmed(a, b, lines))] or spans[:1]


def _trimmed(a: int, b: int, lines: Sequence[str]) -> tuple[int, int] | None:
    while a <= b and not lines[a].strip():
        a += 1
    while b >= a and not lines[b].strip():
        b -= 1
    return (a, b) if a <= b else None


def _short(line: str) -> str:
    """Return a line, cut off with `…` if it is very long."""
    return line if len(line) <= _MAX_WIDTH else line[:_MAX_WIDTH] + "…"


def _matched(question: str, quoted: str) -> list[str]:
    """Return the words of the question that occur in the quote, in any form, each once, as typed."""
    held = term_set(quoted)
    found: dict[str, str] = {}
    for word in words(without_clitics(question)):
        whole = terms(word)[-1:]  # for an identifier only the whole: a part of it is another word
        if held.issuperset(whole) and whole:
            found.setdefault(word.lower(), one_line(word))
    return list(found.values())[:6]
