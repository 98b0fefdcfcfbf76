"""The list of lines as text has every line, and says where those are that it does not have."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rag.lines import ranges
from rag.service.tools import line_list as module
from rag.service.tools.line_list import line_list, line_places
from rag.types import Hit, LinesLeft, PatternMatches, Span

_HEAD = re.compile(r"(?P<path>[a-z/.]+):(?:(?P<line>\d+): (?P<text>.*)|(?P<numbers>[\d,-]+))?")


def hit(path: str, line: int, text: str = "", last: int = 0, repo: str = "shop") -> Hit:
    return Hit(Span(repo, path, line, last or line, "", None), text or f"text {line}", 1.0)


def read(text: str) -> set[tuple[str, int]]:
    """The lines of a list, read as an agent does."""
    found, path = set(), ""
    for row in text.splitlines()[1:]:
        if below := re.match(r"(\d+): ", row):
            found.add((path, int(below[1])))
        elif head := _HEAD.fullmatch(row):
            path = head["path"]
            for part in filter(None, (head["line"] or head["numbers"] or "").split(",")):
                first, _, last = part.partition("-")
                found |= {(path, n) for n in range(int(first), int(last or first) + 1)}
    return found


@given(
    lines=st.sets(st.tuples(st.sampled_from(["a.py", "b/c.py", "d.md"]), st.integers(1, 400)), max_size=120),
    width=st.sampled_from([5, 60, 200]),
)
@settings(max_examples=100)
def test_each_line_is_in_the_list_once_whatever_its_length(lines: set[tuple[str, int]], width: int) -> None:
    hits = [hit(path, line, "x" * width) for path, line in sorted(lines)]
    text = line_list(hits, PatternMatches(len(hits), len(hits), 3), several=False)
    assert read(text) == lines
    numbers = len(lines) - len(re.findall(r"(?m)\d: x", text))
    assert f"of {numbers} lines only" in text or f"of {numbers} line only" in text or not numbers
    texts = sum(map(len, re.findall(r"(?m)^.*\d: x.*$", text)))
    first = sum(1 for path, _ in lines if path == min(lines)[0]) if lines else 0
    assert texts <= module._TEXT_CHARS * 1.5 + first * (width + 20)
    assert set(line_places(hits)) == {
        f"{path}:{ranges(sorted(n for one, n in lines if one == path))}" for path, _ in lines
    }


def test_a_file_with_one_line_takes_one_row_and_several_lines_are_below_their_file() -> None:
    hits = [hit("b.py", 7, "    def pay():"), hit("a.py", 9), hit("a.py", 2), hit("c.py", 1, "one\n  two", 2)]
    assert line_list(hits, PatternMatches(4, 4, 3), several=False).splitlines() == [
        "4 matches on 4 lines of 3 files:",
        "b.py:7: def pay():",
        "a.py:",
        "2: text 2",
        "9: text 9",
        "c.py:1-2: one",
        "    two",
    ]


def test_what_a_page_does_not_have_is_named_with_the_way_to_get_it() -> None:
    rest = (LinesLeft("shop", "z.py", 2), LinesLeft("shop", "docs/", 1_300))
    matches = PatternMatches(1_303, 1_303, 400, 1_302, next_page=2, rest=rest)
    text = line_list([hit("a.py", 1)], matches, several=True, next_page="pass page=2")
    assert text.splitlines() == [
        "1,303 matches on 1,303 lines of 400 files; 1,302 more lines are not shown:",
        "shop:a.py:1: text 1",
        "Not shown (1,302 lines): shop:z.py 2, shop:docs/ 1,300.",
        "Pass page=2.",
    ]


def test_a_search_without_a_match_says_so() -> None:
    assert line_list([], PatternMatches(), several=False) == "0 matches on 0 lines of 0 files."


def test_the_first_line_of_each_test_has_its_name() -> None:
    def within(line: int, symbol: str, text: str = "") -> Hit:
        found = hit("tests/a.py", line, text)
        return replace(found, kind="test", span=replace(found.span, symbol=symbol), unit="function")

    hits = [
        within(2, "test_a", "def test_a():"),
        within(3, "test_a"),
        within(8, "test_b"),
        within(9, "test_b"),
    ]
    said = line_list(hits, PatternMatches(4, 4, 1), several=False).splitlines()[2:]
    assert said == ["2: def test_a():", "3: text 3", "8 in test_b: text 8", "9: text 9"]
