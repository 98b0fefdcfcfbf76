"""Values that are passed between the packages. They contain no behaviour beyond their own data.

Lines are numbered from 1; ranges include both ends. Paths are relative to the repository's root, with
forward slashes. A higher score is better.
"""

from __future__ import annotations

import hashlib
import uuid
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import wraps
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from rag.display.answers import ShownSource, answer_html
from rag.display.frames import frame
from rag.display.html import bytes_of, code, framed, pairs, place, table
from rag.display.svg import plain
from rag.display.timeline import COLOURS as STATE_COLOURS

Kind = Literal["code", "test", "doc", "config"]
Unit = Literal["function", "class", "section", "block"]
FinishReason = Literal["stop", "length", "interrupted"]
FreshnessState = Literal["fresh", "moved", "reformatted", "unknown", "changed", "gone"]
TurnState = Literal["asked", "answered", "partial", "failed"]
TurnScope = Literal["user", "project", "team"]


def now_utc() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def blob_id(content: bytes) -> str:
    """Return Git's id of these bytes (SHA-1 of `blob <size>\\0` and the bytes), 40 hexadecimal digits."""
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


# ---------------------------------------------------------------- sources and files


@dataclass(frozen=True, slots=True)
class Filters:
    """Globs relative to the root, in gitignore syntax. An empty `include` means everything."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A repository at a ref.

    `location` is canonical: the real absolute path of a folder, or a git URL without credentials.
    `ref` is a branch, tag or commit; None means the work tree of a folder, or the default branch of a URL.
    `filters` select its files.
    """

    location: str
    ref: str | None = None
    filters: Filters = Filters()

    @property
    def is_url(self) -> bool:
        """Whether the source is fetched by git, not read in place."""
        return "://" in self.location or (":" in self.location and not Path(self.location).is_absolute())

    @property
    def name(self) -> str:
        """The last part of the location, without `.git`."""
        tail = self.location.rstrip("/").replace(":", "/").rsplit("/", 1)[-1]
        return tail.removesuffix(".git") or self.location

    def __str__(self) -> str:
        return f"{self.location}@{self.ref}" if self.ref else self.location


@dataclass(frozen=True, slots=True)
class Checkout:
    """A source on disk, ready to read. `commit` is None if there is no git history.

    Without `has_files` there is nothing at `root`: only the index of the commit is on this machine.
    """

    source: Source
    root: Path
    commit: str | None = None
    dirty: bool = False
    remote: str | None = None
    has_files: bool = True


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file to index, as found by the walk.

    `changed_ns` is the time of the last change of the inode, which programs cannot set; 0 means unknown.
    """

    path: str
    size_bytes: int
    mtime_ns: int
    language: str
    kind: Kind
    changed_ns: int = 0


PARSER_GAVE_UP = "parser gave up"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file (or a whole folder) that is not indexed, and why. `reason` is one of a few fixed phrases.

    With the reason PARSER_GAVE_UP the file is indexed, but split by lines, because parsing it exceeded the
    limit of time or memory.
    """

    path: str
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file's text. `blob` is Git's id of its bytes, whether or not Git tracks the file."""

    path: str
    text: str
    blob: str
    language: str
    kind: Kind


_Class = TypeVar("_Class", bound=type)


def _pickled_by_arguments(cls: _Class) -> _Class:
    """Pickle a dataclass as a call of its class.

    Python's own way for frozen dataclasses with slots takes several times as long, and child processes send
    dozens of hits per question.
    """
    values = attrgetter(*(one.name for one in fields(cls)))

    def reduced(self: Any) -> tuple[Any, tuple[Any, ...]]:
        return cls, values(self)

    cls.__reduce__ = reduced  # type: ignore[method-assign,assignment]
    return cls


@_pickled_by_arguments
@dataclass(frozen=True, slots=True)
class Span:
    """A range of lines in one version of a file, and what it defines.

    `repo` is the source's name, "" if unknown. `symbol` is the bare name that the lines define ("" for none),
    `scope` its enclosing scope ("Outer.Inner", or ""). Both may contain dots, as section titles do, so they
    are never joined and split again.
    """

    repo: str
    path: str
    start: int
    end: int
    blob: str = ""
    commit: str | None = None
    symbol: str = ""
    scope: str = ""

    @property
    def place(self) -> str:
        """`path:start-end`, always with both ends."""
        return f"{self.path}:{self.start}-{self.end}"

    @property
    def label(self) -> str:
        """Scope and symbol joined by a dot, for display; the scope alone if nothing is defined."""
        return f"{self.scope}.{self.symbol}" if self.scope and self.symbol else self.scope or self.symbol

    @property
    def qualified_name(self) -> str:
        """Scope and symbol joined by a dot, for display; "" if nothing is defined."""
        return self.label if self.symbol else ""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a conversation is about: a definition, or lines of a file that define nothing.

    `symbol` is the bare name of the definition ("" for none), `scope` its enclosing scope; `start` and `end`
    are 0 if the lines are not known.
    """

    path: str
    symbol: str = ""
    scope: str = ""
    start: int = 0
    end: int = 0

    @property
    def name(self) -> str:
        """Scope and symbol joined by a dot, for display; the path if nothing is defined."""
        return f"{self.scope}.{self.symbol}" if self.scope and self.symbol else self.symbol or self.path

    @property
    def place(self) -> str:
        """`path:start-end`; the path alone if the lines are not known."""
        return f"{self.path}:{self.start}-{self.end}" if self.start else self.path


class Located:
    """A value with a `span`, whose fields are also read-only attributes of the value.

    To copy it with other lines: `replace(hit, span=replace(hit.span, start=1))`.
    """

    __slots__ = ()
    span: Span

    @property
    def repo(self) -> str:
        """The name of the source."""
        return self.span.repo

    @property
    def path(self) -> str:
        """The file, relative to the repository's root."""
        return self.span.path

    @property
    def start(self) -> int:
        """The first line."""
        return self.span.start

    @property
    def end(self) -> int:
        """The last line (inclusive)."""
        return self.span.end

    @property
    def blob(self) -> str:
        """Git's id of the file's bytes."""
        return self.span.blob

    @property
    def commit(self) -> str | None:
        """The commit that the file was read at; None if there is no history."""
        return self.span.commit

    @property
    def symbol(self) -> str:
        """The bare name that the lines define, "" for none."""
        return self.span.symbol

    @property
    def scope(self) -> str:
        """The enclosing scope, "" for none."""
        return self.span.scope

    @property
    def place(self) -> str:
        """`path:start-end`, always with both ends."""
        return self.span.place

    @property
    def label(self) -> str:
        """Scope and symbol joined by a dot; the scope alone if nothing is defined."""
        return self.span.label

    @property
    def qualified_name(self) -> str:
        """Scope and symbol joined by a dot; "" if nothing is defined."""
        return self.span.qualified_name


@dataclass(frozen=True, slots=True)
class Chunk(Located):
    """A self-contained part of a file. The chunks of a file, joined in order, are the file.

    A long definition is split into several chunks with the same symbol. The span has no repository and no
    commit: equal files have equal chunks everywhere.
    """

    span: Span
    text: str
    unit: Unit = "block"
    kind: Kind = "code"
    language: str = "text"


UseRole = Literal["call", "mention", "base", "override", "import", "types"]


@dataclass(frozen=True, slots=True)
class CodeDefinition:
    """A function or class. `scope` names what encloses it, with dots; `is_exported` says whether code outside
    the repository may use it.
    """

    path: str
    name: str
    scope: str
    unit: Literal["function", "class"]
    start: int
    end: int
    is_exported: bool = True

    @property
    def qualified_name(self) -> str:
        """Scope and name, joined by a dot."""
        return f"{self.scope}.{self.name}" if self.scope else self.name


@dataclass(frozen=True, slots=True)
class CodeUse:
    """A line that uses a definition, within the definition of that qualified name ("" at the top).

    `certain` is False where another definition of the same name may be meant. The role "types" is an import
    that does not exist at run time.
    """

    path: str
    line: int
    within: str
    role: UseRole
    certain: bool


SUBMODULE = "submodule"
"""The `reason` of a skipped submodule."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The result of indexing a source. `action` says what was done, `reason` why a store was rebuilt.

    `recall_at_10` is the share of the ten nearest vectors that a search of a large store finds, measured
    when it was built; None where a search scans every vector.
    """

    source: Source
    action: Literal["built", "rebuilt", "updated", "fresh"]
    reason: str
    path: Path
    seen: int
    files: int
    chunks: int
    changed: int
    removed: int
    skipped: tuple[Skipped, ...]
    size_bytes: int
    commit: str | None
    seconds: float
    recall_at_10: float | None = None

    @property
    def submodules(self) -> tuple[str, ...]:
        """The paths of submodules, which are not indexed."""
        return tuple(skip.path for skip in self.skipped if skip.reason == SUBMODULE)

    def _repr_html_(self) -> str:
        """Render the report for a notebook."""
        left_out = Counter(skip.reason for skip in self.skipped)
        rows = [
            ("index", f"{self.action}{f': {self.reason}' if self.reason else ''}"),
            (
                "files",
                f"{self.files:,} of {self.seen:,} seen; {self.changed:,} read, {self.removed:,} removed",
            ),
            ("chunks", f"{self.chunks:,}, {bytes_of(self.size_bytes)}, {self.seconds:.2f} s"),
            ("left out", ", ".join(f"{n:,} {why}" for why, n in left_out.most_common())),
            ("commit", self.commit or "none"),
        ]
        return framed(pairs([*rows, *(("note", remark) for remark in self.remarks)]))

    @property
    def remarks(self) -> list[str]:
        """Remarks for the user on what is not in the index, as sentences."""
        remarks = []
        if self.submodules:
            remarks.append(not_indexed(self.submodules))
        if self.source.filters != Filters() and self.action == "built":
            remarks.append(
                f"--include and --exclude make an index of their own ({self.path}); "
                "a question without them is answered from another one"
            )
        return remarks


def not_indexed(submodules: Sequence[str]) -> str:
    """Return a sentence that names submodules that are not indexed."""
    names = ", ".join(submodules[:_NAMED]) + (", …" if len(submodules) > _NAMED else "")
    several = f"{len(submodules)} submodules are" if len(submodules) > 1 else "1 submodule is"
    return f"{several} not indexed ({names}); index each by its own path"


MAX_QUESTION_CHARS = 16_000
"""The maximum length of a question, in characters."""
MAX_HISTORY = 20
"""The maximum number of earlier questions in a request; each of them is searched too."""
MAX_NAMED = 20
"""The maximum number of non-indexed files that are named; the others are only counted."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What part of a repository an answer is based on, and what is missing from it.

    `skipped` counts the files that are never indexed, by reason. `not_indexed` names files whose change or
    deletion is not in the index yet, sorted by path, at most `MAX_NAMED`; `not_indexed_count` counts all of
    them. `checked_ago_s` is the time between the comparison of files and index (for a URL: the fetch) and the
    answer; None if there was none. Without `has_files` the answer is based on a published index alone: the
    files and their history are not on this machine.
    """

    repository: str = ""
    commit: str | None = None
    dirty: bool = False
    skipped: Mapping[str, int] = field(default_factory=dict)
    not_indexed: tuple[str, ...] = ()
    not_indexed_count: int = 0
    checked_ago_s: float | None = None
    has_files: bool = True

    @property
    def note(self) -> str:
        """A warning that names changed files that are not indexed; "" if everything is."""
        if not self.not_indexed_count:
            return ""
        more = self.not_indexed_count - len(self.not_indexed)
        names = ", ".join(self.not_indexed) + (f" and {more:,} more" if more else "")
        files = (
            "1 changed file is"
            if self.not_indexed_count == 1
            else f"{self.not_indexed_count:,} changed files are"
        )
        return f"{self.repository}: {files} not in the index yet: {names}"

    @property
    def summary(self) -> str:
        """One line on what was searched and what was not."""
        parts = [f"commit {self.commit[:10]}" if self.commit else "no commit"]
        parts += ["with uncommitted changes"] if self.dirty else []
        parts += [] if self.has_files else ["a published index, without the files and their history"]
        skipped = sorted(self.skipped.items(), key=lambda pair: (-pair[1], pair[0]))
        parts += ["not indexed: " + ", ".join(f"{n} {why}" for why, n in skipped)] if skipped else []
        parts += [self.note] if self.note else []
        return "; ".join(parts)


# ---------------------------------------------------------------- retrieval


@_pickled_by_arguments
@dataclass(frozen=True, slots=True)
class Hit(Located):
    """A chunk that was found. `legs` has the score of each ranking signal.

    The span ends with the last line that is not blank; `blank_end` is the rest of the chunk. `reason` says in
    words why the place is shown, "" for a place that was found by its words alone.
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


class Hits(tuple[Hit, ...]):
    """The hits of a search, best first."""

    __slots__ = ()

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

    def _repr_html_(self) -> str:
        """Render the hits for a notebook: each shows its lines when it is opened."""
        if not self:
            return framed("<p>nothing found</p>")
        most = max(max(hit.score for hit in self), 1e-9)
        bars = (
            f'<meter value="{max(hit.score, 0) / most:.2f}" title="{hit.score:.2f}"></meter>' for hit in self
        )
        rows = [
            (str(n), _opened_hit(hit), plain(" ".join(filter(None, (hit.label, hit.reason)))), bar)
            for n, (hit, bar) in enumerate(zip(self, bars, strict=True), 1)
        ]
        return framed(table(("", "place", "defines", "score"), rows))


def _opened_hit(hit: Hit) -> str:
    lines = code(hit.text, hit.language, hit.start)
    return f"<details><summary>{place(hit.location, hit.path, hit.place)}</summary>{lines}</details>"


@_pickled_by_arguments
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


@_pickled_by_arguments
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


SearchMode = Literal["question", "exact", "regex"]
"""What the text of a search is: a question, a string to find as it is, or a regular expression."""


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """The files that a search considers; an empty field allows all, several values allow any of them.

    `paths` are globs in gitignore syntax, relative to the root; `languages` are names or file extensions.
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
class PatternMatches:
    """The number of matches of a string or an expression, of lines on which one begins, and of their files.

    `more` is the number of those lines that are not among the hits. If the search stopped at its time limit,
    it is not `complete`, and there may be more of each.
    """

    count: int = 0
    lines: int = 0
    files: int = 0
    more: int = 0
    complete: bool = True

    @property
    def note(self) -> str:
        """One line on what was found."""
        least = "" if self.complete else "at least "
        found = [(self.count, "match", "es"), (self.lines, "line", "s"), (self.files, "file", "s")]
        matches, lines, files = (f"{n:,} {word}{plural if n != 1 else ''}" for n, word, plural in found)
        stopped = "" if self.complete else "; stopped at the time limit, search fewer files (path, language)"
        are = "line is" if self.more == 1 else "lines are"
        left = f"; {self.more:,} more {are} not shown" if self.more else ""
        return f"{least}{matches} on {lines} of {files}{left}{stopped}"


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


# ---------------------------------------------------------------- turns


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one generation; `estimated` if not reported by the service. `cost_usd` is None if unknown."""

    prompt_tokens: int = 0
    answer_tokens: int = 0
    estimated: bool = True
    cost_usd: float | None = None

    @property
    def total_tokens(self) -> int:
        """Prompt and answer tokens together."""
        return self.prompt_tokens + self.answer_tokens


@dataclass(frozen=True, slots=True)
class CitedSymbol:
    """The definition that an answer is about, of those in the cited lines: its bare name and its lines."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a model asks for; `arguments` are as the model wrote them, supposedly JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A reply of a model that may call tools."""

    text: str
    calls: tuple[ToolCall, ...] = ()


@_pickled_by_arguments
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

    def _repr_html_(self) -> str:
        """Render the state for a notebook."""
        return framed(f"<p>{_state_html(self)}</p>")

    def __str__(self) -> str:
        where = f" → {self.place}" if self.state not in ("fresh", "unknown", "gone") and self.place else ""
        of = f"{self.symbol}: " if self.symbol else ""
        return f"{of}{self.state}{where}{f' ({self.reason})' if self.reason else ''}"


def _state_html(one: Freshness) -> str:
    dot = f'<span style="color:{STATE_COLOURS[one.state]}">●</span>'
    return f"{dot} {plain(str(one))}"


_FRESHEST_FIRST: tuple[FreshnessState, ...] = ("fresh", "moved", "reformatted", "unknown", "changed", "gone")


def worst(found: Iterable[Freshness]) -> Freshness:
    """Return the least fresh of these states; of equal ones the first.

    The order is: fresh, moved, reformatted, unknown, changed, gone. With no states the result is unknown.
    """
    unknown = Freshness("unknown", "no source is cited")
    return max(found, key=lambda one: _FRESHEST_FIRST.index(one.state), default=unknown)


def _shown_sources(citations: Iterable[Citation], hits: Sequence[Hit] = ()) -> list[ShownSource]:
    """Return citations with their lines, as far as the hits have them; places that repeat are left out."""
    found: dict[str, ShownSource] = {}
    for one in citations:
        commit = f"at {one.commit[:10]}{' + changes' if one.dirty else ''}" if one.commit else ""
        hit = next((hit for hit in hits if _holds(hit, one)), None)
        lines = hit.text.split("\n")[one.start - hit.start : one.end - hit.start + 1] if hit else []
        found.setdefault(
            f"{one.location} {one.place}",
            ShownSource(
                one.n,
                one.location,
                one.path,
                one.start,
                one.end,
                one.qualified_name,
                commit,
                "\n".join(lines),
                hit.language if hit else "",
            ),
        )
    return list(found.values())


def _holds(hit: Hit, citation: Citation) -> bool:
    same = (hit.location, hit.path) == (citation.location, citation.path)
    return same and hit.start <= citation.start and citation.end <= hit.end


@dataclass(slots=True)
class UserQuery:
    """A user's question. The name is that of AdalFlow and DeepWiki."""

    query_str: str
    metadata: dict[str, Any] | None = None


@dataclass(slots=True)
class AssistantResponse:
    """The answer to a question. The name is that of AdalFlow and DeepWiki."""

    response_str: str
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TraceStep:
    """A step towards an answer: "rewrite", "search", "prompt", "answer"; "look" and the name of a tool for a
    step of a second look, and "look" alone for its end.

    `query` is what was sought or passed to the step, `result` what came of it in one line, `error` why it
    failed ("" if it did not).
    """

    name: str
    query: str = ""
    result: str = ""
    error: str = ""
    seconds: float = 0.0

    @property
    def is_look(self) -> bool:
        """Whether it is a step of a second look, or its end."""
        return self.name.split()[:1] == ["look"]

    @property
    def line(self) -> str:
        """The step on one line, such as `look read: a.py:1-40 → a.py:1-40 of 90 lines`."""
        asked = f"{self.name}: {self.query}" if self.query else self.name
        came = "; ".join(part for part in (self.result, self.error) if part)
        return f"{asked} → {came}" if came else asked


def _with_complete(cls: _Class) -> _Class:
    """Accept the argument `complete` of versions before `state`; deprecated until 0.4."""
    init = cls.__init__  # type: ignore[misc]

    @wraps(init)
    def accepting(self: Any, *args: Any, complete: bool | None = None, **more: Any) -> None:
        if complete is not None:
            warnings.warn("pass state instead of complete", DeprecationWarning, stacklevel=2)
            more.setdefault("state", "answered" if complete else "partial")
        init(self, *args, **more)

    cls.__init__ = accepting  # type: ignore[misc]
    return cls


_MAX_REASONS = 3
SupportKind = Literal["unsupported", "weak", "uncited", "unknown_name"]


@dataclass(frozen=True, slots=True)
class FlaggedStatement:
    """A statement of an answer that its sources do not support, and why.

    `begin_char` and `end_char` (excluded) are its place in the answer's text, `cited` the numbers of the
    sources it was compared with; of one that cites none, the source that has its words, if there is one.
    """

    kind: SupportKind
    text: str
    reason: str
    begin_char: int
    end_char: int
    cited: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SupportCheck:
    """The result of comparing each statement of an answer with the lines that it cites.

    Each of the `statements` is counted once: as `supported`, `weak` (it shares few words with the lines),
    `unsupported` or `uncited`. `unknown_names` are in code font, but neither in the repository nor in what
    the model was given. `flagged` are the first statements that are not supported, in their order; if not
    `complete`, there are more of them, or the answer was too long to be checked whole.
    """

    statements: int = 0
    supported: int = 0
    weak: int = 0
    unsupported: int = 0
    uncited: int = 0
    unknown_names: tuple[str, ...] = ()
    flagged: tuple[FlaggedStatement, ...] = ()
    complete: bool = True

    @property
    def unsupported_line(self) -> str:
        """How many statements are unsupported, with the first reasons; "" if none."""
        reasons = list(dict.fromkeys(one.reason for one in self.flagged if one.kind == "unsupported"))
        are = "is not supported by its" if self.unsupported == 1 else "are not supported by their"
        counts = f"{self.unsupported} of {self.statements} statements {are} sources"
        return f"{counts}: {'; '.join(reasons[:_MAX_REASONS])}" if reasons else ""

    @property
    def nearest(self) -> tuple[int, ...]:
        """The numbers of the sources that have the words of flagged statements without a citation."""
        return tuple(sorted({n for one in self.flagged if one.kind == "uncited" for n in one.cited}))

    @property
    def summary(self) -> str:
        """One line on the statements that are not supported, "" if there are none."""
        parts = [self.unsupported_line]
        if self.uncited:
            cite = "cites" if self.uncited == 1 else "cite"
            words = f" (see {', '.join(f'[{n}]' for n in self.nearest)})" if self.nearest else ""
            parts.append(f"{self.uncited} of {self.statements} statements {cite} no source{words}")
        if self.unknown_names:
            names = ", ".join(f"`{name}`" for name in self.unknown_names[:_MAX_REASONS])
            parts.append(f"names that occur nowhere in the repository: {names}")
        return "; ".join(part for part in parts if part)


@_with_complete
@dataclass(slots=True)
class DialogTurn:
    """A question and its answer, with the sources and settings of the answer.

    Attribute-compatible with AdalFlow's and DeepWiki's class of the same name. `order` is assigned by the
    store, from 0, never reused. `standalone_question` is the question as searched. `marks` are changed
    through the store; `version` counts edits, from 1. `checks` is the freshness of each citation, in their
    order, if it was checked; it is never stored.

    `state` is "asked" while there is no answer yet, then once and for all "answered", "partial" (an answer
    that was interrupted) or "failed" (`error` says why). `subject` is what "it" meant, None if nothing;
    `trace` are the steps towards the answer, in their order; `scope` says whose turn it is. `support` is the
    check of the answer's statements, None if no model wrote it.
    """

    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    user_query: UserQuery | None = None
    assistant_response: AssistantResponse | None = None
    order: int | None = None
    conversation_id: str | None = None
    namespace: str = ""
    parent_id: str | None = None
    standalone_question: str = ""
    citations: tuple[Citation, ...] = ()
    model: str = ""
    prompt_hash: str = ""
    usage: Usage = field(default_factory=Usage)
    state: TurnState = "answered"
    error: str = ""
    subject: Subject | None = None
    trace: tuple[TraceStep, ...] = ()
    support: SupportCheck | None = None
    scope: TurnScope = "user"
    user_query_timestamp: datetime | None = field(default_factory=now_utc)
    assistant_response_timestamp: datetime | None = field(default_factory=now_utc)
    user_id: str | None = None
    metadata: dict[str, Any] | None = None
    marks: tuple[str, ...] = ()
    version: int = 1
    checks: tuple[Freshness, ...] = field(default=(), compare=False)

    @property
    def question(self) -> str:
        """The question as typed, "" when there is none."""
        return self.user_query.query_str if self.user_query else ""

    @property
    def answer(self) -> str:
        """The answer's text, "" when there is none."""
        return self.assistant_response.response_str if self.assistant_response else ""

    @property
    def number(self) -> int:
        """The number of the turn in its conversation, from 1; 0 before it is stored."""
        return 0 if self.order is None else self.order + 1

    @property
    def complete(self) -> bool:
        """Whether it has a whole answer."""
        return self.state == "answered"

    @property
    def has_answer(self) -> bool:
        """Whether it has an answer, whole or partial. Only such a turn is shown to a model, and recalled."""
        return self.state in ("answered", "partial")

    @property
    def checked(self) -> tuple[tuple[Citation, Freshness], ...]:
        """The citations that the answer is based on, each with its freshness.

        These are the ones it refers to, or all that were shown if it refers to none. Empty if `checks` is.
        """
        pairs = tuple(zip(self.citations, self.checks, strict=False))
        return tuple(pair for pair in pairs if pair[0].used) or pairs

    @property
    def freshness(self) -> Freshness | None:
        """The worst state of the citations that the answer is based on; None if there are no checks."""
        return worst(check for _, check in self.checked) if self.checks else None

    def with_current_citations(self) -> DialogTurn:
        """Return the turn with moved and reformatted citations at their current lines.

        Other citations are unchanged.
        """
        now = list(self.citations)
        for n, check in enumerate(self.checks):
            if check.state in ("moved", "reformatted"):
                span = replace(now[n].span, path=check.path, start=check.start, end=check.end)
                now[n] = replace(now[n], span=span, anchor=None)
        return replace(self, citations=tuple(now))

    def _repr_html_(self) -> str:
        """Render the turn for a notebook."""
        number = "" if self.order is None else f"{self.order + 1}. "
        sources = _shown_sources(c for c in self.citations if c.used)
        notes = [] if self.complete else [f"{self.state}: {self.error}" if self.error else "broke off"]
        return answer_html(number + self.question, self.answer, sources, notes)


class CheckedTurns(tuple[DialogTurn, ...]):
    """Turns with the freshness of their citations (`checks`)."""

    __slots__ = ()

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each place that an answer rests on.

        Raises:
            BackendMissing: pandas is not installed.
        """
        columns = ("turn", "question", "place", "symbol", "state", "now", "reason")
        return frame(
            (
                dict(zip(columns, (turn.number, turn.question, *_pair(*pair)), strict=True))
                for turn in self
                for pair in turn.checked
            ),
            columns,
        )

    def _repr_html_(self) -> str:
        """Render the turns for a notebook, each with the state of the places it rests on."""
        rows = [
            (
                str(turn.number),
                plain(turn.question),
                _state_html(turn.freshness) if turn.freshness else "not checked",
                _places_html(turn),
            )
            for turn in self
        ]
        return framed(table(("", "question", "state", "places"), rows))


def _places_html(turn: DialogTurn) -> str:
    """Return the number of places in each state, and when it is opened each place."""
    counts = Counter(found.state for _, found in turn.checked)
    head = ", ".join(f"{n} {state}" for state, n in counts.items())
    shown = (
        f"{place(one.location, one.path, one.place)} {_state_html(found)}" for one, found in turn.checked
    )
    return f"<details><summary>{head}</summary>{'<br>'.join(shown)}</details>"


def _pair(citation: Citation, found: Freshness) -> tuple[str, str, str, str, str]:
    return citation.place, citation.qualified_name, found.state, found.place, found.reason


@dataclass(frozen=True, slots=True)
class Message:
    """A message of any kind with a role, for systems that store no turns.

    `content` is text, bytes, or JSON (a list of content blocks, a dict); `mime` is its type. `turn_id` is the
    turn that it belongs to, if any; `order` is assigned by the store.
    """

    content: Any
    role: str = "user"
    name: str = ""
    mime: str = "text/plain"
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    order: int | None = None
    conversation_id: str | None = None
    namespace: str = ""
    turn_id: str | None = None
    marks: tuple[str, ...] = ()
    metadata: dict[str, Any] | None = None
    created: datetime = field(default_factory=now_utc)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A list of turns about one or more repositories. `sources` are canonical, in the order given.

    `parent` and `forked_at` are the conversation and the order that it was forked from. `turn_count` includes
    inherited turns.
    """

    id: str
    namespace: str = ""
    name: str = ""
    sources: tuple[Source, ...] = ()
    created: datetime = field(default_factory=now_utc)
    updated: datetime = field(default_factory=now_utc)
    turn_count: int = 0
    message_count: int = 0
    ttl_s: float | None = None
    keep_last: int | None = None
    parent: str | None = None
    forked_at: int | None = None


# ---------------------------------------------------------------- prompt and answer


@dataclass(frozen=True, slots=True)
class NumberedSource:
    """A hit and its number in the prompt."""

    n: int
    hit: Hit


def source_of(fact: CodeFact, sources: Iterable[NumberedSource]) -> int:
    """Return the number of the source that holds the first line of a fact; 0 if none does."""
    for source in sources:
        hit = source.hit
        same_file = (hit.location, hit.path) == (fact.location, fact.path)
        if same_file and hit.start <= fact.start <= hit.end:
            return source.n
    return 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt for a model, with a record of what it contains.

    `text` is the rendered template; `sources` are the numbered sources and `turns` the earlier turns (oldest
    first) that fit into it; `dropped_*` count those that did not.
    """

    text: str
    sources: tuple[NumberedSource, ...]
    turns: tuple[DialogTurn, ...]
    tokens: int
    answer_tokens: int
    dropped_sources: int = 0
    dropped_turns: int = 0

    @property
    def hash(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """What a caller asks of the model for one answer; the defaults leave everything to the settings.

    Attributes:
        instructions: the caller's own instructions, such as a client's system prompt; "" for none.
        max_tokens: the maximum length of the answer; None uses the settings.
        stop: strings that end the answer, which does not contain them.
        parameters: further parameters of OpenAI's chat completions, sent to the model's server unchanged.
        is_json: whether the reply must be JSON: then nothing is added to it or removed from it.
    """

    instructions: str = ""
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question with everything a generator needs: the result of retrieval and prompt rendering.

    `conversation` is None before its first turn; `confidence` is None if it was not computed. `quotes` is the
    extractive answer, in pieces, if it was written along with the rest. `code_facts` is None for a question
    of no known kind, or if its rules found nothing. `subject` is what "it" means. `options` are what the
    caller asks of the model, `steps` those of a second look. `warning` is that of the answer.
    """

    question: str
    standalone_question: str
    conversation: Conversation | None
    hits: tuple[Hit, ...]
    prompt: Prompt
    seconds: Mapping[str, float] = field(default_factory=dict)
    confidence: Confidence | None = None
    quotes: tuple[str, ...] | None = None
    code_facts: CodeFacts | None = None
    subject: Subject | None = None
    options: GenerationOptions = field(default_factory=GenerationOptions)
    steps: tuple[TraceStep, ...] = ()
    warning: str = ""


@dataclass(slots=True)
class Answer:
    """An answer and its sources.

    `citations` are the sources that the text refers to, `sources` all that were shown; `invented` counts
    references to sources that were never shown (they are removed from the text). `found` is False if the
    repository contains nothing on the question. `warning`, shown before the text, says that it probably does
    not ("" for none); `missing_words` are the words of the question that are missing. `cached` is the id of
    the turn with the original answer, "" for a new answer. `cut` is True if the model reached its token
    limit. `coverage` has one entry per repository. `code_facts` is None if no rule of a kind of question
    found anything. `subject` is what "it" meant in a follow-up, or what the question was set to be about.
    `trace` are the steps towards it, in their order, as its turn has them. `support` is the check of its
    statements, None if no model wrote it. Unpacks as DeepWiki's `(answer, documents)`.
    """

    text: str
    question: str = ""
    standalone_question: str = ""
    citations: tuple[Citation, ...] = ()
    sources: tuple[Citation, ...] = ()
    hits: tuple[Hit, ...] = ()
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    found: bool = True
    invented: int = 0
    complete: bool = True
    notes: tuple[str, ...] = ()
    conversation_id: str = ""
    turn_id: str = ""
    turn_order: int | None = None
    prompt_hash: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    rationale: str = ""
    confidence: Confidence | None = None
    cached: str = ""
    cut: bool = False
    warning: str = ""
    missing_words: tuple[str, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    code_facts: CodeFacts | None = None
    subject: Subject | None = None
    trace: tuple[TraceStep, ...] = ()
    support: SupportCheck | None = None
    documents: list[Any] = field(default_factory=list)

    @property
    def answer(self) -> str:
        """The text, under DeepWiki's name."""
        return self.text

    @property
    def steps(self) -> tuple[TraceStep, ...]:
        """The steps of a second look; deprecated until 0.4, use `trace`."""
        warnings.warn("Answer.steps is deprecated; use Answer.trace", DeprecationWarning, stacklevel=2)
        return tuple(step for step in self.trace if step.is_look)

    def __iter__(self) -> Iterator[Any]:
        return iter((self, self.documents))

    def __getitem__(self, index: int) -> Any:
        return (self, self.documents)[index]

    def __len__(self) -> int:
        return 2

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """Render the answer and its sources for a notebook."""
        sources = _shown_sources(self.citations, self.hits)
        return answer_html(self.question, self.text, sources, self.notes, self.warning)


RAGAnswer = Answer
"""DeepWiki's name; its callers read `.answer` and `.rationale`."""


def with_turn(answer: Answer, turn: DialogTurn) -> Answer:
    """Return the answer with the ids of the turn that it was stored as."""
    return replace(answer, turn_id=turn.id, turn_order=turn.order, conversation_id=turn.conversation_id or "")


class Backup(NamedTuple):
    """The contents of a backup of a memory, over all namespaces."""

    made: datetime
    conversations: int
    turns: int
    messages: int
    records: int
