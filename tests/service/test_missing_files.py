"""A question about a file that is not there says so, and what became of the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from conftest import git

from rag.corpus.line_history import removal
from rag.service import Dialog, Engine, converse
from rag.settings import Settings
from rag.types import Answer

CODE = "".join(f"def seal_{n}(parcel):\n    return parcel + {n}\n\n\n" for n in range(9))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "office"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "--quiet")
    for name, text in {
        "seal": CODE,
        "gone": "GONE = 1\n",
        "back": "BACK = 1\n",
        "post": "POST = 1\n",
    }.items():
        (folder / "src" / f"{name}.py").write_text(text)
    for change in ("Open", "Tidy"):
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", change)
        if change == "Open":
            (folder / "src" / "seal.py").rename(folder / "src" / "wax.py")
            (folder / "src" / "gone.py").unlink()
    return folder


@pytest.fixture
def dialog(tmp_path: Path, folder: Path) -> Iterator[Dialog]:
    with closing(Engine(Settings(home=tmp_path / "rag", memory="memory:"))) as engine:
        yield Dialog(engine, [engine.repository(str(folder))])


def asked(dialog: Dialog, question: str) -> Answer:
    *_, answer = converse(dialog, question, dialog.engine.generator())
    assert isinstance(answer, Answer)
    return answer


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Why was src/gone.py added?", "`src/gone.py` is not in office at "),
        ("What does gone.py do?", "`src/gone.py` is not in office at "),
        ("Show me lines 1-3 of src/seal.py", "it was renamed to `src/wax.py` by "),
        ("What does src/nothere.ts do?", "`src/nothere.ts` is not among the indexed files of office at "),
        ("Who imports src/waxx.py?", "the nearest name is `src/wax.py`."),
    ],
)
def test_what_became_of_a_file_is_the_whole_answer(dialog: Dialog, question: str, said: str) -> None:
    answer = asked(dialog, question)
    assert said in answer.text and len(answer.text.splitlines()) == 1
    assert (answer.found, answer.hits, answer.citations) == (False, (), ())
    if "gone" in question:
        assert "it was removed by Sample Author on" in answer.text and '("Tidy").' in answer.text


def test_a_question_with_a_subject_of_its_own_is_answered_below_that(dialog: Dialog) -> None:
    answer = asked(dialog, "How is a parcel sealed in lib/sealing.py?")
    assert answer.found and answer.warning.startswith("`lib/sealing.py` is not among the indexed files")
    assert answer.citations[0].path == "src/wax.py"


@pytest.mark.parametrize(
    "question",
    [
        "What does src/wax.py do?",
        "What does wax.py do?",
        "Is Node.js needed?",
        "What is https://a.org/b/c.html?",
    ],
)
def test_what_is_there_or_no_file_is_not_missing(dialog: Dialog, question: str) -> None:
    assert "is not" not in asked(dialog, question).warning.partition(".")[0]


def test_a_file_that_was_added_again_was_not_removed(folder: Path) -> None:
    (folder / "src" / "back.py").unlink()
    git(folder, "commit", "--quiet", "--all", "--message", "Drop")
    assert removal(folder, "HEAD", "back.py") is not None
    (folder / "src" / "back.py").write_text("BACK = 2\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Restore")
    assert removal(folder, "HEAD", "src/back.py") is None
    assert removal(folder, "HEAD", "src/never.py") is None
