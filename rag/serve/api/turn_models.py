"""What conversations and turns are over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, JsonValue

from rag.records import conversation_record, message_record, turn_record
from rag.serve.api.answer_models import AnswerBody, CitationBody, TokenUsage, cited, usage_body
from rag.serve.api.models import WHOLE, Mark, Question, Strict, shown
from rag.types import Citation, Conversation, DialogTurn, Freshness, FreshnessState, Message


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
    citations: list[CitationBody]
    usage: TokenUsage
    marks: list[str] = Field(default_factory=list)
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


class CheckedCitation(BaseModel):
    """Lines that an answer rests on, and what became of them."""

    cited: CitationBody
    now: SourceCheck


class TurnAbout(BaseModel):
    """A turn, and those of its citations that are about what was asked for."""

    turn: TurnBody
    citations: list[CheckedCitation]


class ReplayRequest(Strict):
    """Of which state of the code: a branch, tag or commit; null is the state that is served."""

    ref: Annotated[str, Field(min_length=1, max_length=200, examples=["main"])] | None = None


class ReplayBody(BaseModel):
    """A turn beside the answer that its question has now, which is stored nowhere.

    `lost` are the citations of the old answer that no citation of the new one overlaps, `gained` those of
    the new answer that overlap none of the old.
    """

    turn: TurnBody
    state: FreshnessState
    answer: AnswerBody
    differs: bool
    lost: list[CheckedCitation]
    gained: list[CitationBody]


class MessageBody(BaseModel):
    """A message that another program stored. Bytes are base64, and `encoding` says so."""

    id: str
    conversation: str
    order: int | None
    turn: str | None
    role: str
    name: str
    mime: str
    encoding: Literal["json", "base64"]
    content: JsonValue
    metadata: JsonValue
    created: datetime
    marks: list[str]


class SaidBody(BaseModel):
    """Something that was said: a turn, or a message; `kind` tells which of the two is there."""

    kind: Literal["turn", "message"]
    score: float
    turn: TurnBody | None = None
    message: MessageBody | None = None


Corrected = Annotated[str, Field(max_length=1_000_000, examples=["It expires after 14 days."])]


class CorrectAnswer(Strict):
    """The answer as it should be."""

    answer: Corrected


class CorrectQuestion(Strict):
    """The question as it should be; its answer, too, where that is given."""

    question: Question
    answer: Corrected | None = None


class Rewind(Strict):
    """The order of the last turn to keep; -1 keeps none.

    `last_turn` is the id of the last turn that the caller knows of, "" for none. If the conversation has
    another one by now, nothing is removed (409).
    """

    to: Annotated[int, Field(ge=-1, le=2**53, examples=[0]), WHOLE]
    last_turn: Annotated[str, Field(max_length=200)] | None = None


class Consolidate(Strict):
    """How many of the newest turns are left for later."""

    keep_recent: Annotated[int, Field(ge=0, le=2**53, examples=[10]), WHOLE] = 0


class ConsolidatedBody(BaseModel):
    """A conversation's summary, how many turns are new in it, and the facts that a model named."""

    summary: str
    turns: int
    facts: list[str]


class PromptBody(BaseModel):
    """What the model was shown for a turn; null where that was not kept."""

    turn: str
    prompt: str | None


class Rename(Strict):
    """Another name, "" for none."""

    name: Annotated[str, Field(max_length=200, examples=["login"])]


class Fork(Strict):
    """Where to fork: after the turn of this order; its end when left out."""

    at: Annotated[int, Field(ge=-1, le=2**53), WHOLE] | None = None
    name: Annotated[str, Field(max_length=200)] = ""


class Marking(Strict):
    """Marks to give and to take."""

    add: Annotated[list[Mark], Field(max_length=20)] = Field(default_factory=list)
    remove: Annotated[list[Mark], Field(max_length=20)] = Field(default_factory=list)


class Deleted(BaseModel):
    """How much went."""

    turns: int


def conversation_body(
    conversation: Conversation, title: str, names: dict[str, str], told: Callable[[str], str]
) -> dict[str, Any]:
    """A conversation's fields; `names` are those of the sources served here, by how sources print, and
    locations are as they are `told`."""
    record = conversation_record(conversation)
    return {
        "id": record["id"],
        "name": shown(record["name"]),
        "title": shown(title),
        "sources": [
            SourceBody(location=shown(told(s.location)), ref=s.ref, name=names.get(str(s)))
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


def source_check(citation: Citation, check: Freshness, told: Callable[[str], str]) -> SourceCheck:
    """What became of a citation; the reason as it is `told`."""
    return SourceCheck(
        n=citation.n,
        state=check.state,
        reason=shown(told(check.reason)),
        path=shown(check.path),
        start=check.start,
        end=check.end,
    )


def message_body(message: Message) -> MessageBody:
    """A message."""
    record = _as_sent(message_record(message))
    names = ("id", "order", "turn", "role", "name", "mime", "encoding", "content", "metadata", "created")
    return MessageBody(
        **{name: record[name] for name in names},
        conversation=record["conversation"] or "",
        marks=record["marks"],
    )


def _as_sent(value: Any) -> Any:
    """JSON whose texts can all be sent."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, list):
        return [_as_sent(one) for one in value]
    if isinstance(value, dict):
        return {shown(key): _as_sent(one) for key, one in value.items()}
    return value
