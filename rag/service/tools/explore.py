"""Explore a repository for a question: the relevant places with the lines that matter, within a budget.

Each part of the question is answered by what fits it (`explored_places`). The facts of all parts come first,
then their other places in turns, so that each part is covered. Lines that were sent before are left out: the
same question again returns the next places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, product, zip_longest
from typing import TypeVar

from rag.analysis import words
from rag.answer.not_found import warning
from rag.code.languages import kind_of_path
from rag.display.mermaid import as_text
from rag.lines import ranges
from rag.ports import TokenCounter
from rag.quoting import counted, visible
from rag.retrieval.phrasings import best_confidence, with_phrasings
from rag.retrieval.search import RetrievalResult, exchange, pasted_change, search
from rag.retrieval.working_set import Exchange
from rag.service.repositories.repository import Repository
from rag.service.tools.definition_history import with_history
from rag.service.tools.explored_definitions import (
    FEW_USES,
    MAX_WHOLE,
    NO_USES,
    WINDOWS,
    ExploredPlace,
    Lead,
    constants_in,
    shown_lead,
    uses_of_lead,
)
from rag.service.tools.explored_places import DEPTH, FoundPlaces, places_of
from rag.service.tools.overview import overview_markdown, overview_of
from rag.service.tools.search import check_code_words, check_question
from rag.service.tools.unread import is_part, missing_note, pending_notes, with_unread
from rag.settings import EXPLORE_TOKENS, MAX_EXPLORE_TOKENS, MIN_EXPLORE_TOKENS
from rag.types import LOCAL, CodeDefinition, Reach, Source

_TOKENS_OF_PLACE = 40
"""As many ranked chunks are considered as the budget has room for, and one for each place that was sent."""
_MAX_PARTS = 6
_SHARES_OF_LEADS = {True: (0.5, 0.8), False: (0.4, 0.6)}
"""The shares of the budget for the first definition that is shown whole, and for all of them: of a question
for one place, and for several."""
_TOKENS_OF_REST, _MORE_NAMED, _MORE_CHARS = 80, 6, 240
"""What the sentence on further places has at most, usually; how many of them it names, in how many
characters."""
_MIN_LEADS, _TOKENS_OF_LEAD = 3, 300
"""At least so many of them are tried, and one for so many tokens of the budget."""
_MAX_BLOCK_LINES = 10
"""Places of one definition are joined up to this length."""
_SHARE_OF_SENT = 0.5
"""The share of the budget for the names of the places that were sent before."""
_MAX_FACTS = 24
"""The facts of a part of the question that come before all other places."""

_LISTED = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)])\s+")
_NEXT_PART = re.compile(
    r"(?<=[?;])\s+|(?:[,;]|(?<![\s,;]))\s++(?:and|then)\s+(?=(?:also\s+)?(?:who|where|how|what|which|when|why)\b)"
    r"|:\s+(?=(?:who|where|how|what|which|when|why)\b)"
    r"|,\s+(?=(?:where|how|what|when|why)\s+(?:do|does|did|is|are|was|were|can|must|should)\b)",
    re.I,
)
Lines = Mapping[str, Set[int]]
"""Line numbers by path."""
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Exploration:
    """The result of `explore`: the text with the places, best first, and what it does not show.

    `more` are places that did not fit, best first.
    """

    text: str
    places: tuple[ExploredPlace, ...]
    more: tuple[ExploredPlace, ...] = ()


def explore(
    repository: Repository,
    question: str,
    *,
    counter: TokenCounter,
    budget_tokens: int = EXPLORE_TOKENS,
    seen: Lines | None = None,
    in_code_words: Sequence[str] = (),
    next_places: str = "ask again with these lines as seen for them",
    on_missing: Callable[[Source], None] = lambda source: None,
    reach: Reach = LOCAL,
) -> Exploration:
    """Return the places of a repository that a question asks for, in at most `budget_tokens`.

    Args:
        repository: open for search.
        question: any text: a question of one or several parts, an identifier, a pasted error message, a diff
            or a description of a change with the paths of its files, of which the tests come first.
        counter: counts the tokens of the text.
        budget_tokens: the limit for the text, clipped to the range from 100 to 20,000.
        seen: lines that were sent before, which are left out.
        in_code_words: texts that say what is asked as the code would, with likely identifiers. Their places
            come before those of the question's own words, and after its facts.
        next_places: how to get the places that did not fit, in words.
        on_missing: see `with_history`.
        reach: what may be looked up in files that are not indexed.

    Raises:
        QuestionEmpty, QuestionTooLong: as `check_question`.
        SearchInvalid: as `check_code_words`.
        StoreCorrupt: a store is damaged where the search had to read it.
    """
    question, changed = pasted_change([repository.searcher], question)
    check_question(question)
    check_code_words(in_code_words)
    budget = max(MIN_EXPLORE_TOKENS, min(budget_tokens, MAX_EXPLORE_TOKENS))
    parts = [question] if changed else parts_of(question)
    sent = sum(n - 1 not in lines for lines in seen.values() for n in lines) if seen else 0
    room = budget // _TOKENS_OF_PLACE + sent
    depth = max(DEPTH, room // len(parts))
    results: list[tuple[str, RetrievalResult]] = []
    past: list[Exchange] = []
    for part in parts:
        result = search([repository.searcher], part, past=past, k=depth)
        result = with_unread([repository], with_history([repository], result, depth, on_missing), reach=reach)
        results.append((part, result))
        past = [*past, exchange(part, result)]
    if len(results) == 1 and results[0][1].is_overview:
        return _overview(repository, counter, budget)
    said = _in_code_words(repository, in_code_words, depth)
    weak = room > 2 * DEPTH
    found = [places_of(repository, *one, with_weak=weak, is_alone=not said) for one in results]
    first = [places_of(repository, *one, with_weak=False, in_code_words=True) for one in said]
    whole = results[0][1] if len(parts) == 1 else search([repository.searcher], question, k=depth)
    doubt = "" if changed else _doubt(repository, whole, said, reach)
    remarks = list(
        dict.fromkeys(filter(None, [doubt, *(r for one in (*found, *first) for r in one.remarks)]))
    )
    names = [name for _, result in results for name in result.sought.question.names]
    noted = " ".join(one.code_facts.note for _, one in results if one.code_facts)
    remarks += pending_notes([repository], names, noted, reach=reach)
    known = {path: set(lines) for path, lines in (seen or {}).items()}
    is_one = len(parts) == 1 and not any(one.asks_for_all for one in found)
    left = budget - counter.count("\n".join(map(visible, remarks))) - _TOKENS_OF_REST
    chosen = _Chosen(repository, counter, left, _SHARES_OF_LEADS[is_one], known)
    chosen.add(_in_turns([one.facts[:_MAX_FACTS] for one in (*found, *first)]))
    chosen.add_leads(_leads(first, found), WINDOWS[-1:] if changed else (MAX_WHOLE, *WINDOWS))
    chosen.add(_in_turns([[*one.facts[_MAX_FACTS:], *one.places] for one in first]))
    chosen.add(_in_turns([[*one.facts[_MAX_FACTS:], *one.places] for one in found]))
    if changed:  # its lines are known; what may break is not
        chosen.places.sort(key=lambda place: kind_of_path(place.path) != "test")
    before = _sent_before(chosen.repeated, counter, int(budget * _SHARE_OF_SENT))
    rest = partial(_rest, before=before, next_places=next_places)
    return _within_budget(remarks, chosen.places, rest, counter, budget)


def explore_page(
    repository: Repository,
    question: str,
    page: int,
    *,
    counter: TokenCounter,
    budget_tokens: int = EXPLORE_TOKENS,
    in_code_words: Sequence[str] = (),
    next_places: str,
) -> Exploration:
    """Return the places after those of the pages before, which are explored again: nothing is remembered.

    Raises what `explore` raises.
    """
    seen: dict[str, set[int]] = {}
    for _ in range(page):
        found = explore(
            repository,
            question,
            counter=counter,
            budget_tokens=budget_tokens,
            seen=seen,
            in_code_words=in_code_words,
            next_places=next_places,
        )
        for place in found.places:
            seen.setdefault(place.path, set()).update(number for number, _ in place.lines)
    return found


def _overview(repository: Repository, counter: TokenCounter, budget: int) -> Exploration:
    """Return the overview of a repository, its first lines if there is no room for all."""
    lines = as_text(overview_markdown(overview_of(repository))).splitlines()
    while len(lines) > 1 and counter.count("\n".join(lines)) > budget:
        del lines[-max(len(lines) // 8, 1) :]
    return Exploration("\n".join(lines), ())


def _doubt(
    repository: Repository,
    found: RetrievalResult,
    said: Sequence[tuple[str, RetrievalResult]],
    reach: Reach,
) -> str:
    """Return that no place fits a question well, and which words are missing, as an answer says; else ""."""
    phrased = tuple(one for _, result in said for one in (result, *result.phrased))
    confidence = best_confidence([repository.searcher], replace(found, phrased=phrased))
    unread = missing_note([repository], confidence, reach=reach)
    return warning(replace(confidence, found=True), found.hits, unread, is_part=is_part(repository))


def _in_code_words(
    repository: Repository, texts: Sequence[str], depth: int
) -> list[tuple[str, RetrievalResult]]:
    """Return texts in the code's words as one part that is searched as a whole and each; [] for none."""
    text, searchers = "; ".join(text.strip() for text in texts if text.strip()), [repository.searcher]
    if not text:
        return []
    return [(text, with_phrasings(searchers, search(searchers, text, k=depth), texts, k=depth))]


def _leads(first: Sequence[FoundPlaces], found: Sequence[FoundPlaces]) -> list[Lead]:
    """Return the definitions to show whole, best first: those that the question names, then those that its
    texts in the code's words find, or else its own words."""
    named = _in_turns([[lead for lead in one.leads if lead.is_named] for one in found])
    ranked = _in_turns([[lead for lead in one.leads if not lead.is_named] for one in (first or found)])
    leads: dict[CodeDefinition, Lead] = {}
    for lead in chain(named, ranked):
        leads.setdefault(lead.definition, lead)
    return list(leads.values())


@dataclass(slots=True)
class _Chosen:
    """The places to show, best first, with each line once and none that was sent before; `repeated` are the
    lines by path of the places of which all lines were."""

    repository: Repository
    counter: TokenCounter
    budget: int
    shares: tuple[float, float]
    seen: dict[str, set[int]]
    places: list[ExploredPlace] = field(default_factory=list)
    repeated: dict[str, dict[int, None]] = field(default_factory=dict)
    _taken: dict[str, set[int]] = field(default_factory=dict)
    _named: dict[str, set[int]] = field(default_factory=dict)

    def add(self, places: Iterable[ExploredPlace]) -> None:
        """Add the lines of places that are new; those of a definition that has a short place go there."""
        for place in places:
            named = self._named.get(place.path, set())
            unnamed = tuple(pair for pair in place.lines if pair[0] not in named)
            kept = self._new(replace(place, lines=unnamed))
            if kept is not None:
                _add(self.places, kept)
                self.add(constants_in(self.repository, kept))

    def add_leads(self, leads: Sequence[Lead], windows: Sequence[int]) -> None:
        """Add definitions with as many lines as a share of the budget has room for, the first ones first; the
        first one without its uses rather than not at all."""
        spent = self.counter.count(_text_of(self.places))
        first, room = (min(int(self.budget * share), self.budget - spent) for share in self.shares)
        left = max(_MIN_LEADS, self.budget // _TOKENS_OF_LEAD)
        for lead in leads:
            uses = (lead.uses, min(lead.uses, FEW_USES), *([NO_USES] if first else []))
            if left and (place := self._fitting(lead, max(room, first), uses, windows)):
                room, first = room - self._cost(place), 0
                self.places.append(place)
                left -= 1
                self.add(constants_in(self.repository, place))

    def _fitting(
        self, lead: Lead, room: int, most_uses: Sequence[tuple[int, int]], windows: Sequence[int]
    ) -> ExploredPlace | None:
        """Return a definition with as many uses and lines as there is room for; None if there is none, or if
        it was sent."""
        uses = uses_of_lead(self.repository, lead, self._taken)
        for most, window in product(most_uses, windows):
            place = shown_lead(self.repository, lead, window)
            fresh = self._new(place, keep=False) if place is not None else None
            if place is None or fresh is None or 2 * len(fresh.lines) < len(place.lines):
                return None
            fresh = replace(fresh, notes=(*fresh.notes, *uses.notes(most)), named=uses.named(most))
            if self._cost(fresh) <= room:
                self._new(place)
                for path, line in fresh.named:
                    self._named.setdefault(path, set()).add(line)
                return fresh
        return None

    def _cost(self, place: ExploredPlace) -> int:
        return self.counter.count(_text_of([place])) + 1

    def _new(self, place: ExploredPlace, *, keep: bool = True) -> ExploredPlace | None:
        """Return a place with its new lines alone, None if there is none; they are taken if it is kept."""
        sent, taken = self.seen.get(place.path, set()), self._taken.get(place.path, set())
        kept = tuple(pair for pair in place.lines if pair[0] not in sent and pair[0] not in taken)
        if keep and kept:
            self._taken.setdefault(place.path, set()).update(number for number, _ in kept)
        elif keep and any(number in sent for number, _ in place.lines):
            self.repeated.setdefault(place.path, {}).update((number, None) for number, _ in place.lines)
        return replace(place, lines=kept) if kept else None


def _add(places: list[ExploredPlace], new: ExploredPlace) -> None:
    """Add a place; lines of a definition that has one already are added to it, up to a limit."""
    for at, one in enumerate(places if new.label else ()):
        if (one.path, one.label) == (new.path, new.label) and len(one.lines) < _MAX_BLOCK_LINES:
            places[at] = replace(one, lines=tuple(sorted((*one.lines, *new.lines))))
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


# ---------------------------------------------------------------- the budget


def _in_turns(found: Sequence[Sequence[Found]]) -> Iterator[Found]:
    """Yield what was found for all parts in turns: the best of each, the second of each, …"""
    for row in zip_longest(*found):
        yield from (one for one in row if one is not None)


def _within_budget(
    remarks: Sequence[str],
    places: Sequence[ExploredPlace],
    rest: Callable[[Sequence[ExploredPlace]], str],
    counter: TokenCounter,
    budget: int,
) -> Exploration:
    """Return the text with the places that fit, the first ones first."""
    shown: list[ExploredPlace] = []
    for _ in range(2):  # the second time with what the estimate of the first one left
        spent = counter.count(_joined(remarks, shown, rest(places)))
        shown += _fitting(places, shown, counter, budget - spent)
    while True:
        more = [place for place in places if place not in shown]
        text = _joined(remarks, shown, rest(more)) or "Nothing was found."
        if counter.count(text) <= budget:
            return Exploration(text, tuple(shown), tuple(more))
        if shown:
            shown.pop()
        elif remarks:
            remarks = remarks[:-1]
        else:  # names of files that are longer than the smallest budget
            return Exploration(f"{len(more)} places; the budget is too small", (), tuple(more))


def _fitting(
    places: Sequence[ExploredPlace], shown: Sequence[ExploredPlace], counter: TokenCounter, room: int
) -> list[ExploredPlace]:
    """Return the first of the places that are not shown and fit, by an estimate that is rather too high."""
    named = {name for place in shown for name in ((place.path,), (place.path, place.label))}
    found = []
    for place in places:
        if place in shown:
            continue
        heads = [name for name in ((place.path,), (place.path, place.label)) if name not in named]
        rows = [*(f"  {visible(row)}" for row in (*(name[-1] for name in heads), *place.notes))]
        rows += [f"{n} {text}" for n, text in place.lines]
        cost = counter.count("\n".join(rows)) + 1
        if cost <= room:
            room -= cost
            named.update(heads)
            found.append(place)
    return found


def _joined(remarks: Sequence[str], places: Sequence[ExploredPlace], rest: str) -> str:
    return "\n".join(filter(None, [*map(visible, remarks), _text_of(places), rest]))


def _text_of(places: Sequence[ExploredPlace]) -> str:
    """Return places as text: each file once, below it its definitions with their lines in order, indented as
    they are relative to each other, and their notes."""
    by_file: dict[str, list[tuple[int, str, str]]] = {}
    notes: dict[tuple[str, str], tuple[str, ...]] = {}
    for place in places:
        lines = [(number, place.label, text) for number, text in place.lines]
        by_file.setdefault(place.path, []).extend(lines)
        notes.setdefault((place.path, place.label), place.notes)
    rows = []
    for path, lines in by_file.items():
        rows.append(visible(path))
        for label, group in groupby(sorted(lines), lambda line: line[1]):
            shown = [(number, text) for number, _, text in group]
            indent = min(len(text) - len(text.lstrip()) for _, text in shown)
            if label and label not in shown[0][1]:
                rows.append(f"  {visible(label)}")
            elif not label and rows[-1] != visible(path):
                rows.append("  …")
            rows += [f"{number} {text[indent:]}" for number, text in shown]
            rows += [f"  {visible(note)}" for note in notes.pop((path, label), ())]
    return "\n".join(rows)


def _rest(more: Sequence[ExploredPlace], before: str, next_places: str) -> str:
    """Return a sentence on what is not shown, then the one on what was sent before; "" if everything is."""
    return " ".join(filter(None, [f"{more_places(more)}; {next_places}." if more else "", before]))


def _sent_before(repeated: Mapping[str, Iterable[int]], counter: TokenCounter, room: int) -> str:
    """Return a sentence that names the lines that were sent before, and counts the files without room."""
    named = []
    for path, lines in repeated.items():
        one = f"{visible(path)}:{ranges(sorted(lines))}"
        room -= counter.count(one) + 1
        if room < 0:
            break
        named.append(one)
    left = len(repeated) - len(named)
    named += [f"and lines of {counted(left, 'more file')}"] if left else []
    return f"Also here, but sent before: {'; '.join(named)}." if named else ""


def more_places(more: Sequence[ExploredPlace]) -> str:
    """Return how many places are not shown, and where the first is, and others if these are short enough."""
    named = [(place.path, place.lines[0][0]) for place in more[:_MORE_NAMED]]
    while len(named) > 1 and len(_places_by_file(named)) > _MORE_CHARS:
        named.pop()
    return f"{counted(len(more), 'more place')}: {_places_by_file(named)}{', …' * (len(more) > len(named))}"


def _places_by_file(places: Sequence[tuple[str, int]]) -> str:
    """Return places as text, such as `app.py:3,9; cli.py:4`."""
    grouped = groupby(places, lambda place: place[0])
    return "; ".join(f"{visible(path)}:{','.join(str(line) for _, line in group)}" for path, group in grouped)
