"""A follow-up that names something is answered as if it had been asked alone, never about another subject."""

from __future__ import annotations

from contextlib import closing

import pytest

from rag.retrieval.own_subject import names_its_subject
from rag.retrieval.question import parse_question
from rag.service import Dialog, Engine, converse
from rag.settings import Settings

FILES = {
    "memory.py": '''"""Memory."""


def allocate(size):
    """Return a block of memory."""
    if size > 1_000:
        raise ValueError("the block is far too large")
    return bytearray(size)


def grow(block, size):
    return block + allocate(size)
''',
    "errors.py": '''"""Errors of a connection."""

from memory import allocate, grow


def __setConnectionError(text):
    """Keep the text of an error."""
    return grow(allocate(len(text)), 1)


def fail(text):
    return __setConnectionError(text)
''',
    "test_memory.py": """from memory import allocate


def test_allocate():
    assert len(allocate(3)) == 3
""",
}
ABOUT_IT = "Who calls `allocate`?"


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with closing(Engine(Settings(home=tmp_path_factory.mktemp("home"), memory="memory:"))) as engine:
        yield engine


@pytest.fixture(scope="module")
def repository(engine, tmp_path_factory):
    root = tmp_path_factory.mktemp("connection")
    for path, text in FILES.items():
        (root / path).write_text(text, encoding="utf-8")
    return engine.repository(str(root))


def told(engine, repository, *questions):
    dialog = Dialog(engine, [repository])
    return [list(converse(dialog, question, engine.generator()))[-1].text for question in questions]


@pytest.mark.parametrize(
    "question",
    [
        "Who calls setConnectionError?",
        "And who calls setConnectionError?",
        "Which tests cover setConnectionError?",
        "Who calls closeConnection?",
        "Who uses frobnicate?",
        "and closeConnection?",
        "What about grow_block?",
        "What does errors.py do?",
        "And errors.py?",
        "What is in lib/sockets.py?",
        "Where is MAX_BLOCKS set?",
        'Where is "the block is far too large" raised?',
        'And where is "this block was far too big" raised?',
    ],
)
def test_what_a_question_names_is_searched_for_as_if_asked_alone(engine, repository, question):
    assert told(engine, repository, ABOUT_IT, question)[-1] == told(engine, repository, question)[-1]


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        ("Who calls closeConnection?", "`closeConnection` occurs nowhere"),
        ("and closeConnection?", "`closeConnection` occurs nowhere"),
        ("Does it call closeConnection?", "`closeConnection` occurs nowhere"),
        ("What is in lib/sockets.py?", "`lib/sockets.py` is not among the indexed files"),
    ],
)
def test_what_is_nowhere_is_said(engine, repository, question, missing):
    assert missing in told(engine, repository, ABOUT_IT, question)[-1]


def test_a_use_of_something_else_is_not_one_of_it(engine, repository):
    *_, answer = told(engine, repository, ABOUT_IT, "and who calls the parser?")
    assert "`allocate` is" not in answer


@pytest.mark.parametrize(
    "question", ["Who calls it?", "any callers?", "usages?", "Which callers are there?", "Does it call grow?"]
)
def test_a_question_that_names_nothing_is_about_it(repository, question):
    assert not names_its_subject([repository.searcher.index], parse_question(question))


@pytest.mark.parametrize("question", ["any callers?", "usages?", "Which callers are there?"])
def test_it_is_what_was_asked_about(engine, repository, question):
    assert "`allocate` is" in told(engine, repository, ABOUT_IT, question)[-1]


@pytest.mark.parametrize("question", ["What happens on a ValueError?", "and for WebSockets there?"])
def test_a_name_that_only_says_more_does_not_leave_the_conversation(repository, question):
    assert not names_its_subject([repository.searcher.index], parse_question(question))


def test_what_was_named_is_it_in_the_next_question(engine, repository):
    *_, answer = told(engine, repository, ABOUT_IT, "Who calls setConnectionError?", "who calls it?")
    assert answer.startswith("`__setConnectionError` is called in 1 place")
