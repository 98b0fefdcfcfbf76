"""What "it" raises, and what happens if "it" fails: the lines of the subject."""

from __future__ import annotations

import pytest

from rag.retrieval.search import search_in_turn
from rag.service import Engine, locate
from rag.settings import load_settings

SHELF = """def put_value(shelf, key, value):
    \"\"\"Put a value under a key.\"\"\"
    if not key:
        return None
    shelf[key] = value
    if len(shelf) > 100:
        raise OverflowError(len(shelf))
"""
LOADER = """def raise_if_it_fails(job):
    \"\"\"Raise what happens if a job fails; it raises when failing happens.\"\"\"
    if job.fails:
        raise RuntimeError("it fails: raise, what happens if it fails")
    if job.failed:
        raise ValueError("it failed, what does it raise")
"""


@pytest.fixture(scope="module")
def searcher(searcher_of):
    return searcher_of({"shelf.py": SHELF, "loader.py": LOADER})


@pytest.mark.parametrize(
    "question", ["What does it raise?", "What happens if it fails?", "What if that fails?"]
)
def test_failures_are_those_of_the_subject(searcher, question):
    found = search_in_turn([searcher], question, ["Where is a value put under a key?"])
    assert found.code_facts is not None
    assert found.code_facts.subject == "put_value"
    assert [(item.path, item.start) for item in found.code_facts.items] == [("shelf.py", 4), ("shelf.py", 7)]


def test_a_question_with_words_of_its_own_is_about_what_fits_it(searcher):
    asked = ["Where is a value put under a key?"]
    found = search_in_turn([searcher], "What does raise_if_it_fails raise?", asked)
    assert found.code_facts is not None
    assert found.code_facts.subject == "raise_if_it_fails"


@pytest.mark.parametrize("question", ["What happens when the key is missing?", "What exactly comes back?"])
def test_a_question_that_leans_on_the_subject_is_about_it(searcher, question):
    found = search_in_turn([searcher], question, ["Where is a value put under a key?"])
    assert found.code_facts is not None
    assert found.code_facts.subject == "put_value"


def test_what_comes_back_is_what_is_returned(searcher):
    found = search_in_turn([searcher], "What does one get back?", ["Where is a value put under a key?"])
    assert found.code_facts is not None
    assert found.code_facts.summary == "`put_value` has 2 lines that return or fail"


def test_a_question_that_names_something_else_is_not_about_the_subject(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_HOME", str(tmp_path / "home"))
    root = tmp_path / "post"
    root.mkdir()
    (root / "shelf.py").write_text(SHELF, encoding="utf-8")
    (root / "post.py").write_text(
        "def deliver(parcel):\n    log(parcel)\n    state = 3\n    late = 4\n    if it:\n        return 5\n",
        encoding="utf-8",
    )
    searcher = Engine(load_settings({"memory": "memory:"})).repository(locate(str(root))).searcher
    question = "What is returned when a parcel is lost?"
    found = search_in_turn([searcher], question, ["Where is a value put under a key?"])
    assert found.code_facts is None or found.code_facts.subject == "deliver"
