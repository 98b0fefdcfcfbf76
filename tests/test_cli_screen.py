"""What an answer without a model looks like on a terminal."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest
from command import rag
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from test_cli import Terminal

from rag.answer.extract import extracted
from rag.answer.one_screen import Extract
from rag.cli.screen import ShownAnswer, screen, shortened
from rag.types import CodeFact, CodeFacts, Confidence, Hit, NumberedSource, PlaceNote, Prepared, Prompt, Span

GOLDEN = Path(__file__).parent / "golden" / "screens"
UPDATE = "UPDATE_GOLDEN"
ESCAPES = re.compile(r"\x1b\]8;[^\x1b]*\x1b\\|\x1b\[[0-9;]*m")

CODE = '''\
    def sign(self, user):
        """Sign a session.

        It is valid for a day,
        and never longer.
        """
        secret = self.secret
        text = f"{user.name}:{self.now()}"
        log.info("signing a session for %s, which is the user that has just logged in", user)
        return hmac(secret, text)
'''

ELSE = "What you ask for may have another name."


def hit(path: str, start: int, text: str, symbol: str = "", score: float = 1.0, **more: str) -> Hit:
    end = start + text.count("\n") - text.endswith("\n")
    span = Span("web", path, start, end, symbol=symbol, scope=more.pop("scope", ""))
    return Hit(span, text, score, unit="function" if symbol else "block", language="python", location="web")


SOURCES = [
    hit("server/sessions/signing.py", 30, CODE, "sign", scope="Session"),
    hit("server/sessions/keys.py", 7, "# the key\ndef key(name):\n    return KEYS[name]\n", "key", 0.9),
    hit("deep/" * 12 + "settings.py", 120, 'SECRET = "…"\n', score=0.5),
    hit("tests/test_signing.py", 1, "def test_sign():\n    assert sign(USER)\n", "test_sign", 0.4),
]
NOTES = {
    1: PlaceNote(30, ((31, "Sign a session."),)),
    2: PlaceNote(8, signature="key(name)"),
    4: PlaceNote(1, ((1, "A test whose documentation is longer than two lines of a terminal. " * 3),)),
}


def extract_of(
    *sources: Hit, first_right: float | None = 0.8, facts: CodeFacts | None = None, warning: str = ""
) -> Extract:
    numbered = tuple(NumberedSource(n, source) for n, source in enumerate(sources, 1))
    return extracted(
        Prepared(
            "How is a session signed?",
            "How is a session signed?",
            None,
            sources,
            Prompt("", numbered, (), 0, 0),
            confidence=Confidence(0.9, True, first_right=first_right),
            code_facts=facts,
            notes=NOTES,
            warning=warning,
        )
    )


def shown(first_right: float | None = 0.8, root: Path | None = None, warning: str = "") -> ShownAnswer:
    extract = extract_of(*SOURCES, first_right=first_right, warning=warning)
    return ShownAnswer(extract, {"web": root} if root else {}, warning)


HINT = "12 ms · turn 1 · no model is connected: `rag setup` finds one"


def drawn(found: ShownAnswer, width: int = 80, *, rows: int = 25, styled: bool = False) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=styled,
        color_system="standard" if styled else None,
        highlight=False,
    )
    for line in screen(found, console, rows=rows, hint=HINT):
        console.print(line, soft_wrap=True)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "found", "width"),
    [
        ("sure", shown(0.8), 80),
        ("probably", shown(0.5), 100),
        ("possibly", shown(0.2), 80),
        ("doubtful", shown(0.2, warning=f"`kafka` occurs nowhere in this repository. {ELSE}"), 80),
        ("narrow", shown(0.2), 40),
    ],
)
def test_a_screen_is_as_it_was(name: str, found: ShownAnswer, width: int) -> None:
    text = drawn(found, width)
    file = GOLDEN / f"{name}.txt"
    if UPDATE in os.environ:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{UPDATE}=1 writes the file again"


@pytest.mark.parametrize("width", [20, 40, 80, 100])
@pytest.mark.parametrize("rows", [16, 21, 25])
def test_a_screen_fits(width: int, rows: int) -> None:
    lines = drawn(shown(), width, rows=rows).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert len(lines) <= max(rows, 18 if width >= 40 else 25)


def test_each_place_is_shown_once() -> None:
    text = drawn(shown(), 100)
    assert [text.count("/" + source.path.rpartition("/")[2]) for source in SOURCES] == [1, 1, 1, 1]


def test_lines_that_are_asked_for_have_the_whole_screen() -> None:
    long = hit("app/long.py", 1, "".join(f"value_{n} = {n}\n" for n in range(1, 31)), "long")
    item = CodeFact(Span("web", "app/long.py", 1, 30), long.text, location="web")
    facts = CodeFacts("lines", "long", "`long` in `app/long.py`, lines 1-30 of 30", (item,), 1, 1)
    text = drawn(ShownAnswer(extract_of(long, facts=facts), {}), rows=25)
    assert text.count(" │ ") == 30 and "value_30" in text


def test_a_quotation_that_does_not_fit_keeps_the_line_that_decides() -> None:
    text = drawn(shown(), rows=16)
    assert "log.info(" in text and '"""Sign a session.' not in text


def test_a_long_line_is_wrapped() -> None:
    text = drawn(shown(), 40)
    (n,) = [n for n, line in enumerate(text.splitlines()) if "log.info" in line]
    wrapped = text.splitlines()[n + 1]
    assert wrapped.startswith("   │ ") and "…" not in wrapped


def test_facts_that_do_not_fit_are_counted() -> None:
    lines = [f"VALUE_{n:02} = {n}" for n in range(40)]
    items = [
        CodeFact(Span("web", f"values/{n}.py", n, n), line, location="web", certain=n != 1)
        for n, line in enumerate(lines, 1)
    ]
    facts = CodeFacts("list", "Value", "`Value` has 40 members", tuple(items), 40, 39, note="may miss some")
    text = drawn(ShownAnswer(extract_of(*SOURCES, facts=facts), {}))
    assert text.startswith("`Value` has 40 members:\n\n  values/1.py — `VALUE_00 = 0` 1 (possibly)\n")
    assert "  … and more: `rag turns show` has all\n" in text and "\nmay miss some\n" in text
    assert len(text.splitlines()) <= 25 and "│" not in text, "many facts need no quotation"


def test_colours_and_links_leave_the_text_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    file = tmp_path / "server" / "sessions" / "signing.py"
    file.parent.mkdir(parents=True)
    file.touch()
    styled = drawn(shown(root=tmp_path), styled=True)
    assert f"file://{os.uname().nodename}{file}" in styled
    assert (
        "keys.py" in styled and f"{tmp_path}/server/sessions/keys.py" not in styled
    )  # there is no such file
    assert ESCAPES.sub("", styled) == drawn(shown())
    monkeypatch.setenv("TERM", "linux")
    assert "\x1b]8;" not in drawn(shown(root=tmp_path), styled=True)


def test_no_color_keeps_only_what_is_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    codes = set(re.findall(r"\x1b\[([0-9;]*)m", drawn(shown(), styled=True)))
    assert codes <= {"0", "1", "2", "3", "4"}


def test_code_that_is_cut_out_of_a_string_is_coloured_as_in_the_file() -> None:
    last = next(line for line in drawn(shown(), styled=True).splitlines() if "return" in line)
    assert re.search(r"\x1b\[[0-9;]+mreturn\x1b", last), "the docstring above it is not closed in the quote"


def test_control_characters_do_not_reach_the_terminal() -> None:
    evil = hit("a\x1b]0;x\x07.py", 1, "x = '\x1b[2J\u202e'\n", "f\x1b[1m")
    text = ESCAPES.sub("", drawn(ShownAnswer(extract_of(evil, evil), {}), styled=True))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text)


@given(st.lists(st.text("abc", min_size=1, max_size=12), min_size=1, max_size=9), st.integers(12, 80))
def test_a_path_is_shortened_in_the_middle(parts: list[str], width: int) -> None:
    place = "/".join(parts) + ":120-140"
    short = shortened(place, width)
    assert len(short) <= width
    assert short.endswith(":120-140") and (short == place or "…" in short)


def test_a_long_path_keeps_its_ends() -> None:
    place = "packages/server/src/components/sessions/keys.py:7"
    assert shortened(place, 40) == "packages/…/components/sessions/keys.py:7"
    assert shortened(place, 20) == "packages/…/keys.py:7"
    assert shortened(place, 12) == "…/keys.py:7"
    assert shortened(place, 8) == "…ys.py:7"


def test_a_terminal_and_a_pipe_get_the_same_answer(sample_repo: Path) -> None:
    question = "How are sessions signed?"
    whole = rag("ask", sample_repo, question).out
    sentence = whole.splitlines()[0]
    assert "```python" in whole and whole.count("\n[1] ") == 1, "only the quotation has a caption"
    with Terminal(sample_repo) as terminal:
        terminal.wait_for("> ")
        terminal.type(question + "\n")
        screen_text = ESCAPES.sub("", terminal.wait_for("`rag setup` finds one"))
        assert sentence.split(" (")[0] in screen_text and "```" not in screen_text
        terminal.wait_for("\r\n> ")
        terminal.type("\x04")
        assert terminal.end() == 0


def test_a_source_that_begins_within_a_docstring_is_coloured_from_its_end() -> None:
    source = hit("a.py", 5, 'for a day.\n"""\nreturn 5\n')
    text = drawn(ShownAnswer(extract_of(source), {}), styled=True)
    (first,) = [line for line in text.splitlines() if "for a day." in line]
    (last,) = [line for line in text.splitlines() if "return" in line]
    assert "for a day." in first, "without colours"
    assert "return 5" not in last and "return" in last, "with colours"
    assert ESCAPES.sub("", last).endswith("return 5")
