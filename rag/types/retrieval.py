"""Results of a search: hits, facts of a kind of question, confidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rag.frames import frame
from rag.types.code import Located, Span, pickled_by_arguments
from rag.types.source import Kind, Unit

MAX_QUESTION_CHARS = 16_000
"""The maximum length of a question, in characters."""
MAX_HITS = 1_000
"""The maximum number of hits of a search."""
HITS, LINES = 10, MAX_HITS
"""The number of hits of a question, and of lines of a string or an expression, unless another is given."""
MAX_HISTORY = 20
"""The maximum number of earlier questions in a request; each of them is searched too."""


@pickled_by_arguments
@dataclass(frozen=True, slots=True)
class Hit(Located):
    """A chunk that was found. `legs` has the score of each ranking signal.

    The span ends with the last line that is not blank; `blank_end` is the rest of the chunk. `reason` says in
    words why the place is shown, "" for a place that was found by its words alone. `asked_line` is the line
    of the file where the answer to a question about the project begins, 0 if that is not known.
    """

    span: Span
    text: str
    score: float
    unit: Unit = "block"
    kind: Kind = "code"
    language: str = "text"
    dirty: bool = False
    location: str = ""
    legs: Mapping[str, float] = field(default_factory=dict)
    blank_end: str = ""
    reason: str = ""
    asked_line: int = 0

    @property
    def is_test(self) -> bool:
        """Whether it is in a test."""
        return self.kind == "test"


class Hits(tuple[Hit, ...]):
    """The hits of a search, best first; of a string or an expression its lines, and `matches` counts them."""

    matches: PatternMatches | None

    def __new__(cls, hits: Iterable[Hit] = (), matches: PatternMatches | None = None) -> Hits:
        """Return hits as they are given."""
        made = super().__new__(cls, hits)
        made.matches = matches
        return made

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each hit; `legs` has the score of each ranking signal.

        Raises:
            BackendMissing: pandas is not installed.
        """
        fields = "repo path start end symbol scope kind language score reason text".split()
        columns = ["rank", *fields, "legs"]
        return frame(
            (
                {"rank": n, **{name: getattr(hit, name) for name in fields}, "legs": dict(hit.legs)}
                for n, hit in enumerate(self, 1)
            ),
            columns,
        )


@pickled_by_arguments
@dataclass(frozen=True, slots=True)
class CodeFact(Located):
    """Lines that answer a question of a known kind: a member of a list, a call site, a declaration.

    `text` is exactly the lines of the span. `reason` says in words what they are ("member of `Color`"). A
    fact that is not `certain` is possible only.
    """

    span: Span
    text: str
    reason: str = ""
    certain: bool = True
    dirty: bool = False
    location: str = ""


@pickled_by_arguments
@dataclass(frozen=True, slots=True)
class CodeFacts:
    """The answer to a question of a known kind, found by the rules of the kind instead of by ranking.

    `kind` is the kind of question ("list", "callers", …), `subject` the name that it is about, as written in
    the code, and `summary` the answer in one sentence without full stop ("`Color` has 12 members"). `count`
    and `certain_count` count all, also those beyond `items`. If not `complete`, `note` says what may be
    missing ("may be incomplete: …").
    """

    kind: str
    subject: str
    summary: str
    items: tuple[CodeFact, ...]
    count: int
    certain_count: int
    complete: bool = True
    note: str = ""

    @property
    def is_about_one_place(self) -> bool:
        """Whether all items have the same lines: only their reasons differ (the commits of a definition)."""
        return len(self.items) > 1 and len({(item.path, item.start) for item in self.items}) == 1


@pickled_by_arguments
@dataclass(frozen=True, slots=True)
class OutlinedDefinition:
    """A definition in the outline of a file: its first and last line, and its name with its scope."""

    start: int
    end: int
    name: str


@pickled_by_arguments
@dataclass(frozen=True, slots=True)
class FileOutline:
    """Definitions of a file, by line; `more` counts those that are left out."""

    repo: str
    path: str
    definitions: tuple[OutlinedDefinition, ...]
    more: int = 0


SearchMode = Literal["question", "exact", "regex"]
"""What the text of a search is: a question, a string to find as it is, or a regular expression."""


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """The files that a search considers; an empty field allows all, several values allow any of them.

    `paths` are files, folders, or globs in gitignore syntax, relative to the root; `languages` are names or
    file extensions.
    """

    paths: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.paths or self.languages or self.kinds)

    def __str__(self) -> str:
        parts = (("path", self.paths), ("language", self.languages), ("kind", self.kinds))
        return ", ".join(f"{name} {' or '.join(values)}" for name, values in parts if values)


@dataclass(frozen=True, slots=True)
class LinesLeft:
    """The number of lines of a file that are on none of the pages so far; of many files, those of the last
    ones are counted by folder (`path` ends with "/")."""

    repo: str
    path: str
    lines: int
    location: str = ""


@dataclass(frozen=True, slots=True)
class PatternMatches:
    """The number of matches of a string or an expression, of lines on which one begins, and of their files.

    `before` is the number of those lines that are on earlier pages, `more` of those on later ones, which are
    in the files of `rest`, code first. `next_page` is None if no further line can be listed: there is none,
    or there are more than are put into order. If the search stopped at its time limit, it is not `complete`,
    and there may be more of each.
    """

    count: int = 0
    lines: int = 0
    files: int = 0
    more: int = 0
    complete: bool = True
    before: int = 0
    next_page: int | None = None
    rest: tuple[LinesLeft, ...] = ()

    @property
    def note(self) -> str:
        """One line on what was found."""
        least = "" if self.complete else "at least "
        found = [(self.count, "match", "es"), (self.lines, "line", "s"), (self.files, "file", "s")]
        matches, lines, files = (f"{n:,} {word}{plural if n != 1 else ''}" for n, word, plural in found)
        parts = [f"{least}{matches} on {lines} of {files}"]
        if self.before:
            parts.append(f"{self.before:,} {'line is' if self.before == 1 else 'lines are'} on earlier pages")
        if self.more:
            parts.append(f"{self.more:,} more {'line is' if self.more == 1 else 'lines are'} not shown")
        if self.more and self.next_page is None:
            parts.append("they cannot be listed one by one: search fewer files (path, language)")
        if not self.complete:
            parts.append("stopped at the time limit, search fewer files (path, language)")
        return "; ".join(parts)


MIN_CONFIDENCE = 0.5
"""An answer with at least this confidence needs no warning."""


@dataclass(frozen=True, slots=True)
class MissingPart:
    """A part that a question names and that does not exist: `name`, a part of `of` ("" if that is not said).

    `nearest` are names that exist and are like it, the most alike first.
    """

    name: str
    of: str = ""
    nearest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Confidence:
    """The confidence that the repository contains an answer: `value` from 0 to 1.

    `found` is False if no word of the question occurs in the repository. `sought` are the words that were
    searched for, as typed. Of those that name something, `unmet` are missing from the best hits and `absent`
    from the whole repository, both in order of importance. `first_right` is the probability that the first
    place is the right one, if the repository contains an answer; None if nothing was found. `missing_part` is
    an option or a member that the question names and that does not exist.
    """

    value: float
    found: bool
    sought: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    foreign: bool = False
    first_right: float | None = None
    missing_part: MissingPart | None = None

    @property
    def is_sure(self) -> bool:
        """Whether an answer needs no warning."""
        return self.found and self.value >= MIN_CONFIDENCE

    @property
    def missing_words(self) -> tuple[str, ...]:
        """The words missing from the best hits, those that occur nowhere first; none if an answer is sure."""
        part = (self.missing_part.name,) if self.missing_part else ()
        return () if self.is_sure else tuple(dict.fromkeys((*part, *self.absent, *self.unmet)))
