"""Messages that ask for nothing in the code."""

from __future__ import annotations

import pytest

from rag.memory.small_talk import is_small_talk


@pytest.mark.parametrize(
    "message",
    [
        "thanks, that helps!",
        "Ok, great. Thank you very much!",
        "Perfect, thanks",
        "Hello!",
        "good morning, hi all",
        "Who are you?",
        "and what can you do for me?",
        "hi, who are you?",
    ],
)
def test_small_talk_is_recognised(message):
    assert is_small_talk(message)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "ok",
        "good",
        "bye bye birdie",
        "thanks, and who calls it?",
        "Where are thanks sent?",
        "hello world example",
        "What can you do with a cart?",
        "Who are you users of this?",
        "who are they?",
    ],
)
def test_a_question_about_the_code_is_not(message):
    assert not is_small_talk(message)
