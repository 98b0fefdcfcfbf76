"""The JSON form of every value: what interfaces send, exports hold and every store keeps."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.errors import StoreTooNew
from rag.memory.facts import Fact
from rag.schema import (
    RECORD_VERSION,
    conversation_from_record,
    conversation_record,
    from_json,
    message_record,
    to_json,
    turn_from_record,
    turn_record,
    with_new_names,
)
from rag.types import (
    Answer,
    AssistantResponse,
    Citation,
    Confidence,
    Conversation,
    Coverage,
    DialogTurn,
    Filters,
    Freshness,
    Hit,
    Message,
    Source,
    Span,
    Subject,
    SupportCheck,
    Usage,
    UserQuery,
)
from tests.contracts.turn_store import LAMP, SHELF, full_turn
from tests.contracts.turn_values import (
    citations,
    counts,
    dialog_turns,
    messages,
    moments,
    scores,
    spans,
    texts,
)


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


def test_a_record_of_version_1_gets_a_state_and_its_subject() -> None:
    subject = {"path": "a.py", "symbol": "put", "scope": "", "start_line": 3, "end_line": 9, "name": "put"}
    turn = turn_from_record({"id": "1", "complete": False, "metadata": {"subject": subject, "cached": "2"}})
    assert (turn.state, turn.subject, turn.metadata) == (
        "partial",
        Subject("a.py", "put", "", 3, 9),
        {"cached": "2"},
    )
    for other in ({"path": "a.py"}, {**subject, "start_line": "3"}, "mine", None):
        turn = turn_from_record({"id": "1", "complete": True, "metadata": {"subject": other}})
        assert (turn.state, turn.subject, turn.metadata) == ("answered", None, {"subject": other})


def test_weakly_supported_statements_of_earlier_versions_are_supported() -> None:
    weak = {"kind": "weak", "text": "It is", "reason": "few words", "begin_char": 0, "end_char": 5}
    record = {"id": "1", "support": {"statements": 3, "supported": 1, "weak": 2, "flagged": [weak]}}
    assert turn_from_record(record).support == SupportCheck(statements=3, supported=3)


def test_a_record_of_a_later_version_is_refused() -> None:
    record = turn_record(full_turn())
    assert record["record"] == RECORD_VERSION
    with pytest.raises(StoreTooNew, match=f"format {RECORD_VERSION + 1}"):
        turn_from_record({**record, "record": RECORD_VERSION + 1})


def test_times_are_written_in_utc() -> None:
    naive = datetime(2026, 6, 1, 12, 0)
    record = turn_record(DialogTurn(user_query_timestamp=naive, assistant_response_timestamp=None))
    assert (record["answered"], record["asked"][-6:]) == (None, "+00:00")
    assert turn_from_record(record).user_query_timestamp == naive.astimezone(UTC)


def test_numbers_out_of_arrays_become_plain_ones() -> None:
    lines, scores = np.array([1, 3, 9]), np.array([0.5], dtype=np.float32)
    cited = Citation(lines[0], Span("r", "p", lines[1], lines[2]), score=scores[0])
    record = turn_record(replace(full_turn(), citations=(cited,)))
    assert turn_from_record(json.loads(json.dumps(record))).citations == (
        Citation(1, Span("r", "p", 3, 9), score=0.5),
    )


def test_what_is_said_is_text() -> None:
    for turn in (DialogTurn(user_query=UserQuery(5)), DialogTurn(assistant_response=AssistantResponse(None))):
        with pytest.raises(TypeError, match="not text"):
            turn_record(turn)
    for message in (Message("x", id=5), Message("x", role=None)):
        with pytest.raises(TypeError, match="not text"):
            message_record(message)


optional_numbers = st.none() | st.integers(0, 2**40)
words = st.lists(texts, max_size=3).map(tuple)
hits = st.builds(
    Hit,
    span=spans,
    text=texts,
    score=scores,
    unit=st.sampled_from(["function", "block"]),
    language=texts,
    dirty=st.booleans(),
    location=texts,
    legs=st.dictionaries(texts, scores, max_size=2),
    blank_end=texts,
)
usages = st.builds(Usage, counts, counts, st.booleans(), st.none() | scores)
coverages = st.builds(
    Coverage,
    repository=texts,
    commit=st.none() | texts,
    skipped=st.dictionaries(texts, counts, max_size=2),
    not_indexed=words,
    not_indexed_count=counts,
    checked_ago_s=st.none() | scores,
)
confidences = st.builds(Confidence, scores, st.booleans(), words, words, words, st.booleans())
states = st.sampled_from(["fresh", "moved", "unknown", "changed", "gone"])
checks = st.builds(Freshness, states, texts, texts, counts, counts)
sources = st.builds(Source, texts, st.none() | texts, st.builds(Filters, words, words))
conversations = st.builds(
    Conversation,
    id=texts,
    sources=st.lists(sources, max_size=2).map(tuple),
    created=moments,
    updated=moments,
    turn_count=counts,
    ttl_s=st.none() | scores,
    keep_last=optional_numbers,
    parent=st.none() | texts,
    forked_at=st.none() | st.integers(-1, 2**40),
)
answers = st.builds(
    Answer,
    text=texts,
    question=texts,
    sources=st.lists(citations, max_size=2).map(tuple),
    usage=usages,
    notes=words,
    turn_order=optional_numbers,
    seconds=st.dictionaries(texts, scores, max_size=2),
    confidence=st.none() | confidences,
    cached=texts,
    coverage=st.lists(coverages, max_size=2).map(tuple),
)
facts = st.builds(
    Fact, text=texts, location=texts, turn=texts, citations=st.lists(citations, max_size=2).map(tuple)
)
checked_turns = st.builds(
    lambda turn, check: replace(turn, checks=(check,) * len(turn.citations)), dialog_turns, checks
)
placed_messages = st.builds(lambda message, order: replace(message, order=order), messages, optional_numbers)
values = st.one_of(
    *(spans, hits, citations, usages, coverages, confidences, checks, sources, conversations, answers),
    *(facts, dialog_turns, checked_turns, placed_messages),
)


@settings(max_examples=500, deadline=None)
@given(values)
def test_every_value_is_read_as_it_was_written(value: Any) -> None:
    written = json.loads(json.dumps(to_json(value)))
    read = from_json(type(value), written)
    assert read == value
    if isinstance(value, DialogTurn):
        assert read.checks == value.checks
        assert turn_from_record(written) == value == turn_from_record(turn_record(value))


OLD_CITATION = {
    **{"n": 2, "repo": "shelf", "path": "a.py", "start": 3, "end": 9, "commit": "c0", "blob": "b0"},
    **{"span_hash": "", "dirty": False, "score": 0.5, "used": True, "location": "/shelf"},
}


@pytest.mark.parametrize(
    ("qualified", "symbol", "scope"),
    [
        ("put", "put", ""),
        ("Outer.Inner.put", "put", "Outer.Inner"),
        ("Changelog.0.1.0 – unreleased", "Changelog.0.1.0 – unreleased", ""),
        ("Changelog.0.1.0", "Changelog.0.1.0", ""),
        (".PHONY", ".PHONY", ""),
        ("build/app.o", "build/app.o", ""),
        ("", "", ""),
    ],
)
def test_what_an_earlier_version_stored_is_read(qualified: str, symbol: str, scope: str) -> None:
    record = {
        **{"id": "t", "order": 4, "question": "q", "citations": [{**OLD_CITATION, "symbol": qualified}]},
        **{"prompt_tokens": 7, "answer_tokens": 2, "estimated": False, "cost_usd": None},
    }
    turn = turn_from_record(record)
    span = Span("shelf", "a.py", 3, 9, "b0", "c0", symbol, scope)
    assert turn.citations == (Citation(2, span, score=0.5, location="/shelf"),)
    assert (turn.order, turn.usage) == (4, Usage(7, 2, estimated=False))


def test_a_symbol_with_a_dot_stays_whole() -> None:
    citation = Citation(1, Span("r", "CHANGELOG.md", 1, 2, symbol="0.1.0 – unreleased", scope="Changelog"))
    assert from_json(Citation, to_json(citation)) == citation
    assert citation.qualified_name == "Changelog.0.1.0 – unreleased"


def test_names_of_version_1_are_read() -> None:
    assert with_new_names({"start": 3, "end_line": 9}) == {"start": 3, "start_line": 3, "end_line": 9}
