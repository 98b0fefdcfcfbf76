"""The places that answer one part of a question to explore: exact matches, facts, names, then ranked chunks.

What the rules of its kind found comes first, then what the question names, and the ranked chunks. Facts in
tests and documents, and facts outside of the paths that the question names, come last.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import dropwhile, groupby, islice

from rag.analysis import term_set, terms, words
from rag.code.languages import kind_of_path
from rag.errors import SearchInvalid
from rag.identifiers import QUALIFIED, composed
from rag.lines import lines_of
from rag.retrieval.exact import find_text
from rag.retrieval.lookup import lines_with
from rag.retrieval.mentions import is_path
from rag.retrieval.search import RetrievalResult
from rag.retrieval.shown_code import is_test
from rag.retrieval.shown_definition import definition_at, label_at
from rag.retrieval.uses import definitions_meant
from rag.service.explored_definitions import NO_USES, ExploredPlace, Lead, lead_of_hit, lines_in, short
from rag.service.repository import Repository
from rag.types import CodeDefinition, CodeFact, CodeFacts, Hit
from rag.types.question_kinds import CALLERS, LINES, LIST, MESSAGE, SETTING, TRACE

DEPTH = 24
"""Ranked chunks that are considered for each part of a question, if the budget has no room for more."""
_AFTER_FACTS = 3
"""The number of them if the rules of a kind found the answer."""
_MAX_LITERALS, _MAX_MATCHES = 4, 12
_MAX_NAMES, _MAX_USES = 6, 16
_MAX_DEFINITIONS, _MAX_DEFINITIONS_OF_LIST = 4, 24
_MAX_MEMBERS = 40
"""Members of a list whose definitions are shown."""
_USE_LINES = 12
"""Lines with a name that are shown of one definition."""
_FEW_LINES = 2
"""Lines of a fact that are shown."""
_MAX_LEADS = 4
"""Definitions of ranked chunks that may be shown whole."""
_MAX_TARGETS, _NAMED_CALLERS, _NAMED_TESTS = 8, 24, 4
"""Of a name that the question has: the most definitions it may mean to be shown whole, and the most callers
that are named, and the most tests, if the question does not ask for them."""
_MAX_CALLED = 6
"""What a failing test calls that is considered."""
_CLEARLY_MORE = 0.1
"""The share of the words that the name of the second definition has more than that of the first."""
_LINES_OF_TEST = 4
"""Lines of a file of tests that come before those of other files, if the question asks for tests."""
_MANY_CALLERS = 8
"""More callers are named below the definition, without their lines."""
_BEST, _OF_BEST = 8, 4
_FILE_LINES, _NAMED_FILES = 16, 2
"""Lines with the question's words that are shown of a file that it names."""
_SHARE_OF_BEST = 0.3
"""The share of the best line's score that they need."""
_SHARE_OF_BEST_CHUNK = 0.5
"""The share of it that the best line of a ranked chunk needs, if weak ones are left out."""

_QUOTED = re.compile(r"[\"“]([^\"“”\n]{3,300})[\"”]|`([^`\n]{3,300})`|(?<!\w)'([^'\n]{3,300})'(?!\w)")
_NAME = re.compile(rf"{QUALIFIED}(?:\(\))?")
_LONG_NAME = re.compile(r"(?!\d)[\w$]{4,80}")
_CAPITALIZED = re.compile(r"(?<=[\w,] )[A-Z][a-z]\w+")
_ASKS_FOR_ALL = re.compile(r"\b(?:list|all|every|each|which|implement\w*|overrid\w*)\b", re.IGNORECASE)
_CODE_MARKS = re.compile(r"[=(){}\[\];]|:$")
_COMMENT = re.compile(r"\s*(?:#|//|/?\*|--\s|\"\"\"|'''|<!--)")


@dataclass(slots=True)
class FoundPlaces:
    """What was found for a part of the question: its facts, the definitions that answer it, and other places,
    each best first, and sentences about them. `asks_for_all` says whether it asks for more than one place."""

    facts: list[ExploredPlace] = field(default_factory=list)
    leads: list[Lead] = field(default_factory=list)
    places: list[ExploredPlace] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    asks_for_all: bool = False


def places_of(
    repository: Repository,
    part: str,
    result: RetrievalResult,
    *,
    with_weak: bool,
    in_code_words: bool = False,
) -> FoundPlaces:
    """Return the places for one part of a question: those in files that it names, then the most certain.

    Ranked chunks with few of the words are left out unless `with_weak`. The names of a part that is
    `in_code_words` are guesses: what they name comes after what the words find.
    """
    asked = _asked(repository, part, result)
    facts, first, last = result.code_facts, asked.facts, asked.last_facts
    found = FoundPlaces(remarks=list(result.remarks), asks_for_all=asked.for_all)
    if facts is not None and first:
        note = f" ({facts.note})" if facts.note else ""
        found.remarks.append(f"{facts.summary}{note}.")
    if facts is not None and first and not asked.callers_are_named:
        found.facts += _definitions(repository, [facts.subject], ())
        found.facts += _grouped(first, most=None if facts.kind == LINES else _FEW_LINES)
        found.facts += _members(repository, first if facts.kind == LIST else ())
    ranked = result.ranked[:_AFTER_FACTS] if asked.is_answered else result.ranked
    weights = _weights(part, result.ranked)
    hits = [lead_of_hit(repository, hit, weights) for hit in ranked]
    by_rank = [*_excerpts(repository, ranked, weights, with_weak=with_weak or asked.for_tests)]
    defined = _definitions(repository, asked.names, asked.paths, all_of_them=asked.for_all)
    if in_code_words:
        found.places += [*by_rank, *asked.matches, *defined]
    else:
        _add_named(repository, part, result, asked, weights, found, defined)
        found.places += by_rank
    if asked.is_answered:
        found.leads += [lead for lead in hits if lead.definition.unit == "constant"]
    elif not asked.for_tests:
        best = _code_leads(hits, ranked)
        found.leads += best if in_code_words else _named_better_first(repository, best)
    found.places += _grouped(last)
    order = _tests_first(result) if asked.for_tests else _named_first(asked.paths)
    for places in (found.facts, found.places):
        places.sort(key=order)
    if not asked.frames:
        found.leads.sort(key=lambda lead: not _in_paths(lead.definition.path, asked.paths))
    return found


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a part of a question names, and which kind of places it asks for.

    `frames` are the lines of files in the output of a program, those that decide first; `last_facts` come
    after all other places.
    """

    names: Sequence[str]
    paths: Sequence[str]
    matches: Sequence[ExploredPlace]
    frames: Sequence[ExploredPlace]
    facts: Sequence[CodeFact]
    last_facts: Sequence[CodeFact]
    callers_are_named: bool
    for_all: bool
    for_tests: bool
    is_answered: bool


def _asked(repository: Repository, part: str, result: RetrievalResult) -> _Asked:
    names, literals = _names_and_literals(repository, part, result)
    matches, facts = list(_matches(repository, literals)), result.code_facts
    first, last = _facts_by_order(result, named=bool(names))
    frames = _frames(repository, result)
    for_tests = "tests" in result.sought.question.asks and not frames
    return _Asked(
        names=names,
        paths=[path for path in result.sought.question.paths if path not in names],
        matches=matches,
        frames=frames,
        facts=first,
        last_facts=last,
        callers_are_named=facts is not None and facts.kind == CALLERS and len(first) > _MANY_CALLERS,
        for_all=bool(_ASKS_FOR_ALL.search(part)) and not frames and not for_tests,
        for_tests=for_tests,
        is_answered=bool(first) or (bool(matches) and len(words(part)) == 1),
    )


def _frames(repository: Repository, result: RetrievalResult) -> list[ExploredPlace]:
    """Return the lines of code that the output of a program names, the last ones first, and those in tests
    after the others; [] for a question that asks for lines."""
    question, facts = result.sought.question, result.code_facts
    if question.lines or (facts is not None and facts.kind == LINES):
        return []
    known = repository.store.known_files() if question.places else {}
    found = []
    for named, line in reversed(question.places):
        files = [path for path in known if is_path(path, named)]
        place = _of_file(repository, files[0], [line], "") if len(files) == 1 else None
        found += [place] if place is not None else []
    return sorted(found, key=lambda place: not _is_code(place.path))


def _add_named(
    repository: Repository,
    part: str,
    result: RetrievalResult,
    asked: _Asked,
    weights: Mapping[str, float],
    found: FoundPlaces,
    defined: Sequence[ExploredPlace],
) -> None:
    """Add what a question names: lines of files, definitions and their uses, quoted strings."""
    facts = result.code_facts
    lists_uses = asked.for_all and (facts is None or facts.kind != CALLERS)  # else they are facts
    names = [facts.subject, *asked.names] if facts is not None and asked.callers_are_named else asked.names
    tests = _NAMED_CALLERS if asked.for_tests else _NAMED_TESTS
    uses = NO_USES if lists_uses else (_NAMED_CALLERS, 0 if result.changed else tests)
    leading = [*_named_leads(repository, names, result, weights, uses)]
    around = [*asked.frames, *_fact_lines(facts, asked.facts), *asked.matches]
    if asked.frames:
        shown = [*_leads_around(repository, around, weights)]
        called = _called(repository, shown[:1], weights) if not _is_code(asked.frames[0].path) else ()
        found.leads += [*shown, *called, *leading]
    else:
        found.leads += [*leading, *_leads_around(repository, around, weights)]
    found.places += [*asked.matches, *defined]
    led = {one.definition for one in leading}
    found.places += _uses(repository, asked.names, asked.paths, facts, lists_uses, led)
    if not asked.frames and (asked.paths or not asked.facts):
        found.places += _lines_of_files(repository, part, result, asked.paths)


def _named_leads(
    repository: Repository,
    names: Sequence[str],
    result: RetrievalResult,
    weights: Mapping[str, float],
    uses: tuple[int, int],
) -> Iterator[Lead]:
    """Yield the definitions of the names in a question, or of what its "it" means, if these are few."""
    subject = result.sought.subject if result.sought.bare else None
    pointed = [subject.name] if subject is not None and subject.symbol else []
    for name in [*pointed, *names]:
        meant = definitions_meant(repository.store, name)
        if 0 < len(meant) <= _MAX_TARGETS:
            yield Lead(meant[0], weights, uses=uses, is_named=True, meant=tuple(meant))


def _fact_lines(facts: CodeFacts | None, first: Sequence[CodeFact]) -> list[ExploredPlace]:
    """Return where the best fact is, if the definition around it says more: not for lists and calls."""
    if facts is None or facts.kind not in (MESSAGE, SETTING, TRACE):
        return []
    return [*_grouped(first[:1])]


def _leads_around(
    repository: Repository, places: Sequence[ExploredPlace], weights: Mapping[str, float]
) -> Iterator[Lead]:
    """Yield the functions in code that have the first lines of places."""
    for place in places:
        line = place.lines[0][0]
        around = definition_at(repository.store, place.path, line)
        if around is not None and around.unit == "function":
            yield Lead(around, weights, line, is_named=True)


def _called(repository: Repository, leads: Sequence[Lead], weights: Mapping[str, float]) -> Iterator[Lead]:
    """Yield what definitions, such as a test that fails, certainly call in code."""
    for lead in leads:
        called = (one for use, one in repository.store.graph.callees(lead.definition) if use.certain)
        for one in islice(dict.fromkeys(called), _MAX_CALLED):
            if _is_code(one.path):
                yield Lead(one, weights, is_named=True)


def _code_leads(found: Sequence[Lead], ranked: Sequence[Hit]) -> list[Lead]:
    """Return the definitions of the best chunks of code without tests; of documents if there is no code."""
    code = [
        lead
        for lead, hit in zip(found, ranked, strict=True)
        if hit.kind == "code" and not is_test(hit.kind, lead.definition.scope, lead.definition.name)
    ]
    return (code or list(found))[:_MAX_LEADS]


def _named_better_first(repository: Repository, leads: list[Lead]) -> list[Lead]:
    """Return definitions with the second one first if its name has clearly more of the words, and its text no
    less: chunks that are ranked alike are parts of one function and of the ones that it calls."""
    if len(leads) < 2 or leads[0].definition == leads[1].definition:
        return leads
    (named, held), (other_named, other_held) = (_shares(repository, lead) for lead in leads[:2])
    is_better = other_named >= named + _CLEARLY_MORE and other_held >= held
    return [leads[1], leads[0], *leads[2:]] if is_better else leads


def _shares(repository: Repository, lead: Lead) -> tuple[float, float]:
    """Return the shares of the weighted words that the name of a definition has, and that its text has."""
    one, weights = lead.definition, lead.weights
    held = term_set("\n".join(lines_in(repository, one.path)[one.start - 1 : one.end]))
    every = math.fsum(weights.values()) or 1.0
    named = math.fsum(weights.get(term, 0.0) for term in term_set(one.name))
    return named / every, math.fsum(weights.get(term, 0.0) for term in held) / every


def _named_first(paths: Sequence[str]) -> Callable[[ExploredPlace], int]:
    """Return the order of places where the files with some paths come first."""
    return lambda place: not _in_paths(place.path, paths)


def _tests_first(result: RetrievalResult) -> Callable[[ExploredPlace], tuple[bool, bool, int]]:
    """Return the order of places where files of tests come first, as they are ranked, each with a few places
    before all others."""
    ranked = list(dict.fromkeys(hit.path for hit in result.ranked))
    rank = {path: n for n, path in enumerate(ranked)}
    counts: Counter[str] = Counter()

    def order(place: ExploredPlace) -> tuple[bool, bool, int]:
        counts[place.path] += len(place.lines)
        is_more = counts[place.path] > _LINES_OF_TEST
        return kind_of_path(place.path) != "test", is_more, rank.get(place.path, len(rank))

    return order


def _in_paths(path: str, paths: Sequence[str]) -> bool:
    return any(is_path(path, one) or f"/{path}".find(f"/{one.strip('/')}/") >= 0 for one in paths)


def _names_and_literals(
    repository: Repository, part: str, result: RetrievalResult
) -> tuple[list[str], list[str]]:
    """Return the identifiers that a part of a question names, and its quoted strings that are none.

    `API` and `URL` in a sentence are words; a capitalized word within it is a name if the code defines it,
    and so is what looks like a path, such as `trash.Move`.
    """
    defined = repository.store.graph.definitions
    quoted = [next(filter(None, groups)) for groups in _QUOTED.findall(part)]
    literals = [text for text in quoted if not _NAME.fullmatch(text.strip())]
    named = [text.strip().removesuffix("()") for text in quoted if text not in literals]
    sought = result.sought.question.names
    if len(words(part)) > 1:
        sought = tuple(name for name in sought if not name.isalpha() or not name.isupper())
    capitalized = [name for name in _CAPITALIZED.findall(part) if defined(name)]
    names = dict.fromkeys([*named, *sought, *capitalized])
    elsewhere = [*literals, *(path for path in result.sought.question.paths if not defined(path))]
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


# ---------------------------------------------------------------- facts


def _facts_by_order(result: RetrievalResult, *, named: bool) -> tuple[list[CodeFact], list[CodeFact]]:
    """Return the facts that come first, and those that come last: in tests and documents if there are others,
    and all facts of a list if the question names a path or a definition and they are elsewhere.
    """
    facts, question = result.code_facts, result.sought.question
    if facts is None:
        return [], []
    items = [item for item in facts.items if item.path]
    if question.paths and not any(_in_paths(item.path, question.paths) for item in items):
        return [], items
    if facts.kind == LIST:
        about = term_set(facts.subject) & term_set(result.sought.question.text)
        if not about or (named and facts.subject not in question.names):
            return [], items
    code = [item for item in items if _is_code(item.path)]
    return (code, [item for item in items if item not in code]) if code else (items, [])


def _grouped(items: Iterable[CodeFact], *, most: int | None = _FEW_LINES) -> Iterator[ExploredPlace]:
    """Yield facts, the first lines of each; neighbours of one definition are one place, doubtful ones are
    marked.
    """
    for (path, label, certain), group in groupby(items, lambda one: (one.path, one.label, one.certain)):
        lines: dict[int, str] = {}
        for item in group:
            numbered = _numbered(item.start, lines_of(item.text))
            undecorated = [*dropwhile(lambda line: line[1].lstrip().startswith("@"), numbered)]
            lines |= dict((undecorated or numbered)[:most])
        yield ExploredPlace(
            path, label if certain else f"{label} (possibly)".strip(), tuple(sorted(lines.items()))
        )


def _members(repository: Repository, items: Sequence[CodeFact]) -> Iterator[ExploredPlace]:
    """Yield where the members of a list are defined, if they are names of definitions elsewhere."""
    shown = {(item.path, number) for item in items for number in range(item.start, item.end + 1)}
    taken: set[tuple[str, int]] = set()
    for item in items[:_MAX_MEMBERS]:
        for name in reversed(_LONG_NAME.findall(lines_of(composed(item.text))[0] if item.text else "")):
            found = [one for one in repository.store.graph.definitions(name) if _is_code(one.path)]
            places = {(one.path, one.start) for one in found}
            if places & shown:
                break
            if len(found) == 1:
                if not places & taken:
                    yield from _head(repository, found[0])
                taken |= places
                break


# ---------------------------------------------------------------- names


def _definitions(
    repository: Repository, names: Sequence[str], paths: Sequence[str], *, all_of_them: bool = False
) -> list[ExploredPlace]:
    """Return the first line of each definition of the names; those in the named paths alone if any are."""
    places = []
    for name in names:
        found = [*repository.store.graph.definitions(name), *repository.store.graph.values(name)]
        found = [one for one in found if _in_paths(one.path, paths)] or found
        found = [one for one in found if _is_code(one.path)] or found
        for one in found[: _MAX_DEFINITIONS_OF_LIST if all_of_them else _MAX_DEFINITIONS]:
            places += _head(repository, one)
    return places


def _head(repository: Repository, one: CodeDefinition) -> list[ExploredPlace]:
    """Return the first line of a definition that has its name."""
    lines = lines_in(repository, one.path)[: one.end]
    first = next((n for n in range(one.start, len(lines) + 1) if one.name in lines[n - 1]), one.start)
    place = _of_file(repository, one.path, [first], one)
    return [place] if place else []


def _uses(
    repository: Repository,
    names: Sequence[str],
    paths: Sequence[str],
    facts: CodeFacts | None,
    lists_uses: bool,
    leading: Set[CodeDefinition],
) -> Iterator[ExploredPlace]:
    """Yield the lines that use names, if these are asked for, or the uses are not named with a definition; of
    a name that the repository does not define only a few."""
    defined = repository.store.graph.definitions
    is_single = len(names) == 1
    if facts is None or facts.kind != CALLERS:
        for name in names:
            wanted = lists_uses or leading.isdisjoint(defined(name))
            if wanted and (
                is_single or defined(name) or len(lines_with(repository.store, name)) <= _MAX_USES
            ):
                yield from _mentions(repository, [name], paths)
    if facts is not None and facts.kind == LIST and facts.subject not in names:
        yield from _mentions(repository, [facts.subject], paths)


def _mentions(repository: Repository, names: Sequence[str], paths: Sequence[str]) -> Iterator[ExploredPlace]:
    """Yield the lines that use the names, calls first; those in the named paths or in code alone if there are
    any."""
    for name in names:
        found, sought = lines_with(repository.store, name), term_set(name)
        found = [use for use in found if _in_paths(use.hit.path, paths)] or found
        code = [use for use in found if use.hit.kind == "code"]
        for use in (code or found)[:_MAX_USES]:
            lines = lines_of(use.hit.text)
            numbers = use.lines[:_USE_LINES]
            shown = tuple((n, short(lines[n - use.hit.start], sought)) for n in numbers)
            yield from _by_definition(repository, ExploredPlace(use.hit.path, use.hit.label, shown))


def _of_file(
    repository: Repository, path: str, numbers: Sequence[int], of: CodeDefinition | str
) -> ExploredPlace | None:
    lines = lines_in(repository, path)
    shown = {n: lines[n - 1] for n in numbers if 0 < n <= len(lines) and lines[n - 1].strip()}
    label = of if isinstance(of, str) else of.qualified_name
    kept = tuple((n, short(text)) for n, text in sorted(shown.items()))
    return ExploredPlace(path, label, kept) if kept else None


def _by_definition(repository: Repository, place: ExploredPlace) -> Iterator[ExploredPlace]:
    """Yield the lines of a place by the definitions that have them; all as they are if the file has none."""
    store, path = repository.store, place.path
    if not store.graph.defined_in(path):
        yield place
        return
    for label, lines in groupby(place.lines, lambda line: label_at(store, path, line[0])):
        yield ExploredPlace(path, label, tuple(lines))


def _is_code(path: str) -> bool:
    return kind_of_path(path) == "code"


# ---------------------------------------------------------------- the lines that matter


def _lines_of_files(
    repository: Repository, part: str, result: RetrievalResult, paths: Sequence[str]
) -> list[ExploredPlace]:
    """Return the lines of code with the question's words in the files that it names, or else in the file that
    most of the best ranked chunks are in; rare words weigh more.
    """
    known = repository.store.known_files()
    named = sorted(path for path in known if any(is_path(path, one) for one in paths))[:_NAMED_FILES]
    if not named:
        best = Counter(hit.path for hit in result.ranked[:_BEST])
        named = [path for path, count in best.most_common(1) if count >= _OF_BEST]
    places = []
    for path in named:
        lines = lines_in(repository, path)
        asked = {*terms(part), *result.sought.carried} - {term for one in paths for term in terms(one)}
        held = {n: bag for n, line in enumerate(lines, 1) if (bag := asked & term_set(line))}
        counts = Counter(term for bag in held.values() for term in bag)
        scores = {n: sum(1 / math.log2(1 + counts[term]) for term in bag) for n, bag in held.items()}
        scores = {n: score for n, score in scores.items() if _is_line_of_code(lines[n - 1])}
        enough = max(scores.values(), default=0.0) * _SHARE_OF_BEST
        scores = {n: score for n, score in scores.items() if score >= enough}
        best_lines = sorted(scores, key=lambda n: (-scores[n], n))[:_FILE_LINES]
        for number in sorted(best_lines):
            label = label_at(repository.store, path, number)
            places.append(ExploredPlace(path, label, ((number, short(lines[number - 1], asked)),)))
    return places


def _excerpts(
    repository: Repository, ranked: Sequence[Hit], weights: Mapping[str, float], *, with_weak: bool
) -> Iterator[ExploredPlace]:
    """Yield the line of each ranked chunk that has most of the words, code before prose."""
    best = [_best_line(hit, weights) for hit in ranked]
    enough = 0.0 if with_weak else max((score for score, _ in best), default=0.0) * _SHARE_OF_BEST_CHUNK
    for hit, (score, at) in zip(ranked, best, strict=True):
        if score >= enough:
            line = short(lines_of(hit.text)[at], weights.keys())
            label = label_at(repository.store, hit.path, hit.start + at) or hit.label
            yield ExploredPlace(hit.path, label, ((hit.start + at, line),))


def _best_line(hit: Hit, weights: Mapping[str, float]) -> tuple[float, int]:
    """Return the score of the best line of a chunk, and its number from 0; the head before others."""
    lines = lines_of(hit.text)
    scores = [_score(line, weights) for line in lines]
    at = max(range(len(lines)), key=lambda n: (scores[n], hit.symbol in lines[n], bool(lines[n].strip()), -n))
    return scores[at], at


def _score(line: str, weights: Mapping[str, float]) -> float:
    score = math.fsum(weights.get(term, 0.0) for term in term_set(line))
    return score if _is_line_of_code(line) else score / 2


def _is_line_of_code(line: str) -> bool:
    """Return whether a line looks like code: it is no comment and has a mark that prose lacks."""
    return not _COMMENT.match(line) and bool(_CODE_MARKS.search(line))


def _weights(part: str, hits: Sequence[Hit]) -> dict[str, float]:
    """Return the weight of each term of a question: rare ones among the hits weigh more."""
    bags = [term_set(hit.text) for hit in hits]
    held = {term: sum(term in bag for bag in bags) for term in dict.fromkeys(terms(part))}
    return {term: math.log(1 + len(bags) / count) for term, count in held.items() if count}


def _numbered(first: int, lines: Sequence[str]) -> tuple[tuple[int, str], ...]:
    return tuple((number, short(line)) for number, line in enumerate(lines, first))
