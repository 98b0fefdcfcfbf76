"""Request models of the native routes. Unknown fields are errors."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictInt,
)

from rag.schema import order_of
from rag.serve.service import MAX_NAMED_REPOSITORIES
from rag.settings import MAX_CODE_WORDS, MAX_STEPS, FactScope
from rag.types import MAX_HITS, MAX_QUESTION_CHARS, Kind, SearchFilter, SearchMode

_MAX_CHARS = 10_000
_MAX_FILTERS = 20


def _whole(value: object) -> object:
    """Convert a float such as 3.0 to an int: JSON has only one type of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _checked_preference(value: JsonValue) -> JsonValue:
    """Refuse long values, and NaN and infinity, which Python's parser accepts but JSON does not have."""
    if len(json.dumps(value, allow_nan=False)) > _MAX_CHARS:
        raise ValueError(f"a preference may have at most {_MAX_CHARS:,} characters")
    return value


WHOLE = BeforeValidator(_whole)
Name = Annotated[str, Field(min_length=1, max_length=300, examples=["sample"])]
Names = Annotated[
    list[Name],
    Field(
        max_length=MAX_NAMED_REPOSITORIES,
        description="Names, or groups (`@all`): of a group, those that the question is about.",
        examples=[["sample"]],
    ),
]
# An empty one is refused by what searches for it, in the same words through every interface. A length is
# named nevertheless: pydantic refuses lone surrogates only in strings of which it checks something.
Question = Annotated[
    str,
    Field(min_length=0, json_schema_extra={"minLength": 1}, examples=["Where is a short code made?"]),
]
PastQuestion = Annotated[str, Field(min_length=1, examples=["Where is a short code made?"])]
ConversationName = Annotated[str, Field(min_length=1, max_length=200, examples=["login"])]
SubjectName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=500,
        description='What "it" means in the question: a definition or a file.',
        examples=["Storage.user_by_token"],
    ),
]
Corrected = Annotated[str, Field(max_length=1_000_000, examples=["It expires after 14 days."])]
FactText = Annotated[
    str, Field(min_length=1, max_length=2000, pattern=r"\S", examples=["Codes have seven characters"])
]
_Filter = Annotated[str, Field(min_length=1, max_length=300)]
_Number = Annotated[int, Field(ge=0, le=2**53, examples=[1]), WHOLE]

Steps = Annotated[
    Annotated[StrictInt, Field(ge=0, le=MAX_STEPS), WHOLE] | Literal["auto"] | None,
    Field(
        description="How many times the model may look again before it answers; `auto` leaves it to a model "
        "that can call tools; null follows the server."
    ),
]


class Strict(BaseModel):
    """A request without unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True)


class IndexRequest(Strict):
    """How to index a repository."""

    rebuild: bool = False


class Filtered(Strict):
    """The files to search: globs, languages (names or file extensions) and kinds; empty for all."""

    paths: Annotated[list[_Filter], Field(max_length=_MAX_FILTERS, examples=[["src/"]])] = Field(
        default_factory=list
    )
    languages: Annotated[list[_Filter], Field(max_length=_MAX_FILTERS, examples=[["python"]])] = Field(
        default_factory=list
    )
    kinds: Annotated[list[Kind], Field(max_length=_MAX_FILTERS, examples=[["code"]])] = Field(
        default_factory=list
    )

    @property
    def only(self) -> SearchFilter:
        """Return the filter of the search."""
        return SearchFilter(tuple(self.paths), tuple(self.languages), tuple(self.kinds))


CodeWords = Annotated[
    list[Annotated[str, Field(max_length=MAX_QUESTION_CHARS)]],
    Field(
        max_length=MAX_CODE_WORDS,
        description="What is asked as the code would say it, with likely identifiers: 2 to 4 texts.",
        examples=[["RateLimiter allow bucket", "429 TooManyRequests"]],
    ),
]
"""Texts that are searched besides a question in everyday words."""


class SearchRequest(Filtered):
    """A search for a question, for a string (`exact`) or for an expression in RE2's syntax (`regex`).

    `k` is the number of hits, by default 10, or of lines on a `page`, by default 1,000.
    """

    question: Question
    mode: SearchMode = "question"
    ignore_case: bool = False
    repositories: Names = Field(default_factory=list)
    conversation: ConversationName | None = None
    about: SubjectName | None = None
    in_code_words: CodeWords = Field(default_factory=list)
    k: Annotated[
        Annotated[int, Field(json_schema_extra={"minimum": 1, "maximum": MAX_HITS}), WHOLE] | None,
        Field(description="Default: 10; of lines 1,000."),
    ] = None
    page: Annotated[int, Field(json_schema_extra={"minimum": 1}), WHOLE] = 1


class AskRequest(Filtered):
    """A question. Without repositories, those of the conversation are used."""

    question: Question
    repositories: Names = Field(default_factory=list)
    conversation: ConversationName | None = None
    about: SubjectName | None = None
    steps: Steps = None
    model: Annotated[
        Annotated[str, Field(min_length=1, max_length=300)] | None,
        Field(description="One of `/api/models`; null is the first."),
    ] = None
    stream: bool = False


# ---------------------------------------------------------------- conversations and turns


class CorrectAnswer(Strict):
    """The corrected answer."""

    answer: Corrected


class CorrectQuestion(Strict):
    """The corrected question, and optionally its corrected answer."""

    question: PastQuestion
    answer: Corrected | None = None


class Rename(Strict):
    """The new name, "" for none."""

    name: Annotated[str, Field(max_length=200, examples=["login"])]


class Fork(Strict):
    """Where to fork: after the turn of this number, 0 for before the first. Default: after the last."""

    number: _Number | None = None
    name: Annotated[str, Field(max_length=200)] = ""

    @property
    def order(self) -> int | None:
        """The order of the last turn in the fork."""
        return order_of(self.number)


# ---------------------------------------------------------------- facts and preferences


class Confirmed(Strict):
    """Where to store a confirmed fact (default: where the key writes), and the facts that it replaces."""

    scope: FactScope | None = None
    supersedes: Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(max_length=20)] = (
        Field(default_factory=list)
    )


class FactAbout(Confirmed):
    """A fact about a repository, without citations."""

    text: FactText
    repository: Name


class FactOfTurn(Confirmed):
    """A fact that a turn states."""

    text: FactText
    turn: Annotated[str, Field(min_length=1, max_length=200)]


class Preferred(Strict):
    """A value: text or any JSON."""

    value: Annotated[JsonValue, AfterValidator(_checked_preference), Field(examples=["zh-CN"])]
