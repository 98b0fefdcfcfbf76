"""How the answers of a conversation age, as a plot: a row for each turn, a column for each commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag.display.plot import Plot
from rag.display.values import STATE_COLOURS

_AT = "datum.title + '\\n' + datum.date + '\\n' + slice(datum.commit, 0, 7)"
"""The label of a commit, in Vega's language."""


def timeline_plot(rows: Sequence[Mapping[str, Any]], caption: str) -> Plot:
    """Return a plot of the states of turns at commits, which are in the order of the rows.

    A row is a turn at a commit: `turn`, `question`, `commit`, `title`, `date`, `state`, `reason`.
    """
    colours = {"domain": [*STATE_COLOURS], "range": [*STATE_COLOURS.values()]}
    dots = {"type": "point", "filled": True, "size": 120, "tooltip": {"content": "data"}}
    state = {"field": "state", "type": "nominal"}
    return Plot(
        caption,
        rows,
        {
            "width": {"step": 90},
            "height": {"step": 40},
            "transform": [{"calculate": _AT, "as": "at"}],
            "encoding": {
                "x": {
                    "field": "at",
                    "type": "ordinal",
                    "sort": None,
                    "axis": {"title": None, "labelExpr": "split(datum.label, '\\n')", "labelAngle": 0},
                },
                "y": {
                    "field": "question",
                    "type": "nominal",
                    "sort": {"field": "turn"},
                    "axis": {"title": None, "labelLimit": 320},
                },
            },
            "layer": [
                {"mark": dots, "encoding": {"color": {**state, "scale": colours}}},
                {"mark": {"type": "text", "dy": 16}, "encoding": {"text": state}},
            ],
        },
    )
