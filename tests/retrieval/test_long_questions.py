"""A long question takes as long as it is, whatever it is made of; the square of it would stop a server."""

from __future__ import annotations

import time

import pytest

from rag.answer.citations import resolve
from rag.retrieval.answerability import _names
from rag.retrieval.question import parse_question

LONG = 16_000


def seconds(text: str) -> float:
    began = time.thread_time()
    parse_question(text)
    _names(text)
    resolve(text, ())
    return time.thread_time() - began


@pytest.mark.parametrize(
    "part", ["`", "_", "a-", "a.", "a/b", "A", "aA", "x_", "1", " ", ". ", "[", "中", "who "]
)
def test_no_text_takes_the_square_of_its_length(part: str) -> None:
    text = part * (LONG // len(part))
    assert min(seconds(text) for _ in range(3)) < 0.25
