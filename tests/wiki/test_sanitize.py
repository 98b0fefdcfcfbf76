"""Markdown that is made harmless for viewers that run what they are shown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.markdown import StreamSanitizer, sanitize

PIECES = st.lists(
    st.sampled_from(
        ["<", "!", "[", "img", "`", "```", "~~~", "```mermaid", "mermaid", "\n", " ", "\r", "> ", "x", "/b>"]
    ),
    max_size=30,
)


@given(PIECES)
def test_how_a_text_is_split_changes_nothing(pieces):
    made = StreamSanitizer()
    said = "".join(made.feed(piece) for piece in pieces) + made.close()
    assert said == sanitize("".join(pieces))


@given(PIECES)
def test_only_what_cannot_be_seen_is_added(pieces):
    text = "".join(pieces)
    seen = sanitize(text).replace("\u200b", "")
    assert re.sub(r"mermaid|text", "", seen) == re.sub(r"mermaid", "", text.replace("\r", " "))


@given(PIECES)
def test_no_tag_begins_outside_a_block(pieces):
    said = sanitize("".join(pieces))
    fence = ""
    for line in said.split("\n"):
        opened = re.match(r"(`{3,}|~{3,})", line)
        if not fence:
            assert not re.search(r"<[A-Za-z/!?]|!\[", line)
            assert not re.search(r"(?i)(`{3,}|~{3,})[ \t{.]*mermaid", line)
            if opened and not (opened[1][0] == "`" and "`" in line[len(opened[1]) :]):
                fence = opened[1]
        elif line.strip(" \t") and re.fullmatch(
            rf" {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*", line
        ):
            fence = ""


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "`a\n<img src=x onerror=alert(1)> `",
        "> ```\n<iframe srcdoc='<script>'>",
        "    ```\n<svg onload=alert(1)>",
        "- a\n  ```\n<script>",
        "```\ncode\r```\r<script>x</script>\n```\n",
        "![x](https://example.org/pixel.png)",
        "<!-- -->",
        "``` mermaid\ngraph TD\n",
    ],
)
def test_what_a_viewer_would_run_is_only_shown(hostile):
    said = sanitize(hostile)
    outside = said if not said.startswith("```\n") else ""
    assert not re.search(r"<[A-Za-z/!?]|!\[|```\s*mermaid", outside)
    assert "\r" not in said


def test_code_in_a_block_stays_as_it_is():
    text = "See:\n\n```html\n<b>bold</b> ![x](y)\n```\n\nand <b>\n"
    assert sanitize(text) == text.replace("and <b>", "and <\u200bb>")


def test_a_line_is_passed_on_as_it_grows():
    made = StreamSanitizer()
    assert made.feed("The token is checked in ") == "The token is checked in "
    assert made.feed("`check` <") == "`check` "
    assert made.feed("b> [1]") == "<\u200bb> [1]"
