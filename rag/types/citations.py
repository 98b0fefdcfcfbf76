"""The sources of an answer, and their freshness in later versions of the repository."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rag.types.code import Located, Span, pickled_by_arguments

FreshnessState = Literal["fresh", "moved", "reformatted", "unknown", "changed", "gone"]


@dataclass(frozen=True, slots=True)
class CitedSymbol:
    """The definition that an answer is about, of those in the cited lines: its bare name and its lines."""

    name: str
    start: int
    end: int


@pickled_by_arguments
@dataclass(frozen=True, slots=True)
class Citation(Located):
    """A source that was shown to the model: its number in the prompt, and its lines.

    `used` means that the answer refers to it. `span_hash` is the SHA-256 of the lines as shown. `anchor` is
    the definition in the lines that the answer is about; None if that is not known.
    """

    n: int
    span: Span
    span_hash: str = ""
    dirty: bool = False
    score: float = 0.0
    used: bool = True
    location: str = ""
    anchor: CitedSymbol | None = None

    def __str__(self) -> str:
        return f"[{self.n}] {self.place}"


@dataclass(frozen=True, slots=True)
class Freshness:
    """The state of cited lines in a later version of their repository.

    - fresh: the same bytes are at the same lines of the same file.
    - moved: they are now at `path`, `start` to `end`; with a `reason`, that is a guess among several places.
    - reformatted: the code at `path`, `start` to `end` is the same; `reason` is "layout" if white space, line
      breaks, quotes or trailing commas differ, "comments" if comments do.
    - changed: the lines differ; `path`, `start`, `end` is what replaced them, 0 if that is not known.
    - gone: the file or the lines were deleted.
    - unknown: it cannot be determined; `reason` says why.

    `reason` is a short phrase for people, "" if there is nothing to add. If other cited lines differ, but the
    answer is about one definition (`Citation.anchor`), `symbol` is its name, and the rest is said of it.
    """

    state: FreshnessState
    reason: str = ""
    path: str = ""
    start: int = 0
    end: int = 0
    symbol: str = ""

    @property
    def is_stale(self) -> bool:
        """Whether statements about the lines may be wrong now."""
        return self.state in ("changed", "gone")

    @property
    def place(self) -> str:
        """`path:start-end`, the path alone if the lines are not known, "" if nothing is."""
        return f"{self.path}:{self.start}-{self.end}" if self.start else self.path

    def __str__(self) -> str:
        where = f" → {self.place}" if self.state not in ("fresh", "unknown", "gone") and self.place else ""
        of = f"{self.symbol}: " if self.symbol else ""
        return f"{of}{self.state}{where}{f' ({self.reason})' if self.reason else ''}"


_FRESHEST_FIRST: tuple[FreshnessState, ...] = ("fresh", "moved", "reformatted", "unknown", "changed", "gone")


def worst(found: Iterable[Freshness]) -> Freshness:
    """Return the least fresh of these states; of equal ones the first.

    The order is: fresh, moved, reformatted, unknown, changed, gone. With no states the result is unknown.
    """
    unknown = Freshness("unknown", "no source is cited")
    return max(found, key=lambda one: _FRESHEST_FIRST.index(one.state), default=unknown)
