"""A question for one definition by its name, and one for a quoted phrase: that place comes first."""

from __future__ import annotations

import pytest

from rag.retrieval.asked_definition import asked_definition
from rag.retrieval.lookup import definitions
from rag.retrieval.question import parse_question, without_marks
from rag.retrieval.search import search

STYLES = '''"""Styles of progress on a terminal, in CI and elsewhere."""


def with_style(style, is_ci_defined):
    """Return progress with the style, where the style of a CI is defined."""
    return style if is_ci_defined else None


def where_style_is_defined(style):
    """Where is the style defined: in CI, or as the code of the terminal?"""
    return style


def is_ci(): return False
def testable(): return where_style_is_defined(1)


class Terminal:
    def write(self, text):
        raise ValueError("hashCode should reflect changes of the values")
'''
TESTS = """def test_style_is_defined_in_ci():
    assert "the limit which is used by default is not set"


def testable_project(terminal):
    return terminal
"""


USE = "def use(values):\n    changes = hashCode(values)\n    return reflect(changes, values)\n"
FILES = {
    "styles.py": STYLES,
    "tests/test_styles.py": TESTS,
    **{f"use_{number}.py": USE for number in range(12)},
}


@pytest.fixture(scope="module")
def searcher(searcher_of):
    return searcher_of(FILES)


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Where is is_ci defined?", "is_ci"),
        ("where is the function testable implemented", "testable"),
        ("What does `Client.send` do?", "Client.send"),
        ("What does Kernel::run() do in this repo?", "Kernel::run"),
        ("Show me the code of Terminal", "Terminal"),
        ("explain `is_ci`", "is_ci"),
        ("Where is escape? defined?", "escape?"),
        ("What does `save!` do?", "save!"),
        ("Where is `about` defined?", "about"),
        ("Where is `<=>` defined?", "<=>"),
        ("What does `A theme with a layout` do?", "A theme with a layout"),
        ("Where is #send defined?", "#send"),
        ("Where is `<=>` defined, and `other`?", ""),
        ("Where is about defined?", ""),
        ("Where is Pool::~Pool defined?", "Pool::~Pool"),
        ("explain caching", ""),
        ("What does it do?", ""),
        ("Where is is_ci defined and who calls it?", ""),
        ("Where is the style of a terminal defined?", ""),
        ("Who calls is_ci?", ""),
    ],
)
def test_the_name_whose_definition_is_asked_for(question, name):
    assert asked_definition(parse_question(question)) == name


@pytest.mark.parametrize("question", ["Where is {} defined?", "What does `{}` do?", "Show me the code of {}"])
@pytest.mark.parametrize("name", ["is_ci", "testable", "Terminal", "testable_project", "Terminal.write"])
def test_the_definition_of_a_name_comes_first(searcher, question, name):
    first = search([searcher], question.format(name)).hits[0]
    assert f"{'class' if name == 'Terminal' else 'def'} {name.rpartition('.')[2]}" in first.text


@pytest.mark.parametrize(
    "phrase",
    [
        "hashCode should reflect changes of the values",  # words of many chunks
        "the limit which is used by default is not set",  # asks for nothing itself
    ],
)
def test_a_quoted_phrase_comes_first(searcher, phrase):
    assert phrase in search([searcher], f'Where is "{phrase}"?').hits[0].text


@pytest.mark.parametrize(
    ("question", "symbol", "unit"),
    [
        ("Where is is_ci defined?", "is_ci", "function"),
        ("What does `testable` do?", "testable", "function"),
        ("explain `is_ci` please, and why it is so", "is_ci", "function"),
        ("Where is Terminal.write defined?", "write", "function"),
        ("Where is Terminal defined?", "Terminal", "class"),
        ("Who calls where_style_is_defined?", "testable", "function"),
    ],
)
def test_a_hit_is_named_by_the_definition_that_it_is_shown_for(searcher, question, symbol, unit):
    first = search([searcher], question).hits[0]
    assert (first.symbol, first.unit) == (symbol, unit)


@pytest.mark.parametrize("name", ["is_ci", "testable", "write", "Terminal.write"])
def test_a_definition_without_a_chunk_of_its_own_is_found_by_name(searcher, name):
    (found,) = [hit for hit in definitions(searcher.index, name) if hit.path == "styles.py"]
    assert found.symbol == name.rpartition(".")[2]
    assert found.text.lstrip().startswith(f"def {found.symbol}(")


@pytest.mark.parametrize("end", ["?", "??", "!", ".", "?!", " ?", "...", "?)"])
@pytest.mark.parametrize(
    ("begin", "name"),
    [("what is the default", ""), ("what is default", ""), ("explain open_file", "open_file")],
)
def test_the_punctuation_of_a_question_is_no_part_of_a_name(begin: str, name: str, end: str):
    assert without_marks(asked_definition(parse_question(begin + end))) == name
