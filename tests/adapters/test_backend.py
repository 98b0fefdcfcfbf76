"""Five methods by which a harness keeps notes, given to it from outside."""

from __future__ import annotations

import asyncio
import importlib.util
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

import rag.adapters.backend
from rag.adapters.backend import MemoryBackend, RagMemoryBackend
from rag.backends.memory.turns import MemoryTurnStore
from rag.backends.tiktoken_counter import EstimateCounter
from rag.errors import StoreError
from rag.memory.agent_notes import Sections

SAID = [
    {"role": "user", "content": "We ship on Friday. Lunch was good."},
    {"role": "assistant", "content": [{"type": "text", "text": "Noted: the release is on Friday."}]},
]


class DictBackend:
    """Somebody else's memory."""

    def __init__(self):
        self.sections = defaultdict(str)

    async def get_context(self, namespace):
        return "\n".join(text for (of, _), text in self.sections.items() if of == namespace)

    async def read_section(self, namespace, section):
        return self.sections[namespace, section]

    async def append_section(self, namespace, section, entry):
        self.sections[namespace, section] += entry + "\n"

    async def add_history(self, namespace, entry):
        self.sections[namespace, "history"] += entry + "\n"

    async def consolidate(self, namespace, messages, provider=None, model=""):
        return False


class Harness:
    """Runs a task with whatever memory it is given."""

    def __init__(self, provider, memory):
        if not isinstance(memory, MemoryBackend):
            raise TypeError("no memory")
        self.provider, self.memory = provider, memory

    async def run(self, task):
        context = await self.memory.get_context("project")
        reply = self.provider(f"{context}\n\n{task}")
        await self.memory.add_history("project", f"{task}: {reply}")
        await self.memory.append_section("project", "done", task)
        said = [{"role": "user", "content": task}, {"role": "assistant", "content": reply}]
        await self.memory.consolidate("project", said)
        return reply


@pytest.fixture(params=["memory:", "sqlite:///{}/notes.db"])
def memory(request, tmp_path):
    return RagMemoryBackend(request.param.format(tmp_path))


async def test_a_harness_takes_ours_or_anothers_and_its_next_task_is_told_the_last(memory):
    for backend in (memory, DictBackend()):
        prompts = []
        harness = Harness(lambda prompt, prompts=prompts: prompts.append(prompt) or "all green", backend)
        await harness.run("Run the tests")
        await harness.run("Write the notes")
        assert "Run the tests: all green" in prompts[1]
        assert (await backend.read_section("project", "done")).splitlines() == [
            "Run the tests",
            "Write the notes",
        ]
    with pytest.raises(TypeError):
        Harness(print, object())


async def test_sections_and_histories_of_namespaces_are_apart_whatever_their_names(memory):
    await memory.append_section("a:b", "c", "one")
    await memory.append_section("a", "b:c", "two")
    await memory.add_history("a", "three")
    assert await memory.read_section("a:b", "c") == "one\n"
    assert await memory.read_section("a", "b:c") == "two\n"
    assert await memory.read_section("a", "c") == ""
    assert await memory.history("a:b") == []
    assert await memory.get_context("nowhere") == ""
    assert await memory.clear("a") == 1
    assert await memory.get_context("a") == ""
    assert await memory.read_section("a:b", "c") == "one\n"


async def test_consolidating_twice_changes_nothing_and_shows_in_the_context(memory):
    assert await memory.consolidate("project", SAID) is True
    context = await memory.get_context("project")
    assert "Friday" in context
    assert await memory.consolidate("project", SAID) is False
    assert await memory.get_context("project") == context


@pytest.mark.parametrize("failing", ["put_records", "swap_record"])
def test_what_is_consolidated_when_the_store_fails_is_not_lost(failing, monkeypatch):
    store = MemoryTurnStore()
    notes = Sections(store, EstimateCounter())

    def fails(*args, **more):
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch, suppress(StoreError):
        patch.setattr(store, failing, fails)
        notes.consolidate(SAID)
    notes.consolidate(SAID)
    assert "Friday" in notes.summary


def completions(prompts, *, is_async):
    def create(model, messages):
        prompts.append((model, messages))
        reply = SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content="Ships Friday."))])
        return asyncio.sleep(0, reply) if is_async else reply

    return SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_client_of_openai_writes_the_summary(memory, is_async):
    prompts = []
    client = completions(prompts, is_async=is_async)
    assert await memory.consolidate("project", SAID, provider=client, model="small")
    ((model, (system, user)),) = prompts
    assert (model, system["role"]) == ("small", "system")
    assert "user: We ship on Friday." in user["content"]
    assert "Ships Friday." in await memory.get_context("project")
    assert not await memory.consolidate("project", SAID, provider=client, model="small")
    assert len(prompts) == 1


async def test_a_function_or_something_that_completes_writes_the_summary(memory):
    async def awaited(prompt):
        return "awaited"

    for n, provider in enumerate((lambda prompt: "plain", awaited, SimpleNamespace(complete=awaited))):
        said = [{"role": "user", "content": f"Message {n}."}]
        assert await memory.consolidate("project", said, provider=provider)
    assert "awaited" in await memory.get_context("project")
    for wrong in (7, lambda prompt: 7):
        with pytest.raises(TypeError):
            await memory.consolidate("project", [{"role": "user", "content": "More."}], provider=wrong)


async def test_a_provider_that_fails_leaves_everything_as_it_was(memory):
    def failing(prompt):
        raise OSError("no line")

    with pytest.raises(OSError, match="no line"):
        await memory.consolidate("project", SAID, provider=failing)
    assert await memory.get_context("project") == ""
    assert await memory.consolidate("project", SAID)


async def test_the_context_fits_its_budget(tmp_path):
    memory = RagMemoryBackend(context_tokens=100)
    for n in range(200):
        await memory.append_section("project", "log", f"line {n}")
    context = await memory.get_context("project")
    assert "line 199" in context
    assert "line 0\n" not in context
    assert len(context) < 800


async def test_what_is_written_is_there_after_closing(tmp_path):
    memory = RagMemoryBackend(f"sqlite:///{tmp_path}/notes.db")
    await asyncio.gather(*(memory.append_section("project", "log", str(n)) for n in range(30)))
    await memory.close()
    assert len((await memory.read_section("project", "log")).split()) == 30
    await memory.aclose()
    again = RagMemoryBackend(f"sqlite:///{tmp_path}/notes.db")
    assert sorted(map(int, (await again.read_section("project", "log")).split())) == list(range(30))
    await again.aclose()


async def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shared = Path(__file__).parents[1] / "clients" / "docstring_examples.py"
    spec = importlib.util.spec_from_file_location("docstring_examples", shared)
    examples = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(examples)
    scope = await examples.run_example(rag.adapters.backend)
    assert "Friday" in capsys.readouterr().out
    await scope["memory"].aclose()
