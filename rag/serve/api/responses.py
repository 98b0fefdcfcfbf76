"""What the native routes give: models that are derived from the JSON forms of the values (`rag.schema`).

To a type checker they are JSON objects, which is what the routes return; at run time they are the models by
which FastAPI describes what is sent, and checks it: a field that a model does not know is an error.

Text from a repository may hold bytes that are no text, as names of files do: `?` is sent in their place.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field

from rag import types
from rag.answer_cache.cache import CacheStats
from rag.memory.facts import Fact as FactValue
from rag.schema import Json
from rag.serve.api.json_models import JsonModels, Sent
from rag.serve.api.rendering import shown
from rag.serve.registry import ServedRepository
from rag.serve.service import Service
from rag.wiki.forges import web_address

if TYPE_CHECKING:
    Coverage: TypeAlias = Json
    Freshness: TypeAlias = Json
    Hit: TypeAlias = Json
    Citation: TypeAlias = Json
    CheckedCitation: TypeAlias = Json
    Answer: TypeAlias = Json
    Turn: TypeAlias = Json
    Message: TypeAlias = Json
    Conversation: TypeAlias = Json
    ConversationDetail: TypeAlias = Json
    Fact: TypeAlias = Json
    Cache: TypeAlias = Json
else:
    _models = JsonModels("api")
    _models.of(types.Usage)
    _models.of(types.Confidence)
    Coverage = _models.of(types.Coverage)
    Freshness = _models.of(types.Freshness)
    CheckedCitation = _models.of(types.Citation, "CheckedCitation", url=str, freshness=Freshness)
    Citation = _models.of(types.Citation, url=str)
    Hit = _models.of(types.Hit, url=str)
    _models.of(
        types.Hit,
        "RankedHit",
        "A hit without its text: `legs` is what each signal of retrieval gave it.",
        without=("text", "blank_end"),
    )
    Answer = _models.of(types.Answer)
    Turn = _models.of(types.DialogTurn, "Turn")
    Message = _models.of(types.Message)
    _models.of(types.Source, name=str | None)
    Conversation = _models.of(types.Conversation, title=str)
    ConversationDetail = _models.made(
        "ConversationDetail",
        "A conversation with its turns, oldest first.",
        {"all_turns": list[Turn]},
        base=Conversation,
    )
    Fact = _models.of(FactValue, repository=str | None)
    Cache = _models.of(CacheStats, "Cache", hit_rate=float)


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


class IndexJob(Sent):
    """How far the indexing of a repository is. A `total` of 0 is unknown."""

    running: bool
    stage: str
    done: int
    total: int
    error: str | None = None


class RepositoryState(Sent):
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
    skipped: dict[str, int] = Field(default_factory=dict)
    indexed: datetime | None = None


class SourceLines(Sent):
    """Lines of a file as they are in the index; `lines` is how many the file has."""

    path: str
    start_line: int
    end_line: int
    lines: int
    language: str
    text: str
    commit: str | None
    dirty: bool
    start: Annotated[int, Field(deprecated=True)]
    end: Annotated[int, Field(deprecated=True)]


def repository_state(shelf: ServedRepository, service: Service) -> RepositoryState:
    """A shelf as it is now, its texts as callers may read them."""
    checkout = shelf.checkout
    report: dict[str, Any] = shelf.report or {}
    remote = checkout.remote if checkout else None
    return RepositoryState(
        name=shelf.name,
        location=shown(service.told(shelf.source.location)),
        ref=shelf.source.ref,
        state=shelf.state,
        job=IndexJob(
            running=shelf.running,
            stage=shelf.stage,
            done=shelf.done,
            total=shelf.total,
            error=shown(service.told(str(shelf.error))) if shelf.error else None,
        ),
        commit=checkout.commit if checkout else None,
        dirty=bool(checkout and checkout.dirty),
        remote=shown(service.told(remote)) if remote and web_address(remote) else None,  # may be a folder
        files=report.get("files"),
        chunks=report.get("chunks"),
        size_bytes=report.get("size_bytes"),
        skipped=report.get("skipped", {}),
        indexed=datetime.fromtimestamp(shelf.indexed).astimezone() if shelf.indexed else None,
    )


# ---------------------------------------------------------------- answers, turns, conversations


class SearchResult(Sent):
    """What was found, best first."""

    question: str
    standalone_question: str
    hits: list[Hit]
    coverage: list[Coverage]


class CheckedTurn(Sent):
    """What became of what an answer rests on: `freshness` is the worst of it."""

    turn: str
    number: int | None
    conversation: str | None
    question: str
    freshness: Freshness
    citations: list[CheckedCitation]
    order: Annotated[int | None, Field(deprecated=True)]


class TurnAbout(Sent):
    """A turn, and those of its citations that are about what was asked for."""

    turn: Turn
    citations: list[CheckedCitation]


class ReplayBody(Sent):
    """A turn and the answer that its question has now, which is stored nowhere.

    `lost` are the citations of the old answer that no citation of the new one overlaps, `gained` those of
    the new answer that overlap none of the old.
    """

    turn: Turn
    answer: Answer
    freshness: Freshness
    differs: bool
    lost: list[CheckedCitation]
    gained: list[Citation]


class RecalledBody(Sent):
    """Something that was said: a turn, or a message; `kind` is which of the two is there."""

    kind: Literal["turn", "message"]
    score: float
    turn: Turn | None = None
    message: Message | None = None


class ConsolidatedBody(Sent):
    """A conversation's summary, how many turns are new in it, and the facts that a model named."""

    summary: str
    turns: int
    facts: list[str]


class PromptBody(Sent):
    """What the model was shown for a turn; null where that was not kept."""

    turn: str
    prompt: str | None


class Deleted(Sent):
    """How many turns were removed."""

    turns: int


class Cleared(Sent):
    """How many cached answers were removed."""

    cleared: int


class Imported(Sent):
    """How many conversations are new; what is there already stays as it is."""

    conversations: int


# ---------------------------------------------------------------- evaluation


class EvalScores(Sent):
    """How well one question was answered. `lines` is null where no answer has lines."""

    question: str
    ndcg: float
    mrr: float
    recall: float
    lines: float | None
    seconds: float


class EvalResult(Sent):
    """Means over the questions, at 10 files; and each of them."""

    repository: str
    questions: int
    ndcg: float
    mrr: float
    recall: float
    lines: float | None
    each: list[EvalScores]
