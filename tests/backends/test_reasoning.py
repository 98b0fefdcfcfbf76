from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.backends.openai.reasoning import Thoughts, without_thoughts

SAID = st.text("<think>/ a\n", max_size=40)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>\nIs it [1]? No.\n</think>\n\nIt is [2].\n", "It is [2].\n"),
        (" \n<think></think>So.", "So."),
        ("So. <think>not at its beginning</think>", "So. <think>not at its beginning</think>"),
        ("  <thin", "  <thin"),
        ("<thinker> is a tag", "<thinker> is a tag"),
        ("<think>and it never ends", ""),
        ("<think>a</think> <think>b</think> c", "<think>b</think> c"),
        ("", ""),
    ],
)
def test_thoughts_are_no_part_of_an_answer(text: str, answer: str) -> None:
    assert without_thoughts(text) == answer


@given(st.one_of(SAID, SAID.map("<think>{}".format), SAID.map("<think>a</think>{}".format)), st.data())
def test_pieces_give_the_same_answer_however_it_is_split(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6).map(sorted))
    thoughts = Thoughts()
    pieces = [thoughts.feed(text[start:end]) for start, end in pairwise([0, *cuts, len(text)])]
    assert "".join(pieces) + thoughts.close() == without_thoughts(text)


@given(SAID)
def test_an_answer_without_thoughts_is_unchanged(text: str) -> None:
    assert without_thoughts(f"x{text}") == f"x{text}"
