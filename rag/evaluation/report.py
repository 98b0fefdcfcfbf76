"""Render an evaluation as one HTML page: dots with intervals, the questions with what came instead."""

from __future__ import annotations

import math

from rag.display.dots import Dot, DotRow, multiples, strips
from rag.display.svg import Axis, colour, dot, drawing, line, plain, share, text
from rag.evaluation.answers import calibration_error, separation
from rag.evaluation.page import figure, page, table
from rag.evaluation.plots import plot_of
from rag.evaluation.question_list import question_list, ranks_moved
from rag.evaluation.results import Results
from rag.evaluation.summary import RESAMPLES, Measure, Summary, SummaryRow, measures_of

_BINS = 5
_MIN_JUDGED = 20
"""With fewer questions the calibration says nothing."""
_Z = 1.96
_SIDE = 220  # pixels of the square of the calibration


def html_report(evaluation: Results) -> str:
    """Return a self-contained page; all text of repositories and questions is escaped."""
    parts = [
        f"<p>{plain(_verdict(evaluation))}</p>",
        _conditions(evaluation),
        quality(evaluation.summary),
        calibration(evaluation),
        "<h2>Questions</h2>",
        "<p>Open one to see the expected lines next to the lines that were found.</p>",
        question_list(evaluation),
    ]
    return page("Retrieval, measured", parts, script=True)


def measured_part(evaluation: Results, name: str) -> str:
    """Return an evaluation as part of a page of several; `name` is the id of its list of questions."""
    listed = f"<details><summary>Questions</summary>{question_list(evaluation, name)}</details>"
    return f"{_conditions(evaluation)}{quality(evaluation.summary)}{calibration(evaluation)}{listed}"


def quality(summary: Summary) -> str:
    """Return a summary as part of a page: means and differences with intervals, figures, costs."""
    plot = plot_of(summary)
    note = (
        f"{plot.caption[:-1]}. Files: among the first 10, documentation skipped. Lines: of the answer, "
        "within the first 200 lines shown."
    )
    figures = f"<details><summary>All figures</summary>{_figures(summary)}</details>"
    return f"{figure(plot.inline_svg, 'Means', note)}{_differences(summary)}{figures}{_costs(summary)}"


def _verdict(evaluation: Results) -> str:
    """Return in a sentence what was found."""
    total = len(evaluation.questions)
    ranks = [evaluation.outcomes[0].scores[one.id].rank for one in evaluation.questions]
    first, missed = sum(rank == 1 for rank in ranks), sum(rank is None for rank in ranks)
    found = (
        f"{evaluation.summary.first}: the first place answers {first} of {total} questions; for {missed} "
        f"none of the {evaluation.k} places shown does."
    )
    if len(evaluation.outcomes) == 2:
        better, worse, same = ranks_moved(evaluation)
        found += (
            f" Compared with {evaluation.systems[1]}, {better} have a better rank, {worse} a worse one, "
            f"{same} the same."
        )
    return found


def _conditions(evaluation: Results) -> str:
    about = evaluation.conditions
    named = [
        f"{one.name}, {f'commit {one.commit}' if one.commit else 'no commit'}"
        f"{' with uncommitted changes' if one.dirty else ''}"
        for one in about.repositories
    ]
    rows = [
        ("Repository" if len(named) == 1 else "Repositories", "; ".join(named)),
        ("Questions", about.questions),
        ("Date", about.date and f"{about.date} UTC"),
        ("Settings", ", ".join(f"{name} {value}" for name, value in about.settings.items())),
        ("Version", about.version and f"rag {about.version}"),
        ("Machine", evaluation.summary.machine),
        *_commands(evaluation),
    ]
    shown = "".join(f"<dt>{plain(name)}</dt><dd>{plain(value)}</dd>" for name, value in rows if value)
    return f'<dl class="about">{shown}</dl>'


def _commands(evaluation: Results) -> list[tuple[str, str]]:
    lines = {o.system.name: " ".join(o.system.command) for o in evaluation.outcomes}
    if len(set(lines.values())) == 1:
        return [("Command", next(iter(lines.values())))]
    return [(f"Command of {name}", line) for name, line in lines.items()]


def _differences(summary: Summary) -> str:
    """Return, for each group and other system, the first system's lead with its interval."""
    others = [cost.system for cost in summary.costs[1:]]
    measures = measures_of(summary)
    if not others:
        return ""
    rows = [
        DotRow(
            f"{group.name} ({group.count})",
            [[_lead(row, measure) for row in group.rows[1:]] for measure in measures],
        )
        for group in summary.distinct_groups
    ]
    shown = [d for row in rows for panel in row.panels for d in panel if d]
    if not shown:
        return ""
    reach = max(max(abs(one.low), abs(one.high)) for one in shown) or 0.1
    reach = math.ceil(reach * 20) / 20
    title = f"{summary.first} ahead of {others[0] if len(others) == 1 else 'the others'} by"
    drawn = multiples(
        title,
        [measure.title for measure in measures],
        others,
        rows,
        low=-reach,
        high=reach,
        figure_px=52,
    )
    note = f"95 % intervals, paired bootstrap over conversations, {RESAMPLES:,} resamples."
    return f"<h2>{plain(title)}</h2>{figure(drawn, title, note)}"


def _lead(row: SummaryRow, measure: Measure) -> Dot | None:
    found = row.differences.get(measure.name)
    if found is None:
        return None
    note = f"{row.system}, {measure.title}: {found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    return Dot(found.mean, found.low, found.high, f"{found.mean:+.3f}".replace("-", "−"), note)


def _figures(summary: Summary) -> str:
    measures, several = measures_of(summary), len(summary.costs) > 1
    heads = ["questions", "n", *(["system"] if several else []), *(measure.title for measure in measures)]
    rows = [
        [
            group.name,
            str(group.count),
            *([row.system] if several else []),
            *(_with_interval(row, measure) for measure in measures),
        ]
        for group in summary.distinct_groups
        for row in group.rows
    ]
    return table(heads, rows)


def _with_interval(row: SummaryRow, measure: Measure) -> str:
    value, interval = row.means[measure.name], row.intervals.get(measure.name)
    if value is None:
        return "–"
    return f"{share(value)} [{share(interval.low)}, {share(interval.high)}]" if interval else share(value)


def _costs(summary: Summary) -> str:
    """Return the time of a question and of an index; one system is a sentence, several are a drawing."""
    costs = summary.costs
    if len(costs) == 1:
        (one,) = costs
        return (
            f"<p>{one.chunks:,} chunks were ready after {one.ready_s:.2f} s; a question took "
            f"{one.p50_ms:.1f} ms in the median, {one.p95_ms:.1f} ms at the 95th percentile.</p>"
        )
    columns = ["question, ms (median to 95th percentile)", "ready after, s", "chunks"]
    cells = [
        [
            Dot(one.p50_ms, one.p50_ms, one.p95_ms, f"{one.p50_ms:.1f} to {one.p95_ms:.1f}"),
            Dot(one.ready_s, one.ready_s, one.ready_s, f"{one.ready_s:.2f}"),
            Dot(one.chunks, one.chunks, one.chunks, f"{one.chunks:,}"),
        ]
        for one in costs
    ]
    drawn = strips("Cost of each system", columns, [one.system for one in costs], cells)
    return f"<h2>Cost</h2>{figure(drawn, 'Cost')}"


def calibration(evaluation: Results) -> str:
    """Return how often the first place was right, by how sure the first system was of it; "" if unknown."""
    scores = [evaluation.outcomes[0].scores[one.id] for one in evaluation.questions]
    judged = [(one.first_right, one.rank == 1) for one in scores if one.first_right is not None]
    if len(judged) < _MIN_JUDGED:
        return ""
    sure, right = [one for one, _ in judged], [is_right for _, is_right in judged]
    error, area = calibration_error(sure, right), separation(sure, right)
    shapes = _square()
    lines = []
    for n in range(_BINS):
        inside = [(s, r) for s, r in judged if min(int(s * _BINS), _BINS - 1) == n]
        if not inside:
            continue
        said, hit = sum(s for s, _ in inside) / len(inside), sum(r for _, r in inside)
        low, high = _wilson(hit, len(inside))
        note = f"sure to {said:.0%}: right for {hit} of {len(inside)}"
        lines.append(note)
        x, y = _ACROSS(said), _UP
        shapes.append(line(x, y(low), x, y(high), stroke=colour(0), style='stroke-width="2" opacity=".55"'))
        shapes.append(dot(x, y(hit / len(inside)), 5, colour(0), note))
    drawn = drawing(_SIDE + 120, _SIDE + 70, shapes, f"Calibration. {'; '.join(lines)}")
    separated = f", area under the ROC curve {share(area)}" if area is not None else ""
    note = (
        f"How often the first place was right, by how sure {evaluation.systems[0]} was of it ({len(judged)} "
        f"questions; 95 % intervals). Expected calibration error {share(error)}{separated}."
    )
    return f"<h2>Calibration</h2>{figure(drawn, 'Calibration', note)}"


_ACROSS = Axis([0, 1], 70, 70 + _SIDE)
_UP = Axis([0, 1], 10 + _SIDE, 10)


def _square() -> list[str]:
    shapes = [line(_ACROSS(0), _UP(0), _ACROSS(1), _UP(1), style='opacity=".35" stroke-dasharray="4 4"')]
    for tick in (0, 0.5, 1):
        shapes += [
            line(_ACROSS(0), _UP(tick), _ACROSS(1), _UP(tick), style='opacity=".18"'),
            line(_ACROSS(tick), _UP(0), _ACROSS(tick), _UP(1), style='opacity=".18"'),
            text(_ACROSS(0) - 8, _UP(tick) + 4, f"{tick:.0%}", "end", 'font-size="10"'),
            text(_ACROSS(tick), _UP(0) + 16, f"{tick:.0%}", "middle", 'font-size="10"'),
        ]
    shapes.append(text(_ACROSS(0.5), _UP(0) + 36, "sure of the first place", "middle"))
    shapes.append(
        text(0, 0, "right", "middle", f'transform="translate(18 {_UP(0.5):.0f}) rotate(-90)"'),
    )
    return shapes


def _wilson(hits: int, count: int) -> tuple[float, float]:
    """Return Wilson's interval of a share (1927)."""
    p, z2 = hits / count, _Z * _Z / count
    middle, half = p + z2 / 2, _Z * math.sqrt(p * (1 - p) / count + z2 / (4 * count))
    return max((middle - half) / (1 + z2), 0.0), min((middle + half) / (1 + z2), 1.0)
