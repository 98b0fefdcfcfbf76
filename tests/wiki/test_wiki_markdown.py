"""What strangers wrote is only words in a page and only labels in a diagram."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.display.mermaid import MAX_NODES, DiagramError, Graph, check, label_of
from rag.markdown import block, code, plain, said, table, title, words

NASTY = st.text(alphabet=st.sampled_from("`*_[]()<>|#!&;:/\\\n\r\t\x00\u202e \"'{}%~=-+.1ab"), max_size=60)


@given(NASTY | st.text(max_size=60))
def test_words_of_strangers_hold_no_markup(text):
    for made in (plain(text), code(text), words(text), title(text)):
        assert "\n" not in made and "<" not in made
        assert "|" not in re.sub(r"`[^`]*`", "", made)
        assert not re.search(r"(?<!`)[\[\]](?!`)", re.sub(r"`[^`]*`", "", made))


@given(NASTY)
def test_python_markdown_makes_no_element_of_them(text):
    markdown = pytest.importorskip("markdown")
    page = f"# {title(text)}\n\nA {plain(text)} and {words(text)} b\n\n{block(text, 'py')}\n\n"
    page += table(("a", "b"), [(code(text), words(text))])
    html = markdown.markdown(page, extensions=["fenced_code", "tables"])
    tags = {tag.lower() for tag in re.findall(r"<\s*/?\s*([A-Za-z!][\w!-]*)", html)}
    assert tags <= {"h1", "p", "pre", "code", "table", "thead", "tbody", "tr", "th", "td"}, html


@given(st.lists(st.tuples(NASTY, NASTY), min_size=1, max_size=80))
def test_a_diagram_of_any_names_is_one_that_we_read(pairs):
    graph = Graph()
    for source, target in pairs:
        graph.node(source, source)
        graph.node(target, target, outside=True)
        graph.edge(source, target)
    drawn = graph.draw(counted=True)
    assert (drawn is None) == all(source == target for source, target in pairs)
    if drawn is not None:
        check(drawn.text)
        assert drawn.nodes <= MAX_NODES
        assert drawn.edges + drawn.edges_left_out == len(graph.edges)


def test_stress_is_left_out_and_stars_of_code_stay():
    assert words("*404* `Not Found`, **no** page") == "404 `Not Found`, no page"
    assert words("takes *args and **kwargs, 2 * 3 * 4, `*.py` and `*.js`") == (
        "takes &#42;args and &#42;&#42;kwargs, 2 &#42; 3 &#42; 4, `*.py` and `*.js`"
    )


def test_stress_of_several_words_by_underscores_is_left_out_and_names_stay():
    text = "because _it keeps all data for\ninspection_. A __very old__ one; the _name_ and a_b c_d stay"
    assert "_" not in words(" ".join(text.split())).partition(";")[0]
    assert "&#95;name&#95;" in words(text)


def test_a_sentence_ends_where_its_list_begins():
    assert said("Provides the following features: - template strings - options") == (
        "Provides the following features."
    )
    assert said("Calls a, but also does a few tasks:") == "Calls a, but also does a few tasks."
    assert said("Returns one of: None, or a name.") == "Returns one of: None, or a name."


def test_a_bar_stays_in_code_and_ends_no_cell():
    assert code("str | None") == "`str | None`"
    assert table(("A", "B"), [("`a | b`", "c")]).split("\n")[2] == "| a &#124; b | c |"


def test_documentation_loses_the_markup_of_its_language_and_ends_as_a_sentence():
    assert said("The :attr:`~flask.Flask.debug` flag, see :class:`Config`. More.") == (
        "The `debug` flag, see `Config`."
    )
    assert (
        said("Uses [`Router`] and [axum](https://x) for {@link Foo#bar}")
        == "Uses `Router` and axum for `Foo#bar`."
    )
    assert said("ZodGUIDDef | ZodGUID //////////////////////////////") == "ZodGUIDDef ZodGUID."
    xml = 'Reads <c>bytes</c> as a <see cref="T:Kiln.Pot{TGlaze}"/> of <typeparamref name="TGlaze" />.'
    assert said(xml) == "Reads `bytes` as a `Kiln.Pot` of `TGlaze`."
    assert said("<p>Reads a <code>File</code>.</p>") == "Reads a File."


def test_a_sentence_gets_no_second_end():
    assert said("It works!") == "It works&#33;"
    assert said('It has "words."') == 'It has "words."'
    assert said("これは文です。次の文。") == "これは文です。"


def test_underscores_around_a_name_are_no_stress():
    assert title("Flask.__call__") == "Flask.&#95;&#95;call&#95;&#95;"


def test_a_column_with_nothing_in_it_is_left_out():
    assert table(("A", "B", "C"), [("1", "", "2"), ("", "", "3")]) == (
        "| A | C |\n| --- | --- |\n| 1 | 2 |\n|   | 3 |"
    )
    assert table(("A",), []) == ""


def test_a_diagram_says_what_it_leaves_out():
    graph = Graph()
    for number in range(100):
        graph.node(number, str(number))
        graph.edge(0, number)
    drawn = graph.draw()
    assert drawn is not None and (drawn.nodes, drawn.nodes_left_out) == (12, 88)
    assert drawn.edges + drawn.edges_left_out == 99


@pytest.mark.parametrize(
    "text",
    [
        'flowchart LR\n  n1["a"]\n  click n1 href "javascript:alert(1)"',
        'flowchart LR\n  n1["a"]\n  click n2 href "a.md"',
        "sequenceDiagram\n  participant n1 as a\n  n1->>n2: b",
        "sequenceDiagram\n  participant n1 as a\n  n1->>n1: b;alert",
        "sequenceDiagram\n  participant n1 as a\n  link n1: Code @ javascript:alert",
        'graph LR\n  n1["a"]',
        'flowchart LR\n  n1["a"]\n  n1 --> n2',
        'flowchart LR\n  n1["a"]\n  click n1 "javascript:alert(1)"',
        'flowchart LR\n  n1["<b>"]',
        'flowchart LR\n%%{init: {"securityLevel": "loose"}}%%\n  n1["a"]',
        "flowchart LR",
    ],
)
def test_anything_else_is_no_diagram_of_ours(text):
    with pytest.raises(DiagramError):
        check(text)


def test_a_label_keeps_paths_and_names_readable():
    assert label_of("rag/wiki/a_b.py") == "rag/wiki/a_b.py"
    assert label_of('Map<K, "V">[int] | None') == "Map(K, 'V')(int) / None"
