"""Questions that name nothing but "it"."""

from __future__ import annotations

import pytest

from rag.retrieval.pronouns import bare_pronoun


@pytest.mark.parametrize(
    ("question", "pronoun"),
    [
        ("Who calls it?", "it"),
        ("hi, who calls it? thanks", "it"),
        ("Which tests cover it?", "it"),
        ("Which classes extend it?", "it"),
        ("What happens if that fails?", "that"),
        ("What errors can they throw?", "they"),
        ("Who calls this function?", "this function"),
        ("Where is it used?", "it"),
        ("What is its default?", "its"),
    ],
)
def test_a_question_may_name_only_a_pronoun(question: str, pronoun: str):
    assert bare_pronoun(question) == pronoun


@pytest.mark.parametrize(
    "question",
    [
        "How does it work?",
        "What does it do?",
        "What is it used for?",
        "How do I test it?",
        "Is this tested?",
        "Is it documented?",
        "Is there a test that fails?",
        "Which function that raises an error is called?",
        "Who calls `it`?",
        "What does it raise when the file is missing?",
        "what happens if it times out?",
        "Where are errors handled?",
        "",
    ],
)
def test_a_question_with_words_of_its_own_or_about_the_project_names_something(question: str):
    assert bare_pronoun(question) == ""
