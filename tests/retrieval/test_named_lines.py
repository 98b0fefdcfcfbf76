"""Lines that a question names: "Show me line 40 of app.py", "and line 60 of that?"."""

from __future__ import annotations

import pytest

from rag.answer.extract import ExtractiveGenerator
from rag.retrieval.question import parse_question
from rag.service import Dialog, Engine, locate
from rag.service.loop.ask import converse
from rag.service.tools.explore import explore
from rag.settings import load_settings

LONG = "".join(f"value_{n} = {n}\n" for n in range(1, 121))


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAG_HOME", str(tmp_path_factory.mktemp("home")))
        yield Engine(load_settings({"memory": "memory:"}))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("lines")
    (root / "app").mkdir()
    (root / "app" / "long.py").write_text(LONG, encoding="utf-8")
    (root / "app" / "lines.py").write_text(
        "def line_60():\n    return 'a line 60 of that'\n", encoding="utf-8"
    )
    return root


def answers(engine, root, *questions):
    dialog = Dialog(engine, [engine.repository(locate(str(root)))])
    return [list(converse(dialog, question, ExtractiveGenerator()))[-1] for question in questions]


@pytest.mark.parametrize(
    ("question", "lines"),
    [
        ("show me line 60 of app/long.py", [("app/long.py", 60, 60)]),
        ("lines 60 to 62 in `long.py`", [("long.py", 60, 62)]),
        ("What does long.py line 7 do?", [("long.py", 7, 7)]),
        ("app/long.py:60-64", [("app/long.py", 60, 64)]),
        ("app/long.py#L60-L64", [("app/long.py", 60, 64)]),
        ("and line 3 of that?", [("", 3, 3)]),
        ("Where are blank lines removed?", []),
        ('long.yml:14:3: [error] duplication of key "name" in mapping', []),
        ("app/long.py:60: error: Incompatible types in assignment", []),
        ('File "app/long.py", line 3, in <module>', []),
    ],
)
def test_the_lines_of_a_question_are_parsed(question, lines):
    assert list(parse_question(question).lines) == lines


@pytest.mark.parametrize(
    "question", ["show me line 60 of app/long.py", "What is at long.py:60?", "What does long.py, line 60 do?"]
)
def test_a_line_that_is_named_is_shown(engine, root, question):
    [answer] = answers(engine, root, question)
    assert answer.code_facts.kind == "lines"
    assert answer.code_facts.summary == "`app/long.py`, line 60 of 120"
    assert [(item.path, item.start, item.text) for item in answer.code_facts.items] == [
        ("app/long.py", 60, "value_60 = 60")
    ]
    assert "value_60 = 60\nvalue_61 = 61" in answer.text
    assert not answer.warning


def test_all_lines_of_a_range_are_shown_once(engine, root):
    [answer] = answers(engine, root, "show me lines 20-100 of long.py")
    items = answer.code_facts.items
    assert [line for item in items for line in item.text.splitlines()] == LONG.splitlines()[19:100]


def test_agents_get_all_lines_of_a_range(engine, root):
    repository = engine.repository(locate(str(root)))
    found = explore(repository, "show me lines 60-70 of long.py", counter=engine.counter)
    assert all(f"value_{n} = {n}\n" in f"{found.text}\n" for n in range(60, 71))


def test_line_of_that_is_of_the_file_that_was_shown_last(engine, root):
    *_, answer = answers(engine, root, "Where is value_7 set?", "show me line 60 of that")
    assert answer.code_facts.items[0].text == "value_60 = 60"


def test_a_line_after_the_end_is_said_to_be_missing(engine, root):
    [answer] = answers(engine, root, "line 500 of app/long.py")
    assert answer.code_facts.summary == "`app/long.py` has 120 lines, and no line 500"
    assert not answer.warning


def test_an_unknown_file_has_no_lines(engine, root):
    [answer] = answers(engine, root, "show me line 3 of nowhere.py")
    assert answer.code_facts is None
