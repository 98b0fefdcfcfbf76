"""Conversations and what they contain."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from rag.frames import frame
from rag.types.citations import Citation, Freshness, worst
from rag.types.code import Subject
from rag.types.generation import Usage
from rag.types.source import Source
from rag.types.support import SupportCheck

TurnState = Literal["asked", "answered", "partial", "failed"]
TurnScope = Literal["user", "project", "team"]
SESSION = "session"
"""The key in the metadata of a turn that was imported from a coding agent: a JSON object with the name of the
agent, the id of its session, and the numbers of the citations that it edited ("agent", "id", "edited")."""


def now_utc() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


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
    """A step towards an answer: "reword", "standalone", "phrasing", "search", "prompt", "answer"; "look" and
    the name of a tool for a step of a second look, and "look" alone for its end.

    `query` is what was sought or passed to the step, `result` what came of it in one line, `error` why it
    failed ("" if it did not).
    """

    name: str
    query: str = ""
    result: str = ""
    error: str = ""
    seconds: float = 0.0

    @property
    def is_phrasing(self) -> bool:
        """Whether it is a text of a model's that was searched besides the question."""
        return self.name == "phrasing"

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
    def edited(self) -> frozenset[int]:
        """The numbers of the citations of lines that a coding agent wrote in this turn of its session."""
        session = (self.metadata or {}).get(SESSION)
        found = session.get("edited") if isinstance(session, dict) else None
        return frozenset(n for n in found if isinstance(n, int)) if isinstance(found, list) else frozenset()

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
        citations = tuple(now)
        return self if citations == self.citations else replace(self, citations=citations)


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


class Backup(NamedTuple):
    """The contents of a backup of a memory, over all namespaces."""

    made: datetime
    conversations: int
    turns: int
    messages: int
    records: int
