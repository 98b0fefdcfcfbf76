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


KILN = {
    "kiln/names.py": '''
def short_name(name, most):
    """Return a name that is not too long: the end is cut off."""
    if len(name) <= most:
        return name
    return name[:most]


def file_name(pot, most):
    """Return the name of a file; a name that is too long for most disks is an error."""
    name = short_name(pot.name, most)
    if not name or len(name) > most:
        raise ValueError("the name is too long, or the name is empty")
    return name + ".pot"


class KilnError(Exception):
    """A kiln that is broken."""


class GlazeError(KilnError):
    """A glaze that is too thin."""
''',
}


@pytest.mark.parametrize(
    ("question", "subject"),
    [
        ("what does short_name do when the name is too long", None),
        ("What happens if the name is too long in file_name?", "file_name"),
        ("which exceptions can file_name raise", "file_name"),
        ("what errors might file_name throw?", "file_name"),
        ("what does short_name return when the name is too long", "short_name"),
        ("what if the name given to short_name is empty and too long", "file_name"),
    ],
)
def test_a_question_that_names_a_function_is_about_no_other(searcher_of, question: str, subject: str | None):
    found = search_in_turn([searcher_of(KILN)], question, []).code_facts
    assert (found and found.subject) == subject
    if found:
        is_named = found.subject in question
        assert found.kind == "failure"
        assert found.summary.startswith(f"`{subject}` {'has' if is_named else 'fits best; it has'} ")


def test_a_function_that_the_question_does_not_name_only_fits_best(searcher_of):
    found = search_in_turn([searcher_of(KILN)], "What happens if the file's name is too long?", []).code_facts
    assert found is not None
    assert found.summary == "`file_name` fits best; it has 1 line on failures"


POST = {
    "post/box.py": '''
def send_mail(text):
    """Send a mail."""
    if not text:
        return None
    return connect().send(text)


def run_mails(texts):
    """Send mails; an error is logged, and the mail is lost."""
    for text in texts:
        try:
            send_mail(text)
        except OSError:
            log.error("no mail: an exception was caught")
            raise RuntimeError("mail lost")
''',
}


@pytest.mark.parametrize(
    ("question", "subject"),
    [
        ("which exception is caught when send_mail raises?", "run_mails"),
        ("What error is logged if send_mail fails", "run_mails"),
        ("what does run_mails raise if send_mail returns None?", "run_mails"),
        ("What does send_mail return if the text is empty?", "send_mail"),
    ],
)
def test_a_function_on_which_an_error_depends_is_not_what_has_it(searcher_of, question: str, subject: str):
    found = search_in_turn([searcher_of(POST)], question, []).code_facts
    assert found is not None and found.subject == subject
