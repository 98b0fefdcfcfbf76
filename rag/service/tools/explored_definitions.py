"""The definitions that answer a question best, shown so that no other request is needed to read them.

A short one is shown whole. Of a long one its head is shown and, without a gap, the lines that have most of
the question. Who certainly calls it and the tests that use it are named below, with their places.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby

from rag.analysis import WORD, term_set, terms
from rag.code.languages import kind_of_path
from rag.lines import lines_of, ranges
from rag.quoting import one_line
from rag.retrieval.shown_code import is_test
from rag.retrieval.shown_definition import definition_at
from rag.retrieval.uses import uses_of_name
from rag.service.repositories.repository import Repository
from rag.types import CodeDefinition, CodeFact, CodeUse, Hit

MAX_WHOLE = 40
"""The most lines of a definition that is shown whole."""
WINDOWS = (32, 20, 10)
"""How many lines are shown of a longer one, below its head; the fewer if there is no room."""
NO_USES, FEW_USES = (0, 0), (6, 2)
_NUMBERED_USES = 40
"""The places of this many callers and tests are given at least, if the question names what they use."""
_CALLERS_TESTED = 4
_HEAD = 2
_SHARE_OF_OTHERS = 0.6
"""What the words in a class or a value count for, next to those in a function of the same chunk."""
_MAX_LINE_CHARS = 160
_MAX_CONSTANTS, _MAX_CONSTANT = 4, 4
"""Constants that are shown with a definition that uses them, and the lines of one."""
_CONSTANT = re.compile(r"\b(?=\w*[A-Z])[A-Z\d]+(?:_[A-Z\d]+)+\b")
_COMMENT = re.compile(r"\s*(?:#|//|/?\*|--\s|\"\"\"|'''|<!--)")


@dataclass(frozen=True, slots=True)
class ExploredPlace:
    """A place with those of its lines that matter, as (number, text), in order; at least one.

    `notes` say what else is known of it: the lines of a long definition, its callers, its tests, which are
    at `named`.
    """

    path: str
    label: str
    lines: tuple[tuple[int, str], ...]
    notes: tuple[str, ...] = ()
    named: tuple[tuple[str, int], ...] = ()

    @property
    def place(self) -> str:
        """Path with the first and last line, such as `app.py:12-40`."""
        first, last = self.lines[0][0], self.lines[-1][0]
        return f"{self.path}:{first}-{last}"


@dataclass(frozen=True, slots=True)
class Lead:
    """A definition, or a part of a file outside of all, that answers a question.

    `weights` are those of the terms that are sought in it, `line` is one that matters in any case (0: none),
    `uses` is how many callers and how many tests are named. The question itself names what is `is_named`, and
    `meant` are all definitions of the name; `facts` are uses that answer it, also possible ones.
    """

    definition: CodeDefinition
    weights: Mapping[str, float] = field(default_factory=dict)
    line: int = 0
    uses: tuple[int, int] = (3, 2)
    is_named: bool = False
    meant: tuple[CodeDefinition, ...] = ()
    facts: tuple[CodeFact, ...] = ()


@dataclass(frozen=True, slots=True)
class UsesOfLead:
    """The callers of a definition, and the tests that use it, or else its callers; with their titles.

    At least the places of the first `numbered` of each are shown. `name` is what they use.
    """

    title: str = ""
    calls: tuple[CodeUse, ...] = ()
    tests: tuple[CodeUse, ...] = ()
    tests_title: str = "tests"
    name: str = ""
    numbered: int = 0

    def notes(self, most: tuple[int, int]) -> tuple[str, ...]:
        """Return in words the first callers and the first tests, then the places of others, and how to get
        the rest."""
        pairs = ((self.title, self.calls, most[0]), (self.tests_title, self.tests, most[1]))
        found = []
        for title, uses, count in pairs:
            if shown := uses[:count]:
                rest = len(uses) - max(count, self.numbered)
                numbered = uses[count : self.numbered]
                others = [use for use in numbered if use.certain or not uses[0].certain]
                possible = [use for use in numbered if use not in others]
                parts = [_listed(shown), f"also {use_places(others)}" if others else ""]
                parts += [f"possibly {use_places(possible)}"] if possible else []
                parts += [f"{rest} more"] if rest > 0 else []
                found.append((f"{title}: {'; '.join(filter(None, parts))}", rest > 0))
        *_, last = [n for n, (_, is_cut) in enumerate(found) if is_cut] or [-1]
        every = f" (an exact search for `{one_line(self.name)}` lists all)" if self.name else ""
        return tuple(f"{text}{every if n == last else ''}" for n, (text, _) in enumerate(found))

    def named(self, most: tuple[int, int]) -> tuple[tuple[str, int], ...]:
        """Return the lines that `notes` names."""
        return tuple((use.path, use.line) for use in (*self.calls[: most[0]], *self.tests[: most[1]]))


def lead_of_hit(repository: Repository, hit: Hit, weights: Mapping[str, float]) -> Lead:
    """Return the definition in a chunk, or just below it, that has most of the terms.

    The chunk is returned instead if it has none, or is a part of a long class or value.
    """
    graph = repository.store.graph
    section = CodeDefinition(hit.path, hit.symbol, hit.scope, "section", hit.start, hit.end)
    every = [] if hit.unit == "section" else [*graph.defined_in(hit.path), *graph.values_in(hit.path)]
    last = hit.end + 1  # the lines above a function document it
    within = [one for one in every if one.start <= last and hit.start <= one.end]
    within = [one for one in within if one.unit == "function" or one.start >= hit.start] or within
    if not within:
        return Lead(section, weights)
    lines = dict(enumerate(lines_of(hit.text), hit.start))

    def score(one: CodeDefinition) -> tuple[float, bool, int]:
        inner = {n for other in within if _encloses(one, other) for n in range(other.start, other.end + 1)}
        own = [text for n, text in lines.items() if one.start <= n <= one.end and n not in inner]
        found = math.fsum(weights.get(term, 0.0) for term in term_set("\n".join(own)))
        share = 1.0 if one.unit == "function" else _SHARE_OF_OTHERS
        return share * found, one.name == hit.symbol, one.start - one.end

    best = max(within, key=score)
    is_long = best.unit != "function" and best.end - best.start >= MAX_WHOLE
    return Lead(section if is_long else best, weights)


def _encloses(one: CodeDefinition, other: CodeDefinition) -> bool:
    """Return whether a class or value has another definition within; a function has those in it as a part."""
    return one.unit != "function" and one is not other and one.start <= other.start and other.end <= one.end


def shown_lead(repository: Repository, lead: Lead, window: int) -> ExploredPlace | None:
    """Return a definition whole, or at most `window` lines of it and its head; None if it has no lines."""
    one = lead.definition
    lines = lines_in(repository, one.path)[: one.end]
    count = sum(1 for line in lines[one.start - 1 :] if line.strip())
    chosen: Iterable[int] = range(one.start, len(lines) + 1)
    notes: list[str] = []
    if count > window:
        chosen = _part(lines, lead, window)
        notes.append(f"lines {ranges(chosen)} of {one.start}-{one.end}")
    shown = tuple((n, short(lines[n - 1], lead.weights.keys())) for n in chosen if lines[n - 1].strip())
    return ExploredPlace(one.path, one.qualified_name, shown, tuple(notes)) if shown else None


def constants_in(repository: Repository, place: ExploredPlace) -> list[ExploredPlace]:
    """Return the lines that declare the constants that the lines of a place use, if few and short."""
    shown, found = {number for number, _ in place.lines}, []
    for name in dict.fromkeys(name for _, text in place.lines for name in _CONSTANT.findall(text)):
        meant = repository.store.graph.values(name)
        meant = [one for one in meant if one.path == place.path] or meant
        one = meant[0] if len(meant) == 1 else None
        if (
            one
            and not (one.path == place.path and one.start in shown)
            and one.end - one.start < _MAX_CONSTANT
        ):
            lines = lines_in(repository, one.path)[one.start - 1 : one.end]
            numbered = enumerate(map(short, lines), one.start)
            found.append(ExploredPlace(one.path, one.scope, tuple(numbered)))
    return found[:_MAX_CONSTANTS]


def uses_of_lead(repository: Repository, lead: Lead, shown: Mapping[str, Set[int]]) -> UsesOfLead:
    """Return who certainly calls the definition of a lead, and which tests use it, without lines that are
    shown; who possibly calls it if that is not known, or asked for."""
    one = lead.definition
    if one.unit not in ("function", "class") or lead.uses == NO_USES:
        return UsesOfLead()
    found = uses_of_name(repository.store, one.qualified_name, meant=lead.meant or [one])
    certain = [use for use in found.found if use.certain] or list(found.found)
    facts = [CodeUse(fact.path, fact.start, fact.label, "call", fact.certain) for fact in lead.facts]
    known = {(use.path, use.line) for use in facts}
    certain = [*facts, *(use for use in certain if (use.path, use.line) not in known)]
    outside = [
        use
        for use in certain
        if use.line not in shown.get(use.path, ())
        and not (use.path == one.path and one.start <= use.line <= one.end)
    ]
    sure = "" if found.certain or not outside else "possibly "
    title = f"{sure}{'called' if found.are_calls else 'used'} in"
    calls = tuple(use for use in outside if not _in_test(use))
    tests = tuple(use for use in outside if _in_test(use))
    numbered = _NUMBERED_USES if lead.is_named else 0
    if lead.is_named and calls and not tests:
        of_callers = _tests_of_callers(repository, calls)
        return UsesOfLead(title, calls, of_callers, "tests of its callers", one.name, numbered)
    return UsesOfLead(title, calls, tests, name=one.name, numbered=numbered)


def _tests_of_callers(repository: Repository, calls: Sequence[CodeUse]) -> tuple[CodeUse, ...]:
    """Return the tests that certainly use one of the first callers."""
    graph = repository.store.graph
    around = [definition_at(repository.store, use.path, use.line) for use in calls[:_CALLERS_TESTED]]
    every = [
        use
        for caller in dict.fromkeys(one for one in around if one is not None and one.unit == "function")
        for use in graph.attributed([caller]).uses
        if use.certain and _in_test(use)
    ]
    return tuple(dict.fromkeys(every))


def _in_test(use: CodeUse) -> bool:
    scope, _, name = use.within.rpartition(".")
    return is_test(kind_of_path(use.path), scope, name)


def use_places(uses: Sequence[CodeUse]) -> str:
    """Return places by file, such as `app.py:12,14; cli.py:7`."""
    files = groupby(uses, lambda use: use.path)
    return "; ".join(f"{one_line(path)}:{','.join(str(use.line) for use in group)}" for path, group in files)


def _listed(uses: Sequence[CodeUse]) -> str:
    """Return places by file and definition, such as `app.py:12,14 run, 30 stop; cli.py:7 main`."""
    files = []
    for path, of_file in groupby(uses, lambda use: use.path):
        within = [
            f"{','.join(str(use.line) for use in group)} {one_line(name)}".rstrip()
            for name, group in groupby(of_file, lambda use: use.within)
        ]
        files.append(f"{one_line(path)}:{', '.join(within)}")
    return "; ".join(files)


def _part(lines: Sequence[str], lead: Lead, window: int) -> list[int]:
    """Return the numbers of the head's lines and of the window that has most of the terms."""
    one = lead.definition
    named = (n for n in range(one.start, len(lines) + 1) if one.name and one.name in lines[n - 1])
    head = next(named, one.start)
    rows = {*range(head, min(head + _HEAD, len(lines) + 1))}
    start = _best_window(lines[one.start - 1 :], lead, window) + one.start
    return sorted(rows | {*range(start, min(start + window, len(lines) + 1))})


def _best_window(lines: Sequence[str], lead: Lead, window: int) -> int:
    """Return where the window begins that has most of the terms, each once, then the most lines with them; in
    the middle of equal ones, so that the lines have others around them."""
    weights, wanted = lead.weights, lead.line - lead.definition.start
    held = [[] if is_comment(line) else [t for t in term_set(line) if t in weights] for line in lines]
    counts: Counter[str] = Counter()
    best: tuple[float, ...] = ()
    tied: list[int] = []
    for end, terms_of_line in enumerate(held):
        counts.update(terms_of_line)
        start = max(0, end - window + 1)
        if start:
            counts.subtract(held[start - 1])
        once = math.fsum(weights[term] for term, count in counts.items() if count)
        again = math.fsum(weights[term] * count for term, count in counts.items())
        score = (float(bool(lead.line) and start <= wanted <= end), round(once + again / window, 6))
        if score > best:
            best, tied = score, []
        if score == best:
            tied.append(start)
    return tied[len(tied) // 2]


def is_comment(line: str) -> bool:
    """Return whether a line begins as a comment does."""
    return _COMMENT.match(line) is not None


def lines_in(repository: Repository, path: str) -> list[str]:
    """Return the lines of an indexed file; none if there is no such file."""
    read = repository.store.file_text(path)
    return lines_of(read[0]) if read else []


def short(line: str, sought: Set[str] = frozenset()) -> str:
    """Return a line as it is shown: with spaces for tabs; a very long one is cut around a sought term."""
    text = line.expandtabs(4).rstrip()
    if len(text) <= _MAX_LINE_CHARS:
        return text
    named = (word.start() for word in WORD.finditer(text) if sought and not sought.isdisjoint(terms(word[0])))
    first = max(0, min(next(named, 0) - _MAX_LINE_CHARS // 4, len(text) - _MAX_LINE_CHARS))
    end = first + _MAX_LINE_CHARS
    return f"{'…' if first else ''}{text[first:end]}{'…' if end < len(text) else ''}"
