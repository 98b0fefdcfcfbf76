"""A mistyped word is taken for the one that was meant, and no other word is touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.backends.static_embedder import StaticEmbedder
from rag.retrieval.search import search
from rag.retrieval.spelling import corrected, corrections
from tests.contracts.hashing_embedder import HashingEmbedder

SLIPS = ["sesions", "sessionns", "sessiosn", "sesxions"]


@pytest.mark.parametrize("slip", SLIPS)
def test_one_slip_finds_what_was_meant_and_says_so(searcher, slip):
    found = search([searcher], f"How are {slip} signed?")
    meant = search([searcher], "How are sessions signed?")
    assert [hit.place for hit in found.hits] == [hit.place for hit in meant.hits]
    assert list(found.taken) == [slip]
    assert found.remarks == [f'"{slip}" was not found; searched for "{found.taken[slip]}"']
    assert slip not in found.sought.standalone


@pytest.mark.parametrize(
    "question",
    [
        "How are sessions signed?",  # is there
        "Does it speak redis, kafka, graphql or ldap?",  # known names
        "Where is the aardvark?",  # plain English
        "where is sesxions_table, `sesxions`, sesxions(), SESXIONS or app/sesxions.py?",  # written as names
        "What of qwzxvkj?",  # near to nothing
        "How are essions signed?",  # the first letter is right
        "",
    ],
)
def test_what_may_be_meant_as_it_stands_is_left(searcher, question):
    assert corrections([searcher.index], searcher.embedder, question) == {}


@pytest.mark.parametrize(
    "question",
    [
        "Wo wird die Sitzung eines Benutzers sesxion geprüft?",
        "Qui vérifie la sesxion des utilisateurs ?",
    ],
)
def test_words_of_another_language_are_left(searcher, question):
    assert corrections([searcher.index], searcher.embedder, question) == {}


def test_an_embedder_that_looks_up_no_words_corrects_none(searcher):
    assert corrections([searcher.index], HashingEmbedder(), "How are sesxions signed?") == {}


def test_only_the_first_strange_words_are_looked_at(searcher):
    strange = " ".join(f"qwzx{letter}vkj" for letter in "abcde")
    assert corrections([searcher.index], searcher.embedder, f"How are sesxions {strange}") == {
        "sesxions": "sessions"
    }
    assert corrections([searcher.index], searcher.embedder, f"How are {strange} sesxions") == {}


@given(st.text(alphabet="sesxion .`/_", max_size=30))
def test_nothing_but_whole_words_is_replaced(text):
    assert corrected(text, {}) == text
    if "sesxions" not in text:
        assert corrected(text, {"sesxions": "sessions"}) == text
    assert corrected(f"{text} sesxions.", {"sesxions": "sessions"}).endswith(" sessions.")


def test_the_table_knows_what_many_packages_use():
    assert StaticEmbedder().knows("session")
    assert not StaticEmbedder().knows("sesxion")
