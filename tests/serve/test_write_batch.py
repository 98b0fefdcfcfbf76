"""Turns of answers that are whole at once are one transaction, and none of them is another's business."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rag.backends.sqlite.file import SqliteFile
from rag.errors import StoreUnwritable
from rag.serve.workers.write_batch import WriteBatcher
from rag.service import Dialog, Engine
from rag.settings import Settings
from rag.types import Answer, AssistantResponse, DialogTurn, UserQuery


@pytest.fixture(params=["", "memory:"])
def dialog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Dialog]:
    """A dialog over a store that can do several calls at once, and over one that cannot."""
    chosen = {"memory": request.param} if request.param else {}
    engine = Engine(Settings(home=tmp_path, **chosen))
    yield Dialog(engine, [], engine.begin_conversation("sea", []))
    engine.close()


def storing_of(dialog: Dialog, text: str) -> Callable[[], Answer]:
    """What stores a turn that says this."""

    def store() -> Answer:
        assert dialog.conversation is not None
        turn = DialogTurn(user_query=UserQuery(text), assistant_response=AssistantResponse(text))
        dialog.engine.turns.append(turn, conversation=dialog.conversation.id)
        return Answer(text=text, question=text, standalone_question=text)

    return store


def outcomes_of(dialog: Dialog, stores: list[Callable[[], Answer]]) -> list[Answer | BaseException]:
    """What came of each, all asked for at once."""

    async def run() -> list[Answer | BaseException]:
        storing = WriteBatcher()
        asked = (storing.store(dialog, store) for store in stores)
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        await storing.close()
        return outcomes

    return asyncio.run(run())


def stored(dialog: Dialog) -> list[str]:
    return [turn.question for turn in dialog.turns()]


def test_each_caller_gets_its_own_answer_and_all_are_stored(dialog: Dialog) -> None:
    texts = [f"turn {n}" for n in range(30)]
    outcomes = outcomes_of(dialog, [storing_of(dialog, text) for text in texts])
    assert [getattr(outcome, "text", outcome) for outcome in outcomes] == texts
    assert sorted(stored(dialog)) == sorted(texts)


def test_one_that_fails_fails_alone_and_leaves_nothing(dialog: Dialog) -> None:
    def failing() -> Answer:
        assert dialog.conversation is not None
        dialog.engine.turns.turns("no such conversation")
        raise AssertionError("that raises")

    outcomes = outcomes_of(dialog, [storing_of(dialog, "first"), failing, storing_of(dialog, "last")])
    assert [type(outcome).__name__ for outcome in outcomes] == ["Answer", "NotFound", "Answer"]
    assert sorted(stored(dialog)) == ["first", "last"]


def test_a_failed_transaction_is_reported_to_all_and_nothing_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(Settings(home=tmp_path))
    dialog = Dialog(engine, [], engine.begin_conversation("sea", []))

    def full(self: SqliteFile, connection: object) -> None:
        raise StoreUnwritable(path="turns.db", why="the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(SqliteFile, "_check_open", full)
        outcomes = outcomes_of(dialog, [storing_of(dialog, text) for text in "abc"])
    assert [type(outcome) for outcome in outcomes] == [StoreUnwritable] * 3
    assert stored(dialog) == []
    (outcome,) = outcomes_of(dialog, [storing_of(dialog, "later")])
    assert isinstance(outcome, Answer) and stored(dialog) == ["later"]
    engine.close()


def test_who_is_cancelled_before_the_write_stores_nothing_and_during_it_everything(tmp_path: Path) -> None:
    engine = Engine(Settings(home=tmp_path))
    dialog = Dialog(engine, [], engine.begin_conversation("sea", []))
    begun, gone_on = threading.Event(), threading.Event()

    def slowly() -> Answer:
        begun.set()
        assert gone_on.wait(120)
        return storing_of(dialog, "during")()

    def mistaken() -> Answer:
        raise ZeroDivisionError

    async def run() -> list[Answer | BaseException]:
        storing = WriteBatcher()
        during = asyncio.create_task(storing.store(dialog, slowly))
        await asyncio.to_thread(begun.wait, 120)
        before = asyncio.create_task(storing.store(dialog, storing_of(dialog, "before")))
        await asyncio.sleep(0)
        before.cancel()
        during.cancel()
        mistake = asyncio.create_task(storing.store(dialog, mistaken))
        await asyncio.sleep(0)
        gone_on.set()
        outcomes = await asyncio.gather(mistake, before, during, return_exceptions=True)
        await storing.close()
        return outcomes

    outcomes = asyncio.run(run())
    assert [type(one) for one in outcomes] == [ZeroDivisionError, *[asyncio.CancelledError] * 2]
    assert stored(dialog) == ["during"]
    engine.close()
