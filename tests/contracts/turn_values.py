"""Hypothesis strategies for turns, messages and sources."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, get_args

from hypothesis import strategies as st

from rag.types import (
    AssistantResponse,
    Citation,
    DialogTurn,
    Filters,
    FlaggedStatement,
    Message,
    Source,
    Span,
    Subject,
    SupportCheck,
    SupportKind,
    TraceStep,
    TurnScope,
    TurnState,
    Usage,
    UserQuery,
)


def _can_be_path(text: str) -> bool:
    return "\0" not in text and not re.search("[\ud800-\udc7f\udd00-\udfff]", text)


texts = st.text(max_size=20) | st.sampled_from(
    ["\udcff.py", "a\0b", "<|endoftext|>", "naïve 北京 😀", "token", "token getUserName"]
)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
metadata = st.none() | st.dictionaries(texts, json_values, max_size=3)
counts = st.integers(0, 2**40)
# No times that a change of the clocks skips or repeats, as Python compares those unequal to themselves in
# UTC.
moments = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.timezones()).filter(
    lambda moment: moment == moment.astimezone(UTC)
)
scores = st.floats(allow_nan=False, allow_infinity=False)
marks = st.sampled_from(["x", "y", "北", ""])
mark_sets = st.lists(marks, max_size=3, unique=True).map(lambda given: tuple(sorted(given)))
paths = st.sampled_from(["a.py", "b.py", "\udcff"])
spans = st.builds(
    Span,
    **dict.fromkeys(("repo", "symbol", "scope"), texts),
    **dict.fromkeys(("path", "blob"), paths),
    **dict.fromkeys(("start", "end"), counts),
    commit=st.none() | texts,
)
citations = st.builds(
    Citation,
    n=counts,
    span=spans,
    span_hash=texts,
    location=paths,
    dirty=st.booleans(),
    score=scores,
    used=st.booleans(),
)
subjects = st.builds(Subject, texts, texts, texts, counts, counts)
flags = st.builds(
    FlaggedStatement,
    st.sampled_from(get_args(SupportKind)),
    texts,
    texts,
    counts,
    counts,
    st.lists(counts, max_size=2).map(tuple),
)
supports = st.builds(
    SupportCheck,
    *[counts] * 4,
    unknown_names=st.lists(texts, max_size=2).map(tuple),
    flagged=st.lists(flags, max_size=2).map(tuple),
    complete=st.booleans(),
)
dialog_turns = st.builds(
    DialogTurn,
    id=st.uuids(version=4).map(str),
    user_query=st.none() | st.builds(UserQuery, texts, metadata),
    assistant_response=st.none() | st.builds(AssistantResponse, texts, metadata),
    parent_id=st.none() | texts,
    standalone_question=texts,
    citations=st.lists(citations, max_size=3).map(tuple),
    model=texts,
    prompt_hash=texts,
    usage=st.builds(Usage, counts, counts, st.booleans(), st.none() | scores),
    state=st.sampled_from(get_args(TurnState)),
    error=texts,
    subject=st.none() | subjects,
    trace=st.lists(st.builds(TraceStep, texts, texts, texts, texts, scores), max_size=2).map(tuple),
    support=st.none() | supports,
    scope=st.sampled_from(get_args(TurnScope)),
    user_query_timestamp=st.none() | moments,
    assistant_response_timestamp=st.none() | moments,
    user_id=st.none() | texts,
    metadata=metadata,
    marks=mark_sets,
)
messages = st.builds(
    Message,
    id=st.uuids(version=4).map(str),
    content=texts | st.binary(max_size=20) | json_values,
    role=texts,
    name=texts,
    mime=st.sampled_from(["text/plain", "application/json", "image/png"]),
    turn_id=st.none() | texts,
    marks=mark_sets,
    metadata=metadata,
    created=moments.map(lambda moment: moment.astimezone(UTC)),
)
globs = st.lists(texts, max_size=2).map(tuple)
locations = texts.filter(_can_be_path)
sources = st.lists(
    st.builds(Source, locations, st.none() | locations, st.builds(Filters, globs, globs)), max_size=2
)
namespaces = st.sampled_from(["", "ada"])
names = st.sampled_from(["", "", "demo", "other"])
