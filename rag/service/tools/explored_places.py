"""The places that answer one part of a question to explore: exact matches, facts, names, then ranked chunks.

What the rules of its kind found comes first, then what the question names, and the ranked chunks. Facts in
tests and documents, and facts outside of the paths that the question names, come last.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import dropwhile, groupby, islice

from rag.analysis import term_set, terms, words
from rag.code.languages import kind_of_path
from rag.errors import SearchInvalid
from rag.identifiers import QUALIFIED, composed
from rag.lines import lines_of
from rag.quoting import one_line
from rag.retrieval.exact import MAX_PATTERN_CHARS, find_text
from rag.retrieval.kinds.recognition import relation_of
from rag.retrieval.lookup import lines_with
from rag.retrieval.mentions import is_path
from rag.retrieval.search import RetrievalResult
from rag.retrieval.shown_code import is_test
from rag.retrieval.shown_definition import definition_at, label_at
from rag.retrieval.uses import definitions_meant
from rag.service.repositories.repository import Repository
from rag.service.tools.explored_definitions import (
    NO_USES,
    ExploredPlace,
    Lead,
    is_comment,
    lead_of_hit,
    lines_in,
    short,
)
from rag.types import CodeDefinition, CodeFact, Hit
from rag.types.question_kinds import CALLERS, LINES, LISTS, MESSAGE, SETTING, TRACE

DEPTH = 24
"""Ranked chunks that are considered for each part of a question, if the budget has no room for more."""
_AFTER_FACTS = 3
"""The number of them if the rules of a kind found the answer."""
_MAX_LITERALS, _MAX_MATCHES, _FEW_MATCHES = 4, 20, 4
"""Lines with a quoted string: more than a few are a list that comes first, unless they are too many."""
_MAX_COUNTED, _COUNT_SECONDS = 2, 0.5
"""Strings and names whose lines are counted, and the time that this takes at most."""
_MAX_NAMES, _MAX_USES = 6, 16
_MAX_DEFINITIONS, _MAX_DEFINITIONS_OF_LIST = 4, 24
_MAX_MEMBERS = 40
"""Members of a list whose definitions are shown."""
_USE_LINES = 12
"""Lines with a name that are shown of one definition."""
_FEW_LINES, _MAX_TABLES = 2, 2
"""Lines of a fact that are shown; the tables with more lines like the best one that come first."""
_MAX_LEADS = 6
"""Definitions of ranked chunks that may be shown whole."""
_MAX_TARGETS, _NAMED_CALLERS, _NAMED_TESTS = 8, 24, 4
"""Of a name that the question has: the most definitions it may mean to be shown whole, and the most callers
that are named, and the most tests, if the question does not ask for them."""
_MAX_CALLED = 6
"""What a failing test calls that is considered."""
_LINES_OF_TEST = 4
"""Lines of a file of tests that come before those of other files, if the question asks for tests."""
_USES = ("callers", "uses", "tests")
_MANY_CALLERS = 8
"""More callers are named below the definition, without their lines."""
_BEST, _OF_BEST = 8, 4
_FILE_LINES, _NAMED_FILES = 16, 2
"""Lines with the question's words that are shown of a file that it names."""
_SHARE_OF_BEST = 0.3
"""The share of the best line's score that they need."""
_SHARE_OF_BEST_CHUNK = 0.7
"""The share of it that the best line of a ranked chunk needs, if weak ones are left out."""

_QUOTED = re.compile(r"[\"“]([^\"“”\n]{3,300})[\"”]|`([^`\n]{3,300})`|(?<!\w)'([^'\n]{3,300})'(?!\w)")
_NAME = re.compile(rf"{QUALIFIED}(?:\(\))?")
_LONG_NAME = re.compile(r"(?!\d)[\w$]{4,80}")
_CAPITALIZED = re.compile(r"(?<=[\w,] )[A-Z][a-z]\w+")
_ASKS_FOR_ALL = re.compile(r"\b(?:list|all|every|each|which|implement\w*|overrid\w*)\b", re.IGNORECASE)
_CODE_MARKS = re.compile(r"[=(){}\[\];]|:$")


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
    is_alone: bool = False,
) -> FoundPlaces:
    """Return the places for one part of a question: those in files that it names, then the most certain.

    Ranked chunks with few of the words are left out unless `with_weak`, or if the part `is_alone`, without
    texts in the code's words, and nothing is named in it: then words alone lead to the answer. The names of a
    part that is `in_code_words` are guesses: what they name comes after what the words find.
    """
    found = _Part(repository, part, result)
    is_named = not is_alone or bool(found.names or found.matches or found.first or found.frames)
    return found.places(with_weak=with_weak or not is_named, in_code_words=in_code_words)


class _Part:
    """A part of a question: what it names, which kind of places it asks for, and the places.

    `frames` are the lines of files in the output of a program, those that decide first; the `last` facts come
    after all other places.
    """

    def __init__(self, repository: Repository, text: str, result: RetrievalResult) -> None:
        question = result.sought.question
        self.repository, self.text, self.result, self.facts = repository, text, result, result.code_facts
        self.weights = _weights(text, result.ranked)
        self.names, literals = _names_and_literals(repository, text, result)
        self.paths = [path for path in question.paths if path not in self.names]
        self.literals = literals
        self.matches = list(_matches(repository, literals))
        named = dict.fromkeys(_constants_at(repository, self.matches[:_FEW_MATCHES]))
        self.matches += [use for name in named for use in _mentions(repository, name, ())]
        self.are_listed = _FEW_MATCHES < len(self.matches) < _MAX_MATCHES
        self.first, self.last = _facts_by_order(result, named=bool(self.names))
        self.frames = self._frames()
        self.for_tests = "tests" in question.asks and not self.frames
        self.for_all = bool(_ASKS_FOR_ALL.search(text)) and not self.frames and not self.for_tests
        self.is_answered = bool(self.first) or (bool(self.matches) and len(words(text)) == 1)
        self.callers_are_named = self._names_callers()

    def places(self, *, with_weak: bool, in_code_words: bool) -> FoundPlaces:
        """Return the places, see `places_of`."""
        repository, facts, result = self.repository, self.facts, self.result
        found = FoundPlaces(remarks=list(result.remarks), asks_for_all=self.for_all)
        if facts is not None and (self.first or not facts.count):
            note = f" ({facts.note})" if facts.note else ""
            found.remarks.append(f"{facts.summary}{note}.")
        if facts is not None and self.first and not self.callers_are_named:
            found.facts += _definitions(repository, [facts.subject], ())
            found.facts += _grouped(self.first, most=None if facts.kind == LINES else _FEW_LINES)
            found.facts += _members(repository, self.first if facts.kind in LISTS else ())
        found.remarks += [] if in_code_words or self.frames else self._counted_lines()
        ranked = result.ranked[:_AFTER_FACTS] if self.is_answered else result.ranked
        hits = [lead_of_hit(repository, hit, self.weights) for hit in ranked]
        with_weak = with_weak or self.for_tests
        by_rank = [*_excerpts(repository, ranked, self.weights, with_weak=with_weak, alike=self.for_all)]
        if self.for_all and not in_code_words:
            found.facts += [place for place in by_rank if len(place.lines) > _FEW_LINES][:_MAX_TABLES]
        defined = _definitions(repository, self.names, self.paths, all_of_them=self.for_all)
        if in_code_words:
            found.places += [*by_rank, *self.matches, *defined]
        else:
            found.leads += self._named_leads()
            found.facts += self.matches if self.are_listed else ()
            found.places += [*self.matches, *defined, *self._uses(), *self._lines_of_files(), *by_rank]
        if self.is_answered:
            found.leads += [lead for lead in hits if lead.definition.unit == "constant"]
        elif not self.for_tests:
            found.leads += _code_leads(hits, ranked)
        found.places += _grouped(self.last)
        order = _tests_first(result) if self.for_tests else _named_first(self.paths)
        for places in (found.facts, found.places):
            places.sort(key=order)
        if not self.frames:
            found.leads.sort(key=lambda lead: not _in_paths(lead.definition.path, self.paths))
        return found

    def _counted_lines(self) -> Iterator[str]:
        """Yield how many lines have the strings of a question, and its names that are no definitions, if that
        is more than a few: not all of them are places. A name whose lines are all facts is not counted."""
        store = self.repository.store
        undefined = [name for name in self.names if not store.graph.definitions(name)]
        for text in [*self.literals, *undefined][:_MAX_COUNTED]:
            if len(text) <= MAX_PATTERN_CHARS:
                found = find_text([store], text, k=1, max_seconds=_COUNT_SECONDS).matches
                if found.lines > _FEW_MATCHES and not self._lists(text, found.lines):
                    note = replace(found, more=0, complete=True).note
                    least = "" if found.complete else "at least "
                    yield f"`{one_line(text)}`: {least}{note}; an exact search lists all."

    def _lists(self, text: str, lines: int) -> bool:
        """Whether the facts are all lines that have a text."""
        return self.facts is not None and self.facts.subject == text and self.facts.count >= lines

    def _names_callers(self) -> bool:
        """Return whether the facts are many uses of a definition that is shown, and are named below it."""
        subject = self.facts.subject if self.facts is not None else ""
        return (
            self._is_about(CALLERS)
            and len(self.first) > _MANY_CALLERS
            and relation_of(self.text) in _USES
            and 0 < len(definitions_meant(self.repository.store, subject)) <= _MAX_TARGETS
        )

    def _is_about(self, *kinds: str) -> bool:
        """Whether the rules of one of these kinds found facts."""
        return self.facts is not None and self.facts.kind in kinds

    def _frames(self) -> list[ExploredPlace]:
        """Return the lines of code that the output of a program names, the last ones first, and those in
        tests after the others; [] for a question that asks for lines."""
        question = self.result.sought.question
        if question.lines or self._is_about(LINES):
            return []
        known = self.repository.store.known_files() if question.places else {}
        found = []
        for named, line in reversed(question.places):
            files = [path for path in known if is_path(path, named)]
            place = _of_file(self.repository, files[0], [line], "") if len(files) == 1 else None
            found += [place] if place is not None else []
        return sorted(found, key=lambda place: not _is_code(place.path))

    @property
    def _lists_uses(self) -> bool:
        """Whether the uses of its names are asked for and not among the facts."""
        return self.for_all and not self._is_about(CALLERS)

    def _named_leads(self) -> list[Lead]:
        """Return the definitions that a question names, and those around the lines that it leads to."""
        named = self._meant
        # Where the best fact is, the definition around it says more: not for lists and calls.
        facts = _grouped(self.first[:1]) if self._is_about(MESSAGE, SETTING, TRACE) else ()
        around = list(_leads_around(self.repository, [*self.frames, *facts, *self.matches], self.weights))
        if not self.frames:
            return [*named, *around]
        is_test = not _is_code(self.frames[0].path)
        return [*around, *_called(self.repository, around[:1] if is_test else (), self.weights), *named]

    @cached_property
    def _meant(self) -> list[Lead]:
        """The definitions of the names in a question, or of what its "it" means, if these are few."""
        subject = self.result.sought.subject if self.result.sought.bare else None
        pointed = [subject.name] if subject is not None and subject.symbol else []
        facts = (*self.first, *self.last) if self.callers_are_named else ()
        listed = [self.facts.subject] if self.facts is not None and facts else []
        tests = _NAMED_CALLERS if self.for_tests else _NAMED_TESTS
        uses = NO_USES if self._lists_uses else (_NAMED_CALLERS, 0 if self.result.changed else tests)
        names = (*listed, *pointed, *self.names)
        every = [(name, definitions_meant(self.repository.store, name)) for name in names]
        return [
            Lead(meant[0], self.weights, 0, uses, True, tuple(meant), facts if name in listed else ())
            for name, meant in every
            if 0 < len(meant) <= _MAX_TARGETS
        ]

    def _uses(self) -> Iterator[ExploredPlace]:
        """Yield the lines that use names, if these are asked for, or the uses are not named with a
        definition; of a name that the repository does not define only a few."""
        store, led = self.repository.store, {one.definition for one in self._meant}
        for name in () if self._is_about(CALLERS) else self.names:
            defined = store.graph.definitions(name)
            is_known = len(self.names) == 1 or defined or len(lines_with(store, name)) <= _MAX_USES
            if is_known and (self._lists_uses or led.isdisjoint(defined)):
                yield from _mentions(self.repository, name, self.paths)
        if self.first and self.facts and self.facts.kind in LISTS and self.facts.subject not in self.names:
            yield from _mentions(self.repository, self.facts.subject, self.paths)

    def _lines_of_files(self) -> list[ExploredPlace]:
        """Return the lines of code with the question's words in the files that it names, or else in the file
        that most of the best ranked chunks are in; rare words weigh more.
        """
        if self.frames or (self.first and not self.paths):
            return []
        known = self.repository.store.known_files()
        named = sorted(path for path in known if any(is_path(path, one) for one in self.paths))[:_NAMED_FILES]
        if not named:
            best = Counter(hit.path for hit in self.result.ranked[:_BEST])
            named = [path for path, count in best.most_common(1) if count >= _OF_BEST]
        asked = {*terms(self.text), *self.result.sought.carried}
        asked -= {term for one in self.paths for term in terms(one)}
        return [place for path in named for place in _lines_with_words(self.repository, path, asked)]


def _lines_with_words(repository: Repository, path: str, asked: Set[str]) -> Iterator[ExploredPlace]:
    """Yield the lines of code in a file that have most of the words, in their order."""
    lines = lines_in(repository, path)
    held = {n: bag for n, line in enumerate(lines, 1) if (bag := asked & term_set(line))}
    counts = Counter(term for bag in held.values() for term in bag)
    scores = {n: sum(1 / math.log2(1 + counts[term]) for term in bag) for n, bag in held.items()}
    scores = {n: score for n, score in scores.items() if _is_line_of_code(lines[n - 1])}
    enough = max(scores.values(), default=0.0) * _SHARE_OF_BEST
    best = sorted((n for n in scores if scores[n] >= enough), key=lambda n: (-scores[n], n))
    for number in sorted(best[:_FILE_LINES]):
        label = label_at(repository.store, path, number)
        yield ExploredPlace(path, label, ((number, short(lines[number - 1], asked)),))


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

    `API` and `URL` in a sentence are words; a capitalized word within it is a name if the best chunks are in
    a file that defines it, and so is what looks like a path, such as `trash.Move`.
    """
    defined = repository.store.graph.definitions
    quoted = [next(filter(None, groups)) for groups in _QUOTED.findall(part)]
    known = {text for text in quoted if _NAME.fullmatch(text.strip()) and _is_known(repository, text.strip())}
    literals = [text for text in quoted if text not in known]
    named = [text.strip().removesuffix("()") for text in quoted if text not in literals]
    sought = result.sought.question.names
    if len(words(part)) > 1:
        sought = tuple(name for name in sought if not name.isalpha() or not name.isupper())
    best = {hit.path for hit in result.ranked[:_BEST]}
    capitalized = [
        name for name in _CAPITALIZED.findall(part) if any(one.path in best for one in defined(name))
    ]
    names = dict.fromkeys([*named, *sought, *capitalized])
    elsewhere = [*literals, *(path for path in result.sought.question.paths if not defined(path))]
    found = [name for name in names if not any(name in text for text in elsewhere)]
    return found[:_MAX_NAMES], literals[:_MAX_LITERALS]


def _constants_at(repository: Repository, places: Iterable[ExploredPlace]) -> Iterator[str]:
    """Yield the names of the constants that are declared on the first lines of places."""
    for place in places:
        line = place.lines[0][0]
        declared = (one for one in repository.store.graph.values_in(place.path) if one.start == line)
        yield from (one.name for one in declared if one.unit == "constant" and one.start == one.end)


def _is_known(repository: Repository, name: str) -> bool:
    """Return whether the code defines a name: another one that is quoted is a string."""
    graph = repository.store.graph
    return bool(graph.definitions(name) or graph.values(name))


def _matches(repository: Repository, literals: Sequence[str]) -> Iterator[ExploredPlace]:
    """Yield the lines that hold quoted strings exactly; a single word as a string if there are such lines."""
    for literal in literals:
        try:
            in_quotes = rf"[\"'`]{re.escape(literal)}[\"'`]" if _NAME.fullmatch(literal) else ""
            hits = (
                find_text([repository.store], in_quotes, regex=True, k=_MAX_MATCHES).hits if in_quotes else ()
            )
            hits = hits or find_text([repository.store], literal, k=_MAX_MATCHES).hits
        except SearchInvalid:  # longer than a pattern may be: the ranked search reads it
            continue
        for hit in hits:
            yield ExploredPlace(hit.path, hit.label, _numbered(hit.start, lines_of(hit.text)))


# ---------------------------------------------------------------- facts


def _facts_by_order(result: RetrievalResult, *, named: bool) -> tuple[list[CodeFact], list[CodeFact]]:
    """Return the facts that come first, and those that come last: in tests and documents if there are others,
    all facts of a list if the question names a path or a definition and they are elsewhere, and a definition
    that no test names.
    """
    facts, question = result.code_facts, result.sought.question
    if facts is None:
        return [], []
    items = [item for item in facts.items if item.path]
    if question.paths and not any(_in_paths(item.path, question.paths) for item in items):
        return [], items
    if not facts.count and "tests" in question.asks:
        return [], items  # those of its callers come first
    if facts.kind in LISTS:
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


def _mentions(repository: Repository, name: str, paths: Sequence[str]) -> Iterator[ExploredPlace]:
    """Yield the lines that use a name, calls first; those in the named paths or in code alone if there are
    any."""
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


def _excerpts(
    repository: Repository,
    ranked: Sequence[Hit],
    weights: Mapping[str, float],
    *,
    with_weak: bool,
    alike: bool = False,
) -> Iterator[ExploredPlace]:
    """Yield the line of each ranked chunk that has most of the words, code before prose; if members are asked
    for, all lines of a table that have as many."""
    best = [_best_lines(hit, weights) for hit in ranked]
    enough = 0.0 if with_weak else max((score for score, _ in best), default=0.0) * _SHARE_OF_BEST_CHUNK
    for rank, (hit, (score, found)) in enumerate(zip(ranked, best, strict=True)):
        if score >= enough or (alike and rank < _MAX_TABLES and hit.unit == "block"):
            lines = lines_of(hit.text)
            found = sorted(found[:_MAX_MEMBERS]) if alike and hit.unit == "block" else found[:1]
            label = label_at(repository.store, hit.path, hit.start + found[0]) or hit.label
            shown = tuple((hit.start + at, short(lines[at], weights.keys())) for at in found)
            yield ExploredPlace(hit.path, label, shown)


def _best_lines(hit: Hit, weights: Mapping[str, float]) -> tuple[float, list[int]]:
    """Return the score of the best lines of a chunk, and their numbers from 0; the head before others."""
    lines = lines_of(hit.text)
    scores = [round(_score(line, weights), 6) for line in lines]
    most = max(scores, default=0.0)
    found = [at for at, score in enumerate(scores) if score == most]
    return most, sorted(found, key=lambda at: (hit.symbol not in lines[at], not lines[at].strip(), at))


def _score(line: str, weights: Mapping[str, float]) -> float:
    score = math.fsum(weights.get(term, 0.0) for term in term_set(line))
    return score if _is_line_of_code(line) else score / 2


def _is_line_of_code(line: str) -> bool:
    """Return whether a line looks like code: it is no comment and has a mark that prose lacks."""
    return not is_comment(line) and bool(_CODE_MARKS.search(line))


def _weights(part: str, hits: Sequence[Hit]) -> dict[str, float]:
    """Return the weight of each term of a question: rare ones among the hits weigh more."""
    bags = [term_set(hit.text) for hit in hits]
    held = {term: sum(term in bag for bag in bags) for term in dict.fromkeys(terms(part))}
    return {term: math.log(1 + len(bags) / count) for term, count in held.items() if count}


def _numbered(first: int, lines: Sequence[str]) -> tuple[tuple[int, str], ...]:
    return tuple((number, short(line)) for number, line in enumerate(lines, first))
