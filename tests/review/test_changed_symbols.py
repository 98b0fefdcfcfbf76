"""Which lines belong to which definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag.review.changed_symbols import FileDefinitions
from rag.types import CodeDefinition


@st.composite
def nested(draw: st.DrawFn) -> list[CodeDefinition]:
    """Definitions that are nested or apart, in the order in which they begin."""
    found: list[CodeDefinition] = []

    def fill(first: int, last: int, depth: int) -> None:
        row = first
        while row <= last and draw(st.integers(0, 3)):
            begin = draw(st.integers(row, last))
            end = draw(st.integers(begin, last))
            unit = draw(st.sampled_from(("class", "class", "function")))
            found.append(CodeDefinition("a.py", f"n{len(found)}", "", unit, begin, end))
            if depth < 4 and begin < end:
                fill(begin + 1, end, depth + 1)
            row = end + 1

    fill(1, 30, 0)
    return found


@given(nested())
def test_definitions_have_the_lines_that_a_search_one_by_one_finds(known: list[CodeDefinition]) -> None:
    lines = [f"line {number}" for number in range(1, 31)]
    file = FileDefinitions(known, lines)
    functions = [one for one in known if one.unit == "function"]
    listed = [
        one
        for one in known
        if not any(o is not one and o.start <= one.start and one.end <= o.end for o in functions)
    ]
    assert file.listed == listed
    for number in range(1, 31):
        holding = [one for one in listed if one.start <= number <= one.end]
        assert file.around(number) == (holding[-1] if holding else None)
    for one in listed:
        inner = [o for o in listed if one.start < o.start and o.end <= one.end]
        covered = {row for o in inner for row in range(o.start, o.end + 1)} if one.unit == "class" else set()
        rows = [row for row in range(one.start, one.end + 1) if row not in covered]
        assert file.own_text(one) == "\n".join(f"line {row}" for row in rows)
