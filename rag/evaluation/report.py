"""The evaluation as one HTML page: tables, bars and intervals drawn in SVG, nothing loaded from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from rag.evaluation.summary import MEASURES, RESAMPLES, Group, Measure, Row, Summary

_COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea", "#dc2626", "#0891b2", "#65a30d", "#64748b")
_LABEL, _WIDTH, _BAR = 210, 520, 13  # pixels: the names' column, the plot, a bar

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #8884; text-align: right; white-space: nowrap; }
th:first-child, td:first-child, td.name { text-align: left; }
svg { max-width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
code { font-size: 13px; } .scroll { overflow-x: auto; } .key { margin-right: 1rem; white-space: nowrap; }
.key i { display: inline-block; width: .8em; height: .8em; margin-right: .3em; }
"""


def html_report(summary: Summary) -> str:
    """A whole page, self-contained; every name in it is escaped."""
    kinds = [group for group in summary.groups if group.by in ("all", "kind")]
    languages = [group for group in summary.groups if group.by == "language"]
    parts = [
        "<h1>Retrieval, measured</h1>",
        f"<p>{summary.groups[0].count} questions, {summary.k} results asked for, on "
        f"{escape(summary.machine)}. Files: NDCG, MRR and recall among the first 10, documentation passed "
        "over. Lines: of the answer, within the first 200 lines shown.</p>",
        _key([cost.system for cost in summary.costs]),
        *(f"<h2>{escape(measure.title)}</h2>{_bars(kinds, measure)}" for measure in MEASURES),
        _differences(summary, kinds),
        f"<h2>NDCG@10 by language</h2>{_bars(languages, MEASURES[0])}",
        "<h2>All figures</h2>",
        _quality(summary.groups),
        "<h2>Cost</h2>",
        _latency(summary),
        _costs(summary),
    ]
    head = f'<meta charset="utf-8"><title>Retrieval, measured</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _colour(position: int) -> str:
    return _COLOURS[position % len(_COLOURS)]


def _key(systems: Sequence[str]) -> str:
    return (
        "<p>"
        + "".join(
            f'<span class="key"><i style="background:{_colour(n)}"></i>{escape(name)}</span>'
            for n, name in enumerate(systems)
        )
        + "</p>"
    )


def _svg(height: int, shapes: Iterable[str], title: str) -> str:
    width = _LABEL + _WIDTH + 160
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(title, quote=True)}">{"".join(shapes)}</svg>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _bars(groups: Sequence[Group], measure: Measure) -> str:
    """Horizontal bars from 0 to 1: a block for each group, a bar for each system."""
    shapes, y = [], 4
    for group in groups:
        shapes.append(_text(_LABEL - 8, y + _BAR, f"{group.name} ({group.count})", "end"))
        for n, row in enumerate(group.rows):
            value = row.means[measure.name]
            if value is not None:
                shapes.append(_bar(y, value, n))
                shapes.append(_text(_LABEL + value * _WIDTH + 5, y + _BAR - 2, f"{value:.3f}"))
            y += _BAR + 2
        y += 10
    return _svg(y, shapes, measure.title)


def _bar(y: float, share: float, position: int) -> str:
    width = max(share * _WIDTH, 1)
    return f'<rect x="{_LABEL}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{_colour(position)}"/>'


def _differences(summary: Summary, groups: Sequence[Group]) -> str:
    """For each group and other system: how far the first is ahead in NDCG@10, with its interval."""
    if len(summary.costs) < 2:
        return ""
    rows = [
        (group, n, row) for group in groups for n, row in enumerate(group.rows) if "ndcg" in row.differences
    ]
    shown = [row.differences["ndcg"] for _, _, row in rows]
    low = min([0.0, *(d.low for d in shown)])
    span = max([0.0, *(d.high for d in shown)]) - low or 1.0

    def x(value: float) -> float:
        return _LABEL + (value - low) / span * _WIDTH

    height = 24 + 18 * len(rows)
    shapes = [
        f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" y2="{height - 18}" stroke="currentColor" '
        'opacity=".4"/>',
        _text(x(0), height - 4, "0", "middle"),
    ]
    for line, (group, n, row) in enumerate(rows):
        y, d = 12 + 18 * line, row.differences["ndcg"]
        shapes += [
            _text(_LABEL - 8, y + 4, f"{group.name}: {row.system}", "end"),
            f'<line x1="{x(d.low):.1f}" x2="{x(d.high):.1f}" y1="{y}" y2="{y}" stroke="{_colour(n)}" '
            'stroke-width="3"/>',
            f'<circle cx="{x(d.mean):.1f}" cy="{y}" r="4.5" fill="{_colour(n)}"/>',
            _text(_LABEL + _WIDTH + 8, y + 4, f"{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"),
        ]
    title = f"How far {summary.first} is ahead, NDCG@10"
    note = f"<p>95 % intervals, paired bootstrap over conversations, {RESAMPLES:,} resamples.</p>"
    return f"<h2>{escape(title)}</h2>{note}{_svg(height, shapes, title)}"


def _quality(groups: Sequence[Group]) -> str:
    heads = ["", "n", "system", *(measure.title for measure in MEASURES), "ahead in NDCG@10"]
    return _table(heads, [_cells(group, row) for group in groups for row in group.rows])


def _cells(group: Group, row: Row) -> list[str]:
    means = ["–" if value is None else f"{value:.3f}" for value in row.means.values()]
    d = row.differences.get("ndcg")
    ahead = f"{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]" if d else ""
    return [group.name, str(group.count), row.system, *means, ahead]


def _latency(summary: Summary) -> str:
    """Bars of the median query, with a mark at the 95th percentile."""
    most = max(cost.p95_ms for cost in summary.costs) or 1.0
    shapes, y = [], 4
    for n, cost in enumerate(summary.costs):
        mark = _LABEL + cost.p95_ms / most * _WIDTH
        shapes += [
            _text(_LABEL - 8, y + _BAR - 2, cost.system, "end"),
            _bar(y, cost.p50_ms / most, n),
            f'<line x1="{mark:.1f}" x2="{mark:.1f}" y1="{y}" y2="{y + _BAR}" stroke="currentColor"/>',
            _text(mark + 6, y + _BAR - 2, f"p50 {cost.p50_ms:.2f} ms, p95 {cost.p95_ms:.2f} ms"),
        ]
        y += _BAR + 8
    return _svg(y, shapes, "query latency")


def _costs(summary: Summary) -> str:
    heads = ["system", "chunks", "ready, median s", "ready, all s", "query p50 ms", "p95 ms", "uses history"]
    rows = [
        [
            cost.system,
            f"{cost.chunks:,}",
            f"{cost.ready_s:.2f}",
            f"{cost.ready_total_s:.1f}",
            f"{cost.p50_ms:.2f}",
            f"{cost.p95_ms:.2f}",
            "yes" if cost.history else "no",
        ]
        for cost in summary.costs
    ]
    commands = "".join(
        f"<li><b>{escape(cost.system)}</b> <code>{escape(cost.command)}</code></li>" for cost in summary.costs
    )
    return _table(heads, rows) + f"<p>Every system speaks through the same pipe:</p><ul>{commands}</ul>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'
