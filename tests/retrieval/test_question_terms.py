"""What of a question is searched, and with which weight."""

from __future__ import annotations

import pytest

from rag.retrieval.context import CARRY, in_context, lacks_subject
from rag.retrieval.kinds.recognition import kinds_of
from rag.retrieval.question import parse_question
from rag.retrieval.working_set import Exchange
from rag.types import Subject


@pytest.mark.parametrize(
    ("question", "asked", "asking"),
    [
        ("Where is a retry with backoff implemented?", {"retri", "backoff"}, {"implement"}),
        ("Where are cookies handled in this repository?", {"cooki"}, {"handl", "repositori"}),
        ("In which file do retries live?", {"retri"}, {"live", "file"}),
        ("Which function is responsible for parsing dates?", {"pars", "date"}, {"function", "respons"}),
        ("Show me the part of the code that deals with dates", {"date"}, {"part", "code", "deal"}),
        (
            "Which class takes care of cookies, and where is it defined?",
            {"cooki"},
            {"class", "take", "care", "defin"},
        ),
    ],
)
def test_words_that_only_say_how_it_is_asked_count_little(question: str, asked: set[str], asking: set[str]):
    weights = parse_question(question).terms
    assert {term for term, weight in weights.items() if weight == 1} == asked
    assert {term for term, weight in weights.items() if 0 < weight < 1} == asking


@pytest.mark.parametrize(
    ("question", "term"),
    [
        ("Where is the list of implemented features built?", "implement"),
        ("Where is `implemented` defined?", "implement"),
        ("How is a file that is responsible for locks closed?", "file"),
        ("Which function handles a function?", "function"),
        ("What places an order?", "place"),
        ("How do live updates work?", "live"),
    ],
)
def test_the_same_words_count_where_they_are_the_topic(question: str, term: str):
    assert parse_question(question).terms[term] == 1


def test_a_long_question_of_such_words_is_parsed_in_time_that_grows_with_its_length():
    text = "which   " * 20_000 + "the   " * 20_000 + "defined in this   " * 5_000
    assert parse_question(text).terms


@pytest.mark.parametrize(
    "question",
    [
        "Who calls it?",
        "And who uses this?",
        "Is it tested?",
        "What does it raise?",
        "What if that fails?",
        "Which classes extend it?",
        "What is its default?",
    ],
)
def test_a_first_question_about_it_lacks_a_subject(question: str):
    assert lacks_subject(in_context(parse_question(question), [], CARRY))
    about = [Exchange.about(Subject("a.py", "sign"))]
    assert not lacks_subject(in_context(parse_question(question), about, CARRY))


@pytest.mark.parametrize(
    "question",
    [
        "Who calls `sign`?",
        "Who calls this parser?",
        "What does it do?",
        "How do I install it?",
        "call",
        "",
        "it",
    ],
)
def test_a_question_that_names_something_or_is_about_the_project_does_not(question: str):
    assert not lacks_subject(in_context(parse_question(question), [], CARRY))


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("what if the kiln cant be reached", {"kiln", "reach"}),
        ("why doesnt the kiln open", {"kiln", "open"}),
        ("why doesn't the kiln open", {"kiln", "open"}),
        ("what's the kiln", {"kiln"}),
        ("wheres the kiln", {"kiln"}),
        ("and hows the kiln opened and whats its door", {"kiln", "open", "door"}),
        ("Who’s the potter's kiln for? They've opened it.", {"potter", "kiln", "open"}),
    ],
)
def test_a_contraction_is_no_word(question: str, terms: set[str]):
    assert parse_question(question).terms.keys() == terms


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("whos calling fire_kiln", "callers"),
        ("who's calling fire_kiln", "callers"),
        ("whats the default heat", "setting"),
    ],
)
def test_a_contraction_asks_as_the_whole_words_do(question: str, kind: str):
    assert kind in kinds_of(parse_question(question).text)


@pytest.mark.parametrize(
    "question",
    ["Where is dont() called?", "what is `dont`", "the DONT macro", '"dont fire"', "whats dont() for"],
)
def test_a_name_or_quotation_is_no_contraction(question: str):
    assert "dont" in parse_question(question).terms


@pytest.mark.parametrize("name", ["whos", "hows", "wheres"])
def test_a_name_within_a_question_is_no_contraction(name: str):
    assert name in parse_question(f"which file has the function {name} in it").text
