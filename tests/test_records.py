"""Turns as plain JSON: what export writes and every store keeps."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from rag.records import (
    conversation_from_record,
    conversation_record,
    message_record,
    turn_from_record,
    turn_record,
)
from rag.testing.turn_store import LAMP, SHELF, full_turn
from rag.types import AssistantResponse, Citation, Conversation, DialogTurn, Message, UserQuery


def test_turns_and_conversations_pass_through_json() -> None:
    turn = full_turn()
    assert turn_from_record(json.loads(json.dumps(turn_record(turn)))) == turn
    conversation = Conversation("id", "ada", "demo", (SHELF, LAMP), turn_count=3)
    record = json.loads(json.dumps(conversation_record(conversation)))
    assert conversation_from_record(record) == conversation


def test_a_record_of_another_version_still_loads() -> None:
    turn = turn_from_record({"id": "1", "question": "q", "answer": "a", "colour": "red"})
    assert (turn.question, turn.answer, turn.complete, turn.citations) == ("q", "a", True, ())
    with pytest.raises(KeyError):
        turn_from_record({"question": "q"})


def test_times_are_written_in_utc() -> None:
    naive = datetime(2026, 6, 1, 12, 0)
    record = turn_record(DialogTurn(user_query_timestamp=naive, assistant_response_timestamp=None))
    assert (record["answered"], record["asked"][-6:]) == (None, "+00:00")
    assert turn_from_record(record).user_query_timestamp == naive.astimezone(UTC)


def test_numbers_out_of_arrays_become_plain_ones() -> None:
    lines, scores = np.array([1, 3, 9]), np.array([0.5], dtype=np.float32)
    cited = Citation(*(lines[0], "r", "p", lines[1], lines[2]), score=scores[0])
    record = turn_record(replace(full_turn(), citations=(cited,)))
    assert turn_from_record(json.loads(json.dumps(record))).citations == (
        Citation(1, "r", "p", 3, 9, score=0.5),
    )


def test_what_is_said_is_text() -> None:
    for turn in (DialogTurn(user_query=UserQuery(5)), DialogTurn(assistant_response=AssistantResponse(None))):
        with pytest.raises(TypeError, match="no text"):
            turn_record(turn)
    for message in (Message("x", id=5), Message("x", role=None)):
        with pytest.raises(TypeError, match="no text"):
            message_record(message)
