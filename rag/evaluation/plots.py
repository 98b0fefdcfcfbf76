"""The means of an evaluation as a plot."""

from __future__ import annotations

from typing import Any

from rag.display.dots import Dot, DotRow, multiples
from rag.display.plot import Plot
from rag.display.svg import share
from rag.evaluation.summary import LEVEL, Measure, Summary, SummaryRow, measures_of


def plot_of(summary: Summary) -> Plot:
    """Return the means with their intervals: a panel for each measure, a row for each group of questions."""
    measures = measures_of(summary)
    groups = summary.distinct_groups
    systems = [cost.system for cost in summary.costs]
    drawn = [
        DotRow(
            f"{group.name} ({group.count})",
            [[_dot(row, measure) for row in group.rows] for measure in measures],
        )
        for group in groups
    ]
    marks = [
        {
            "group": group.name,
            "n": group.count,
            "system": row.system,
            "measure": measure.title,
            **_values(one),
        }
        for group in groups
        for row in group.rows
        for measure in measures
        if (one := _dot(row, measure))
    ]
    count = summary.groups[0].count
    title = f"{', '.join(one.title for one in measures)} of {', '.join(systems)}"
    return Plot(
        multiples(title, [one.title for one in measures], systems, drawn),
        caption=f"Means of {count} question{'s' * (count != 1)}, with {LEVEL:.0%} intervals (bootstrap).",
        rows=marks,
        vega_lite=_vega(),
    )


def _vega() -> dict[str, Any]:
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


def _dot(row: SummaryRow, measure: Measure) -> Dot | None:
    value = row.means[measure.name]
    if value is None:
        return None
    interval = row.intervals.get(measure.name)
    low, high = (interval.low, interval.high) if interval else (value, value)
    note = f"{row.system}, {measure.title}: {share(value)} [{share(low)}, {share(high)}]"
    return Dot(value, low, high, share(value), note)


def _values(one: Dot) -> dict[str, float]:
    return {"value": one.value, "low": one.low, "high": one.high}
