"""What is asked of "it" where a conversation is about a section of a document, which nothing calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from conftest import git

from rag.service import Dialog, Engine, converse
from rag.settings import Settings
from rag.types import Answer

GUIDE = """# Sealing

A parcel is sealed with wax before it leaves. Melt the wax at 60 degrees, in the small pot.
"""
CODE = """def seal_parcel(parcel):
    return parcel + WAX


def send(parcel):
    return seal_parcel(parcel)
"""
TESTS = "from post import seal_parcel\n\n\ndef test_seals():\n    assert seal_parcel(1)\n"
MELTED = "At how many degrees is the wax melted in the pot for a parcel?"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "office"
    (folder / "tests").mkdir(parents=True)
    (folder / "README.md").write_text(GUIDE)
    (folder / "post.py").write_text(CODE)
    (folder / "tests" / "test_post.py").write_text(TESTS)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Open the office")
    return folder


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with closing(Engine(Settings(home=tmp_path / "rag", memory="memory:"))) as engine:
        yield engine


def asked(dialog: Dialog, question: str) -> Answer:
    *_, answer = converse(dialog, question, dialog.engine.generator())
    assert isinstance(answer, Answer)
    return answer


@pytest.mark.parametrize(
    ("question", "said", "place"),
    [
        ("Who calls it?", "`seal_parcel` is called in", ("post.py", 6)),
        ("Which tests cover it?", "`seal_parcel` is used in tests in", ("tests/test_post.py", 5)),
        ("What changed there recently?", "`seal_parcel` was last changed", ("post.py", 1)),
    ],
)
def test_it_is_the_first_definition_that_was_shown(
    engine: Engine, folder: Path, question: str, said: str, place: tuple[str, int]
) -> None:
    dialog = Dialog(engine, [engine.repository(str(folder))])
    assert asked(dialog, MELTED).citations[0].path == "README.md"
    answer = asked(dialog, question)
    assert answer.code_facts is not None and answer.text.startswith(said)
    assert (answer.code_facts.items[0].path, answer.code_facts.items[0].start) == place
    subject = dialog.next_subject()
    assert subject is not None and subject.symbol == "seal_parcel"


@pytest.mark.parametrize("question", ["Who calls it?", "Which tests cover it?", "And where is it used?"])
def test_without_a_definition_the_answer_says_what_the_conversation_was_about(
    engine: Engine, folder: Path, question: str
) -> None:
    (folder / "post.py").unlink()
    (folder / "tests" / "test_post.py").unlink()
    dialog = Dialog(engine, [engine.repository(str(folder))])
    asked(dialog, MELTED)
    answer = asked(dialog, question)
    assert answer.text.startswith(
        "The conversation has shown no definition in code yet; it was about `README.md:"
    )
    assert "“Sealing”" in answer.text and not answer.found
    assert (answer.hits, answer.citations) == ((), ())


def test_a_section_has_a_history_of_its_own(engine: Engine, folder: Path) -> None:
    (folder / "post.py").unlink()
    (folder / "tests" / "test_post.py").unlink()
    dialog = Dialog(engine, [engine.repository(str(folder))])
    asked(dialog, MELTED)
    facts = asked(dialog, "What changed there recently?").code_facts
    assert facts is not None and facts.kind == "history" and facts.subject == "Sealing"
    assert facts.items[0].path == "README.md"
