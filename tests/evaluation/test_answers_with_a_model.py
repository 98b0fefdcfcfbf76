import json
from pathlib import Path

import pytest

from rag.evaluation.questions import read_records
from tools.benchmarks.answer_figures import (
    claims,
    invented_names,
    is_cited,
    is_refusal,
    lines_shown,
    words_of,
)
from tools.benchmarks.answer_judging import interval, kappa, key_of, rows
from tools.benchmarks.answers import ARMS, FOLDER, Case, Kept, Turn, cases, chosen, main
from tools.benchmarks.bench import NotMeasured
from tools.benchmarks.repositories import read_repositories

FACTS = [{"text": "It waits.", "places": [{"path": "a.py", "start_line": 1, "end_line": 4}]}]


def record(arm: str, **values: object) -> dict[str, object]:
    plain: dict[str, object] = {"arm": arm, "id": "a-1", "turn": 1, "repo": "a", "question": "Does it wait?"}
    plain |= {
        "history": [],
        "facts": FACTS,
        "model": "m",
        "text": "`wait` sleeps for a while [1].",
        "sources": [],
    }
    return plain | {"found": True, "warning": ""} | values


def test_claims_are_sentences_that_name_code() -> None:
    text = "# A `x`\nThat is so. The function `wait` sleeps twice [1]. Is `a`?\n- calls run(1) over again"
    fenced = "\n```\nwait() is not a claim here.\n```\n"
    assert claims(text + fenced) == ["The function `wait` sleeps twice [1].", "calls run(1) over again"]


@pytest.mark.parametrize(
    ("claim", "cited"),
    [("It waits [1, 2].", True), ("See a.py:12.", True), ("As b.py says.", True), ("It waits.", False)],
)
def test_a_claim_is_cited_by_number_place_or_shown_path(claim: str, cited: bool) -> None:
    assert is_cited(claim, ["b.py"]) is cited


def test_a_name_is_invented_if_neither_the_repository_nor_the_question_has_it(tmp_path: Path) -> None:
    (tmp_path / "wait.py").write_text("def wait_for(seconds): ...\n")
    known = words_of(tmp_path)
    text = "`wait_for(seconds)` and `mine` in `wait.py`, not `sleepLong`; `a b c` is no name."
    assert invented_names(text, known, "what is mine?") == ["sleepLong"]


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        ({"found": False}, True),
        ({"text": "The provided code does not contain a scheduler."}, True),
        ({"text": "It waits. Then it goes on. It does not contain more."}, False),
        ({"text": "It is not found.", "model": ""}, False),
    ],
)
def test_a_refusal_comes_first(values: dict[str, object], refused: bool) -> None:
    assert is_refusal(record("one", **values)) is refused


def test_reference_lines_are_counted_once() -> None:
    sources = [
        {"path": "a.py", "start_line": 3, "end_line": 9},
        {"path": "a.py", "start_line": 4, "end_line": 4},
    ]
    assert lines_shown(record("one", sources=sources)) == 0.5
    assert lines_shown(record("one", facts=[])) is None


def test_agreement_and_interval() -> None:
    assert kappa(["correct", "wrong"], ["correct", "wrong"]) == 1
    assert kappa(["correct", "correct", "wrong", "wrong"], ["correct", "wrong", "correct", "wrong"]) == 0
    assert kappa([], []) is None
    assert kappa(["wrong"], ["wrong"]) is None
    assert interval([1.0, 1.0]) == "1.00 [1.00, 1.00]"


def test_judges_do_not_see_the_arm_and_their_verdicts_find_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Kept(tmp_path / "answers.jsonl")
    kept.add([record("one"), record("two", text="I see nothing.")])
    given = tmp_path / "given.jsonl"
    assert main(["--answers", str(kept.path), "--export-judging", str(given)]) == 0
    shown = read_records(given)
    assert {one["key"] for one in shown} == {key_of(one) for one in kept.records}
    assert not {"arm", "model", "id"} & {*shown[0], *shown[1]}
    judge = tmp_path / "judge.jsonl"
    said = [
        {
            "key": one["key"],
            "verdict": "correct" if one["claims"] else "wrong",
            "supported": [True] * len(one["claims"]),
        }
        for one in shown
    ]
    judge.write_text("\n".join(map(json.dumps, said)))
    assert main(["--answers", str(kept.path), "--judge", str(judge), "--judge", str(judge)]) == 0
    assert "both judges: 2 answers, Cohen's kappa 1.00" in capsys.readouterr().out
    by_key = {one["key"]: one for one in said}
    assert [one[:3] for one in rows(kept.records, [by_key])] == [["one", "1", "1.00"], ["two", "1", "0.00"]]
    judge.write_text(json.dumps({**said[0], "verdict": "good"}))
    assert main(["--answers", str(kept.path), "--judge", str(judge)]) != 0
    assert "needs a verdict" in capsys.readouterr().err


def test_an_answer_is_kept_and_not_asked_again(tmp_path: Path) -> None:
    case = Case("a-1", "a", "conversations", (Turn("Does it wait?"), Turn("And then?")))
    kept = Kept(tmp_path / "new" / "answers.jsonl")
    kept.add([record("one"), record("one", turn=2)])
    again = Kept(kept.path)
    assert again.has("one", case, "m")
    assert not again.has("one", case, "another model")
    assert not again.has("two", case, "m")


def test_the_arms_of_a_run_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen("BENCH_ARMS", ARMS) == list(ARMS)
    monkeypatch.setenv("BENCH_ARMS", "DeepWiki-style, one look")
    assert chosen("BENCH_ARMS", ARMS) == ["one look", "DeepWiki-style"]
    monkeypatch.setenv("BENCH_ARMS", "one")
    with pytest.raises(NotMeasured, match="BENCH_ARMS: one is none of quotes, one look"):
        chosen("BENCH_ARMS", ARMS)


def test_the_questions_are_spread_and_every_fact_has_lines() -> None:
    every = cases()
    names = {one.name for one in read_repositories(FOLDER / "repositories.toml")}
    assert {case.repo for case in every[: len(names)]} == names
    assert len({case.id for case in every}) == len(every)
    for turn in (turn for case in every for turn in case.turns):
        assert len(turn.facts) <= 5
        for fact in turn.facts:
            assert fact["text"]
            assert all(1 <= p["start_line"] <= p["end_line"] for p in fact["places"])
