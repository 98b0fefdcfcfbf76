"""What searches and questions take and give."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from rag.serve.api.models import (
    MOST_RESULTS,
    WHOLE,
    ConversationName,
    CoverageBody,
    Names,
    Question,
    Strict,
    coverage_body,
    shown,
)
from rag.types import Answer, Citation, DialogTurn, Hit


class SearchRequest(Strict):
    """What to look for."""

    question: Question
    repositories: Names = Field(default_factory=list)
    conversation: ConversationName | None = None
    k: Annotated[int, Field(ge=1, le=MOST_RESULTS), WHOLE] = 10


class HitBody(BaseModel):
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
    hits: list[HitBody]
    coverage: list[CoverageBody]


class AskRequest(Strict):
    """A question. Without repositories, those of the conversation are asked."""

    question: Question
    repositories: Names = Field(default_factory=list)
    conversation: ConversationName | None = None
    stream: bool = False


class CitationBody(BaseModel):
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

    `warning` says that the repository probably does not hold the answer, "" for none; it stands before the
    text. `missing_words` are the words of the question that were missing.

    `hits` is what retrieval found, best first; `confidence`, from 0 to 1, that an answer is among it, null
    where that is not judged.
    """

    question: str
    standalone_question: str
    answer: str
    found: bool
    warning: str
    missing_words: list[str]
    citations: list[CitationBody]
    sources: list[CitationBody]
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
    coverage: list[CoverageBody]


def found(hit: Hit, url: str) -> HitBody:
    """A hit."""
    return HitBody(
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


def cited(citation: Citation, url: str) -> CitationBody:
    """A citation."""
    return CitationBody(
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
        warning=answer.warning,
        missing_words=list(answer.missing_words),
        citations=[cited(c, urls[c]) for c in answer.citations],
        sources=[cited(c, urls[c]) for c in answer.sources],
        hits=[ranked(hit) for hit in answer.hits],
        confidence=answer.confidence.value if answer.confidence else None,
        invented=answer.invented,
        notes=[shown(note) for note in answer.notes],
        model=answer.model,
        usage=usage_body(answer),
        conversation=answer.conversation_id,
        turn=answer.turn_id,
        order=answer.turn_order,
        seconds=dict(answer.seconds),
        coverage=[coverage_body(one) for one in answer.coverage],
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
