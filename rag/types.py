"""The values that travel between the rooms. No behaviour beyond what a value knows about itself.

Lines count from 1 and both ends belong. Paths are relative to the repository's root, with forward
slashes. Scores are higher-is-better.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rag.markup import framed

Kind = Literal["code", "test", "doc", "config"]
Unit = Literal["function", "class", "section", "block"]
FinishReason = Literal["stop", "length", "interrupted"]
FreshnessState = Literal["fresh", "moved", "unknown", "changed", "gone"]


def now_utc() -> datetime:
    """The present moment, with its zone."""
    return datetime.now(UTC)


def blob_id(content: bytes) -> str:
    """Git's own name for these bytes (SHA-1 of `blob <size>\\0` and the bytes), 40 hexadecimal digits."""
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


# ---------------------------------------------------------------- sources and files


@dataclass(frozen=True, slots=True)
class Filters:
    """Globs relative to the root, in gitignore syntax. Empty `include` means everything."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A repository as it was asked for.

    `location` is canonical: the real absolute path of a folder, or a git URL without credentials.
    `ref` is a branch, tag or commit; None means the work tree of a folder, the default branch of a URL.
    `filters` say which of its files are meant.
    """

    location: str
    ref: str | None = None
    filters: Filters = Filters()

    @property
    def is_url(self) -> bool:
        """Whether the source is fetched by git rather than read in place."""
        return "://" in self.location or (":" in self.location and not Path(self.location).is_absolute())

    @property
    def name(self) -> str:
        """The last part of the location, without `.git`: what people call the repository."""
        tail = self.location.rstrip("/").replace(":", "/").rsplit("/", 1)[-1]
        return tail.removesuffix(".git") or self.location

    def __str__(self) -> str:
        return f"{self.location}@{self.ref}" if self.ref else self.location


@dataclass(frozen=True, slots=True)
class Checkout:
    """A source on disk, ready to be read. `commit` is None where there is no git history."""

    source: Source
    root: Path
    commit: str | None = None
    dirty: bool = False
    remote: str | None = None


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file that is to be indexed, as the walk saw it.

    `changed_ns` is when the system last changed anything of it, which no program can set; 0 is not known.
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

    One reason is of a file that is indexed, cut by lines: PARSER_GAVE_UP, as its grammar takes more time or
    memory than a file may.
    """

    path: str
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file's text. `blob` is git's id of its bytes, whether or not git knows the file."""

    path: str
    text: str
    blob: str
    language: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Span:
    """Lines of a file: of which repository, of which bytes, at which commit, and what they define.

    `repo` is the source's name, "" where it is not known. `symbol` is the bare name that is defined in the
    lines ("" for none), `scope` what encloses them ("Outer.Inner", or ""). Either may hold dots of its own,
    as titles of sections do, so the two are never joined and split again.
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
        """Scope and symbol joined by a dot, for people; the scope alone where nothing is defined."""
        return f"{self.scope}.{self.symbol}" if self.scope and self.symbol else self.scope or self.symbol

    @property
    def qualified_name(self) -> str:
        """Scope and symbol joined by a dot, for people; "" where nothing is defined."""
        return self.label if self.symbol else ""


class Located:
    """What has a `span`, with the parts of the span as its own read-only attributes.

    A copy with other lines is `replace(hit, span=replace(hit.span, start=1))`.
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
        """The last line, which belongs to it."""
        return self.span.end

    @property
    def blob(self) -> str:
        """Git's id of the file's bytes."""
        return self.span.blob

    @property
    def commit(self) -> str | None:
        """The commit that the file was read at, None where there is no history."""
        return self.span.commit

    @property
    def symbol(self) -> str:
        """The bare name that is defined in the lines, "" for none."""
        return self.span.symbol

    @property
    def scope(self) -> str:
        """What encloses the lines, "" for nothing."""
        return self.span.scope

    @property
    def place(self) -> str:
        """`path:start-end`, always with both ends."""
        return self.span.place

    @property
    def label(self) -> str:
        """Scope and symbol joined by a dot; the scope alone where nothing is defined."""
        return self.span.label

    @property
    def qualified_name(self) -> str:
        """Scope and symbol joined by a dot, "" where nothing is defined."""
        return self.span.qualified_name


@dataclass(frozen=True, slots=True)
class Chunk(Located):
    """A stretch of a file that means something on its own. A file's chunks, in order, are the file.

    A long definition is cut into several chunks of the same symbol. Its span names no repository and no
    commit: the same file gives the same chunks everywhere.
    """

    span: Span
    text: str
    unit: Unit = "block"
    kind: Kind = "code"
    language: str = "text"


SUBMODULE = "submodule"
"""The reason why a submodule is skipped."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What indexing a source came to. `action` says what was done, `reason` why a store was rebuilt.

    `recall_at_10` is the share of the ten nearest vectors that a search of a large store finds, as measured
    when it was built; None where every vector is looked at.
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
        """The paths of the submodules, which are not indexed."""
        return tuple(skip.path for skip in self.skipped if skip.reason == SUBMODULE)

    @property
    def remarks(self) -> list[str]:
        """What a user should know of what is not in the index, in sentences."""
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
    """A sentence that names submodules which are not indexed."""
    names = ", ".join(submodules[:_NAMED]) + (", …" if len(submodules) > _NAMED else "")
    several = f"{len(submodules)} submodules are" if len(submodules) > 1 else "1 submodule is"
    return f"{several} not indexed ({names}); index each by its own path"


MAX_QUESTION_CHARS = 16_000
"""Characters of a question that an interface takes from a program."""
MAX_HISTORY = 20
"""Earlier questions that an interface takes with one: each of them is searched too."""
MOST_NAMED = 20
"""How many files that are not indexed yet are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What of a repository an answer rests on, and what of it the answer cannot know.

    `skipped` counts the files that are never indexed, by reason. `not_indexed` names files that changed and
    are not in the index yet, or are gone and still in it, in the order of their paths and at most
    `MOST_NAMED`; `not_indexed_count` counts all of them. `checked_ago_s` is how long before the answer the
    files were compared with the index (of a URL: fetched); None where that was not done.
    """

    repository: str = ""
    commit: str | None = None
    dirty: bool = False
    skipped: Mapping[str, int] = field(default_factory=dict)
    not_indexed: tuple[str, ...] = ()
    not_indexed_count: int = 0
    checked_ago_s: float | None = None

    @property
    def note(self) -> str:
        """What a reader must know before trusting that nothing else exists; "" where all is indexed."""
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
        """What was searched, and what was not, on one line."""
        parts = [f"commit {self.commit[:10]}" if self.commit else "no commit"]
        parts += ["with uncommitted changes"] if self.dirty else []
        skipped = sorted(self.skipped.items(), key=lambda pair: (-pair[1], pair[0]))
        parts += ["not indexed: " + ", ".join(f"{n} {why}" for why, n in skipped)] if skipped else []
        parts += [self.note] if self.note else []
        return "; ".join(parts)


# ---------------------------------------------------------------- retrieval


@dataclass(frozen=True, slots=True)
class Hit(Located):
    """A chunk that was found. `legs` says what each signal gave it.

    Its span ends with its last line that is not blank; `blank_end` is what follows in the same chunk.
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


SURE = 0.5
"""An answer of at least this confidence needs no warning."""


@dataclass(frozen=True, slots=True)
class Confidence:
    """How sure it is that the repository holds an answer: `value` from 0 to 1.

    `found` is False where no word of the question occurs in the repository. `sought` are the words that were
    looked for, as typed. Of those that name something, `unmet` are those that the best hits lack, `absent`
    those that occur nowhere at all, both the most telling first.
    """

    value: float
    found: bool
    sought: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    foreign: bool = False

    @property
    def is_sure(self) -> bool:
        """Whether an answer needs no warning."""
        return self.found and self.value >= SURE

    @property
    def missing_words(self) -> tuple[str, ...]:
        """The words that the best hits lack, those that occur nowhere first; none where it is sure."""
        return () if self.is_sure else (*self.absent, *self.unmet)


# ---------------------------------------------------------------- turns


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one generation; `estimated` when the service did not say. `cost_usd` is None when unknown."""

    prompt_tokens: int = 0
    answer_tokens: int = 0
    estimated: bool = True
    cost_usd: float | None = None

    @property
    def total_tokens(self) -> int:
        """Prompt and answer together."""
        return self.prompt_tokens + self.answer_tokens


@dataclass(frozen=True, slots=True)
class Citation(Located):
    """A source that was shown to the model: its number there, and its lines.

    `used` is whether the answer refers to it. `span_hash` is the SHA-256 of the lines as shown.
    """

    n: int
    span: Span
    span_hash: str = ""
    dirty: bool = False
    score: float = 0.0
    used: bool = True
    location: str = ""

    def __str__(self) -> str:
        return f"[{self.n}] {self.place}"


@dataclass(frozen=True, slots=True)
class Freshness:
    """What became of cited lines in a later state of their repository.

    - fresh: the same bytes stand at the same lines of the same file.
    - moved: they stand at `path`, `start` to `end`. With a `reason` that place is a guess among several.
    - changed: they do not; `path`, `start`, `end` is what stands in their place, 0 where that is not known.
    - gone: the file or the lines were deleted.
    - unknown: it cannot be told; `reason` says why.

    `reason` is a short phrase for people, "" when there is nothing to add.
    """

    state: FreshnessState
    reason: str = ""
    path: str = ""
    start: int = 0
    end: int = 0

    @property
    def is_stale(self) -> bool:
        """Whether what was said about the lines may be false now."""
        return self.state in ("changed", "gone")

    @property
    def place(self) -> str:
        """`path:start-end`, the path alone where the lines are not known, "" when nothing is."""
        return f"{self.path}:{self.start}-{self.end}" if self.start else self.path

    def __str__(self) -> str:
        where = f" → {self.place}" if self.state in ("moved", "changed") and self.place else ""
        return f"{self.state}{where}{f' ({self.reason})' if self.reason else ''}"


_FRESHEST_FIRST: tuple[FreshnessState, ...] = ("fresh", "moved", "unknown", "changed", "gone")


def worst(found: Iterable[Freshness]) -> Freshness:
    """The one that says most against what rests on all of them; of equals the first.

    From best to worst: fresh, moved, unknown, changed, gone. Of none at all: unknown, as nothing can be
    compared.
    """
    unknown = Freshness("unknown", "no source is cited")
    return max(found, key=lambda one: _FRESHEST_FIRST.index(one.state), default=unknown)


def _source_rows(citations: Iterable[Citation]) -> list[tuple[str, ...]]:
    return [
        (
            f"[{c.n}]",
            c.place,
            c.qualified_name,
            f"at {c.commit[:10]}{' + changes' if c.dirty else ''}" if c.commit else "",
        )
        for c in citations
    ]


@dataclass(slots=True)
class UserQuery:
    """What the user typed. The name is AdalFlow's and DeepWiki's."""

    query_str: str
    metadata: dict[str, Any] | None = None


@dataclass(slots=True)
class AssistantResponse:
    """What was answered. The name is AdalFlow's and DeepWiki's."""

    response_str: str
    metadata: dict[str, Any] | None = None


@dataclass(slots=True)
class DialogTurn:
    """One question and its answer, with what the answer was made from.

    Attribute-compatible with AdalFlow's and DeepWiki's class of the same name. `order` is given by the
    store, from 0, never reused; `standalone_question` is the question as it was searched;
    `complete` is False only for an answer that broke off and was kept on request. `marks` are given and
    taken through the store; `version` counts its edits, from 1. `checks` is never stored: what became of
    each citation, in their order, where that was looked up.
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
    complete: bool = True
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
    def checked(self) -> tuple[tuple[Citation, Freshness], ...]:
        """The citations that the answer rests on, with what became of each.

        They are those it refers to; all that were shown when it refers to none. Empty when `checks` is.
        """
        pairs = tuple(zip(self.citations, self.checks, strict=False))
        return tuple(pair for pair in pairs if pair[0].used) or pairs

    @property
    def freshness(self) -> Freshness | None:
        """The worst of what the answer rests on; None when that was not looked up, or there is nothing."""
        return worst(check for _, check in self.checked) if self.checks else None

    def at_present(self) -> DialogTurn:
        """The turn with the citations that moved where their lines stand now; the others as they were."""
        now = list(self.citations)
        for n, check in enumerate(self.checks):
            if check.state == "moved":
                span = replace(now[n].span, path=check.path, start=check.start, end=check.end)
                now[n] = replace(now[n], span=span)
        return replace(self, citations=tuple(now))

    def _repr_html_(self) -> str:
        """The turn as a notebook shows it."""
        number = "" if self.order is None else f"{self.order + 1}. "
        rows = _source_rows(c for c in self.citations if c.used)
        return framed(number + self.question, self.answer, rows, "" if self.complete else "broke off")


@dataclass(frozen=True, slots=True)
class Message:
    """Something that was said, by whom, of any kind: what systems store that know no turns.

    `content` is text, bytes, or JSON (a list of content blocks, a dict); `mime` says what it means.
    `turn_id` names the turn it belongs to, if it does; `order` is given by the store.
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
    """A list of turns about one or more repositories. `sources` are canonical, in the order asked.

    `parent` and `forked_at` say which conversation it is a fork of, and after which order. `turn_count`
    counts what was inherited too.
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
    """A hit as it stands in the prompt under a number."""

    n: int
    hit: Hit


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is sent to a model, and exactly what it shows.

    `text` is the rendered template; `sources` are the numbered sources that fitted, `turns` the earlier
    turns that fitted (oldest first), `dropped_*` how many did not.
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
class Prepared:
    """A question made ready for a model: steps 1 to 3 of the path.

    `conversation` is None before its first turn, `confidence` where it is not judged. `quotes` is the answer
    that needs no model, in pieces, where it was written along with the rest.
    """

    question: str
    standalone_question: str
    conversation: Conversation | None
    hits: tuple[Hit, ...]
    prompt: Prompt
    seconds: Mapping[str, float] = field(default_factory=dict)
    confidence: Confidence | None = None
    quotes: tuple[str, ...] | None = None


@dataclass(slots=True)
class Answer:
    """An answer and what it rests on.

    `citations` are the sources the text refers to, `sources` all that were shown; `invented` counts
    references to sources that were never shown (they are removed from the text). `found` is False when
    the repository holds nothing on the question. `warning` says that it probably does not, "" for none, and
    stands before the text; `missing_words` are the words of the question that were missing. `cached` is the
    turn that it was first given in, "" for an answer that was written now. `cut` is True when the model had
    to stop at its limit of tokens. `coverage` says for each repository what the answer rests on. Unpacks as
    DeepWiki's `(answer, documents)`.
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
    documents: list[Any] = field(default_factory=list)

    @property
    def answer(self) -> str:
        """The text, under DeepWiki's name."""
        return self.text

    def __iter__(self) -> Iterator[Any]:
        return iter((self, self.documents))

    def __getitem__(self, index: int) -> Any:
        return (self, self.documents)[index]

    def __len__(self) -> int:
        return 2

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """The answer as a notebook shows it: the text, then its sources."""
        return framed(self.question, self.text, _source_rows(self.citations), " · ".join(self.notes))


RAGAnswer = Answer
"""DeepWiki's name: its callers read `.answer` and `.rationale`."""


def with_turn(answer: Answer, turn: DialogTurn) -> Answer:
    """The same answer, knowing the turn it was stored as."""
    return replace(answer, turn_id=turn.id, turn_order=turn.order, conversation_id=turn.conversation_id or "")


class Backup(NamedTuple):
    """What a backup of a memory holds, of all namespaces."""

    made: datetime
    conversations: int
    turns: int
    messages: int
    records: int
