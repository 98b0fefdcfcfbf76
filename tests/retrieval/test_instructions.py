"""What is said around a question is taken away; what is asked stays, whatever it is about."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.retrieval.instructions import without_client_blocks, without_instructions


@pytest.mark.parametrize(
    "text",
    [
        "Summarize that in one sentence.",
        "Translate your answer to German.",
        "Write a unit test for it.",
        "Use at most three sentences.",
        "Don't use technical jargon.",
        "thx!",
        "Please answer in French: ",
    ],
)
def test_what_only_says_how_to_answer_leaves_no_word(text):
    assert not any(character.isalnum() for character in without_instructions(text))


@pytest.mark.parametrize(
    "text",
    [
        "How does it render Markdown to HTML?",
        "How are lines listed as JSON?",
        "Where is the table of languages?",
        "Who writes the German translation?",
        "What does `please` do?",
        "Where is the Thanks() method?",
        "Explain how the list is written.",
        "Give the list to Kafka.",
        "how are answers formatted for users",
        "Format it?",
    ],
)
def test_a_question_about_such_words_stays_whole(text):
    assert without_instructions(text) == text


@pytest.mark.parametrize(
    "message",
    [
        "<system-reminder>\nPlan mode is on. Edit nothing.\n</system-reminder>\n{}",
        "<context>\nopen: lib/index.js\n</context>\n<user_query>\n{}\n</user_query>",
    ],
)
def test_what_is_around_a_question_is_left_out(message):
    question = "Where is the retry limit checked?"
    assert " ".join(without_instructions(message.format(question)).split()) == question


@pytest.mark.parametrize(
    "text",
    [
        "Why does <div>two</div> render twice?",
        "Where is `<task>a</task>` parsed?",
        "Explain the scheduler. It stops at night.",
    ],
)
def test_what_a_question_needs_stays(text):
    assert without_instructions(text) == text


def test_tags_that_are_not_closed_take_linear_time():
    text = "".join(f"<a-{n}>" for n in range(20_000)) + "</z-z>"
    began = time.process_time()
    assert without_client_blocks(text) == text
    assert time.process_time() - began < 1
    nested = "<context>open <file-name>a.js</file-name> <user_x> now</context>Where is the limit?"
    assert without_client_blocks(nested).strip() == "Where is the limit?"


@given(st.text(max_size=200))
def test_nothing_is_added(text):
    left = iter(text)
    assert all(character == " " or character in left for character in without_instructions(text))


@pytest.mark.parametrize(
    "part",
    [
        "<a-b>",
        "</a-b>",
        "<a-b>x</a-b>",
        "what is it? ",
        "thanks ",
        "in ",
        "i am on a mac ",
        "`",
        "use one ",
        "as a ",
        "a.b, ",
        ". ",
    ],
)
def test_a_long_text_takes_no_time_to_speak_of(part):
    began = time.process_time()
    without_instructions(part * 20_000)
    assert time.process_time() - began < 2
