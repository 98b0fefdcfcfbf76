"""What goes in and out of the native routes, typed, with examples.

Text from a repository may hold bytes that are no text, as names of files do: `?` goes out in their place.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from rag.evaluation.metrics import Span
from rag.records import conversation_record, turn_record
from rag.serve.library import Shelf
from rag.serve.service import MOST_REPOSITORIES
from rag.types import Answer, Citation, Conversation, DialogTurn, FreshnessState, Hit

MOST_RESULTS = 100
MOST_QUESTIONS = 500
_MOST_FILES = 100


def _whole(value: object) -> object:
    """JSON knows one kind of number: 3.0 is as whole as 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_WHOLE = BeforeValidator(_whole)
Name = Annotated[str, Field(min_length=1, max_length=300, examples=["sample"])]
Names = Annotated[list[Name], Field(max_length=MOST_REPOSITORIES, examples=[["sample"]])]
Question = Annotated[str, Field(min_length=1, examples=["Where is a short code made?"])]
ConversationName = Annotated[str, Field(min_length=1, max_length=200, examples=["login"])]
Mark = Annotated[str, Field(min_length=1, max_length=100, examples=["useful"])]


class Strict(BaseModel):
    """A request: a field that is not known is a mistake."""

    model_config = ConfigDict(extra="forbid", strict=True)


# ---------------------------------------------------------------- errors


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    code: str | None = None
    param: str | None = None


class Error(BaseModel):
    """The body of every error."""

    error: ErrorDetail


# ---------------------------------------------------------------- repositories


class IndexJob(BaseModel):
    """How far the indexing of a repository is. A `total` of 0 is unknown."""

    running: bool
    stage: str
    done: int
    total: int
    error: str | None = None


class RepositoryState(BaseModel):
    """A repository that is served."""

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
    skipped: dict[str, int] = {}
    indexed: datetime | None = None


class IndexRequest(Strict):
    """How to index."""

    rebuild: bool = False


class SourceLines(BaseModel):
    """Lines of a file as they are in the index."""

    path: str
    start: int
    end: int
    lines: int
    """How many the file has."""
    language: str
    text: str
    commit: str | None
    dirty: bool


# ---------------------------------------------------------------- search


class SearchRequest(Strict):
    """What to look for."""

    question: Question
    repositories: Names = []
    conversation: ConversationName | None = None
    k: Annotated[int, Field(ge=1, le=MOST_RESULTS), _WHOLE] = 10


class Found(BaseModel):
    """A stretch of a file that was found."""

    repository: str
    path: str
    start: int
    end: int
    text: str
    score: float
    symbol: str
    scope: str
    kind: str
    language: str
    commit: str | None
    dirty: bool
    legs: dict[str, float]
    url: str


class SearchResult(BaseModel):
    """What was found, best first."""

    question: str
    standalone_question: str
    hits: list[Found]


# ---------------------------------------------------------------- asking


class AskRequest(Strict):
    """A question. Without repositories, those of the conversation are asked."""

    question: Question
    repositories: Names = []
    conversation: ConversationName | None = None
    stream: bool = False


class Cited(BaseModel):
    """Lines that an answer rests on (`used`) or that it was shown."""

    n: int
    repository: str
    path: str
    start: int
    end: int
    symbol: str
    commit: str | None
    dirty: bool
    blob: str
    score: float
    used: bool
    url: str


class TokenUsage(BaseModel):
    """What an answer took."""

    prompt_tokens: int
    answer_tokens: int
    total_tokens: int
    estimated: bool
    cost_usd: float | None


class Ranked(BaseModel):
    """A stretch of a file as retrieval ranked it: `legs` is what each signal gave it."""

    repository: str
    path: str
    start: int
    end: int
    symbol: str
    score: float
    legs: dict[str, float]


class AnswerBody(BaseModel):
    """An answer, and the turn it is stored as. `found` is false when the repository holds nothing on it.

    `hits` is what retrieval found, best first; `confidence`, from 0 to 1, that an answer is among it, null
    where that is not judged.
    """

    question: str
    standalone_question: str
    answer: str
    found: bool
    citations: list[Cited]
    sources: list[Cited]
    hits: list[Ranked]
    confidence: float | None
    invented: int
    notes: list[str]
    model: str
    usage: TokenUsage
    conversation: str
    turn: str
    order: int | None
    seconds: dict[str, float]


# ---------------------------------------------------------------- conversations


class SourceBody(BaseModel):
    """A repository as a conversation remembers it; `name` is what it is called here, if it is served."""

    location: str
    ref: str | None
    name: str | None


class ConversationBody(BaseModel):
    """A conversation. `title` is its name; where it has none, the question that it began with."""

    id: str
    name: str
    title: str
    sources: list[SourceBody]
    created: datetime
    updated: datetime
    turns: int
    parent: str | None = None
    forked_at: int | None = None


class TurnBody(BaseModel):
    """One question and its answer."""

    id: str
    conversation: str
    order: int | None
    parent: str | None
    question: str | None
    standalone_question: str
    answer: str | None
    model: str
    complete: bool
    asked: datetime | None
    answered: datetime | None
    citations: list[Cited]
    usage: TokenUsage
    marks: list[str] = []
    version: int = 1


class ConversationDetail(ConversationBody):
    """A conversation with its turns, oldest first."""

    all_turns: list[TurnBody]


class SourceCheck(BaseModel):
    """What became of one citation. With a `moved` that has a reason the place is a guess; 0 is unknown."""

    n: int
    state: FreshnessState
    reason: str
    path: str
    start: int
    end: int


class TurnCheck(BaseModel):
    """What became of what an answer rests on: the worst of it, and each citation that was shown."""

    turn: str
    state: FreshnessState
    reason: str
    stale: bool
    checks: list[SourceCheck]


class Rename(Strict):
    """Another name, "" for none."""

    name: Annotated[str, Field(max_length=200, examples=["login"])]


class Fork(Strict):
    """Where to fork: after the turn of this order; its end when left out."""

    at: Annotated[int, Field(ge=-1, le=2**53), _WHOLE] | None = None
    name: Annotated[str, Field(max_length=200)] = ""


class Marking(Strict):
    """Marks to give and to take."""

    add: Annotated[list[Mark], Field(max_length=20)] = []
    remove: Annotated[list[Mark], Field(max_length=20)] = []


class Deleted(BaseModel):
    """How much went."""

    turns: int


# ---------------------------------------------------------------- evaluation


class Place(Strict):
    """A file, or lines of it, that answer a question."""

    path: Annotated[str, Field(min_length=1, max_length=1000, examples=["shortener/codes.py"])]
    start: Annotated[int, Field(ge=1, le=10_000_000), _WHOLE] | None = None
    end: Annotated[int, Field(ge=1, le=10_000_000), _WHOLE] | None = None

    def span(self) -> Span | None:
        """The lines, where they are named."""
        if self.start is None:
            return None
        return Span(self.path, self.start, max(self.start, self.end or self.start))


class Judged(Strict):
    """A question with what answers it."""

    question: Question
    answers: Annotated[list[Place], Field(min_length=1, max_length=_MOST_FILES)]
    history: Annotated[list[Question], Field(max_length=20)] = []


class EvalRequest(Strict):
    """Questions to measure retrieval on."""

    repository: Name
    questions: Annotated[list[Judged], Field(min_length=1, max_length=MOST_QUESTIONS)]
    k: Annotated[int, Field(ge=1, le=MOST_RESULTS), _WHOLE] = 50


class EvalScores(BaseModel):
    """How well one question was answered. `lines` is null where no answer has lines."""

    question: str
    ndcg: float
    mrr: float
    recall: float
    lines: float | None
    seconds: float


class EvalResult(BaseModel):
    """Means over the questions, at 10 files; and each of them."""

    repository: str
    questions: int
    ndcg: float
    mrr: float
    recall: float
    lines: float | None
    each: list[EvalScores]


# ---------------------------------------------------------------- making them


def shown(text: str) -> str:
    """Text as it can be sent: what is no text becomes `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def repository_state(shelf: Shelf) -> RepositoryState:
    """A shelf as it is now."""
    checkout = shelf.repository.checkout if shelf.repository else None
    report: dict[str, Any] = shelf.report or {}
    return RepositoryState(
        name=shelf.name,
        location=shown(shelf.source.location),
        ref=shelf.source.ref,
        state=shelf.state,
        job=IndexJob(
            running=shelf.running,
            stage=shelf.stage,
            done=shelf.done,
            total=shelf.total,
            error=shown(str(shelf.error)) if shelf.error else None,
        ),
        commit=checkout.commit if checkout else None,
        dirty=bool(checkout and checkout.dirty),
        remote=checkout.remote if checkout else None,
        files=report.get("files"),
        chunks=report.get("chunks"),
        size_bytes=report.get("size_bytes"),
        skipped=report.get("skipped", {}),
        indexed=datetime.fromtimestamp(shelf.indexed).astimezone() if shelf.indexed else None,
    )


def found(hit: Hit, url: str) -> Found:
    """A hit."""
    return Found(
        repository=hit.repo,
        path=shown(hit.path),
        start=hit.start,
        end=hit.end,
        text=shown(hit.text),
        score=hit.score,
        symbol=shown(hit.symbol),
        scope=shown(hit.scope),
        kind=hit.kind,
        language=hit.language,
        commit=hit.commit,
        dirty=hit.dirty,
        legs=dict(hit.legs),
        url=url,
    )


def cited(citation: Citation, url: str) -> Cited:
    """A citation."""
    return Cited(
        n=citation.n,
        repository=citation.repo,
        path=shown(citation.path),
        start=citation.start,
        end=citation.end,
        symbol=shown(citation.symbol),
        commit=citation.commit,
        dirty=citation.dirty,
        blob=citation.blob,
        score=citation.score,
        used=citation.used,
        url=url,
    )


def ranked(hit: Hit) -> Ranked:
    """A hit without its text."""
    return Ranked(
        repository=hit.repo,
        path=shown(hit.path),
        start=hit.start,
        end=hit.end,
        symbol=shown(".".join(part for part in (hit.scope, hit.symbol) if part)),
        score=hit.score,
        legs=dict(hit.legs),
    )


def answer_body(answer: Answer, urls: dict[Citation, str]) -> AnswerBody:
    """An answer; `urls` are those of its sources."""
    return AnswerBody(
        question=answer.question,
        standalone_question=answer.standalone_question,
        answer=shown(answer.text),
        found=answer.found,
        citations=[cited(c, urls[c]) for c in answer.citations],
        sources=[cited(c, urls[c]) for c in answer.sources],
        hits=[ranked(hit) for hit in answer.hits],
        confidence=answer.confidence.value if answer.confidence else None,
        invented=answer.invented,
        notes=list(answer.notes),
        model=answer.model,
        usage=usage_body(answer),
        conversation=answer.conversation_id,
        turn=answer.turn_id,
        order=answer.turn_order,
        seconds=dict(answer.seconds),
    )


def usage_body(told: Answer | DialogTurn) -> TokenUsage:
    """What was used."""
    usage = told.usage
    return TokenUsage(
        prompt_tokens=usage.prompt_tokens,
        answer_tokens=usage.answer_tokens,
        total_tokens=usage.total_tokens,
        estimated=usage.estimated,
        cost_usd=usage.cost_usd,
    )


def conversation_body(conversation: Conversation, title: str, names: dict[str, str]) -> dict[str, Any]:
    """A conversation's fields; `names` are those of the sources served here, by how sources print."""
    record = conversation_record(conversation)
    return {
        "id": record["id"],
        "name": shown(record["name"]),
        "title": shown(title),
        "sources": [
            SourceBody(location=shown(s.location), ref=s.ref, name=names.get(str(s)))
            for s in conversation.sources
        ],
        "created": record["created"],
        "updated": record["updated"],
        "turns": conversation.turn_count,
        "parent": conversation.parent,
        "forked_at": conversation.forked_at,
    }


def turn_body(turn: DialogTurn, urls: dict[Citation, str]) -> TurnBody:
    """A turn."""
    record = turn_record(turn)
    return TurnBody(
        id=turn.id,
        conversation=turn.conversation_id or "",
        order=turn.order,
        parent=turn.parent_id,
        question=None if record["question"] is None else shown(record["question"]),
        standalone_question=shown(turn.standalone_question),
        answer=None if record["answer"] is None else shown(record["answer"]),
        model=turn.model,
        complete=turn.complete,
        asked=turn.user_query_timestamp,
        answered=turn.assistant_response_timestamp,
        citations=[cited(c, urls[c]) for c in turn.citations],
        usage=usage_body(turn),
        marks=list(turn.marks),
        version=turn.version,
    )
