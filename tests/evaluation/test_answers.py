"""Answers without a model, measured: quotes and refusals, counted on questions whose outcome is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag.errors import SettingsError
from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import Question, read_questions
from rag.evaluation.trees import plan
from tools.benchmarks.answered import Answered, answer_all, print_shares, read_unanswerable, shares
from tools.benchmarks.kinds import calibration_error, separation

RECORDS = [
    {
        "id": "q1",
        "kind": "newcomer",
        "question": "How are sessions signed?",
        "answers": [{"path": "snip/sessions.py", "start": 22, "end": 46, "symbol": "SessionSigner"}],
    },
    {
        "id": "c1",
        "turns": [
            {"question": "How is the rate limited?", "answers": [{"path": "snip/ratelimit.py"}]},
            {"question": "Where are Kafka messages consumed?", "answers": [{"path": "snip/ratelimit.py"}]},
        ],
    },
    {"id": "u1", "question": "Where are Kafka messages consumed?"},
    {"id": "u2", "question": "How are sessions signed?"},
    {"id": "u3", "question": "Where is the zebra?"},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return path


def test_answers_are_judged_by_what_they_quote_and_refuse(sample_repo, file, capsys):
    asked = [*read_questions([file]), *read_unanswerable([file])]
    answered = answer_all(plan(asked, {"": sample_repo}))
    measured = shares(answered)
    found = {one.kind: (one.count, one.refused, one.warned, one.on_target) for one in measured}
    assert found == {
        "answerable": (3, 0.0, 1 / 3, 1.0),
        "first": (1, 0.0, 0.0, None),
        "follow-up": (1, 0.0, 1.0, None),
        "newcomer": (1, 0.0, 0.0, 1.0),
        "unanswerable": (3, 1 / 3, 1 / 3, None),
    }
    assert [one.refused for one in answered] == [False, False, False, False, False, True]
    assert [one.warned for one in answered] == [False, False, True, True, False, False]
    print_shares(measured)
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["follow-up", "1", "–", "–", "–", "0.000", "1.000", "0.0%"] in printed
    assert ["unanswerable", "3", "–", "–", "–", "0.333", "0.333", "33.3%"] in printed


def test_a_quote_is_on_target_when_it_shares_a_line_with_an_answer():
    question = Question("q", "", "python", "first", "?", frozenset({"a"}), (LineSpan("a", 5, 9),))
    quotes = [
        (LineSpan("a", 9, 12),),
        (LineSpan("a", 10, 12),),
        (LineSpan("b", 5, 9),),
        (LineSpan("a", 1, 2), LineSpan("a", 5, 5)),
    ]
    answered = [Answered(question, False, quoted) for quoted in quotes]
    assert [a.on_target for a in answered] == [True, False, False, True]
    assert [(s.kind, s.on_target) for s in shares(answered)] == [("first", 0.5), ("answerable", 0.5)]


def test_the_first_quote_and_all_named_places_are_judged_apart():
    question = Question("q", "", "python", "first", "?", frozenset({"a"}), (LineSpan("a", 5, 9),))
    right, wrong = LineSpan("a", 9, 12), LineSpan("b", 5, 9)
    cases = [((right, wrong), ()), ((wrong, right), ()), ((wrong,), (wrong, right)), ((), (right,)), ((), ())]
    answered = [Answered(question, False, quoted, cited, quoted[:1]) for quoted, cited in cases]
    assert [a.is_first_right for a in answered] == [True, False, False, False, False]
    assert [a.is_cited for a in answered] == [True, True, True, True, False]
    assert (shares(answered)[0].first, shares(answered)[0].cited) == (0.2, 0.8)


def test_lists_and_callers_are_judged_by_how_complete_they_are():
    members = (LineSpan("a", 5, 5), LineSpan("a", 7, 7))
    record = {"files": frozenset({"a"}), "spans": (LineSpan("a", 5, 9),)}
    every = Question("l", "", "python", "list", "?", **record, members=members)
    callers = Question("c", "", "python", "callers", "?", **record, sites=members)
    half = (LineSpan("a", 5, 6),)
    lists = shares([Answered(every, False, half), Answered(every, False, (LineSpan("a", 1, 9),))])[-1]
    assert (lists.members, lists.complete, lists.sites) == (0.75, 0.5, None)
    found = shares([Answered(callers, False, half, (*half, LineSpan("b", 1, 2)))])[-1]
    assert (found.sites, found.site_precision, found.members) == (0.5, 0.5, None)


def test_a_confidence_separates_and_is_calibrated():
    assert separation([0.9, 0.8, 0.1], [True, True, False]) == 1
    assert separation([0.5, 0.5], [True, False]) == 0.5
    assert separation([0.9], [True]) is None
    assert calibration_error([0.75] * 4, [True, True, True, False]) == 0
    assert calibration_error([1.0, 0.05], [False, False]) == pytest.approx(0.525)
    assert calibration_error([], []) == 0


def test_a_record_that_asks_nothing_is_named(tmp_path):
    path = tmp_path / "u.jsonl"
    path.write_text('{"question": "Where?"}\n{"id": "u2"}\n')
    with pytest.raises(SettingsError, match="record 2"):
        read_unanswerable([path])
