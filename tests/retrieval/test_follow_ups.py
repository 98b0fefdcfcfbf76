"""Follow-ups that correct the last question, and those that ask for the whole of what was shown."""

from __future__ import annotations

import pytest

from rag.answer.extract import ExtractiveGenerator
from rag.retrieval.context import CARRY, in_context, subject_of
from rag.retrieval.follow_ups import OTHER, asked_again, listed_as_it, listed_in, meant, whole_asked
from rag.retrieval.question import parse_question
from rag.retrieval.search import search
from rag.retrieval.working_set import Exchange
from rag.service import Dialog, Engine, locate
from rag.service.loop.ask import converse
from rag.settings import load_settings
from rag.types import Subject

LOCK = Subject("src/lock.py", "acquire_lock", "Lock", 10, 20)
SEND = Subject("src/mail.py", "send", "", 1, 4)
BEGUN = Exchange("Where is the lock on a mailbox acquired?", (LOCK,))


@pytest.mark.parametrize(
    ("text", "correction"),
    [
        ("no, I meant the batch mode (-X)", "the batch mode (-X)"),
        ("sorry, I was asking about the server", "the server"),
        ("I mean how are they parsed", "how are they parsed"),
        ("no, the one with a timeout", "the one with a timeout"),
        ("not that one, the parser", "the parser"),
        ("No, in the browser", "in the browser"),
        ("no, not that, `send`", "`send`"),
        ("no, the one that is called first", "the one that is called first"),
        ("I meant to ask where it is set", "where it is set"),
        ("What do I mean by that?", ""),
        ("no, the test fails with KeyError", ""),
        ("no, the file isn't there", ""),
        ("no, in the manual it says 5", ""),
        ("no, for example the parser", ""),
        ("no, in which file is it?", ""),
        ("no, in-memory caches", ""),
        ("no", ""),
        ("not found: the file", ""),
        ("no such file, the path is wrong", ""),
        ("Where is no the default?", ""),
    ],
)
def test_a_correction_is_recognized(text, correction):
    assert meant(text) == correction


@pytest.mark.parametrize(
    ("correction", "last", "again"),
    [
        ("the mail parser", "who calls it?", "who calls the mail parser?"),
        ("`send`", "and is it tested?", "and is `send` tested?"),
        ("the batch mode", "What exit code do I get?", "the batch mode"),
        ("how are they parsed?", "who calls it?", "how are they parsed?"),
        ("in the browser", "who calls it?", "in the browser"),
    ],
)
def test_a_correction_asks_the_last_question_again(correction, last, again):
    assert asked_again(correction, last) == again


def test_a_correction_carries_the_last_question_but_not_its_subject():
    last = Exchange("and what is its timeout?", (LOCK,), LOCK)
    sought = in_context(parse_question("no, I meant the queue"), [BEGUN, last], CARRY)
    assert set(sought.terms) == {"queue", "timeout", "lock", "mailbox", "acquir"}
    assert sought.terms["timeout"] > sought.terms["mailbox"]
    assert (sought.subject, sought.focus, sought.near) == (None, {}, ())


def test_a_correction_of_a_correction_asks_the_same_question():
    past = [BEGUN, Exchange("who calls it?", (LOCK,), LOCK), Exchange("no, I meant the queue", (SEND,))]
    sought = in_context(parse_question("no, the mail parser"), past, CARRY)
    assert sought.standalone == "who calls the mail parser?"


def test_a_corrected_subject_is_that_of_the_next_question():
    assert subject_of([BEGUN, Exchange("no, I meant how it is sent", (SEND,))]) == SEND
    after = [BEGUN, Exchange("no, I meant the outgoing mail", (SEND,))]
    sought = in_context(parse_question("is it tested?"), after, CARRY)
    assert sought.subject == SEND
    assert "meant" not in sought.terms and "mail" in sought.terms


@pytest.mark.parametrize(
    ("text", "as_it"),
    [
        ("and the other one?", "and it?"),
        ("is the other one tested?", "is it tested?"),
        ("who calls the other?", "who calls it?"),
        ("what if the other fails?", "what if it fails?"),
        ("show me the other one", "show me it"),
        ("show me the other files", ""),
        ("and in the other direction?", ""),
        ("which one is the other side of the socket?", ""),
        ("where are the other options?", ""),
        ("on the other hand, is it fast?", ""),
        ("does one call the other functions?", ""),
        ("does one call the other?", ""),
        ("why does one fail and the other one return None?", ""),
        ("which of the two is used, this one or the other?", ""),
        ("how do I switch from one backend to the other?", ""),
        ("in some way or the other is it used?", ""),
        ("the other day it failed", ""),
        ("where is the other one's name set?", ""),
        ("what are the others?", ""),
        ("is there another one?", ""),
        ("are other ones used?", ""),
        ("the otherwise branch", ""),
        ("how does the other thread wait?", ""),
        ("what is in the other repository?", ""),
        ("why not the other way round?", ""),
    ],
)
def test_the_other_one_is_asked_for(text, as_it):
    assert listed_as_it(text) == ((as_it, OTHER) if as_it else None)


@pytest.mark.parametrize(
    ("text", "as_it", "number"),
    [
        ("who calls the first?", "who calls it?", 0),
        ("explain the second one again", "explain it again", 1),
        ("is the third tested?", "is it tested?", 2),
        ("and the last one?", "and it?", -1),
        ("who calls [2]?", "who calls it?", 1),
        ("does the second raise?", "does it raise?", 1),
        ("and the first, please", "and it, please", 0),
        ("show me the last one in full", "show me it in full", -1),
    ],
)
def test_a_listed_place_is_asked_for(text, as_it, number):
    assert listed_as_it(text) == (as_it, number)


@pytest.mark.parametrize(
    "text",
    [
        "what is the first argument?",
        "which is the first to run?",
        "what was the last release?",
        "compare the first and the second one",
        "the second time it fails",
        "is it called first?",
        "What does argv[1] hold?",
        "What does f()[1] return?",
        "What is [0] of it?",
        "How do I run the first test?",
        "Who closes the last file?",
        "Is the last error raised?",
        "Is the first tested version kept?",
        "Is the last call logged?",
        "Are the first and last lines read?",
    ],
)
def test_an_ordinal_of_something_else_is_not(text):
    assert listed_as_it(text) is None


def test_the_second_one_is_a_place_of_the_last_answer():
    past = [BEGUN, Exchange("How is a message sent to the server?", (SEND, OPEN))]
    for question, meant_place in [("who calls the second one?", OPEN), ("is the first tested?", SEND)]:
        sought = in_context(parse_question(question), past, CARRY)
        assert sought.subject == meant_place
    assert in_context(parse_question("who calls the fifth?"), past, CARRY).subject == SEND


@pytest.mark.parametrize("question", ["who calls the last one?", "who calls the first?", "who calls [1]?"])
def test_without_places_there_is_no_listed_one(question):
    past = [Exchange("How do I water tomatoes?"), Exchange("thanks")]
    assert in_context(parse_question(question), past, CARRY).subject is None


OPEN = Subject("src/lock.py", "open_box", "Lock", 30, 40)
SENT = Exchange("How is a message sent to the server?", (SEND,))


def test_an_ordinal_means_a_member_of_the_list_that_was_shown():
    answer = (
        "`send` is called in 3 places:\n\n- `main` — `app.py:7` [1]\n- `Box.post` — `box.py:9` [2]\n"
        "1. **retry**: again [2]\n- and 4 more\n\n[1] app.py:5-9\n\n```\n- `x` — `y.py:1`\n```\n"
    )
    found = listed_in(answer, {2: SEND})
    assert found == (Subject("app.py", "main", "", 7, 7), Subject("box.py", "post", "Box", 9, 9), SEND)
    assert (
        listed_in("This is in `send`.\n\nOther places:\n\n- `a` — `b.py:1` [2]\n- `c` — `d.py:1` [3]", {})
        == ()
    )
    past = [Exchange("Who calls send?", (LOCK, SEND), listed=found)]
    sought = in_context(parse_question("the second one"), past, CARRY)
    assert sought.question.lines == (("box.py", 9, 9),)


@pytest.mark.parametrize(
    ("past", "other"),
    [
        ([BEGUN, SENT], LOCK),
        (
            [
                BEGUN,
                Exchange("How is a message sent to the server?", (SEND,)),
                Exchange("who calls it?", (OPEN,), SEND),
            ],
            LOCK,
        ),
        ([BEGUN, Exchange("and `send`?", (SEND,), LOCK)], LOCK),
        ([Exchange("Where is the lock on a mailbox acquired?", (LOCK, OPEN))], OPEN),
        ([Exchange.about(SEND), BEGUN], SEND),
    ],
)
def test_the_other_one_is_the_subject_before_the_last_or_the_second_place(past, other):
    sought = in_context(parse_question("is the other one tested?"), past, CARRY)
    assert sought.subject == other
    after = [*past, Exchange("is the other one tested?", (), sought.subject)]
    assert in_context(parse_question("who calls it?"), after, CARRY).subject == other


def test_without_another_subject_the_other_one_is_only_words():
    sought = in_context(parse_question("is the other one tested?"), [BEGUN], CARRY)
    assert sought.subject == LOCK and sought.question.text == "is the other one tested?"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("show me the whole function", "definition"),
        ("can you show me the full code please?", "definition"),
        ("and print it", "definition"),
        ("show me all of it", "definition"),
        ("open the file", "file"),
        ("show me the test for that", ""),
        ("show me the function that sends mail", ""),
        ("show the whole truth", ""),
    ],
)
def test_the_whole_is_asked_for(text, whole):
    assert whole_asked(text) == whole


@pytest.fixture
def dialog(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_HOME", str(tmp_path / "home"))
    root = tmp_path / "mail"
    root.mkdir()
    steps = "".join(f"    step_{n} = prepare(message, {n})\n" for n in range(40))
    (root / "mail.py").write_text(
        f"def deliver(message):\n{steps}    return step_39\n\n\ndef deliver_all(messages):\n"
        "    return [deliver(message) for message in messages]\n",
        encoding="utf-8",
    )
    (root / "queue.py").write_text("def put(item):\n    '''Add to the queue.'''\n", encoding="utf-8")
    engine = Engine(load_settings({"memory": "memory:"}))
    return Dialog(engine, [engine.repository(locate(str(root)))])


def answers(dialog, *questions):
    return [list(converse(dialog, question, ExtractiveGenerator()))[-1] for question in questions]


def test_the_whole_function_that_was_shown_is_shown(dialog):
    *_, answer = answers(dialog, "Where is deliver defined?", "show me the whole function")
    assert answer.text.startswith("`deliver` in `mail.py`, lines 1-42 of 46")
    assert "step_20 = prepare(message, 20)" in answer.text
    assert "queue.py" not in answer.text and "deliver_all" not in answer.text


def test_the_whole_file_that_was_shown_is_shown(dialog):
    *_, answer = answers(dialog, "Where is deliver defined?", "open the whole file")
    assert answer.text.startswith("`mail.py`, lines 1-46 of 46")


def test_a_correction_names_what_a_question_about_it_means(dialog):
    *_, answer = answers(dialog, "Where is put defined?", "who calls it?", "no, I meant `deliver`")
    assert answer.text.startswith("`deliver` is called in 1 place")


def test_the_other_one_is_answered(dialog):
    questions = ("Where is deliver defined?", "Where is deliver_all defined?", "who calls the other one?")
    *_, answer = answers(dialog, *questions)
    assert answer.text.startswith("`deliver` is called in 1 place")
    *_, answer = answers(dialog, "Where is put defined?", "who calls `deliver`?", "no, the other one")
    assert "`put`" in answer.text


def test_a_question_about_it_covers_what_is_as_plausible(dialog):
    first, *_ = dialog.searched
    places = (Subject("mail.py", "deliver", "", 1, 42), Subject("queue.py", "put", "", 1, 2))
    doubtful = Exchange("Where is a message handled?", places, scores=(1.0, 0.99))
    found = search([first.searcher], "who calls it?", past=[doubtful]).code_facts
    assert found.summary.startswith("`deliver` is called in 1 place") and "; `put` is called" in found.summary
    sure = Exchange("Where is a message handled?", places, scores=(1.0, 0.97))
    assert "put" not in search([first.searcher], "who calls it?", past=[sure]).code_facts.summary


def test_a_named_definition_is_the_subject_of_its_callers(dialog):
    *_, answer = answers(dialog, "who calls deliver_all()?", "and who calls `deliver`?", "is it tested?")
    assert answer.subject.symbol == "deliver"


def test_a_question_about_a_test_finds_it(dialog, tmp_path):
    root = tmp_path / "mail"
    (root / "tests").mkdir()
    body = "".join(f"    assert deliver(letter_{n}) == {n}\n" for n in range(6))
    (root / "tests" / "test_mail.py").write_text(f"def test_letters():\n{body}", encoding="utf-8")
    updated = Dialog(dialog.engine, [dialog.engine.repository(locate(str(root)))])
    *_, tests, first = answers(updated, "How is a message delivered?", "and the tests?", "the first")
    assert tests.citations[0].path == first.citations[0].path == "tests/test_mail.py"
    assert first.subject.symbol == "test_letters" and not first.warning
