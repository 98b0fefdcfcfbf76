"""Text of others in files that programs read: the same text comes back."""

from __future__ import annotations

import tomllib

import pytest

from rag.quoting import string_literal

TEXTS = ["Größe 🚀 数", "\x00\x1b\x7f\x85\xa0\u2028\u202e\ufeff\U0010ffff", '"\\U0001f680 #', ""]


@pytest.mark.parametrize("text", TEXTS)
def test_a_literal_is_the_same_text_in_toml_and_yaml(text: str) -> None:
    literal = string_literal(text)
    assert literal.isprintable()
    assert tomllib.loads(f"x = {literal}")["x"] == text
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(f"x: {literal}")["x"] == text
