"""Tables on a terminal of any width, and elsewhere."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence

import pytest

from rag.cli.terminal import table

Rows = Sequence[Sequence[object]]

QUALITY = (
    "group",
    "n",
    "system",
    "NDCG@10",
    "MRR@10",
    "recall@10",
    "lines > 0",
    "lines ≥ ½",
    "lines",
    "ahead by",
)
MEASURED = [("follow-up", 12, "rag", *["1.000"] * 6, "+0.500 [+0.000, +1.000]")]
TURNS = ("conversation", "about", "turns", "last", "first question")
SAID = [
    ("7bda6527", "tornado-6.5.2-fdec431e404d", 1, "2026-11-21 22:24", "Where is a token checked, and why?")
]
FOUND = [("–", "settings file", "none at /home/ada/.local/share/rag/config.toml; flags serve", "rag --help")]
STORES = [("/home/ada/projects/bat-0.22.1-7f811dcb098d/src", "2026-11-21 22:24", "2.6 MB", "")]


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Sequence[str], Rows], str]:
    """What is printed on a terminal that is so many columns wide."""

    def run(width: int, columns: Sequence[str], rows: Rows) -> str:
        screen = io.StringIO()
        monkeypatch.setattr(screen, "isatty", lambda: True)
        monkeypatch.setattr("sys.stdout", screen)
        monkeypatch.setenv("COLUMNS", str(width))
        table("A title", columns, rows)
        return re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())

    return run


@pytest.mark.parametrize("width", [20, 40, 80, 100, 200])
@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        (QUALITY, MEASURED),
        (TURNS, SAID),
        (("", "what", "state", "to mend it"), FOUND),
        (("source", "built", "size", "commit"), STORES),
        (("nothing", "here"), []),
    ],
)
def test_no_word_of_a_table_is_cut_on_any_terminal(printed, width, columns, rows) -> None:
    shown = printed(width, columns, rows).split()
    for row in (columns, *rows):
        for cell in row:
            assert [word for word in str(cell).split() if word not in shown] == []


def test_a_long_column_gets_lines_of_its_own_where_it_does_not_fit(printed) -> None:
    assert printed(80, TURNS, SAID).splitlines() == [
        "A title",
        "conversation  about                       turns  last",
        "    first question",
        "7bda6527      tornado-6.5.2-fdec431e404d  1      2026-11-21 22:24",
        "    Where is a token checked, and why?",
    ]
    assert "│ 7bda6527" in printed(120, TURNS, SAID)


def test_a_long_column_is_set_beside_the_short_ones_where_there_is_room(printed) -> None:
    assert printed(72, ("", "what", "state", "to mend it"), FOUND).splitlines()[3:] == [
        "–  settings file  none at /home/ada/.local/share/rag/config.toml; flags",
        "                  serve",
        "                  rag --help",
    ]
