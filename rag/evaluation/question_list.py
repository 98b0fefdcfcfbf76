"""The questions of a report as a sortable list: ranks, and what came instead of what was expected."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rag.display.html import plain
from rag.evaluation.excerpts import PlaceLines
from rag.evaluation.page import scrolling, share
from rag.evaluation.questions import Question
from rag.evaluation.results import Results
from rag.evaluation.runner import Scores

_MAX_SYSTEMS = 2
"""The number of systems whose places are shown next to the expected ones."""
_MAX_EXPECTED = 3


def question_list(evaluation: Results, name: str = "questions") -> str:
    """Return the list, the worst rank of the first system first. `name` is its id on the page."""
    ordered = sorted(evaluation.questions, key=lambda one: -_sortable(_first(evaluation, one).rank))
    columns = _columns(evaluation)
    heads = "".join(
        f'<th scope="col"{" class=words" if words else ""}><button type="button">{plain(head)}</button></th>'
        for head, words in columns
    )
    bodies = "".join(
        _row(evaluation, question, len(columns), f"{name}-{n}") for n, question in enumerate(ordered)
    )
    listed = (
        f'<table class="questions" id="{plain(name)}" data-status="{plain(name)}-status">'
        f"<thead><tr>{heads}</tr></thead>{bodies}</table>"
    )
    return _choices(evaluation, name) + scrolling(listed, "Questions")


def ranks_moved(evaluation: Results) -> tuple[int, int, int]:
    """Return how many questions have a better, a worse and the same rank with the first system."""
    moved = [_moved(evaluation, question) for question in evaluation.questions]
    return sum(m > 0 for m in moved), sum(m < 0 for m in moved), sum(m == 0 for m in moved)


def _first(evaluation: Results, question: Question) -> Scores:
    return evaluation.outcomes[0].scores[question.id]


def _sortable(rank: int | None) -> float:
    return math.inf if rank is None else rank


def _moved(evaluation: Results, question: Question) -> int:
    """Return 1 if the first system ranks the answer before the second does, -1 if after, 0 if equal."""
    first, second = (_sortable(o.scores[question.id].rank) for o in evaluation.outcomes[:2])
    return (first < second) - (first > second)


def _has(evaluation: Results, attribute: str) -> bool:
    return any(getattr(_first(evaluation, one), attribute) is not None for one in evaluation.questions)


def _columns(evaluation: Results) -> list[tuple[str, bool]]:
    """Return the heads, and whether the column has words. A column of one value only is left out."""
    systems = evaluation.systems
    ranks = [f"rank, {system}" for system in systems] if len(systems) > 1 else ["rank"]
    kinds = len({one.kind for one in evaluation.questions}) > 1
    return [
        ("question", True),
        *([("kind", True)] if kinds else []),
        *((rank, False) for rank in ranks),
        ("NDCG@10", False),
        *([("lines seen", False)] if _has(evaluation, "lines") else []),
        *([("sure of the first", False)] if _has(evaluation, "first_right") else []),
    ]


def _row(evaluation: Results, question: Question, width: int, name: str) -> str:
    scores = _first(evaluation, question)
    cells = [
        f'<td class="words"><button type="button" aria-controls="{name}">{plain(question.text)}</button></td>'
    ]
    if len({one.kind for one in evaluation.questions}) > 1:
        cells.append(f'<td class="words">{plain(question.kind)}</td>')
    for outcome in evaluation.outcomes:
        rank = outcome.scores[question.id].rank
        shown = "–" if rank is None else str(rank)
        cells.append(f'<td data-v="{1e9 if rank is None else rank:g}">{shown}</td>')
    cells.append(_number(scores.ndcg))
    if _has(evaluation, "lines"):
        cells.append(_number(scores.lines))
    if _has(evaluation, "first_right"):
        cells.append(_number(scores.first_right))
    kinds = [word for word, is_so in _states(evaluation, question) if is_so]
    return (
        f'<tbody data-is="{" ".join(kinds)}"><tr>{"".join(cells)}</tr>'
        f'<tr class="more" id="{name}"><td colspan="{width}">{_sides(evaluation, question)}</td></tr></tbody>'
    )


def _number(value: float | None) -> str:
    return '<td data-v="-1">–</td>' if value is None else f'<td data-v="{value:.6g}">{share(value)}</td>'


def _states(evaluation: Results, question: Question) -> list[tuple[str, bool]]:
    rank = _first(evaluation, question).rank
    states = [("later", rank is not None and rank > 1), ("missed", rank is None)]
    if len(evaluation.outcomes) == _MAX_SYSTEMS:
        moved = _moved(evaluation, question)
        states += [("better", moved > 0), ("worse", moved < 0)]
    return states


_CHOICES = {
    "later": "right, but not first",
    "missed": "not found",
    "better": "better rank",
    "worse": "worse rank",
}


def _choices(evaluation: Results, name: str) -> str:
    """Return the choice of the questions that are listed, and the line that reports their number."""
    total = len(evaluation.questions)
    counts: dict[str, int] = {}
    for question in evaluation.questions:
        for word, is_so in _states(evaluation, question):
            counts[word] = counts.get(word, 0) + is_so
    options = [("all", "all", total), *((word, _CHOICES[word], n) for word, n in counts.items() if n)]
    drawn = "".join(
        f'<label><input type="radio" name="{plain(name)}" value="{word}"'
        f"{' checked' if word == 'all' else ''}> {label} ({count})</label>"
        for word, label, count in options
    )
    return f'<fieldset><legend>Show</legend>{drawn}</fieldset><p id="{plain(name)}-status" role="status"></p>'


def _sides(evaluation: Results, question: Question) -> str:
    """Return the expected places, and next to them what the first systems showed."""
    expected = evaluation.expected(question)
    more = len(expected) - _MAX_EXPECTED
    parts = [f"<div><h3>Expected</h3>{''.join(map(_excerpt, expected[:_MAX_EXPECTED]))}"]
    parts.append(f"<p>and {more} more</p></div>" if more > 0 else "</div>")
    chosen = evaluation.outcomes[: _MAX_SYSTEMS if len(evaluation.outcomes) == _MAX_SYSTEMS else 1]
    for outcome in chosen:
        places = outcome.scores[question.id].places
        by = f" by {plain(outcome.system.name)}" if len(evaluation.outcomes) > 1 else ""
        shown = "".join(
            _excerpt(place, n, is_right=_answers(place, expected)) for n, place in enumerate(places, 1)
        )
        parts.append(f"<div><h3>Found{by}</h3>{shown or '<p>nothing</p>'}</div>")
    asked = "".join(f"<li>{plain(text)}</li>" for text in question.history)
    before = f"<p>Asked before:</p><ol>{asked}</ol>" if asked else ""
    return f'{before}<div class="sides">{"".join(parts)}</div>'


def _answers(place: PlaceLines, expected: Sequence[PlaceLines]) -> bool:
    with_lines = any(one.start for one in expected)
    return any(
        place.path == one.path
        and (not with_lines or (one.start > 0 and place.start <= one.end and one.start <= place.end))
        for one in expected
    )


def _excerpt(one: PlaceLines, rank: int = 0, is_right: bool = False) -> str:
    first = max(one.start, 1)
    lines = [f"{n:>5}  {line}" for n, line in enumerate(one.text.split("\n"), first)] if one.text else []
    more = one.end - first + 1 - len(lines) if one.start else 0
    if lines and more > 0:
        lines.append(f"{'…':>5}  {more} more line{'s' * (more != 1)}")
    number = f"{rank}. " if rank else ""
    mark = ' <b class="good">✓ answers</b>' if is_right else ""
    code = f"<pre>{plain(chr(10).join(lines))}</pre>" if lines else "<p>its lines are not shown</p>"
    return (
        f'<div{" class=right" if is_right else ""}><span class="place">{number}'
        f"<code>{plain(one.place)}</code></span>{mark}{code}</div>"
    )
