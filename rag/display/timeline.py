"""How the answers of a conversation age: a row for each turn, a column for each commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag.display.plot import Plot
from rag.display.svg import dot, drawing, line, shortened, text

COLOURS = {
    "fresh": "#059669",
    "moved": "#2563eb",
    "reformatted": "#0e8aa8",
    "unknown": "#7a7f8a",
    "changed": "#c2660a",
    "gone": "#dc2626",
}
_LEFT, _STEP, _ROW, _TOP = 340, 104, 38, 46  # pixels


@dataclass(frozen=True, slots=True)
class TimelineColumn:
    """A commit: its short name, its title and its date."""

    commit: str
    title: str
    date: str = ""


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """A turn: its number and question, and for each column its state and why ("" before it was asked)."""

    number: int
    question: str
    states: Sequence[str]
    reasons: Sequence[str]


def timeline_plot(columns: Sequence[TimelineColumn], rows: Sequence[TimelineRow], note: str = "") -> Plot:
    """Draw the states of turns at commits, oldest first; `note` says what is left out."""
    height = _TOP + _ROW * len(rows) + 8
    shapes = []
    for n, column in enumerate(columns):
        x = _LEFT + n * _STEP
        shapes.append(text(x, 14, shortened(column.title, _STEP - 8), "middle", 'font-weight="600"'))
        shapes.append(
            text(x, 28, column.date or column.commit[:10], "middle", 'font-size="10" opacity=".75"')
        )
        shapes.append(line(x, _TOP - 12, x, height - 6, style='opacity=".15"'))
    data = []
    for m, row in enumerate(rows):
        y = _TOP + m * _ROW + 6
        shapes.append(text(0, y + 4, shortened(f"{row.number}. {row.question}", _LEFT - 56)))
        for n, (column, state, why) in enumerate(zip(columns, row.states, row.reasons, strict=True)):
            if not state:
                continue
            x, fill = _LEFT + n * _STEP, COLOURS.get(state, COLOURS["unknown"])
            if n and row.states[n - 1]:
                shapes.append(line(x - _STEP + 8, y, x - 8, y, stroke=fill, style='stroke-width="3"'))
            shapes.append(dot(x, y, 6, fill, f"{row.question}\n{column.title}: {why or state}"))
            shapes.append(text(x, y + 18, state, "middle", 'font-size="10"'))
            data.append(
                {
                    "turn": row.number,
                    "question": row.question,
                    "commit": column.commit,
                    "title": column.title,
                    "date": column.date,
                    "state": state,
                    "reason": why,
                }
            )
    caption = f"What became of each answer at {len(columns)} commits of the repository.{note and ' ' + note}"
    return Plot(
        drawing(_LEFT + _STEP * len(columns) - _STEP // 3, height, shapes, caption),
        caption=caption,
        rows=data,
        vega_lite=_vega(columns),
    )


def _vega(columns: Sequence[TimelineColumn]) -> dict[str, object]:
    titles = {"domain": [*COLOURS], "range": [*COLOURS.values()]}
    return {
        "mark": {"type": "point", "filled": True, "size": 120, "tooltip": {"content": "data"}},
        "encoding": {
            "x": {
                "field": "commit",
                "type": "ordinal",
                "sort": [column.commit for column in columns],
                "axis": {"labelExpr": "slice(datum.label, 0, 10)"},
            },
            "y": {"field": "question", "type": "nominal", "sort": {"field": "turn"}, "title": None},
            "color": {"field": "state", "type": "nominal", "scale": titles},
        },
    }
