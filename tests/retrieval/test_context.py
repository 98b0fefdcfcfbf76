"""What a follow-up takes from its conversation."""

from __future__ import annotations

import pytest

from rag.retrieval.context import CARRY, in_context, subject_of
from rag.retrieval.question import parse_question
from rag.retrieval.search import search, search_in_turn
from rag.retrieval.working_set import Exchange
from rag.types import Subject

LOCK = Subject("src/lock.py", "acquire_lock", "Lock", 10, 20)
TEST = Subject("tests/test_lock.py", "test_it", "", 5, 9)
SEND = Subject("src/mail.py", "send", "", 1, 4)
BEGUN = Exchange("Where is the lock on a mailbox acquired?", (LOCK,))


def asked(question, *past):
    return in_context(parse_question(question), past, CARRY)


def test_a_first_question_has_no_subject():
    assert subject_of([]) is None
    assert asked("Where is the lock acquired?").subject is None


@pytest.mark.parametrize("question", ["who calls it?", "is it tested?", "what is the default?", "and then?"])
def test_a_question_about_the_subject_does_not_change_it(question):
    assert subject_of([BEGUN, Exchange(question, (TEST,))]) == LOCK


def test_a_question_that_stands_alone_moves_on():
    later = Exchange("Where are messages sent from the queue to recipients?", (SEND,))
    assert subject_of([BEGUN, later]) == SEND
    assert subject_of([BEGUN, later, Exchange("is it tested?", (TEST,))]) == SEND


@pytest.mark.parametrize(
    "question",
    [
        "How is mail sent?",
        "Where does a worker stop?",
        "When will a message be dropped?",
        "Which mailers are there?",
        "Why is there a limit on mails?",
        "Where is a mail read before it is sent?",
        'File "src/mail.py", line 3, in send\n    raise ValueError\nIs the setting read?',
    ],
)
def test_a_short_whole_question_and_a_traceback_move_on(question):
    assert subject_of([BEGUN, Exchange(question, (SEND,))]) == SEND


@pytest.mark.parametrize(
    "question",
    [
        "How is it sent?",
        "What does the function write before it is sent?",
        "Which mailers are there for it?",
        "What is the timeout?",
        "for how long, if nothing is said?",
    ],
)
def test_a_fragment_does_not_move_on(question):
    assert subject_of([BEGUN, Exchange(question, (SEND,))]) == LOCK


def test_a_stored_subject_is_kept_when_the_first_turns_are_forgotten():
    assert subject_of([Exchange("is it tested?", (TEST,), LOCK)]) == LOCK


def test_what_the_user_set_is_the_subject_of_the_next_question():
    sought = asked("who calls it?", BEGUN, Exchange.about(SEND))
    assert sought.subject == SEND
    assert sought.focus["send"] == 1
    assert sought.standalone == "who calls it? (about `send`)"


def test_words_that_name_only_the_facet_are_not_searched():
    sought = asked("and is it covered by tests?", BEGUN)
    assert sought.bare
    assert "test" not in sought.terms and "mailbox" in sought.terms


def test_words_of_questions_in_between_are_not_carried():
    between = Exchange("is it tested on Windows?", (TEST,))
    assert "window" not in asked("who calls it?", BEGUN, between, Exchange("and on Linux?", (TEST,))).terms


def test_a_question_that_may_stand_alone_carries_less():
    less = asked("Where are messages sent from the queue to recipients?", BEGUN)
    assert less.share == CARRY.alone < asked("who calls it?", BEGUN).share


def test_the_more_words_of_its_own_a_question_has_the_less_it_carries():
    fire = Exchange("How is a pot fired?", (Subject("kiln.py", "fire"),))
    short = asked("and what if that machine breaks?", fire)
    longer = asked(
        "and the numbers it sends to the remote collector, what if that machine stays silent?", fire
    )
    assert short.share == 1.0 and short.carried["fire"] > longer.carried["fire"] > 0
    assert longer.share < 1.0 and not longer.leans
    was_set = Exchange.about(Subject("kiln.py", "fire"))
    assert asked(longer.question.text, fire, was_set).share == 1.0


def test_a_new_topic_carries_nothing():
    sought = asked("By the way, where are mails sent?", BEGUN)
    assert (sought.subject, sought.carried) == (None, {})


def test_a_chain_of_questions_stays_with_its_subject(searcher):
    history = ("Where is a token checked?", "And who calls it?", "is it tested?")
    found = search_in_turn([searcher], "what if it fails?", history)
    assert found.sought.subject.name == "authenticate"
    assert "authenticate" in [hit.symbol for hit in found.hits[:5]]
    tests = search_in_turn([searcher], "is it tested?", history[:2])
    assert tests.hits[0].kind == "test"


def test_the_place_just_shown_is_not_first_again(searcher):
    past = [Exchange("Where is a token checked?", (Subject("snip/auth.py", "authenticate", "", 27, 39),))]
    moved = search([searcher], "And where is a password checked?", past=past)
    assert moved.hits[0].symbol == "check_password"
