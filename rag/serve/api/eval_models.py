"""What an evaluation takes and gives."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from rag.evaluation.metrics import LineSpan
from rag.serve.api.models import MOST_RESULTS, WHOLE, Name, Question, Strict
from rag.serve.errors import TooLarge
from rag.types import MAX_HISTORY

MOST_QUESTIONS = 500
MAX_SEARCHES = 1_000
"""Of one request: each question is searched, and each of its history."""
MAX_CHARS = 500_000
"""Of the questions of one request and their histories together."""
_MOST_FILES = 100


class ExpectedLines(Strict):
    """A file, or lines of it, that answer a question."""

    path: Annotated[str, Field(min_length=1, max_length=1000, examples=["shortener/codes.py"])]
    start: Annotated[int, Field(ge=1, le=10_000_000), WHOLE] | None = None
    end: Annotated[int, Field(ge=1, le=10_000_000), WHOLE] | None = None

    def span(self) -> LineSpan | None:
        """The lines, where they are named."""
        if self.start is None:
            return None
        return LineSpan(self.path, self.start, max(self.start, self.end or self.start))


class Judged(Strict):
    """A question with what answers it."""

    question: Question
    answers: Annotated[list[ExpectedLines], Field(min_length=1, max_length=_MOST_FILES)]
    history: Annotated[list[Question], Field(max_length=MAX_HISTORY)] = Field(default_factory=list)


class EvalRequest(Strict):
    """Questions to measure retrieval on."""

    repository: Name
    questions: Annotated[list[Judged], Field(min_length=1, max_length=MOST_QUESTIONS)]
    k: Annotated[int, Field(ge=1, le=MOST_RESULTS), WHOLE] = 50

    def check_size(self) -> None:
        """Bound the work of the request. Raises TooLarge."""
        searches = sum(1 + len(judged.history) for judged in self.questions)
        if searches > MAX_SEARCHES:
            raise TooLarge(
                f"{len(self.questions):,} questions with {searches - len(self.questions):,} in their "
                f"histories are {searches:,} searches, {MAX_SEARCHES:,} are taken in one request; send fewer",
                param="questions",
            )
        texts = (text for judged in self.questions for text in (judged.question, *judged.history))
        if (chars := sum(map(len, texts))) > MAX_CHARS:
            raise TooLarge(
                f"the questions and their histories have {chars:,} characters, "
                f"{MAX_CHARS:,} are taken in one request; send fewer",
                param="questions",
            )


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
