"""A value of a Helm chart: where it is declared, and which templates use it."""

from __future__ import annotations

import time

import pytest

from rag.retrieval.answerability import judge
from rag.retrieval.kinds.chart_values import _in_flow
from rag.retrieval.kinds.recognition import chart_value, kinds_of
from rag.retrieval.search import search

CHART = {
    "charts/web/Chart.yaml": "name: web\nversion: 1.0.0\n",
    "charts/web/values.yaml": (
        "tag: outer\nimage:\n  # The tag of the image.\n  tag: stable\n  pull:\n    policy: Always\n"
        "service:\n  image:\n    tag: other\n"
    ),
    "charts/web/templates/pod.yaml": (
        "kind: Pod\nspec:\n  image: web:{{ .Values.image.tag | quote }}\n"
        "  policy: {{ $.Values.image.pull.policy }}\n  tags: {{ .Values.image.tagSuffix }}\n"
    ),
    "docs/values.yaml": "image:\n  tag: example\n",
}


@pytest.mark.parametrize(
    ("question", "places"),
    [
        ("What is the default of .Values.image.tag?", [("values", 4, 4), ("pod", 3, 3)]),
        ("Where is `.Values.image.tag` used?", [("pod", 3, 3), ("values", 4, 4)]),
        ("Where is $.Values.image.pull.policy set?", [("values", 6, 6), ("pod", 4, 4)]),
        ("What is .Values.image.pull", [("values", 5, 6), ("pod", 4, 4)]),
        ("explain .Values.tag please", [("values", 1, 1)]),
    ],
)
def test_a_value_is_declared_and_used(searcher_of, question, places):
    searcher = searcher_of(CHART)
    result = search([searcher], question)
    assert result.code_facts is not None and result.code_facts.kind == "chart_value"
    found = [
        (i.path.rpartition("/")[2].removesuffix(".yaml"), i.start, i.end) for i in result.code_facts.items
    ]
    assert found == places
    assert result.hits[0].path.startswith("charts/web/")
    assert judge([searcher], result).value == 1.0


@pytest.mark.parametrize(
    "values",
    [
        "ports:\n  - name: http\n    port: 80\n",
        "ports:\n- name: http\n  port: 80\n",
        "ports: |\n  port: 80\n",
        "ports: >-\n  port: 80\n",
        "ports:\n\tport: 80\n",
    ],
)
def test_lists_and_texts_declare_no_value(searcher_of, values):
    files = {
        "Chart.yaml": "name: a\n",
        "values.yaml": values,
        "templates/a.yaml": "a: {{ .Values.ports.port }}\n",
    }
    facts = search([searcher_of(files)], "What is .Values.ports.port?").code_facts
    assert facts is not None and facts.summary == "`.Values.ports.port` is used in 1 place"


def test_a_key_after_a_list_or_a_text_is_declared(searcher_of):
    values = "args:\n- a: 1\ntext: |\n  x: 1\n\nimage:\n  tag: v\n"
    files = {"Chart.yaml": "name: a\n", "values.yaml": values}
    facts = search([searcher_of(files)], "What is .Values.image.tag?").code_facts
    assert facts is not None and [item.start for item in facts.items] == [7]
    assert facts.summary == "`.Values.image.tag` is declared in 1 place"


FLOW = (
    'image: {repo: "a, {b: c}", tag: v1, pull: {policy: Always, "when":now}} # tag: no\n'
    "tags: [{tag: x}, tag: y]\nresources: {}\nnext:\n  port: 80\n"
    "service: {\n  port: 80, name: http, extra: {\n  deep: 1},\n  last: 2 }\nafter: 1\n"
)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("image.tag", 1),
        ("image.repo", 1),
        ("image.pull.policy", 1),
        ("image.pull.when", 1),
        ("image.policy", 0),
        ("image.b", 0),
        ("tags.tag", 0),
        ("tags", 2),
        ("next.port", 5),
        ("resources.port", 0),
        ("service.port", 7),
        ("service.name", 7),
        ("service.extra.deep", 8),
        ("service.deep", 0),
        ("service.last", 9),
        ("after", 10),
    ],
)
def test_a_value_in_flow_style_is_declared(searcher_of, name, line):
    files = {"Chart.yaml": "name: a\n", "values.yaml": FLOW}
    facts = search([searcher_of(files)], f"What is .Values.{name}?").code_facts
    found = [item.start for item in facts.items] if facts and facts.kind == "chart_value" else [0]
    assert found == [line]


@pytest.mark.parametrize(
    "text", ["a: {" + "{" * 5_000, "a: [" + '"' * 5_001, "a: {" + "a" * 5_000, "a: {" + "a: " * 5_000]
)
def test_a_value_in_flow_style_is_read_in_linear_time(text):
    began = time.thread_time()
    _in_flow([text] * 10, 1, 3)
    assert time.thread_time() - began < 1


def test_an_unknown_value_is_not_found(searcher_of):
    assert search([searcher_of(CHART)], "What is the default of .Values.image.size?").code_facts is None


@pytest.mark.parametrize(
    "text",
    [
        "Which values does the enum have?",
        "What does form.Values.Get return?",
        "Where is Values.image defined?",
        "What is in .Values?",
        "How are .values files read?",
        "Where is the map's `.Values()` called?",
        "{{ .Values.image.tag }}",
        "Who calls Dictionary.Values.First?",
        "What is the default of image.tag?",
        "sum(x.Values.length) is wrong?",
        "What values are valid?",
        "Where is values.yaml?",
        "list all values",
        "",
        "Values",
    ],
)
def test_other_questions_name_no_value(text):
    assert "chart_value" not in kinds_of(text)
    assert not chart_value(text) or text.startswith("{{")
