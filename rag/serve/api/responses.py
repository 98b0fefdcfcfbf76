"""Response models of the native routes, derived from the JSON forms of the values (`rag.schema`).

For a type checker they are JSON objects, which the routes return. At run time they are the models that
FastAPI uses for the specification and for validation: an unknown field is an error.

File names and other text from a repository may contain invalid UTF-8, which is sent as `?`.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import BaseModel, Field

from rag import types
from rag.forges import web_address
from rag.memory.facts import Fact as FactValue
from rag.review.values import REVIEW_PARTS
from rag.review.values import Review as ReviewValue
from rag.schema import Json
from rag.serve.api.json_models import JsonModels, ResponseModel
from rag.serve.api.rendering import encodable
from rag.serve.repositories.entry import ServedRepository
from rag.serve.service import Service
from rag.service.drawings import call_diagram
from rag.wiki import PageKind

if TYPE_CHECKING:
    Confidence: TypeAlias = Json
    Coverage: TypeAlias = Json
    Freshness: TypeAlias = Json
    Hit: TypeAlias = Json
    PatternMatches: TypeAlias = Json
    Citation: TypeAlias = Json
    CheckedCitation: TypeAlias = Json
    CodeFacts: TypeAlias = Json
    Answer: TypeAlias = Json
    Turn: TypeAlias = Json
    Conversation: TypeAlias = Json
    ConversationDetail: TypeAlias = Json
    Fact: TypeAlias = Json
    Review: TypeAlias = Json
    CallDiagram: TypeAlias = Json
    Subject: TypeAlias = Json
else:
    _models = JsonModels()
    _models.of(types.Usage)
    _models.of(types.MissingPart)
    Confidence = _models.of(types.Confidence)
    Subject = _models.of(types.Subject)
    Coverage = _models.of(types.Coverage)
    _models.of(types.CitedSymbol)
    _models.of(types.FlaggedStatement)
    _models.of(types.SupportCheck)
    Freshness = _models.of(types.Freshness)
    CheckedCitation = _models.of(
        types.Citation, "CheckedCitation", url=str, freshness=Freshness, diff=(str | None, None)
    )
    Citation = _models.of(types.Citation, url=str)
    Hit = _models.of(types.Hit, url=str)
    _models.of(types.LinesLeft)
    PatternMatches = _models.of(types.PatternMatches)
    _models.of(types.CodeFact, url=str)
    CodeFacts = _models.of(types.CodeFacts)
    _models.of(types.TraceStep)
    Answer = _models.of(types.Answer)
    Turn = _models.of(types.DialogTurn, "Turn")
    _models.of(types.Source, name=str | None)
    Conversation = _models.of(types.Conversation, title=str)
    ConversationDetail = _models.create(
        "ConversationDetail",
        "A conversation with its turns, oldest first.",
        {"all_turns": list[Turn]},
        base=Conversation,
    )
    Fact = _models.of(FactValue, repository=str | None)
    for _part in REVIEW_PARTS:
        _models.of(_part)
    Review = _models.of(ReviewValue, markdown=str)
    for _part in (call_diagram.CallNode, call_diagram.CallArrow):
        _models.of(_part)
    CallDiagram = _models.of(call_diagram.CallDiagram)


class ErrorDetail(BaseModel):
    """The details of an error."""

    message: str
    type: str
    code: str | None = None
    param: str | None = None
    request_id: str = ""


class Error(BaseModel):
    """The body of every error."""

    error: ErrorDetail


# ---------------------------------------------------------------- repositories


class ModelNames(ResponseModel):
    """The models that a question may choose."""

    models: list[str]


class IndexJob(ResponseModel):
    """The progress of indexing a repository. A `total` of 0 is unknown."""

    running: bool
    stage: str
    done: int
    total: int
    error: str | None = None


class RepositoryState(ResponseModel):
    """A served repository."""

    name: str
    location: str
    ref: str | None
    state: Literal["waiting", "indexing", "ready", "failed", "cancelled"]
    job: IndexJob
    commit: str | None = None
    dirty: bool = False
    remote: str | None = None
    files: int | None = None
    chunks: int | None = None
    size_bytes: int | None = None
    skipped: dict[str, int] = Field(default_factory=dict)
    indexed: datetime | None = None


class WikiEntry(ResponseModel):
    """A page of the wiki of a repository. `paths` are the files it is about, the most relevant first."""

    id: str
    title: str
    description: str
    kind: PageKind
    parent: str
    paths: list[str]


class Wiki(ResponseModel):
    """The pages of the wiki of a repository, in reading order; `parent` is the id of another page, or ""."""

    description: str
    commit: str | None
    pages: list[WikiEntry]


class WikiText(WikiEntry):
    """A page of the wiki with its text as Markdown."""

    text: str


class RepositoryOverview(ResponseModel):
    """What a repository is, as Markdown; `questions` are answered well here."""

    commit: str | None
    text: str
    questions: list[str]


class SourceLines(ResponseModel):
    """Lines of a file as indexed; `lines` is the number of lines in the file."""

    path: str
    start_line: int
    end_line: int
    lines: int
    language: str
    text: str
    commit: str | None
    dirty: bool


def repository_state(entry: ServedRepository, service: Service) -> RepositoryState:
    """Return the state of an entry, with its texts as callers may read them."""
    checkout = entry.checkout
    report: dict[str, Any] = entry.report or {}
    remote = checkout.remote if checkout else None
    return RepositoryState(
        name=entry.name,
        location=encodable(service.redacted(entry.source.location)),
        ref=entry.source.ref,
        state=entry.state,
        job=IndexJob(
            running=entry.running,
            stage=entry.stage,
            done=entry.done,
            total=entry.total,
            error=encodable(service.redacted(str(entry.error))) if entry.error else None,
        ),
        commit=checkout.commit if checkout else None,
        dirty=bool(checkout and checkout.dirty),
        # The remote may be a local folder.
        remote=encodable(service.redacted(remote)) if remote and web_address(remote) else None,
        files=report.get("files"),
        chunks=report.get("chunks"),
        size_bytes=report.get("size_bytes"),
        skipped=report.get("skipped", {}),
        indexed=datetime.fromtimestamp(entry.indexed).astimezone() if entry.indexed else None,
    )


# ---------------------------------------------------------------- answers, turns, conversations


class SearchResult(ResponseModel):
    """The hits, best first; with `exact` and `regex` lines, and the number of all matches."""

    question: str
    mode: str
    standalone_question: str
    subject: Subject | None
    confidence: Confidence | None
    hits: list[Hit]
    matches: PatternMatches | None
    remarks: list[str]
    code_facts: CodeFacts | None
    coverage: list[Coverage]


class CheckedTurn(ResponseModel):
    """The freshness of an answer's citations; `freshness` is the worst of them."""

    turn: str
    number: int | None
    conversation: str | None
    question: str
    freshness: Freshness
    citations: list[CheckedCitation]


class TurnAbout(ResponseModel):
    """A turn, and its citations of the requested lines.

    `wrote` says whether the line is as a coding agent wrote it in this turn of a session that was imported;
    null if no line was asked for.
    """

    turn: Turn
    citations: list[CheckedCitation]
    wrote: bool | None


class PromptBody(ResponseModel):
    """The prompt that the model received for a turn, or null if it was not stored."""

    turn: str
    prompt: str | None


class Deleted(ResponseModel):
    """The number of removed turns."""

    turns: int
