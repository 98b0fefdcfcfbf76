"""The definitions that answer a question best, shown so that no other request is needed to read them.

A short one is shown whole. Of a long one its head is shown and, without a gap, the lines that have most of the
question. Who certainly calls it and the tests that use it are named below, with their places.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby

from rag.analysis import WORD, term_set, terms
from rag.code.languages import kind_of_path
from rag.lines import lines_of, ranges
from rag.quoting import one_line
from rag.retrieval.shown_code import is_test
from rag.retrieval.uses import uses_of_name
from rag.service.repository import Repository
from rag.types import CodeDefinition, CodeUse, Hit

MAX_WHOLE = 40
"""The most lines of a definition that is shown whole."""
WINDOWS = (24, 10)
"""How many lines are shown of a longer one, below its head; the fewer if there is no room."""
_HEAD = 2
_SHARE_OF_OTHERS = 0.6
"""What the words in a class or a value count for, next to those in a function of the same chunk."""
_MAX_LINE_CHARS = 160


@dataclass(frozen=True, slots=True)
class ExploredPlace:
    """A place with those of its lines that matter, as (number, text), in order; at least one.

    `notes` say what else is known of it: the lines of a long definition, its callers, its tests.
    """

    path: str
    label: str
    lines: tuple[tuple[int, str], ...]
    notes: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Path with the first and last line, such as `app.py:12-40`."""
        first, last = self.lines[0][0], self.lines[-1][0]
        return f"{self.path}:{first}-{last}"


@dataclass(frozen=True, slots=True)
class Lead:
    """A definition, or a part of a file outside of all, that answers a question.

    `weights` are those of the terms that are sought in it, `line` is one that matters in any case (0: none),
    `uses` is how many callers and tests are named. The question itself names what is `is_named`, and `meant`
    are all definitions of the name.
    """

    definition: CodeDefinition
    weights: Mapping[str, float] = field(default_factory=dict)
    line: int = 0
    uses: int = 3
    is_named: bool = False
    meant: tuple[CodeDefinition, ...] = ()


def lead_of_hit(repository: Repository, hit: Hit, weights: Mapping[str, float]) -> Lead:
    """Return the definition in a chunk that has most of the terms; the chunk if it has none."""
    store = repository.store
    every = [*store.graph.defined_in(hit.path)]
    within = [one for one in every if one.start <= hit.end and hit.start <= one.end]
    if hit.unit == "section" or not within:
        section = CodeDefinition(hit.path, hit.symbol, hit.scope, "section", hit.start, hit.end)
        return Lead(section, weights)
    lines = lines_of(hit.text)

    def score(one: CodeDefinition) -> tuple[float, bool, int]:
        held = lines[max(0, one.start - hit.start) : one.end - hit.start + 1]
        found = math.fsum(weights.get(term, 0.0) for term in term_set("\n".join(held)))
        share = 1.0 if one.unit == "function" else _SHARE_OF_OTHERS
        return share * found, one.name == hit.symbol, one.start - one.end

    return Lead(max(within, key=score), weights)


def shown_lead(repository: Repository, lead: Lead, window: int) -> ExploredPlace | None:
    """Return a definition whole, or at most `window` lines of it and its head; None if it has no lines."""
    one = lead.definition
    read = repository.store.file_text(one.path)
    lines = lines_of(read[0])[: one.end] if read else []
    count = sum(1 for line in lines[one.start - 1 :] if line.strip())
    chosen: Iterable[int] = range(one.start, len(lines) + 1)
    notes: list[str] = []
    if count > window:
        chosen = _part(lines, lead, window)
        notes.append(f"lines {ranges(chosen)} of {one.start}-{one.end}")
    shown = tuple((n, short(lines[n - 1], lead.weights.keys())) for n in chosen if lines[n - 1].strip())
    return ExploredPlace(one.path, one.qualified_name, shown, tuple(notes)) if shown else None


def uses_notes(repository: Repository, lead: Lead) -> tuple[tuple[str, ...], dict[str, set[int]]]:
    """Return who certainly calls the definition of a lead and which tests use it, in words, and their lines
    by path."""
    one = lead.definition
    if one.unit not in ("function", "class") or not lead.uses:
        return (), {}
    found = uses_of_name(repository.store, one.qualified_name, meant=lead.meant or [one])
    certain = [use for use in found.found if use.certain] or list(found.found)
    outside = [use for use in certain if not (use.path == one.path and one.start <= use.line <= one.end)]
    tests = [use for use in outside if _in_test(use)]
    calls = [use for use in outside if not _in_test(use)]
    named: dict[str, set[int]] = {}
    notes = []
    sure = "" if found.certain or not outside else "possibly "
    for title, uses in ((f"{sure}{'called' if found.are_calls else 'used'} in", calls), ("tests", tests)):
        shown = uses[: lead.uses]
        if shown:
            more = f"; {len(uses) - len(shown)} more" if len(uses) > len(shown) else ""
            notes.append(f"{title}: {_listed(shown)}{more}")
        for use in shown:
            named.setdefault(use.path, set()).add(use.line)
    return tuple(notes), named


def _in_test(use: CodeUse) -> bool:
    scope, _, name = use.within.rpartition(".")
    return is_test(kind_of_path(use.path), scope, name)


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
    first = {*range(head, min(head + _HEAD, len(lines) + 1))}
    bags = {n: term_set(lines[n - 1]) for n in range(one.start, len(lines) + 1)}
    last_start = max(one.start, len(lines) - window + 1)

    def score(start: int) -> float:
        rows = range(start, min(start + window, len(lines) + 1))
        held = frozenset[str]().union(*(bags[n] for n in rows))
        counted = math.fsum(lead.weights.get(term, 0.0) for n in rows for term in bags[n])
        whole = math.fsum(lead.weights.get(term, 0.0) for term in held)
        return whole + counted / window + (1_000 if lead.line in rows else 0)

    best = max(range(one.start, last_start + 1), key=lambda start: (score(start), -start))
    return sorted(first | {*range(best, min(best + window, len(lines) + 1))})


def short(line: str, sought: Set[str] = frozenset()) -> str:
    """Return a line as it is shown: with spaces for tabs; a very long one is cut around a sought term."""
    text = line.expandtabs(4).rstrip()
    if len(text) <= _MAX_LINE_CHARS:
        return text
    named = (word.start() for word in WORD.finditer(text) if sought and not sought.isdisjoint(terms(word[0])))
    first = max(0, min(next(named, 0) - _MAX_LINE_CHARS // 4, len(text) - _MAX_LINE_CHARS))
    end = first + _MAX_LINE_CHARS
    return f"{'…' if first else ''}{text[first:end]}{'…' if end < len(text) else ''}"
