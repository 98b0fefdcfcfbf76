"""The result of a review: what changed between two states of a repository, and what rests on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rag.types import FreshnessState

SymbolChange = Literal["removed", "signature", "body", "renamed", "moved", "added", "comment"]
"""- removed: the symbol is not defined any more.
- signature: its name, parameters, bases or decorators differ; the body may differ too.
- body: only its body differs.
- renamed: it has another name, and the same body.
- moved: it has the same name in another file or scope, and the same body.
- added: it is new.
- comment: only comments, documentation or white space differ.
"""
SymbolUnit = Literal["function", "class", "section", "constant"]
StatementKind = Literal["turn", "fact", "cached"]


@dataclass(frozen=True, slots=True)
class CallSite:
    """A line that uses a changed symbol, within the definition of that name ("" at the top of the file).

    It is `certain` if the name there means that symbol, else possible; then it may be called `through` an
    interface or a base class.
    """

    path: str
    line: int
    within: str
    certain: bool
    through: str = ""


@dataclass(frozen=True, slots=True)
class ChangedSymbol:
    """A definition that differs. `name` is qualified; the lines are the head's, or the base's if removed.

    `was` is the old `path:name` of a renamed or moved symbol. `callers` are the first call sites outside of
    tests, certain ones first; `caller_count` and `certain_count` count all of them.
    """

    path: str
    name: str
    unit: SymbolUnit
    change: SymbolChange
    start: int
    end: int
    was: str = ""
    is_test: bool = False
    callers: tuple[CallSite, ...] = ()
    caller_count: int = 0
    certain_count: int = 0

    @property
    def place(self) -> str:
        """`path:start-end`."""
        return f"{self.path}:{self.start}-{self.end}"


@dataclass(frozen=True, slots=True)
class BrokenUse:
    """A line of the head that still uses a symbol (`path:name`) that the change removed or renamed.

    It is `certain` if the base says what the name meant there, and the head does not define it any more.
    """

    path: str
    line: int
    within: str
    symbol: str
    certain: bool


@dataclass(frozen=True, slots=True)
class AffectedTest:
    """A test file that exercises what changed. `names` are the first of its tests that do, `reason` says how.

    `certain` is False if it may exercise it: the object of a call is not known, or only the names fit.
    """

    path: str
    names: tuple[str, ...]
    reason: str
    certain: bool
    is_changed: bool = False


@dataclass(frozen=True, slots=True)
class StaleSource:
    """Lines that a statement rests on: as they were cited, and their state at the head."""

    place: str
    state: FreshnessState
    now: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StaleStatement:
    """A stored answer, fact or cached answer with lines that the change makes stale.

    `text` is the question or the fact; `sentences` are those of the answer that refer to the stale lines.
    `state` is the worst state of the lines that it rests on.
    """

    kind: StatementKind
    id: str
    text: str
    state: FreshnessState
    sources: tuple[StaleSource, ...]
    sentences: tuple[str, ...] = ()
    number: int | None = None
    conversation: str = ""
    is_cached: bool = False


@dataclass(frozen=True, slots=True)
class ReviewCounts:
    """Totals before anything was left out of the lists."""

    files: int = 0
    symbols: int = 0
    broken: int = 0
    tests: int = 0
    checked: int = 0
    stale: int = 0
    stale_before: int = 0


REVIEW_PARTS = (
    CallSite,
    ChangedSymbol,
    BrokenUse,
    AffectedTest,
    StaleSource,
    StaleStatement,
    ReviewCounts,
)
"""The values in a review, each after those it holds."""


@dataclass(frozen=True, slots=True)
class Review:
    """What a change makes false. The lists are bounded; `counts` has the totals.

    `base` and `head` are the states as named; `head_commit` is "" for the work tree. `makes_false` says
    whether a line certainly uses what is gone, or a stored statement is stale now and was not before.
    `symbols` are ordered by how much may depend on the change: removed, signature, body, renamed and moved,
    added, comment; then by callers, path and line. `notes` say what was left out, and why.
    """

    base: str
    head: str
    base_commit: str
    head_commit: str
    makes_false: bool = False
    broken: tuple[BrokenUse, ...] = ()
    symbols: tuple[ChangedSymbol, ...] = ()
    tests: tuple[AffectedTest, ...] = ()
    statements: tuple[StaleStatement, ...] = ()
    counts: ReviewCounts = ReviewCounts()
    notes: tuple[str, ...] = ()
