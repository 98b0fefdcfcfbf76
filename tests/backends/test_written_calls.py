"""A reply that is nothing but a call of a tool, or a refusal, is no answer: its error says what it is."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from rag.backends.openai.written_calls import WrittenCalls, is_written_call
from rag.errors import ProviderBroke
from rag.types import GenerationOptions
from tests.backends.test_server_habits import (
    DONE,
    SAID,
    STOP,
    Script,
    chunk,
    prepared,
    said,
    serving,
    sse,
    whole,
    writer,
)

CALL = '{"name": "search", "arguments": {"query": "login"}}'
CALLS = [
    f"<tool_call>{CALL}</tool_call>",
    f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{CALL}\n</tool_call>\n",
    f"<tool_call>{CALL}",
    f"<|tool_call|>[{CALL}]<|/tool_call|>",
    f"<|python_tag|>{CALL}",
    '<function=search>{"query": "login"}</function>',
    "<tool_call>\n<function=search>\n<parameter=query>\nlogin\n</parameter>\n</function>\n</tool_call>",
    '<function_calls><invoke name="search"><parameter name="q">login</parameter></invoke></function_calls>',
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{}\n```<｜tool▁call▁end｜>",
    '<|START_ACTION|>[{"tool_name": "search", "parameters": {}}]<|END_ACTION|>',
    f"[TOOL_CALLS][{CALL}]",
    '[TOOL_CALLS]search[ARGS]{"query": "login"}',
    f"functools[{CALL}]",
    f"```json\n{CALL}\n```",
    '```json {"tool": "search", "query": "login"}```',
    '```tool_code\nsearch(query="login")\n```',
    CALL,
    f"{CALL}\n{CALL}",
    '{"tool_calls": [{"type": "function", "function": {"name": "search", "arguments": "{}"}}]}',
    '{"action": "search", "action_input": "login"}',
]
ANSWERS = [
    SAID,
    "",
    "[1] says where it is.",
    "<Login> is the component that asks [1].",
    "[TOOL_CALLS] is the token of Mistral's models [1]",
    "`<tool_call>` begins a call [1].",
    f"<tool_call>{CALL}</tool_call> is what the parser reads [1].",
    f"It sends\n\n```json\n{CALL}\n```",
    f"```json\n{CALL}\n```\n\nis what it sends [1].",
    '```json\n{"name": "rag", "version": "1.0"}\n```',
    '{"name": "rag", "parameters": {}, "description": "a definition"}',
    '```python\nprint({"tool": 1})\n```',
    '<action android:name="MAIN" />',
    "{}",
    "[]",
    '{"name": "not closed", "arguments": ',
    f"It sends\n\n```xml\n<tool_call>{CALL}</tool_call>\n```",
    f"It ends with `<tool_call>{CALL}</tool_call>`",
    f"First <tool_call>{CALL}</tool_call> is read [1].",
    "It is a <tool_call>, and a <b and c",
    "It is List<Tool> [TOOL",
    "It is in\n\n<function>\nthat is called [1].",
]
AFTER_TEXT = [call for call in CALLS if call[0] == "<" or call.startswith("[TOOL")]


@pytest.mark.parametrize("how", ["stream", "astream", "complete", "whole"])
@pytest.mark.parametrize("text", CALLS)
def test_a_written_call_is_no_answer(text: str, how: str) -> None:
    pieces = [chunk({"content": piece}) for piece in re.findall(r"(?s).{1,7}", text)]
    script: Script = lambda body: (  # noqa: E731
        sse(*pieces, STOP, DONE) if body.get("stream") and how != "whole" else whole({"content": text})
    )
    shown: list[str] = []
    with (
        serving(script) as (url, _),
        pytest.raises(ProviderBroke, match="wrote the call of a tool") as caught,
    ):
        if how == "complete":
            writer(url).complete("Where?")
        elif how == "astream":
            said(writer(url), how)
        else:
            shown += writer(url).stream(prepared())
    assert "".join(shown) == ""
    assert caught.value.retryable


@pytest.mark.parametrize("how", ["stream", "astream", "whole"])
@pytest.mark.parametrize("begun", ["Let me look.\n\n", "It is in `auth.py` [1]. I look:", "1. ```a```\n> "])
@pytest.mark.parametrize("text", AFTER_TEXT)
def test_text_before_a_written_call_is_no_whole_answer(text: str, begun: str, how: str) -> None:
    pieces = [chunk({"content": piece}) for piece in re.findall(r"(?s).{1,7}", begun + text)]
    script: Script = lambda body: (  # noqa: E731
        sse(*pieces, STOP, DONE) if how != "whole" else whole({"content": begun + text})
    )
    with serving(script) as (url, _):
        generator = writer(url)
        assert said(generator, "astream" if how == "astream" else "stream") == begun
        assert generator.finish_reason == "interrupted"
        assert generator.early_end == "its reply ends in the call of a tool"


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_that_contains_a_call_is_shown(text: str, size: int) -> None:
    calls = WrittenCalls()
    pieces = [text[begin : begin + size] for begin in range(0, len(text), size)]
    assert "".join([*map(calls.feed, pieces), calls.close()]) == text
    assert not calls.found


@pytest.mark.parametrize("text", CALLS[:2] + CALLS[10:14])
def test_a_call_that_was_cut_is_no_answer_either(text: str) -> None:
    assert is_written_call(text)
    calls = WrittenCalls()
    assert calls.feed(text[:36]) + calls.close(is_cut=True) == ""
    assert calls.found


def test_json_that_was_asked_for_is_an_answer() -> None:
    asked = prepared()
    object.__setattr__(asked, "options", GenerationOptions(is_json=True))
    with serving(lambda _: sse(chunk({"content": CALL}), STOP)) as (url, _):
        assert list(writer(url).stream(asked)) == [CALL]


def test_a_call_after_thoughts_is_no_answer() -> None:
    text = f"I search.</think>\n<tool_call>{CALL}</tool_call>"
    with (
        serving(lambda _: sse(chunk({"content": text}), STOP)) as (url, _),
        pytest.raises(ProviderBroke, match="wrote the call of a tool"),
    ):
        list(writer(url).stream(prepared()))


WORDS = "I'm sorry, I can't help with that."
PARTS = [{"type": "refusal", "refusal": WORDS}]
REFUSALS: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "the field": ({"content": None, "refusal": WORDS}, [{"refusal": WORDS[:9]}, {"refusal": WORDS[9:]}]),
    "a part": ({"content": PARTS}, [{"content": PARTS}]),
    "both": ({"content": "", "refusal": WORDS}, [{"content": "", "refusal": WORDS}]),
}


@pytest.mark.parametrize("how", ["stream", "astream", "complete", "whole"])
@pytest.mark.parametrize("form", REFUSALS)
def test_a_refusal_is_said_to_be_one(form: str, how: str) -> None:
    message, deltas = REFUSALS[form]

    def script(body: dict[str, Any]) -> Any:
        return (
            sse(*map(chunk, deltas), STOP, DONE) if body.get("stream") and how != "whole" else whole(message)
        )

    with serving(script) as (url, bodies), pytest.raises(ProviderBroke) as caught:
        if how == "complete":
            writer(url).complete("Where?")
        else:
            said(writer(url), "astream" if how == "astream" else "stream")
    assert WORDS.rstrip(".") in str(caught.value)
    assert "refused" in str(caught.value)
    assert not caught.value.retryable
    assert len(bodies) == 1


def test_an_answer_that_ends_in_a_refusal_is_incomplete() -> None:
    with serving(lambda _: sse(chunk({"content": "It is"}), chunk({"refusal": WORDS}), STOP)) as (url, _):
        generator = writer(url)
        assert said(generator, "stream") == "It is"
        assert generator.finish_reason == "interrupted"
        assert generator.early_end == f"it refused: {WORDS}"


@pytest.mark.parametrize("reason", ["content_filter", "stop", "length"])
def test_no_advice_repeats_a_word(reason: str) -> None:
    script: Script = lambda _: sse(chunk({}, reason), DONE)  # noqa: E731
    with serving(script) as (url, _), pytest.raises(ProviderBroke) as caught:
        said(writer(url), "stream")
    assert not re.search(r"\b(\w+) \1\b", str(caught.value))


def test_the_calls_of_the_protocol_are_no_text() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "search", "arguments": json.dumps({"q": 1})}}
    with (
        serving(lambda _: sse(chunk({"tool_calls": [call]}), STOP)) as (url, _),
        pytest.raises(ProviderBroke, match="gave no answer"),
    ):
        said(writer(url), "stream")
