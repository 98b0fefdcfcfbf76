"""Text of others in files that programs read: the same text comes back."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from command import rag

from rag.quoting import string_literal

TEXTS = ["Größe 🚀 数", "\x00\x1b\x7f\x85\xa0\u2028\u202e\ufeff\U0010ffff", '"\\U0001f680 #', ""]


@pytest.mark.parametrize("text", TEXTS)
def test_a_literal_is_the_same_text_in_toml_and_yaml(text: str) -> None:
    literal = string_literal(text)
    assert literal.isprintable()
    assert tomllib.loads(f"x = {literal}")["x"] == text
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(f"x: {literal}")["x"] == text


def test_a_key_with_text_of_every_plane_is_changed_and_the_others_stay() -> None:
    for name in ("ada", "bob"):
        assert rag("keys", "add", name).code == 0
    file = Path(os.environ["RAG_HOME"]) / "keys.toml"
    file.write_text(file.read_text().replace('namespace = "ada"', f"namespace = {string_literal(TEXTS[0])}"))
    before = tomllib.loads(file.read_text())["key"]
    assert rag("keys", "renew", "ada", "--expires", "30d").code == 0
    after = {key.pop("name"): key for key in tomllib.loads(file.read_text())["key"]}
    assert after["ada"].pop("expires")
    assert after == {key.pop("name"): key for key in before}


def test_a_key_that_cannot_be_written_again_is_left() -> None:
    assert rag("keys", "add", "ada").code == 0
    file = Path(os.environ["RAG_HOME"]) / "keys.toml"
    file.write_text(text := f"{file.read_text()}note = {{ by = 1 }}\n")
    refused = rag("keys", "renew", "ada", "--expires", "30d")
    assert refused.code == 2 and "edit it yourself" in refused.err
    assert file.read_text() == text
