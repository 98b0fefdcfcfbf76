"""The means of an evaluation as a plot."""

from __future__ import annotations

from typing import Any

from rag.display.plot import Plot
from rag.evaluation.summary import LEVEL, Measure, Summary, SummaryRow, measures_of


def plot_of(summary: Summary) -> Plot:
    """Return the means with their intervals: a panel for each measure, a row for each group of questions."""
    rows = [
        {
            "group": group.name,
            "n": group.count,
            "system": row.system,
            "measure": measure.title,
            **values,
        }
        for group in summary.distinct_groups
        for row in group.rows
        for measure in measures_of(summary)
        if (values := _values(row, measure))
    ]
    count = summary.groups[0].count
    return Plot(
        f"Means of {count} question{'s' * (count != 1)}, with {LEVEL:.0%} intervals (bootstrap).",
        rows,
        _marks(),
    )


def _marks() -> dict[str, Any]:
    x = {"type": "quantitative", "scale": {"domain": [0, 1]}, "title": None}
    y = {"field": "system", "type": "nominal", "title": None}
    return {
        "facet": {
            "column": {"field": "measure", "type": "nominal", "title": None},
            "row": {"field": "group", "type": "nominal", "title": None},
        },
        "spec": {
            "width": 120,
            "layer": [
                {"mark": "rule", "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}, "y": y}},
                {
                    "mark": {"type": "point", "filled": True, "size": 60, "tooltip": {"content": "data"}},
                    "encoding": {"x": {"field": "value", **x}, "y": y, "color": {"field": "system"}},
                },
            ],
        },
    }


def _values(row: SummaryRow, measure: Measure) -> dict[str, float]:
    """Return a mean with its interval; nothing if no question has the measure."""
    value = row.means[measure.name]
    if value is None:
        return {}
    interval = row.intervals.get(measure.name)
    low, high = (interval.low, interval.high) if interval else (value, value)
    return {"value": value, "low": low, "high": high}
