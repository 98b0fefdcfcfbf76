from hypothesis import given
from hypothesis import strategies as st

from rag.analysis import terms, words


@given(st.text(st.characters(max_codepoint=127)))
def test_a_text_has_the_same_words_whatever_stands_beside_it(text: str) -> None:
    beside = f"{text} …"  # no letter, and not ASCII

    assert words(beside) == words(text)
    assert terms(beside) == terms(text)
