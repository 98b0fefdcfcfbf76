"""The section that a line of a source is in."""

from __future__ import annotations

import pytest

from rag.answer.sections import label_at, title_at
from rag.types import Hit, Span

TEXT = "### Tests\n\n    make test\n\n```\n# a comment\n```\n### Formatting\n\n    make format\n"


def hit(text: str, symbol: str, scope: str = "", unit: str = "section") -> Hit:
    return Hit(Span("", "README.md", 1, text.count("\n"), symbol=symbol, scope=scope), text, 1.0, unit=unit)


@pytest.mark.parametrize(
    ("line", "name"), [(0, "Tests"), (2, "Tests"), (6, "Tests"), (7, "Formatting"), (9, "Formatting")]
)
def test_a_line_is_in_the_section_of_the_heading_above_it(line: int, name: str) -> None:
    assert label_at(hit(TEXT, "Formatting", "Development"), line) == f"Development.{name}"
    assert label_at(hit(TEXT, "Formatting"), line) == name


def test_the_title_is_the_heading_alone() -> None:
    assert title_at(hit(TEXT, "Formatting", "Development")) == "Tests"
    assert title_at(hit("## Development\n\n" + TEXT, "Formatting", "Development")) == "Development"
    assert title_at(hit("text\n" + TEXT, "Introduction")) == "Introduction"
    assert label_at(hit("# def f():\n", "f", unit="function")) == "f"
