"""What a conversation is about: named by the user, stored with its turns, shown by every interface."""

from __future__ import annotations

from contextlib import closing

import pytest

from rag.errors import NotFound
from rag.service import Dialog, Engine, converse
from rag.service.loop.subjects import find_subject
from rag.settings import Settings


@pytest.fixture
def engine(tmp_path):
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        yield engine


@pytest.fixture
def repository(engine, sample_repo):
    return engine.repository(str(sample_repo))


def ask(dialog, question):
    *_, answer = converse(dialog, question, dialog.engine.generator())
    return answer


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("authenticate", "snip/auth.py:27-39"),
        ("`Storage.user_by_token`", "snip/storage.py:82-88"),
        ("snip/auth.py", "snip/auth.py"),
    ],
)
def test_a_subject_is_a_definition_or_a_file(repository, name, place):
    assert find_subject([repository], name).place == place


def test_an_unknown_name_lists_similar_ones(repository):
    with pytest.raises(NotFound, match=r"'curent_user' in sample_repo; similar names: .*current_user"):
        find_subject([repository], "curent_user")
    with pytest.raises(NotFound, match="name a definition or a file"):
        find_subject([repository], "x" * 100_000)


def test_a_continued_conversation_keeps_the_subject_that_was_set(engine, repository):
    dialog = Dialog(engine, [repository])
    subject = dialog.about("Storage.user_by_token")
    answer = ask(dialog, "who calls it?")
    assert answer.subject == dialog.next_subject() == subject
    assert dialog.subject is None, "it was set for one question, and is that of the turn"
    again = Dialog(engine, [repository], engine.find_conversation(answer.conversation_id))
    assert again.turns()[0].subject == subject
    assert ask(again, "is it tested?").subject == subject


def test_a_first_question_has_no_subject_and_its_follow_up_has(engine, repository):
    dialog = Dialog(engine, [repository])
    assert ask(dialog, "Where is a token checked?").subject is None
    assert ask(dialog, "And who calls it?").subject.name == "authenticate"
