"""Lines with words of a question on them or near them are those that reading line by line finds."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.analysis import terms
from rag.retrieval.kinds.word_lines import WordLines, beginning, near

LINES = st.lists(st.text("abAB_-. \t\u00e9\u0130=", max_size=12), max_size=20)


@given(LINES, st.text("ab", min_size=1, max_size=3))
def test_lines_that_have_a_text_are_found(lines: list[str], text: str) -> None:
    assert WordLines(lines, 400).having(text).tolist() == [text in line.lower() for line in lines]


@given(LINES, st.text("ab", min_size=1, max_size=3))
def test_lines_where_a_word_begins_are_found(lines: list[str], text: str) -> None:
    found = WordLines(lines, 400).having_words(text).tolist()
    word = re.compile(rf"(?<![a-z]){text}|(?=[A-Z])(?i:{text})|(?<![a-z])(?i:{text})")
    if not any("\u0130" in line for line in lines):
        assert found == [word.search(line) is not None for line in lines]


def test_a_word_does_not_begin_within_another():
    lines = WordLines(["return results", "turn off", "turnOff", "doTurn", "TURN", "re_turn", "overturn"], 400)
    assert lines.having_words("turn").tolist() == [False, True, True, True, True, True, False]


@given(LINES, st.text("ab", min_size=1, max_size=4))
def test_punctuation_between_letters_is_ignored(lines: list[str], letters: str) -> None:
    expected = [letters in re.sub(r"[^a-z\u00e9\u0307]", "", line.lower()) for line in lines]
    assert WordLines(lines, 400).having_letters(letters).tolist() == expected


def test_what_a_key_leaves_out_may_be_between_its_letters():
    lines = WordLines(["retry_default_limit = 3", "DEFAULTS_OF_RETRY", "retrying"], 400)
    assert lines.having_letters("retrylimit", apart_from="defaults?").tolist() == [True, False, False]
    assert lines.having_letters("retrylimit").tolist() == [False, False, False]


def test_only_the_first_characters_of_a_line_are_read():
    assert WordLines(["x" * 10 + "kiln", "kiln"], 10).having("kiln").tolist() == [False, True]
    assert WordLines([], 10).having_any(["kiln"]).tolist() == []


@given(st.lists(st.booleans(), max_size=30), st.integers(0, 9), st.integers(0, 9))
def test_lines_near_others_are_found(flags: list[bool], above: int, below: int) -> None:
    expected = [any(flags[max(n - above, 0) : n + below + 1]) for n in range(len(flags))]
    assert near(np.asarray(flags, np.bool_), above, below).tolist() == expected


@pytest.mark.parametrize(
    "word", ["cookies", "city", "caching", "timing", "sizes", "properties", "hopping", "organization", "keys"]
)
def test_every_word_of_a_term_has_its_beginning(word: str):
    (term,) = terms(word)
    assert WordLines([word], 400).having_words(beginning(term)).all()
