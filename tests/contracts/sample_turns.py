"""Turns and messages for tests, simple ones and ones with values that are easily lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from rag.ports import TurnStore
from rag.types import (
    AssistantResponse,
    Citation,
    DialogTurn,
    FlaggedStatement,
    Message,
    Span,
    Subject,
    SupportCheck,
    TraceStep,
    Usage,
    UserQuery,
)


def new_turn(question: str, answer: str = "yes", **more: Any) -> DialogTurn:
    """Return a turn that is not stored yet."""
    return DialogTurn(user_query=UserQuery(question), assistant_response=AssistantResponse(answer), **more)


def full_turn() -> DialogTurn:
    """Return a turn that uses every field, with values that are easily lost."""
    cited = Citation(
        2,
        Span("shelf", "src/naïve\udcff.py", 3, 9, "b" * 40, "c" * 40, symbol="put", scope="Shelf 0.1"),
        span_hash="a" * 64,
        dirty=True,
        score=0.1,
        used=False,
        location="/repositories/shelf",
    )
    paris = timezone(timedelta(hours=2))
    return DialogTurn(
        user_query=UserQuery(
            "北京 <|endoftext|> '; DROP TABLE turn\0\n", {"tags": ["a", {"b": None}], "n": 1.5}
        ),
        assistant_response=AssistantResponse("", {"steps": []}),
        parent_id="an earlier turn",
        standalone_question="where is 北京? 😀",
        citations=(cited, replace(cited, n=1, span=replace(cited.span, commit=None), dirty=False, used=True)),
        model="smollm2",
        prompt_hash="d" * 64,
        usage=Usage(prompt_tokens=12, answer_tokens=3, estimated=False, cost_usd=0.00123),
        state="partial",
        error="the model broke off 😀",
        subject=Subject("src/naïve\udcff.py", "put", "Shelf 0.1", 3, 9),
        trace=(
            TraceStep("search", "where is 北京? 😀", "12 places", seconds=0.25),
            TraceStep("answer", error="\0"),
        ),
        support=SupportCheck(
            statements=3,
            supported=1,
            unsupported=1,
            uncited=1,
            unknown_names=("a\0b", "😀"),
            flagged=(FlaggedStatement("unsupported", "北京 \0", "“\udcff” 😀", 3, 9, (2, 1)),),
            complete=False,
        ),
        scope="team",
        user_query_timestamp=datetime(2026, 3, 1, 0, 30, 0, 123456, tzinfo=paris),
        assistant_response_timestamp=None,
        user_id="ada",
        metadata={"": "", "Ключ": True},
        marks=("", "HINT", "a\0b", "\udcff"),
    )


def full_message() -> Message:
    """Return a message that uses every field, with values that are easily lost."""
    return Message(
        content=[{"type": "text", "text": "北京 '; DROP TABLE item\0 \udcff 😀"}, {"n": [1.5, None, {}]}],
        role="assistant",
        name="小明",
        mime="application/json",
        turn_id="a turn",
        marks=("HINT", "北京"),
        metadata={"": "", "Ключ": [True]},
        created=datetime(2026, 3, 1, 0, 30, 0, 123456, tzinfo=UTC),
    )


def add_turns(store: TurnStore, conversation: str, *asked: str, namespace: str = "") -> list[DialogTurn]:
    """Store a turn for each question; return them as stored."""
    turns = [new_turn(question) for question in asked]
    return store.extend(turns, conversation=conversation, namespace=namespace)


def questions(store: TurnStore, conversation: str, **filters: Any) -> str:
    """Return the questions of a conversation, joined by spaces, oldest first."""
    return " ".join(turn.question for turn in store.turns(conversation, **filters))


def contents(store: TurnStore, conversation: str, **filters: Any) -> list[Any]:
    """Return the contents of a conversation's messages, oldest first."""
    return [message.content for message in store.messages(conversation, **filters)]
