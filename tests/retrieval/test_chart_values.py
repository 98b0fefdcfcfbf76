"""A value of a Helm chart: where it is declared, and which templates use it."""

from __future__ import annotations

import pytest

from rag.retrieval.answerability import judge
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
