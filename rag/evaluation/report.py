"""Render the evaluation as one HTML page: tables, bars and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rag.evaluation.charts import BAR, LABEL, WIDTH, bar, colour, key, page, svg, table, text
from rag.evaluation.summary import MEASURES, RESAMPLES, Measure, QuestionGroup, Summary, SummaryRow


def html_report(summary: Summary) -> str:
    """Return a self-contained page; every name in it is escaped."""
    return page("Retrieval, measured", [quality(summary)])


def quality(summary: Summary) -> str:
    """Return a summary as part of a page: plots by measure, differences, languages, tables, costs."""
    kinds = [group for group in summary.groups if group.by in ("all", "kind")]
    languages = [group for group in summary.groups if group.by == "language"]
    parts = [
        f"<p>{summary.groups[0].count} questions, {summary.k} results asked for, on "
        f"{escape(summary.machine)}. Files: NDCG, MRR and recall among the first 10, documentation "
        "skipped. Lines: of the answer, within the first 200 lines shown.</p>",
        key([cost.system for cost in summary.costs]),
        *(f"<h3>{escape(measure.title)}</h3>{_bars(kinds, measure)}" for measure in MEASURES),
        _differences(summary, kinds),
        f"<h3>NDCG@10 by language</h3>{_bars(languages, MEASURES[0])}",
        "<h3>All figures</h3>",
        _quality(summary.groups),
        "<h3>Cost</h3>",
        _latency(summary),
        _costs(summary),
    ]
    return "".join(parts)


def _bars(groups: Sequence[QuestionGroup], measure: Measure) -> str:
    """Return horizontal bars from 0 to 1: a block for each group, a bar for each system."""
    shapes, y = [], 4
    for group in groups:
        shapes.append(text(LABEL - 8, y + BAR, f"{group.name} ({group.count})", "end"))
        for n, row in enumerate(group.rows):
            value = row.means[measure.name]
            if value is not None:
                shapes.append(bar(y, value, n))
                shapes.append(text(LABEL + value * WIDTH + 5, y + BAR - 2, f"{value:.3f}"))
            y += BAR + 2
        y += 10
    return svg(y, shapes, measure.title)


def _differences(summary: Summary, groups: Sequence[QuestionGroup]) -> str:
    """Return, for each group and other system, the first system's lead in NDCG@10, with its interval."""
    if len(summary.costs) < 2:
        return ""
    rows = [
        (group, n, row) for group in groups for n, row in enumerate(group.rows) if "ndcg" in row.differences
    ]
    shown = [row.differences["ndcg"] for _, _, row in rows]
    low = min([0.0, *(d.low for d in shown)])
    span = max([0.0, *(d.high for d in shown)]) - low or 1.0

    def x(value: float) -> float:
        return LABEL + (value - low) / span * WIDTH

    height = 24 + 18 * len(rows)
    shapes = [
        f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" y2="{height - 18}" stroke="currentColor" '
        'opacity=".4"/>',
        text(x(0), height - 4, "0", "middle"),
    ]
    for line, (group, n, row) in enumerate(rows):
        y, d = 12 + 18 * line, row.differences["ndcg"]
        shapes += [
            text(LABEL - 8, y + 4, f"{group.name}: {row.system}", "end"),
            f'<line x1="{x(d.low):.1f}" x2="{x(d.high):.1f}" y1="{y}" y2="{y}" stroke="{colour(n)}" '
            'stroke-width="3"/>',
            f'<circle cx="{x(d.mean):.1f}" cy="{y}" r="4.5" fill="{colour(n)}"/>',
            text(LABEL + WIDTH + 8, y + 4, f"{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"),
        ]
    title = f"How far {summary.first} is ahead, NDCG@10"
    note = f"<p>95 % intervals, paired bootstrap over conversations, {RESAMPLES:,} resamples.</p>"
    return f"<h3>{escape(title)}</h3>{note}{svg(height, shapes, title)}"


def _quality(groups: Sequence[QuestionGroup]) -> str:
    heads = ["", "n", "system", *(measure.title for measure in MEASURES), "ahead in NDCG@10"]
    return table(heads, [_cells(group, row) for group in groups for row in group.rows])


def _cells(group: QuestionGroup, row: SummaryRow) -> list[str]:
    means = ["–" if value is None else f"{value:.3f}" for value in row.means.values()]
    d = row.differences.get("ndcg")
    ahead = f"{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]" if d else ""
    return [group.name, str(group.count), row.system, *means, ahead]


def _latency(summary: Summary) -> str:
    """Return bars of the median query, with a mark at the 95th percentile."""
    most = max(cost.p95_ms for cost in summary.costs) or 1.0
    shapes, y = [], 4
    for n, cost in enumerate(summary.costs):
        mark = LABEL + cost.p95_ms / most * WIDTH
        shapes += [
            text(LABEL - 8, y + BAR - 2, cost.system, "end"),
            bar(y, cost.p50_ms / most, n),
            f'<line x1="{mark:.1f}" x2="{mark:.1f}" y1="{y}" y2="{y + BAR}" stroke="currentColor"/>',
            text(mark + 6, y + BAR - 2, f"p50 {cost.p50_ms:.2f} ms, p95 {cost.p95_ms:.2f} ms"),
        ]
        y += BAR + 8
    return svg(y, shapes, "query latency")


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
    return table(heads, rows) + f"<p>Every system uses the same pipe protocol:</p><ul>{commands}</ul>"
