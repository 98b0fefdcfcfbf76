"""Render an evaluation as one HTML page: means with intervals, the questions with what came instead."""

from __future__ import annotations

import math

from rag.display.html import plain
from rag.evaluation.answers import calibration_error, separation
from rag.evaluation.page import page, share, table
from rag.evaluation.question_list import question_list, ranks_moved
from rag.evaluation.results import Results
from rag.evaluation.summary import LEVEL, RESAMPLES, Measure, Summary, SummaryRow, measures_of

_BINS = 5
_MIN_JUDGED = 20
"""With fewer questions the calibration says nothing."""
_Z = 1.96


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
    count = summary.groups[0].count
    note = (
        f"Means of {count} question{'s' * (count != 1)}, with {LEVEL:.0%} intervals (bootstrap). "
        "Files: among the first 10, documentation skipped. Lines: of the answer, within the first 200 lines "
        "shown."
    )
    return f"{_figures(summary)}<p>{plain(note)}</p>{_differences(summary)}{_costs(summary)}"


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
    rows = [
        [f"{group.name} ({group.count})", row.system, *(_lead(row, measure) for measure in measures)]
        for group in summary.distinct_groups
        for row in group.rows[1:]
    ]
    if not rows:
        return ""
    title = f"{summary.first} ahead of {others[0] if len(others) == 1 else 'the others'} by"
    note = f"{LEVEL:.0%} intervals, paired bootstrap over conversations, {RESAMPLES:,} resamples."
    shown = table(title, ["questions", "system", *(measure.title for measure in measures)], rows)
    return f"<h2>{plain(title)}</h2>{shown}<p>{note}</p>"


def _lead(row: SummaryRow, measure: Measure) -> str:
    found = row.differences.get(measure.name)
    if found is None:
        return "–"
    mean, low, high = (share(value, signed=True) for value in (found.mean, found.low, found.high))
    return f"{mean} [{low}, {high}]"


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
    return table("Means", heads, rows)


def _with_interval(row: SummaryRow, measure: Measure) -> str:
    value, interval = row.means[measure.name], row.intervals.get(measure.name)
    if value is None:
        return "–"
    return f"{share(value)} [{share(interval.low)}, {share(interval.high)}]" if interval else share(value)


def _costs(summary: Summary) -> str:
    """Return the time of a question and of an index; one system is a sentence, several are a table."""
    costs = summary.costs
    if len(costs) == 1:
        (one,) = costs
        return (
            f"<p>{one.chunks:,} chunks were ready after {one.ready_s:.2f} s; a question took "
            f"{one.p50_ms:.1f} ms in the median, {one.p95_ms:.1f} ms at the 95th percentile.</p>"
        )
    heads = ["system", "question, ms (median to 95th percentile)", "ready after, s", "chunks"]
    rows = [
        [one.system, f"{one.p50_ms:.1f} to {one.p95_ms:.1f}", f"{one.ready_s:.2f}", f"{one.chunks:,}"]
        for one in costs
    ]
    return f"<h2>Cost</h2>{table('Cost', heads, rows)}"


def calibration(evaluation: Results) -> str:
    """Return how often the first place was right, by how sure the first system was of it; "" if unknown."""
    scores = [evaluation.outcomes[0].scores[one.id] for one in evaluation.questions]
    judged = [(one.first_right, one.rank == 1) for one in scores if one.first_right is not None]
    if len(judged) < _MIN_JUDGED:
        return ""
    sure, right = [one for one, _ in judged], [is_right for _, is_right in judged]
    error, area = calibration_error(sure, right), separation(sure, right)
    rows = []
    for n in range(_BINS):
        inside = [(s, r) for s, r in judged if min(int(s * _BINS), _BINS - 1) == n]
        if inside:
            said, hits = sum(s for s, _ in inside) / len(inside), sum(r for _, r in inside)
            low, high = _wilson(hits, len(inside))
            right_of = f"{hits / len(inside):.0%} [{low:.0%}, {high:.0%}]"
            rows.append([f"{said:.0%}", right_of, f"{hits} of {len(inside)}"])
    separated = f", area under the ROC curve {share(area)}" if area is not None else ""
    note = (
        f"How often the first place was right, by how sure {evaluation.systems[0]} was of it ({len(judged)} "
        f"questions; 95 % intervals). Expected calibration error {share(error)}{separated}."
    )
    shown = table("Calibration", ["sure of the first place", "right", "questions"], rows)
    return f"<h2>Calibration</h2>{shown}<p>{plain(note)}</p>"


def _wilson(hits: int, count: int) -> tuple[float, float]:
    """Return Wilson's interval of a share (1927)."""
    p, z2 = hits / count, _Z * _Z / count
    middle, half = p + z2 / 2, _Z * math.sqrt(p * (1 - p) / count + z2 / (4 * count))
    return max((middle - half) / (1 + z2), 0.0), min((middle + half) / (1 + z2), 1.0)
