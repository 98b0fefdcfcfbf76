"""Explore a repository for a question: the relevant places with the lines that matter, within a budget.

Each part of the question is answered by what fits it: text in quotation marks by exact search; callers,
members of lists and settings by the code graph and the rules of their kinds; names by their definitions; and
everything by ranked search. The places of all parts take turns, so that each part is covered. Lines that were
sent before are left out: the same question again returns the next places.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby, zip_longest

from rag.analysis import term_set, terms, words
from rag.code.languages import kind_of, language_of_path
from rag.errors import SearchInvalid
from rag.lines import lines_of
from rag.ports import TokenCounter
from rag.quoting import visible
from rag.retrieval.context import Exchange
from rag.retrieval.exact import find_text
from rag.retrieval.lookup import uses
from rag.retrieval.mentions import is_path
from rag.retrieval.search import RetrievalResult, search
from rag.service.definition_history import with_history
from rag.service.engine import Repository
from rag.types import CodeDefinition, Hit, Subject

DEFAULT_TOKENS = 1_000
MIN_TOKENS, MAX_TOKENS = 100, 20_000
_DEPTH = 24
"""Ranked chunks that are considered for each part of a question."""
_AFTER_FACTS = 3
"""The number of them if the rules of a kind found the answer."""
_MAX_PARTS = 6
_MAX_LITERALS, _MAX_MATCHES = 4, 12
_MAX_NAMES, _MAX_DEFINITIONS, _MAX_CALLERS, _MAX_USES = 6, 4, 30, 16
_LINES_BY_RANK = (6, 4, 3)
"""How many lines the best ranked chunks are shown with; the others, and those after named places, with
`_FEW_LINES`."""
_FEW_LINES = 2
_MORE_LINES = (1, 2, 3)
"""How many times more lines are tried, in this order, as long as all places fit."""
_IN_NAMED_FILE = 3
"""How many times more lines chunks have in files that the question names."""
_MAX_BLOCK_LINES = 10
"""Places of one definition are joined up to this length."""
_MAX_LINE_CHARS = 160
_NAMED_FILES = 3

_LISTED = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)])\s+")
_NEXT_PART = re.compile(
    r"(?<=[?;])\s+|[,;]?\s+(?:and|then)\s+(?=(?:also\s+)?(?:who|where|how|what|which|when|why)\b)", re.I
)
_QUOTED = re.compile(r"[\"“]([^\"“”\n]{3,300})[\"”]|`([^`\n]{3,300})`|(?<!\w)'([^'\n]{3,300})'(?!\w)")
_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*(?:\(\))?")

Lines = Mapping[str, Set[int]]
"""Line numbers by path."""


@dataclass(frozen=True, slots=True)
class ExploredPlace:
    """A place with those of its lines that matter, as (number, text), in order; at least one."""

    path: str
    label: str
    lines: tuple[tuple[int, str], ...]

    @property
    def place(self) -> str:
        """Path with the first and last line, such as `app.py:12-40`."""
        first, last = self.lines[0][0], self.lines[-1][0]
        return f"{self.path}:{first}-{last}"


@dataclass(frozen=True, slots=True)
class Exploration:
    """The result of `explore`: the text with the places, best first, and what it does not show.

    `more` are places that did not fit, best first.
    """

    text: str
    places: tuple[ExploredPlace, ...]
    more: tuple[ExploredPlace, ...] = ()


@dataclass(slots=True)
class _Found:
    """What was found for a part of the question: places, best first, and sentences about them."""

    places: list[ExploredPlace] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def explore(
    repository: Repository,
    question: str,
    *,
    counter: TokenCounter,
    budget_tokens: int = DEFAULT_TOKENS,
    seen: Lines | None = None,
    next_places: str = "ask again with these lines as seen for them",
) -> Exploration:
    """Return the places of a repository that a question asks for, in at most `budget_tokens`.

    Args:
        repository: open for search.
        question: any text: a question of one or several parts, an identifier, a pasted error message.
        counter: counts the tokens of the text.
        budget_tokens: the limit for the text, clipped to the range from 100 to 20,000.
        seen: lines that were sent before, which are left out.
        next_places: how to get the places that did not fit, in words.

    Raises:
        StoreCorrupt: a store is damaged where the search had to read it.
    """
    budget = max(MIN_TOKENS, min(budget_tokens, MAX_TOKENS))
    parts = parts_of(question)
    results: list[tuple[str, RetrievalResult]] = []
    past: list[Exchange] = []
    for part in parts:
        result = with_history([repository], search([repository.searcher], part, past=past, k=_DEPTH), _DEPTH)
        results.append((part, result))
        past = [*past, _exchange(part, result)]
    best: Exploration | None = None
    for more_lines in _MORE_LINES:
        found = [_places(repository, part, result, more_lines) for part, result in results]
        fresh, repeated = _fresh(found, seen or {})
        remarks = list(dict.fromkeys(chain.from_iterable(one.remarks for one in found)))
        rest = partial(_rest, repeated=repeated, next_places=next_places)
        tried = _within_budget(remarks, fresh, rest, counter, budget)
        if best is None or not tried.more:
            best = tried
        if tried.more:
            break
    assert best is not None
    return best


def _fresh(found: Sequence[_Found], seen: Lines) -> tuple[list[ExploredPlace], int]:
    """Return the places in turns, with each line once and none that was sent before, and the number of places
    of which all lines were."""
    taken: dict[str, set[int]] = {path: set(numbers) for path, numbers in seen.items()}
    fresh: list[ExploredPlace] = []
    repeated = 0
    for place in _in_turns([one.places for one in found]):
        kept = tuple(pair for pair in place.lines if pair[0] not in taken.get(place.path, ()))
        repeated += not kept and any(number in seen.get(place.path, ()) for number, _ in place.lines)
        if kept:
            taken.setdefault(place.path, set()).update(number for number, _ in kept)
            _add(fresh, ExploredPlace(place.path, place.label, kept))
    return fresh, repeated


def _add(places: list[ExploredPlace], new: ExploredPlace) -> None:
    """Add a place; lines of a definition that has one already are added to it, up to a limit."""
    for at, one in enumerate(places):
        if (one.path, one.label) == (new.path, new.label) and len(one.lines) < _MAX_BLOCK_LINES:
            lines = tuple(sorted((*one.lines, *new.lines)))
            places[at] = ExploredPlace(one.path, one.label, lines)
            return
    places.append(new)


def parts_of(question: str) -> list[str]:
    """Return the parts of a question that are searched separately: sentences that ask, items of a list.

    A text that is no list and has one question is one part, whatever its lines: a pasted error, a traceback.
    """
    lines = [line for line in question.splitlines() if line.strip()]
    listed = [line for line in lines if _LISTED.match(line) or line.rstrip().endswith("?")]
    rows = [_LISTED.sub("", line) for line in lines] if len(listed) > 1 else [question]
    parts = [part.strip() for row in rows for part in _NEXT_PART.split(row)]
    parts = [part for part in parts if len(words(part)) > 1]
    return parts[:_MAX_PARTS] if len(parts) > 1 else [question]


def _exchange(part: str, found: RetrievalResult) -> Exchange:
    places = tuple(
        Subject(hit.path, hit.symbol, hit.scope if hit.symbol else "", hit.start, hit.end)
        for hit in found.hits[:3]
    )
    return Exchange(part, places, found.sought.subject)


# ---------------------------------------------------------------- what is found


def _places(repository: Repository, part: str, result: RetrievalResult, more_lines: int) -> _Found:
    """Return the places for one part of a question: those in files that it names, then the most certain.

    Ranked chunks have `more_lines` times their usual lines.
    """
    found = _Found(remarks=list(result.remarks))
    names, literals = _names_and_literals(part, result)
    paths = result.sought.question.paths
    found.places += _matches(repository, literals)
    has_matches = bool(found.places)
    facts = result.code_facts
    if facts is not None:
        note = f" ({facts.note})" if facts.note else ""
        found.remarks.append(f"{facts.summary}{note}.")
        found.places += _definitions(repository, [facts.subject])
        found.places += _facts(result)
    found.places += _definitions(repository, names)
    is_name = len(words(part)) == 1
    if is_name and facts is None:
        found.places += _callers(repository, names)
    if facts is None or facts.kind != "callers":  # these are all uses already
        found.places += _mentions(repository, names)
    limit = _AFTER_FACTS if facts is not None or (has_matches and is_name) else _DEPTH
    ranked = result.ranked[:limit]
    weights = _weights(part, ranked)
    for rank, hit in enumerate(ranked):
        room = _LINES_BY_RANK[rank] if rank < len(_LINES_BY_RANK) and not names else _FEW_LINES
        room *= _IN_NAMED_FILE if any(is_path(hit.path, path) for path in paths) else 1
        found.places.append(_excerpt(hit, weights, room * more_lines))
    found.places.sort(key=lambda place: not any(is_path(place.path, path) for path in paths))
    return found


def _names_and_literals(part: str, result: RetrievalResult) -> tuple[list[str], list[str]]:
    """Return the identifiers that a part of a question names, and its quoted strings that are none."""
    quoted = [next(filter(None, groups)) for groups in _QUOTED.findall(part)]
    literals = [text for text in quoted if not _NAME.fullmatch(text.strip())]
    named = [text.strip().removesuffix("()") for text in quoted if text not in literals]
    names = dict.fromkeys([*named, *result.sought.question.names])
    elsewhere = [*literals, *result.sought.question.paths]
    found = [name for name in names if not any(name in text for text in elsewhere)]
    return found[:_MAX_NAMES], literals[:_MAX_LITERALS]


def _matches(repository: Repository, literals: Sequence[str]) -> Iterator[ExploredPlace]:
    """Yield the lines that hold quoted strings exactly."""
    for literal in literals:
        try:
            hits = find_text([repository.store], literal, k=_MAX_MATCHES).hits
        except SearchInvalid:  # longer than a pattern may be: the ranked search reads it
            continue
        for hit in hits:
            yield ExploredPlace(hit.path, hit.label, _numbered(hit.start, lines_of(hit.text)))


def _facts(result: RetrievalResult) -> Iterator[ExploredPlace]:
    """Yield the facts; neighbours of one definition are one place, doubtful ones are marked."""
    items = result.code_facts.items if result.code_facts else ()
    for (path, label, certain), group in groupby(items, lambda one: (one.path, one.label, one.certain)):
        lines: dict[int, str] = {}
        for item in group:
            lines |= dict(_numbered(item.start, lines_of(item.text)[:_FEW_LINES]))
        yield ExploredPlace(
            path, label if certain else f"{label} (possibly)".strip(), tuple(sorted(lines.items()))
        )


def _definitions(repository: Repository, names: Sequence[str]) -> Iterator[ExploredPlace]:
    """Yield the first line of each definition of the names, and what it says next."""
    for name in names:
        found = repository.store.graph.definitions(name)
        code = [one for one in found if kind_of(one.path, language_of_path(one.path) or "text") == "code"]
        for one in (code or found)[:_MAX_DEFINITIONS]:
            if place := _of_file(
                repository, one.path, range(one.start, min(one.end, one.start + 2) + 1), one
            ):
                yield place


def _callers(repository: Repository, names: Sequence[str]) -> Iterator[ExploredPlace]:
    """Yield the calls of the names, one place for those in the same definition."""
    graph = repository.store.graph
    for name in names:
        uses = graph.callers(graph.definitions(name)[:_MAX_DEFINITIONS])[:_MAX_CALLERS]
        for (path, within), group in groupby(uses, lambda use: (use.path, use.within)):
            if place := _of_file(repository, path, [use.line for use in group], within):
                yield place


def _mentions(repository: Repository, names: Sequence[str]) -> Iterator[ExploredPlace]:
    """Yield the lines that use the names, calls first; those of code alone if there are any."""
    for name in names:
        found = uses(repository.store, name)
        code = [use for use in found if use.hit.kind == "code"]
        for use in (code or found)[:_MAX_USES]:
            lines = lines_of(use.hit.text)
            numbers = use.lines[:_FEW_LINES]
            shown = tuple((number, _short(lines[number - use.hit.start])) for number in numbers)
            yield ExploredPlace(use.hit.path, use.hit.label, shown)


def _of_file(
    repository: Repository, path: str, numbers: Sequence[int], of: CodeDefinition | str
) -> ExploredPlace | None:
    read = repository.store.file_text(path)
    lines = lines_of(read[0]) if read else []
    shown = {n: lines[n - 1] for n in numbers if 0 < n <= len(lines) and lines[n - 1].strip()}
    label = of if isinstance(of, str) else of.qualified_name
    kept = tuple((n, _short(text)) for n, text in sorted(shown.items()))
    return ExploredPlace(path, label, kept) if kept else None


# ---------------------------------------------------------------- the lines that matter


def _excerpt(hit: Hit, weights: Mapping[str, float], room: int) -> ExploredPlace:
    """Return the lines of a ranked chunk that matter most: its head, then those with the question's words."""
    lines = lines_of(hit.text)
    held = [n for n, line in enumerate(lines) if re.search(r"\w", line)] or [0]
    head = next((n for n in held if hit.symbol and hit.symbol in lines[n]), held[0])
    scores = {n: sum(weights.get(term, 0.0) for term in term_set(lines[n])) for n in held if n != head}
    best = sorted(scores, key=lambda n: (-scores[n], n))[: room - 1]
    chosen = sorted({head, *best})
    return ExploredPlace(
        hit.path, hit.label, tuple((hit.start + n, _short(lines[n])) for n in chosen if n < len(lines))
    )


def _weights(part: str, hits: Sequence[Hit]) -> dict[str, float]:
    """Return the weight of each term of a question: rare ones among the hits weigh more."""
    bags = [term_set(hit.text) for hit in hits]
    held = {term: sum(term in bag for bag in bags) for term in dict.fromkeys(terms(part))}
    return {term: math.log(1 + len(bags) / count) for term, count in held.items() if count}


def _numbered(first: int, lines: Sequence[str]) -> tuple[tuple[int, str], ...]:
    return tuple((number, _short(line)) for number, line in enumerate(lines, first))


def _short(line: str) -> str:
    text = line.expandtabs(4).rstrip()
    return text if len(text) <= _MAX_LINE_CHARS else f"{text[:_MAX_LINE_CHARS]}…"


# ---------------------------------------------------------------- the budget


def _in_turns(found: Sequence[Sequence[ExploredPlace]]) -> Iterator[ExploredPlace]:
    """Yield the places of all parts in turns: the best of each, the second of each, …"""
    for row in zip_longest(*found):
        yield from (place for place in row if place is not None)


def _within_budget(
    remarks: Sequence[str],
    places: Sequence[ExploredPlace],
    rest: Callable[[Sequence[ExploredPlace]], str],
    counter: TokenCounter,
    budget: int,
) -> Exploration:
    """Return the text with as many of the first places as fit."""
    shown: list[ExploredPlace] = []
    spent = counter.count("\n".join([*remarks, rest(places)])) + 2
    for place in places:
        spent += counter.count(_block(place)) + 1
        if spent > budget:
            break
        shown.append(place)
    while True:
        more = [*places[len(shown) :]]
        text = "\n".join([*map(visible, remarks), *map(_block, shown), *filter(None, [rest(more)])])
        text = text or "Nothing was found."
        if counter.count(text) <= budget:
            return Exploration(text, tuple(shown), tuple(more))
        if shown:
            shown.pop()
        elif remarks:
            remarks = remarks[:-1]
        else:  # names of files that are longer than the smallest budget
            return Exploration(f"{len(more)} places; the budget is too small", (), tuple(more))


def _block(place: ExploredPlace) -> str:
    """Return a place as text: where it is, and its lines with their numbers, indented as they are relative to
    each other."""
    indent = min((len(text) - len(text.lstrip()) for _, text in place.lines if text.strip()), default=0)
    label = f" {visible(place.label)}" if place.label else ""
    return "\n".join(
        [f"{visible(place.place)}{label}", *(f"{number} {text[indent:]}" for number, text in place.lines)]
    )


def _rest(more: Sequence[ExploredPlace], repeated: int, next_places: str) -> str:
    """Return a sentence on what is not shown; "" if everything is."""
    notes = []
    if more:
        files = list(dict.fromkeys(place.path for place in more))
        named = ", ".join(map(visible, files[:_NAMED_FILES])) + (", …" if len(files) > _NAMED_FILES else "")
        places = f"{len(more)} more place{'s' * (len(more) > 1)} in {len(files)} file{'s' * (len(files) > 1)}"
        notes.append(f"{places} ({named}); {next_places}.")
    if repeated:
        notes.append(f"{repeated} place{'s' * (repeated > 1)} sent before.")
    return " ".join(notes)
