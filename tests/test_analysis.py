import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.analysis import terms, without_clitics, words


@given(st.text(st.characters(max_codepoint=127)))
def test_a_text_has_the_same_words_whatever_stands_beside_it(text: str) -> None:
    beside = f"{text} …"  # no letter, and not ASCII

    assert words(beside) == words(text)
    assert terms(beside) == terms(text)


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("the user's token", "the user token"),
        ("they’ve and I'd and we'll", "they and I and we"),
        ("l'utilisateur d’une session qu'elle", "utilisateur une session elle"),
        ("f('x') and x['s'] and 's'", "f('x') and x['s'] and 's'"),
        ("`it's` and users' list", "`it's` and users' list"),
    ],
)
def test_letters_joined_by_an_apostrophe_are_no_words(text, without):
    assert without_clitics(text) == without
