import json
from pathlib import Path
from typing import Any

import pytest

from rag.errors import SettingsError
from rag.evaluation.questions import read_records
from tools.check_questions import problems_of

CODE = '"""A toy."""\n\n\ndef play(times):\n    """Play the toy again and again."""\n    return times\n'


def single(**changes: Any) -> dict[str, Any]:
    record = {
        "id": "toy-1",
        "repo": "toy",
        "language": "python",
        "kind": "newcomer",
        "how": "hand",
        "question": "How is it played?",
        "answers": [{"path": "toy.py", "start": 4, "end": 6, "symbol": "play"}],
    }
    return {**record, **changes}


def place(**changes: Any) -> list[dict[str, Any]]:
    return [{"path": "toy.py", "start": 4, "end": 6, "symbol": "play", **changes}]


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "toy.py").write_text(CODE)
    return {"toy": tmp_path}


def test_good_records_of_every_shape_pass(folders: dict[str, Path]) -> None:
    mined = single(
        id="toy-2",
        kind="docstring",
        how="mined",
        question="Play the toy again and again.",
        strip=True,
        doc={"path": "toy.py", "start": 5, "end": 5},
    )
    turn = {"question": "And then?", "answers": place()}
    conversation = {"id": "toy-c", "repo": "toy", "language": "python", "turns": [turn, turn]}
    unanswerable = {"id": "toy-u", "repo": "toy", "question": "Where is the moon?"}

    assert problems_of([single(), mined, conversation, unanswerable], folders) == []


def test_good_records_by_kind_pass(folders: dict[str, Path]) -> None:
    bare = [{"path": "toy.py", "start_line": 5, "end_line": 6}]
    listed = single(kind="list", answers=bare, members=[{"name": "times", "path": "toy.py", "line": 4}])
    callers = single(id="toy-2", question="Who?", kind="callers", sites=[{"path": "toy.py", "line": 6}])
    turn = {"question": "tested?", "facet": "tested", "answers": bare}
    stay = {"id": "toy-c", "repo": "toy", "language": "python", "sort": "stay", "turns": [turn, turn]}
    absent = {"id": "toy-u", "repo": "toy", "kind": "absent", "question": "Where is the moon?"}

    assert problems_of([listed, callers, stay, absent], folders) == []


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (single(kind="list"), "of the kind list has members"),
        (single(sites=[{"path": "toy.py", "line": 4}]), "of the kind callers has sites"),
        (single(kind="callers", sites=[{"path": "toy.py", "line": 40}]), "sites: toy.py has 6 lines"),
        ({"id": "u", "repo": "toy", "question": "Why?", "kind": "odd"}, "unknown kind: odd"),
        (single(repo="other"), "not in the TOML file"),
        (single(question="How? "), "invalid question"),
        (single(kind="guess"), "unknown kind"),
        (single(answers=[]), "0 answers"),
        (single(answers=place(path="../toy.py")), "no file"),
        (single(answers=place(path="gone.py")), "no file"),
        (single(answers=place(end=9)), "4-9 is not among them"),
        (single(answers=place(start=0)), "0-6 is not among them"),
        (single(answers=place(symbol="Toy.pla")), "does not define 'Toy.pla'"),
        (single(kind="docstring"), "needs strip"),
        (single(strip=True, doc={"path": "toy.py", "start": 1, "end": 1}), "do not occur"),
        ({"id": "c", "repo": "toy", "turns": []}, "0 turns"),
        ({"id": "u", "repo": "toy"}, "invalid question"),
    ],
)
def test_each_mistake_is_named(folders: dict[str, Path], record: dict[str, Any], problem: str) -> None:
    found = problems_of([record], folders)

    assert len(found) == 1
    assert problem in found[0]


def test_ids_and_questions_stand_once(folders: dict[str, Path]) -> None:
    assert problems_of([single(), single()], folders) == [
        "toy-1: the id occurs 2 times",
        "toy: asked 2 times: How is it played?",
    ]


def test_a_line_that_is_no_json_object_is_named(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(single()) + "\n[1]\n")

    with pytest.raises(SettingsError, match="line 2"):
        read_records(path)
