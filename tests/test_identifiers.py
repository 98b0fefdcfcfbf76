import re
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.analysis import terms, words
from rag.identifiers import NAME, composed, folded, names_in, spellings

TEXTS = st.text(
    st.sampled_from("aeoué\u0301\u0308\u0323ß각ệ .\n") | st.characters(codec="utf-8"), max_size=12
)


@given(TEXTS)
def test_both_forms_of_a_text_have_the_same_terms(text):
    one, other = normalize("NFC", text), normalize("NFD", text)

    assert terms(one) == terms(other)
    assert words(one) == words(other)
    assert folded(one) == folded(other)


@given(TEXTS)
def test_a_text_is_found_in_both_forms(text):
    expression = re.compile(spellings(text))

    assert expression.fullmatch(normalize("NFC", text))
    assert expression.fullmatch(normalize("NFD", text))


@given(TEXTS)
def test_a_composed_text_has_the_same_lines(text):
    assert composed(text).count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "name", ["größe_berechnen", "寻路服务", "ПроверитьТокен", "نام_کاربر", "नमस्ते", "$länge", "_x1", "ệ", "ชื่อ"]
)
def test_a_name_of_any_script_is_one(name):
    assert re.fullmatch(NAME, name)
    assert list(names_in(f"({name}, 12)")) == [name]


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("größeÄndern", ["grösse", "ändern"]),
        ("ПроверитьТокен", ["проверить", "токен"]),
        ("HTTPÜbung", ["http", "übung"]),
        ("MAX_GRÖSSE", ["max", "grösse"]),
    ],
)
def test_a_name_is_split_at_upper_case_of_any_script(word, parts):
    assert terms(word)[:-1] == parts


def test_words_are_compared_without_case():
    assert terms("groß") == terms("GROSS")
    assert terms("ΣΟΦΟΣ") == terms("σοφος")


def test_between_characters_without_spaces_a_name_may_end():
    assert "check_token" in names_in("check_token在哪里被调用？")
