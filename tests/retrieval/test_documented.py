"""Follow-ups about documentation: documents first, and the comments of the subject where any will do."""

from __future__ import annotations

import pytest

from rag.retrieval.search import search_in_turn

CODE = '''def set_cookie(response, name, path="/"):
    """Write a cookie to the response.

    The path is that of the whole site if none is given.
    """
    response.headers["Set-Cookie"] = f"{name}; Path={path}"


def send_file(response, path):
    response.body = open(path).read()


def clear(response):
    response.headers.clear()
'''
MANUAL = """# Manual

## Cookies

A cookie is written to the response with its path; browsers send the cookie back.

## Files

A file is sent from its path.
"""
ASKED = ["Where is a cookie written to the response?"]


@pytest.fixture(scope="module")
def searcher(searcher_of):
    return searcher_of({"response.py": CODE, "manual.md": MANUAL})


@pytest.mark.parametrize(
    "question",
    [
        "is that described in the manual?",
        "where can one read about it in the manual?",
        "does the manual explain it?",
    ],
)
def test_documents_come_first_where_documentation_is_asked_for(searcher, question):
    assert search_in_turn([searcher], question, ASKED).hits[0].path == "manual.md"


@pytest.mark.parametrize("question", ["is it documented?", "where is that explained?"])
def test_the_comments_of_the_subject_are_documentation_too(searcher, question):
    code = [
        hit.symbol for hit in search_in_turn([searcher], question, ASKED).hits if hit.path == "response.py"
    ]
    assert code[0] == "set_cookie"


def test_where_code_is_asked_for_documents_do_not_come_first(searcher):
    assert search_in_turn([searcher], "and who clears it?", ASKED).hits[0].path == "response.py"
