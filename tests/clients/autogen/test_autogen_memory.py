"""Our memory in AutoGen: a `Memory` like `ListMemory`, which ranks, lasts, and is said once."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import MemoryQueryEvent
from autogen_core import CancellationToken, Image
from autogen_core.memory import ListMemory, Memory, MemoryContent, MemoryMimeType
from autogen_core.model_context import BufferedChatCompletionContext, UnboundedChatCompletionContext
from autogen_core.models import AssistantMessage, SystemMessage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient
from docstring_examples import run_example
from PIL import Image as PilImage

import rag.adapters.autogen
from rag.adapters.autogen import RagMemory, RepositoryMemory

SAMPLE = Path(__file__).resolve().parents[3] / "data" / "sample_repo"
PICTURE = Image.from_pil(PilImage.new("RGB", (3, 2), "red"))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_HOME", str(tmp_path / "rag-home"))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SAMPLE, tmp_path / "data" / "sample_repo")
    return tmp_path


def text(said: str, **metadata) -> MemoryContent:
    return MemoryContent(content=said, mime_type=MemoryMimeType.TEXT, metadata=metadata or None)


KINDS = [
    text("Prefers metric units", source="settings"),
    MemoryContent(content="# Diet\nvegan", mime_type=MemoryMimeType.MARKDOWN),
    MemoryContent(content="free mime", mime_type="text/x-note"),
    MemoryContent(content="text/plain, as text", mime_type="text/plain"),
    MemoryContent(
        content={"city": "北京", "none": None, "deep": [{"a": 2.5}]}, mime_type=MemoryMimeType.JSON
    ),
    MemoryContent(content=b"\xff\xfe\x00 not text", mime_type=MemoryMimeType.BINARY, metadata={"n": 1}),
    MemoryContent(content=b"text in bytes", mime_type="text/plain"),
]


async def all_of(memory: Memory) -> list[MemoryContent]:
    return (await memory.query("")).results


async def test_options_of_a_query_are_obeyed_or_refused_by_name():
    memory = RagMemory("notes", [text("Tokens live"), text("Links live"), text("Tokens die")])
    best = await memory.query("tokens", top_k=2)
    assert sorted(one.content for one in best.results) == ["Tokens die", "Tokens live"]
    newest = await memory.query("tokens", top_k=2, sequential=True)
    assert [one.content for one in newest.results] == ["Links live", "Tokens die"]
    assert len((await memory.query("tokens", sequential=True)).results) == 3
    code = RepositoryMemory("data/sample_repo")
    assert len((await code.query("Where is a token checked?", top_k=2)).results) == 2
    for one in (memory, code):
        for option in ({"distance_threshold": 0.2}, {"top_k": 0}, {"k": 1, "top_k": 2}):
            with pytest.raises(ValueError, match=next(iter(option))):
                await one.query("tokens", **option)
        with pytest.raises(TypeError, match="limit"):
            await one.query("tokens", limit=1)
    with pytest.raises(ValueError, match="sequential"):
        await code.query("tokens", sequential=True)
    with pytest.raises(AttributeError, match="top_k"):
        memory.top_k = 2


@pytest.mark.parametrize("url", ["memory:", "sqlite:///notes.db"])
async def test_contents_of_every_kind_come_back_as_they_were_in_their_order(url):
    memory = RagMemory("notes", memory=url)
    for content in KINDS:
        await memory.add(content)
    await memory.add(MemoryContent(content=PICTURE, mime_type=MemoryMimeType.IMAGE))
    *others, picture = await all_of(memory)
    assert others == KINDS
    assert [type(one.mime_type) for one in others] == [type(one.mime_type) for one in KINDS]
    assert picture.content.image.tobytes() == PICTURE.image.tobytes()
    await memory.close()
    assert len(await all_of(memory)) == len(KINDS) + 1


async def test_a_query_ranks_and_says_the_scores():
    memory = RagMemory()
    for said in ("The user lives in 北京", "getUserName is in users.py", "The user name is Ann", "It rained"):
        await memory.add(text(said, kept="yes"))
    found = (await memory.query("user name")).results
    assert {one.content for one in found[:2]} == {"The user name is Ann", "getUserName is in users.py"}
    assert {one.content for one in found[2:]} == {"The user lives in 北京", "It rained"}
    assert not any("score" in one.metadata for one in found if one.content == "It rained")
    scores = [one.metadata["score"] for one in found if "score" in one.metadata]
    assert scores == sorted(scores, reverse=True)
    assert found[0].metadata["kept"] == "yes"
    assert len((await memory.query("user name", k=1)).results) == 1
    same = MemoryContent(content={"q": "rained"}, mime_type=MemoryMimeType.JSON)
    for words, best in (("北京", "The user lives in 北京"), (same, "It rained")):
        assert (await memory.query(words)).results[0].content == best
    assert (await RagMemory().query("anything")).results == []


async def test_a_query_gives_everything_as_a_list_memory_does():
    ours, theirs = RagMemory("both", KINDS), ListMemory("both", KINDS)
    for words in ("", "anything", "nowhere to be found"):
        assert (await ours.query(words)).results == (await theirs.query(words)).results == KINDS
    await ours.add(text("The user name is Zoe"))
    best, *others = (await ours.query("Zoe")).results
    assert (best.content, others) == ("The user name is Zoe", KINDS)
    assert (await ours.query("Zoe", k=2)).results == [best, KINDS[0]]


def test_a_configuration_holds_contents_as_objects_or_as_dicts():
    for given in (KINDS, [one.model_dump(mode="json") for one in KINDS[:2]]):
        config = {"name": "n", "memory_contents": given}
        loaded = RagMemory.load_component({"provider": "rag.adapters.autogen.RagMemory", "config": config})
        assert [one.content for one in loaded.content] == [one.content for one in KINDS[: len(given)]]
        if given is KINDS:
            assert list(loaded.content) == KINDS
        again = RagMemory.load_component(loaded.dump_component().model_dump(mode="json"))
        assert list(again.content) == list(loaded.content)


async def test_it_has_the_surface_of_a_list_memory():
    ours, theirs = RagMemory("both", [KINDS[0]]), ListMemory("both", [KINDS[0]])
    for memory in (ours, theirs):
        assert memory.name == "both"
        assert memory.content == [KINDS[0]]
        memory.content = KINDS[1:4]
        memory.content.append(KINDS[4])
        memory.content.insert(0, KINDS[5])
        del memory.content[1]
        memory.content[0] = KINDS[0]
        assert list(memory.content) == [KINDS[0], *KINDS[2:5]]
        assert (await memory.query("")).results == [KINDS[0], *KINDS[2:5]]
        await memory.clear()
        assert len(memory.content) == 0


async def test_contents_that_cannot_be_kept_take_the_place_of_none():
    memory = RagMemory(memory_contents=KINDS[:2])
    wrong = MemoryContent(content={"pair": (1, 2)}, mime_type=MemoryMimeType.JSON)
    with pytest.raises(TypeError, match="tuple"):
        memory.content = [KINDS[2], wrong]
    with pytest.raises(TypeError, match="tuple"):
        memory.content[0] = wrong
    assert list(memory.content) == KINDS[:2]


async def test_without_arguments_it_is_in_this_process_and_clear_touches_nothing_else(home):
    kept = RagMemory("kept", memory="")
    await kept.add(KINDS[0])
    other = RagMemory()
    await other.add(KINDS[1])
    await other.clear()
    await RagMemory("another", memory="").clear()
    assert await all_of(RagMemory("kept", memory="")) == [KINDS[0]]
    assert (home / "rag-home" / "turns.db").is_file()
    with pytest.raises(ValueError, match="pass a name"):
        RagMemory(memory="")


async def test_what_it_says_stands_once_in_front_of_the_conversation():
    memory = RagMemory("notes")
    context = UnboundedChatCompletionContext()
    await context.add_message(SystemMessage(content="Be kind."))
    await context.add_message(UserMessage(content=["Hello", PICTURE], source="user"))
    assert (await memory.update_context(context)).memories.results == []
    assert len(await context.get_messages()) == 2
    await memory.add(KINDS[0])
    await memory.add(KINDS[5])
    for _ in range(3):
        result = await memory.update_context(context)
        assert result.memories.results == [KINDS[0], KINDS[5]]
    kind, ours, asked = await context.get_messages()
    assert ours.content.splitlines() == [
        "notes remembers, oldest first:",
        "1. Prefers metric units",
        "2. (application/octet-stream, 12 bytes)",
    ]
    assert (kind.content, asked.content[0]) == ("Be kind.", "Hello")
    assert asked.content[1].image.tobytes() == PICTURE.image.tobytes()
    await memory.add(KINDS[1])
    await context.add_message(AssistantMessage(content="Hi", source="helper"))
    await context.add_message(UserMessage(content="And now?", source="user"))
    await memory.update_context(context)
    types = [type(message).__name__ for message in await context.get_messages()]
    assert types == ["SystemMessage", "SystemMessage", "UserMessage", "AssistantMessage", "UserMessage"]
    assert "3. # Diet" in (await context.get_messages())[1].content
    await memory.clear()
    await memory.update_context(context)
    assert len(await context.get_messages()) == 4


async def test_where_a_context_shows_only_its_end_it_is_said_before_the_last_question():
    memory = RagMemory("notes", [KINDS[0]])
    context = BufferedChatCompletionContext(buffer_size=3)
    for n in range(4):
        await context.add_message(UserMessage(content=f"question {n}", source="user"))
        for _ in range(2):
            await memory.update_context(context)
        shown = await context.get_messages()
        assert [type(message).__name__ for message in shown].count("SystemMessage") == 1
        assert shown[-1].content == f"question {n}"


async def test_two_memories_are_both_said_and_one_of_k_says_what_matches_the_last_question():
    facts = RagMemory("facts", [text("Tokens live an hour"), text("Links live for ever")], k=1)
    notes = RagMemory(memory_contents=[text("Be short")])
    context = UnboundedChatCompletionContext()
    for question, fact in (("How long do links live?", "Links"), ("And tokens?", "Tokens")):
        await context.add_message(UserMessage(content=question, source="user"))
        for memory in (facts, notes, facts):
            await memory.update_context(context)
        said = [one.content for one in await context.get_messages() if isinstance(one, SystemMessage)]
        assert len(said) == 2
        assert f"1. {fact}" in "".join(said)
        assert "2." not in "".join(said)


async def test_a_component_survives_json_and_names_a_store_that_outlives_it():
    memory = RagMemory("notes", [*KINDS, MemoryContent(content=PICTURE, mime_type="image/png")], k=3)
    written = memory.dump_component().model_dump_json()
    read = Memory.load_component(json.loads(written))
    assert isinstance(read, RagMemory)
    assert read.name == "notes"
    assert list(read.content)[:-1] == KINDS
    assert read.content[-1].content.image.tobytes() == PICTURE.image.tobytes()
    assert read.dump_component() == memory.dump_component()

    lasting = RagMemory("lasting", memory="sqlite:///notes.db", namespace="ann")
    await lasting.add(KINDS[0])
    model = lasting.dump_component()
    assert model.config["memory_contents"] == []
    assert list(RagMemory.load_component(model).content) == [KINDS[0]]
    assert list(RagMemory("lasting", memory="sqlite:///notes.db", namespace="bob").content) == []


async def test_the_config_of_a_list_memory_is_taken_over():
    model = ListMemory("theirs", KINDS[:5]).dump_component()
    model.provider = "rag.adapters.autogen.RagMemory"
    memory = Memory.load_component(json.loads(model.model_dump_json()))
    assert [one.content for one in memory.content] == [one.content for one in KINDS[:5]]


async def test_a_cancelled_token_cancels():
    token = CancellationToken()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await RagMemory().query("anything", token)


async def test_a_repository_answers_with_chunks():
    memory = RepositoryMemory("data/sample_repo", k=3)
    found = (await memory.query("Where is a token checked?")).results
    assert len(found) == 3
    best = found[0]
    place = best.metadata
    lines = (SAMPLE / place["path"]).read_text().splitlines()
    assert "\n".join(lines[place["start_line"] - 1 : place["end_line"]]).rstrip() == best.content.rstrip()
    assert place["source"] == f"{place['path']}:{place['start_line']}-{place['end_line']}"
    assert place["score"] >= found[1].metadata["score"]
    assert len((await memory.query("Where is a token checked?", k=1)).results) == 1
    assert (await memory.query("")).results == []
    await memory.clear()
    await memory.close()
    with pytest.raises(NotImplementedError, match="read-only"):
        await memory.add(KINDS[0])
    read = Memory.load_component(json.loads(memory.dump_component().model_dump_json()))
    assert (await read.query("Where is a token checked?")).results == found


async def test_an_assistant_is_told_what_is_remembered_and_what_the_repository_holds():
    notes = RagMemory("notes", [text("Answer in one sentence.")])
    code = RepositoryMemory("data/sample_repo", k=2)
    client = ReplayChatCompletionClient(["In `auth.py`.", "By the app."])
    agent = AssistantAgent("helper", model_client=client, memory=[notes, code], system_message="Help.")
    first = await agent.run(task="Where is a token checked?")
    assert [type(one).__name__ for one in first.messages].count("MemoryQueryEvent") == 2
    await agent.run(task="And who calls it?")
    sent = [message.content for message in client.create_calls[-1]["messages"]]
    assert sent[0] == "Help."
    assert sent[1].startswith("notes remembers")
    assert sent[2].startswith("Found in data/sample_repo")
    assert "```python" in sent[2]
    assert sent[3:] == ["Where is a token checked?", "In `auth.py`.", "And who calls it?"]
    state = json.loads(json.dumps(await agent.save_state()))
    again = AssistantAgent("helper", model_client=client, memory=[notes, code], system_message="Help.")
    await again.load_state(state)
    client.reset()
    result = await again.run(task="Sure?")
    assert isinstance(result.messages[1], MemoryQueryEvent)
    assert len(client.create_calls[-1]["messages"]) == 8


async def test_the_example_runs():
    client = ReplayChatCompletionClient(["In `auth.py`."])
    scope = await run_example(rag.adapters.autogen, model_client=client)
    said = [message.content for message in client.create_calls[-1]["messages"]]
    assert "1. Answer in one sentence." in said[1]
    assert list(RagMemory("notes", memory="sqlite:///notes.db").content) == list(scope["notes"].content)
