"""How an answer is broken on a terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from rag.cli.terminal import out
from rag.cli.terminal_markdown import Flow

WORDS = st.sampled_from(
    ["a", "token", "`snip/auth.py:27-39`", "[1]", "北京", "is", "…", "```", "- ", "    ", "|"]
)
TEXTS = st.lists(st.one_of(WORDS, st.sampled_from([" ", "  ", "\n", "\n\n"])), max_size=60).map("".join)


def flowed(width: int, *pieces: str) -> str:
    flow = Flow(width)
    return "".join(map(flow.feed, pieces)) + flow.rest()


@given(TEXTS, st.integers(1, 60))
def test_nothing_but_gaps_changes(text: str, width: int) -> None:
    assert "".join(flowed(width, text).split()) == "".join(text.split())


@given(TEXTS, st.integers(1, 60), st.data())
def test_it_does_not_matter_how_the_text_comes(text: str, width: int, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    assert flowed(width, text[:cut], text[cut:]) == flowed(width, text) == flowed(width, *text)


@given(TEXTS)
def test_what_fits_is_written_as_it_is(text: str) -> None:
    assert flowed(10_000, text) == text


@given(st.lists(st.sampled_from(["a", "token", "[1]", "北", "京"]), max_size=60), st.integers(8, 60))
def test_prose_stays_within_the_terminal(words: list[str], width: int) -> None:
    assert all(cell_len(line) <= width for line in flowed(width, "- " + " ".join(words)).split("\n"))


def test_prose_is_broken_between_words_and_code_is_not() -> None:
    code = "```python\ndef f(): return a + b + c + d\n```\n"
    rest = "| a table | is a row of its own |\n- one of a few more\n"
    text = f"The token is checked in `authenticate` [1].\n\n{code}{rest}"
    assert flowed(16, text).split("\n") == [
        *("The token is", "checked in", "`authenticate`", "[1].", ""),
        *code.splitlines(),
        "| a table | is a row of its own |",
        *("- one of a few", "  more", ""),
    ]


def test_a_script_without_spaces_is_not_held_back() -> None:
    flow = Flow(10)
    assert flow.feed("令牌在这里检查") == "令牌在这里\n检查"
    assert (flow.feed(" in"), flow.rest()) == ("", " in")


@pytest.mark.parametrize("on_a_terminal", [True, False])
def test_no_text_commands_or_reorders_a_terminal(
    on_a_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: on_a_terminal)
    monkeypatch.setattr("sys.stdout", screen)
    text = "a\tb \x1b]0;title\x07 \x9b31m /* \u202e \u2066 begin */ שלום\n"
    out(text, end="")
    shown = "a\tb �]0;title� �31m /* � � begin */ שלום\n"
    assert screen.getvalue() == shown
