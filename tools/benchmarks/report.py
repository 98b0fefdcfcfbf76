"""All that the benchmarks have measured, as one HTML page that loads nothing.

Each run leaves `results/NAME.run.json`: what was shown, on which machine, under which load. The page is made
from those that are there, so that a run of one benchmark renews its section and keeps the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from rag.errors import SettingsError
from rag.evaluation.evaluation import read_evaluation
from rag.evaluation.page import has_questions, page, table
from rag.evaluation.report import measured_part, quality
from rag.evaluation.summary import summary_of
from tools.benchmarks.bench import PARTS, Bench, where


def keep_run(bench: Bench, name: str, about: str, began: float, seconds: float, failed: str = "") -> None:
    """Write what a benchmark has shown since the last one, and forget it.

    Args:
        bench: where to.
        name: the benchmark's.
        about: what it measures.
        began: when, in seconds since 1970.
        seconds: how long it took.
        failed: why it ended early, "" when it did not.
    """
    run = {
        "about": about,
        "where": where(),
        "began": f"{datetime.fromtimestamp(began, UTC):%Y-%m-%d %H:%M}",
        "seconds": round(seconds, 1),
        "failed": failed,
        "parts": [*PARTS],
    }
    PARTS.clear()
    bench.results.mkdir(parents=True, exist_ok=True)
    (bench.results / f"{name}.run.json").write_text(json.dumps(run, indent=1), encoding="utf-8")


def write_report(bench: Bench, every: Mapping[str, str]) -> Path:
    """Write the page for all benchmarks, name → what it measures, in their order; return its path."""
    sections = []
    for name, about in every.items():
        file = bench.results / f"{name}.run.json"
        run = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
        sections.append(_section(name, about, run, bench.results))
    target = bench.results.parent / "report.html"
    contents = "".join(
        f'<li><a href="#{escape(name)}">{escape(name)}</a>: {escape(about)}</li>'
        for name, about in every.items()
    )
    target.write_text(
        page("Benchmarks", [f"<ul>{contents}</ul>", *sections], script=any(map(has_questions, sections))),
        encoding="utf-8",
    )
    return target


def _section(name: str, about: str, run: Mapping[str, Any] | None, results: Path) -> str:
    head = f'<section id="{escape(name)}"><h2>{escape(name)}</h2><p>{escape(about)}</p>'
    if run is None:
        return f"{head}{_missing(f'run `make bench ONLY={name}`')}</section>"
    when = f"{run['began']} UTC, {run['seconds']:,.0f} s, {run['where']}"
    failed = f"<p><b>failed:</b> {escape(run['failed'])}</p>" if run["failed"] else ""
    first = next((part for part in run["parts"] if "quality" in part), None)
    parts = "".join(_part(part, results, unfolded=part is first) for part in run["parts"])
    return f"{head}<p>{escape(when)}</p>{failed}{parts}</section>"


def _part(part: Mapping[str, Any], results: Path, *, unfolded: bool) -> str:
    if "missing" in part:
        return _missing(part["missing"])
    if "quality" in part:
        return _folded(part["quality"], _quality(part, results), unfolded)
    return f"<h3>{escape(part['table'])}</h3>{table(part['table'], part['columns'], part['rows'])}"


def _quality(part: Mapping[str, Any], results: Path) -> str:
    """With every question, where the evaluation is still among the results and is the one that was shown."""
    saved, summary = part.get("saved"), summary_of(part["summary"])
    if saved:
        try:
            evaluation = read_evaluation(results / f"{saved}.json")
        except SettingsError:
            return quality(summary)
        if evaluation.summary.costs == summary.costs:
            return measured_part(evaluation, f"{saved}-questions")
    return quality(summary)


def _folded(title: str, inside: str, unfolded: bool) -> str:
    opened = " open" if unfolded else ""
    return f"<details{opened}><summary><b>{escape(title)}</b></summary>{inside}</details>"


def _missing(reason: str) -> str:
    return f"<p>not measured: {escape(reason)}</p>"
