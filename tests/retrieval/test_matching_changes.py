"""Which of the commits of some lines did what a question says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag.analysis import term_set
from rag.retrieval.kinds.history import ChangeText, matching

OTHER: ChangeText = ("Tidy the module", "", "")


def matched(words: str, *changes: ChangeText) -> list[int]:
    return matching([frozenset(term_set(word)) for word in words.split()], changes)


def test_a_title_counts_more_than_a_text_and_that_more_than_lines() -> None:
    title, text = ("Limit retries", "", ""), ("Wait", "Limit the retries", "")
    lines = ("Limit it", "", "".join(f"of_{number} = retries" for number in range(99)))
    assert matched("limit retries", OTHER, lines, text, title, OTHER) == [3, 2, 1]


def test_the_lines_decide_between_equal_messages() -> None:
    one, other = ("Fix hanging retries", "", "wait(1)"), ("Fix hanging retries", "", "timeout = 3")
    assert matched("retries hanging timeout", one, other, OTHER)[0] == 1


def test_what_few_commits_say_counts_more() -> None:
    often = [("Fix the retries", "", "")] * 5
    assert matched("fix retries proxy", *often, ("Fix the proxy", "", ""))[0] == 5


def test_of_equal_commits_the_first_that_was_made_comes_first() -> None:
    assert matched("limit retries", ("Limit retries", "", ""), OTHER, ("Limit retries", "", ""))[0] == 2


def test_one_word_of_several_and_lines_alone_say_nothing() -> None:
    assert not matched("limit retries", ("Limit texts", "", ""), OTHER)
    assert not matched("limit retries", ("Tidy", "", "limit = retries"), OTHER)
    assert matched("retries", ("Limit retries", "", ""), OTHER)[0] == 0
    assert not matched("retries", ("Limit retries", "", ""), ("More retries", "", ""))


def test_half_of_the_words_must_match_better_than_elsewhere() -> None:
    words, one, other = (
        "limit retries proxy cookie",
        ("Limit retries", "", ""),
        ("Retries have a limit", "", ""),
    )
    assert not matched(words, one, other, OTHER)
    assert matched(words, one, OTHER, OTHER)[0] == 0


def test_nothing_matches_nothing() -> None:
    assert matched("") == matched("", OTHER) == matched("limit") == []


@given(st.text(max_size=50), st.lists(st.tuples(st.text(), st.text(), st.text()), max_size=5))
def test_no_commit_comes_twice(words: str, changes: list[ChangeText]) -> None:
    found = matched(words, *changes)
    assert len(set(found)) == len(found) <= len(changes)
