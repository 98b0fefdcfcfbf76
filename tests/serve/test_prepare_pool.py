"""Questions that come at once are prepared in other processes, and answered as one alone is."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from live_server import Served

from rag.answer.extract import ExtractiveGenerator
from rag.errors import ConfigError
from rag.serve.openai.thread_matching import ClientHistory, Prefixes
from rag.serve.workers import prepare_pool as preparing_module
from rag.serve.workers.prepare_pool import Engines, Job, PreparePool
from rag.serve.workers.subprocesses import Child
from rag.service import Dialog, Engine, converse
from rag.service.loop.dialog import AS_TYPED
from rag.settings import Settings
from rag.types import Answer, Prepared, Source
from rag.wiki.prose.prose_writer import page_selection

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample_repo"
QUESTIONS = ("How are sessions signed?", "How is a password checked?", "Where are clicks counted?")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = Engine(Settings(home=tmp_path_factory.mktemp("home")))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path_factory.mktemp("sample") / "snip"))


def dialog(engine: Engine, root: Path) -> Dialog:
    return Dialog(engine, [engine.repository(Source(str(root)))])


def said(prepared: Prepared) -> tuple[object, ...]:
    return prepared.question, prepared.standalone_question, prepared.prompt, prepared.confidence


def running(work: Callable[[PreparePool], Awaitable[None]], processes: int = 1) -> None:
    async def run() -> None:
        preparing = PreparePool(processes)
        try:
            await work(preparing)
        finally:
            await preparing.close()

    asyncio.run(run())


async def started(preparing: PreparePool, one: Dialog) -> None:
    """Ask two questions at once, and wait for the children that are started for them."""
    async with asyncio.timeout(120):
        while not preparing.children:
            await asyncio.gather(*(preparing.prepare(one, QUESTIONS[0], AS_TYPED) for _ in range(2)))
            await asyncio.gather(*preparing._starting)


def test_a_child_prepares_what_this_process_would(engine: Engine, root: Path) -> None:
    one = dialog(engine, root)
    list(converse(one, "How is the rate limited?", ExtractiveGenerator()))  # the conversation has a turn

    async def work(preparing: PreparePool) -> None:
        await started(preparing, one)
        asked = [*QUESTIONS, "And who calls it?"]
        prepared = await asyncio.gather(*(preparing.prepare(one, question, AS_TYPED) for question in asked))
        here = [one.prepare(question) for question in asked]
        assert [said(each) for each in prepared] == [said(each) for each in here]
        assert preparing.done_by_children >= 3
        # What a child quotes along with it is what would be quoted here.
        writing = ExtractiveGenerator()
        quoted = [each for each in prepared if each.quotes is not None]
        assert len(quoted) >= 3
        assert [list(writing.stream(each)) for each in prepared] == [list(writing.stream(h)) for h in here]

    running(work)


def test_a_changed_store_is_reopened_and_errors_are_those_of_this_process(
    engine: Engine, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(SAMPLE, tmp_path / "snip"))
    before = dialog(engine, root)

    async def work(preparing: PreparePool) -> None:
        await started(preparing, before)
        (root / "snip" / "tide.py").write_text("def tide_of(harbour):\n    return harbour.tide\n")
        after = dialog(engine, root)
        with pytest.raises(ConfigError):
            await asyncio.gather(*(preparing.prepare(after, " ", AS_TYPED) for _ in range(2)))
        twice = await asyncio.gather(
            *(preparing.prepare(after, "What is tide_of?", AS_TYPED) for _ in range(3))
        )
        assert {each.hits[0].path for each in twice} == {"snip/tide.py"}

    running(work)


def test_a_child_that_dies_or_is_waited_for_no_more_costs_no_answer(engine: Engine, root: Path) -> None:
    one = dialog(engine, root)

    async def work(preparing: PreparePool) -> None:
        await started(preparing, one)
        given_up = [asyncio.create_task(preparing.prepare(one, QUESTIONS[0], AS_TYPED)) for _ in range(3)]
        await asyncio.sleep(0)
        for task in given_up:
            task.cancel()
        for child in preparing.children:
            child.kill()
        prepared = await asyncio.gather(
            *(preparing.prepare(one, question, AS_TYPED) for question in QUESTIONS)
        )
        assert [said(each) for each in prepared] == [said(one.prepare(question)) for question in QUESTIONS]
        await started(preparing, one)

    running(work)


@pytest.mark.parametrize(("soon_s", "most"), [(60.0, 2), (0.0, 1)])
def test_a_child_has_the_next_question_already_unless_the_present_one_is_long(
    engine: Engine, root: Path, monkeypatch: pytest.MonkeyPatch, soon_s: float, most: int
) -> None:
    monkeypatch.setattr(preparing_module, "_SLOW_QUESTION_S", soon_s)
    one = dialog(engine, root)
    had: list[int] = []

    async def work(preparing: PreparePool) -> None:
        await started(preparing, one)
        ask = preparing._ask

        async def asking(child: Child, job: Job) -> Prepared | None:
            had.append(preparing.children[child])
            return await ask(child, job)

        monkeypatch.setattr(preparing, "_ask", asking)
        asked = [asyncio.create_task(preparing.prepare(one, QUESTIONS[n % 3], AS_TYPED)) for n in range(12)]
        await asyncio.sleep(0)
        for task in asked[::4]:
            task.cancel()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [isinstance(each, Prepared) for each in answers] == [n % 4 > 0 for n in range(12)]
        await asyncio.gather(*preparing._asking)
        assert max(had) == most and set(preparing.children.values()) == {0}

    running(work)


def test_an_answer_that_cannot_be_read_ends_the_child_and_nobody_waits_for_it(
    engine: Engine, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = dialog(engine, root)

    def unreadable(content: bytes) -> object:
        raise ModuleNotFoundError("no module of that name")

    async def work(preparing: PreparePool) -> None:
        await started(preparing, one)
        with monkeypatch.context() as damaged:
            damaged.setattr(preparing_module.pickle, "loads", unreadable)
            asked = (preparing.prepare(one, question, AS_TYPED) for question in QUESTIONS)
            prepared = await asyncio.wait_for(asyncio.gather(*asked), 120)
        assert [said(each) for each in prepared] == [said(one.prepare(question)) for question in QUESTIONS]
        assert not preparing.children
        await started(preparing, one)

    running(work)


def test_what_only_the_dialog_knows_is_in_the_prompt_wherever_it_is_prepared(
    engine: Engine, root: Path
) -> None:
    repository, prefixes = engine.repository(Source(str(root))), Prefixes()

    def prefix(*history: tuple[str, str]) -> Dialog:
        heard = ClientHistory(engine, [repository.source], names=["snip"], history=history, prefixes=prefixes)
        return Dialog(engine, [repository], history=heard)

    def asked(question: str, *history: tuple[str, str]) -> tuple[str, str]:
        *_, answer = converse(prefix(*history), question, ExtractiveGenerator())
        assert isinstance(answer, Answer)
        return question, answer.text

    first = asked(QUESTIONS[0])
    asked(QUESTIONS[2], first)
    gone_back = prefix(first)  # the client has not heard of the second question
    begun_elsewhere = prefix(("What is a harbour?", "Where ships lie."))
    selection = page_selection([], QUESTIONS[2], lambda path: "store" in path)
    one_file_first = Dialog(engine, [repository], selection=selection)

    async def work(preparing: PreparePool) -> None:
        await started(preparing, dialog(engine, root))
        before = preparing.done_by_children
        for one in (gone_back, begun_elsewhere, one_file_first):
            prepared = await asyncio.gather(
                *(preparing.prepare(one, "And who calls it?", AS_TYPED) for _ in "ab")
            )
            assert [said(each) for each in prepared] == [said(one.prepare("And who calls it?"))] * 2
        assert preparing.done_by_children == before
        firsts = await asyncio.gather(*(preparing.prepare(prefix(), QUESTIONS[1], AS_TYPED) for _ in "abc"))
        assert [said(each) for each in firsts] == [said(prefix().prepare(QUESTIONS[1]))] * 3
        assert preparing.done_by_children > before

    running(work)


def test_the_engines_of_a_child_share_a_store(tmp_path: Path) -> None:
    engines = Engines()
    one, other = (engines.engine(Settings(home=tmp_path, namespace=name)) for name in ("ann", "bob"))
    assert one.turns is other.turns
    assert (one.settings.namespace, other.settings.namespace) == ("ann", "bob")
    one.close()


def test_one_question_alone_starts_no_child(engine: Engine, root: Path) -> None:
    one = dialog(engine, root)

    async def work(preparing: PreparePool) -> None:
        for question in QUESTIONS:
            await preparing.prepare(one, question, AS_TYPED)
        assert not preparing.children
        assert preparing.done_by_children == 0

    running(work)


def test_a_server_has_children_when_several_ask_and_stores_every_turn(serve: Callable[..., Served]) -> None:
    served = serve(processes=1).ready()
    preparing = served.service.prepare_pool
    asked = 0
    with ThreadPoolExecutor(6) as clients:
        while not preparing.done_by_children and asked < 3000:
            bodies = [{"question": question, "repositories": ["sample"]} for question in QUESTIONS * 2]
            replies = list(clients.map(lambda body: served.post("/api/ask", body), bodies))
            assert [reply.status for reply in replies] == [200] * len(bodies)
            assert {reply.json["answer"] for reply in replies} == {
                reply.json["answer"] for reply in replies[:3]
            }
            asked += len(bodies)
            served.wait_until(lambda: preparing.children)
    assert preparing.done_by_children
    conversations = served.service.engine.turns.conversations()
    assert [conversation.turn_count for conversation in conversations] == [1] * asked
