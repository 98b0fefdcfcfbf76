"""The result of `rag eval` and the comparison of two runs, as values and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import rag

from rag.errors import ConfigError, SettingsError
from rag.evaluation import Evaluation, evaluate
from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import Question
from rag.evaluation.results import Conditions
from rag.evaluation.runner import Outcome, Scores, Start
from rag.evaluation.systems import System

FAKE = Path(__file__).with_name("fake_peer.py")
SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample_repo"
AXE = Path(__file__).resolve().parents[1] / "serve" / "vendor" / "axe-core-4.14.1.min.js"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&</pre></td>\x00\x1b[2J"


def question(number: int, *, kind: str = "question", text: str = "", lines: bool = True) -> Question:
    path = f"src/m{number % 5}.py"
    return Question(
        id=f"q{number}",
        repo="",
        language="py",
        kind=kind,
        text=text or f"Where is thing {number}?",
        files=frozenset({path}),
        spans=(LineSpan(path, 1, 4),) if lines else (),
        conversation=f"q{number}",
    )


def scores(rank: int | None, place: LineSpan, sure: float | None = None, *, lines: bool = True) -> Scores:
    found = 0.0 if rank is None else 1 / rank
    right = float(rank is not None and rank <= 3)
    return Scores(
        found, found, float(rank is not None), right if lines else None, 0.004, rank, (place,), sure
    )


def evaluation(
    ranks: dict[str, list[int | None]],
    *,
    text: str = "",
    lines: bool = True,
    sure: float | None = None,
    name: str = "src/m0.py",
    **conditions: Any,
) -> Evaluation:
    """An evaluation with these ranks by system; every question has the text."""
    count = len(next(iter(ranks.values())))
    asked = tuple(question(n, text=text and f"{text} {n}", lines=lines) for n in range(count))
    expected = {one.id: (LineSpan(next(iter(one.files)), 1, 4),) for one in asked}
    place = LineSpan(name, 1, 9)
    outcomes = tuple(
        Outcome(
            System(system, ("run", "{path}")),
            False,
            (Start("t", 1.5, 40),),
            {one.id: scores(rank, place, sure, lines=lines) for one, rank in zip(asked, given, strict=True)},
            expected,
        )
        for system, given in ranks.items()
    )
    return Evaluation(asked, outcomes, 50, Conditions(date="2026-01-01 10:00", **conditions), "a machine")


# ---------------------------------------------------------------- JSON and comparison


def test_two_runs_are_compared_on_the_questions_of_both() -> None:
    before = evaluation({"rag": [1, 5, None, 2]}, settings={"reranker": "none"})
    after = evaluation({"rag": [2, 1, 9]}, settings={"reranker": "student"})
    pair = before.compare(after)
    assert pair.systems == ["after: reranker student", "before: reranker none"]
    assert len(pair.questions) == 3
    (everything,) = pair.summary.distinct_groups
    assert everything.rows[1].differences["mrr"].mean == pytest.approx((-0.5 + 0.8 + 1 / 9) / 3)
    with pytest.raises(ConfigError, match="no question in common"):
        before.compare(evaluation({"rag": [1]}, text="another"))


def test_a_measurement_in_python_is_the_one_of_the_command(tmp_path: Path) -> None:
    records = [
        {
            "question": "SessionSigner",
            "answers": [{"path": "snip/sessions.py", "start_line": 22, "end_line": 40}],
        },
        {"question": "Where is the rate limited?", "answers": [{"path": "snip/ratelimit.py"}]},
    ]
    file = tmp_path / "q.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in records))
    first = evaluate(SAMPLE, file)
    second = evaluate(SAMPLE, [file], settings={"reranker": "student"})
    assert (first.systems, second.systems) == (["rag"], ["rag reranker=student"])
    assert second.conditions.settings["reranker"] == "student"
    asked = first.outcomes[0].scores["q.jsonl:1"]
    assert asked.rank == 1
    assert asked.places[0].place == "snip/sessions.py:22-32"
    assert asked.first_right is not None
    assert [one.place for one in first.expected(first.questions[0])] == ["snip/sessions.py:22-40"]
    done = rag("eval", SAMPLE, "--questions", file, "--json").json
    assert done["questions"][0]["scores"]["rag"]["rank"] == 1
    assert first.compare(second).systems == ["rag reranker=student", "rag"]
    with pytest.raises(SettingsError, match="no setting 'colour'"):
        evaluate(SAMPLE, file, settings={"colour": "red"})
    with pytest.raises(SettingsError, match="either files of questions"):
        evaluate(SAMPLE)


def test_mined_questions_are_measured_in_python() -> None:
    found = evaluate(SAMPLE, mine="docstrings", n=5)
    assert len(found.questions) == 5
    assert "removed from the searched copy" in found.conditions.questions
