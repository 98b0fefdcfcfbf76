"""Our memory in AgentScope 2: what an agent's context held is kept, and given to the next agent."""

from __future__ import annotations

import importlib
import json

import pytest
from agentscope.agent import Agent, ContextConfig
from agentscope.credential import CredentialBase
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import AssistantMsg, Base64Source, DataBlock, TextBlock, ToolCallBlock, UserMsg
from agentscope.model import ChatModelBase, ChatResponse
from agentscope.permission import PermissionContext, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit
from docstring_examples import run_example

import rag.adapters.agentscope2
from rag.adapters.agentscope2 import KeptContext
from rag.backends.memory.turns import MemoryTurnStore
from rag.errors import BackendMissing
from tests.contracts.clock import SteppedClock


class SayingModel(ChatModelBase):
    """Answers with these blocks in turn, an error where one stands; fills a summary with "so far"."""

    def __init__(self, *said, context_size=100_000):
        parameters = ChatModelBase.Parameters()
        super().__init__(CredentialBase(), "saying", parameters, stream=False, context_size=context_size)
        self.formatter = OpenAIChatFormatter()
        self.said, self.asked = list(said), []

    async def _call_api(self, model_name, messages, tools=None, tool_choice=None, **kwargs):
        names = [tool["function"]["name"] for tool in tools or ()]
        if "generate_structured_output" in names:
            schema = tools[names.index("generate_structured_output")]["function"]["parameters"]
            filled = json.dumps(dict.fromkeys(schema["properties"], "so far"))
            block = ToolCallBlock(id="s", name="generate_structured_output", input=filled)
            return ChatResponse(content=[block], is_last=True)
        self.asked.append(messages)
        said = self.said.pop(0)
        if isinstance(said, Exception):
            raise said
        return ChatResponse(content=[TextBlock(text=said) if isinstance(said, str) else said], is_last=True)


@pytest.fixture(params=["memory:", "sqlite:///agents.db"])
def url(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return request.param


@pytest.fixture
def lasting(tmp_path):
    return f"sqlite:///{tmp_path}/agents.db"


def texts(messages):
    return [message.get_text_content() for message in messages]


def asked(model):
    return "\n".join(text for text in texts(model.asked[-1]) if text)


async def test_what_is_said_is_kept_once_and_as_it_was(url):
    kept = KeptContext("helper", memory=url)
    agent = Agent("helper", "Help.", SayingModel("one", "two"), middlewares=[kept])
    picture = DataBlock(source=Base64Source(data="AA==", media_type="image/png"))
    await agent.reply(UserMsg("ann", [TextBlock(text="First?"), picture]))
    await agent.reply(UserMsg("ann", "Second?"))
    assert texts(await kept.messages()) == ["First?", "one", "Second?", "two"]
    said = await kept.messages()
    assert [message.model_dump() for message in said] == [one.model_dump() for one in agent.state.context]
    await kept.clear()
    assert await kept.messages() == []


async def test_a_new_agent_goes_on_where_the_last_one_was(lasting):
    first = Agent("helper", "Help.", SayingModel("Hello Ann"), middlewares=[KeptContext("a", memory=lasting)])
    await first.reply(UserMsg("ann", "I am Ann"))
    model = SayingModel("Ann")
    kept = KeptContext("a", memory=lasting)
    second = Agent("helper", "Help.", model, middlewares=[kept])
    await second.reply(UserMsg("ann", "Who am I?"))
    assert asked(model).index("I am Ann") < asked(model).index("Hello Ann") < asked(model).index("Who am I?")
    assert len(await kept.messages()) == 4
    other = SayingModel("Nobody")
    await Agent("x", "", other, middlewares=[KeptContext("b", memory=lasting)]).reply(UserMsg("bob", "Who?"))
    assert "Ann" not in asked(other)


async def test_an_agent_with_a_state_of_its_own_keeps_it_and_nothing_is_kept_twice(lasting):
    kept = KeptContext("a", memory=lasting)
    first = Agent("helper", "Help.", SayingModel("one"), middlewares=[kept])
    await first.reply(UserMsg("ann", "First?"))
    state = AgentState.model_validate_json(first.state.model_dump_json())
    second = Agent("helper", "Help.", SayingModel("two"), middlewares=[kept], state=state)
    await second.reply(UserMsg("ann", "Second?"))
    assert texts(await kept.messages()) == ["First?", "one", "Second?", "two"]


async def test_a_reply_that_fails_keeps_the_question(lasting):
    kept = KeptContext("a", memory=lasting)
    agent = Agent("helper", "Help.", SayingModel(OSError("no line")), middlewares=[kept])
    with pytest.raises(OSError, match="no line"):
        await agent.reply(UserMsg("ann", "Are you there?"))
    assert texts(await kept.messages())[:1] == ["Are you there?"]


async def test_tools_are_kept_with_what_they_returned(lasting):
    async def look(path: str) -> str:
        """Look at a file."""
        return f"seen {path}"

    call = ToolCallBlock(id="1", name="look", input='{"path": "a.py"}')
    kept = KeptContext("a", memory=lasting)
    allowed = AgentState(permission_context=PermissionContext(mode=PermissionMode.BYPASS))
    agent = Agent(
        "helper",
        "Help.",
        SayingModel(call, "done"),
        toolkit=Toolkit(tools=[FunctionTool(look)]),
        middlewares=[kept],
        state=allowed,
    )
    await agent.reply(UserMsg("ann", "Look."))
    _, answer = await kept.messages()
    kinds = [block.type for block in answer.content]
    assert kinds == [block.type for block in agent.state.context[-1].content]
    assert {"tool_call", "tool_result", "text"} <= set(kinds)
    assert texts(await kept.search("seen")) == ["done"]


async def test_what_is_compressed_is_still_kept_and_the_next_agent_is_told_the_summary(lasting):
    def agent(kept, *said):
        model = SayingModel(*said, context_size=600)
        config = ContextConfig(trigger_ratio=0.5, reserve_ratio=0.1, context_buffer_ratio=0.1)
        return Agent("helper", "Help.", model, middlewares=[kept], context_config=config)

    kept = KeptContext("a", memory=lasting)
    first = agent(kept, "alpha " * 100, "beta " * 100, "gamma")
    for question in ("First?", "Second?", "Third?"):
        await first.reply(UserMsg("ann", question))
    assert "so far" in first.state.summary
    said = texts(await kept.messages())
    assert [text[:5] for text in said] == ["First", "alpha", "Secon", "beta ", "Third", "gamma"]
    assert said[1] == "alpha " * 100
    assert texts(await kept.search("alpha"))[0] == "alpha " * 100

    before = [message.model_dump() for message in first.state.context]
    restored = []

    class Watching(KeptContext):
        async def on_reply(self, agent, input_kwargs, next_handler):
            restored.extend(message.model_dump() for message in agent.state.context)
            async for item in next_handler(**input_kwargs):
                yield item

    second = Agent(
        "helper", "Help.", SayingModel("delta"), middlewares=[KeptContext("a", memory=lasting), Watching()]
    )
    await second.reply(UserMsg("ann", "Fourth?"))
    assert restored == before != []
    assert second.state.summary == first.state.summary
    assert "alpha" not in asked(second.model)
    assert "so far" in asked(second.model)
    assert len(await kept.messages()) == 8


async def test_of_a_message_cut_by_compression_only_the_rest_is_restored(lasting):
    kept = KeptContext("a", memory=lasting)
    blocks = [TextBlock(text=f"part {n}") for n in range(3)]
    whole = AssistantMsg(name="helper", content=blocks)
    agent = Agent("helper", "Help.", SayingModel("x"), middlewares=[kept])
    agent.state.context = [UserMsg("ann", "Go"), whole]

    async def compress(**kwargs):
        agent.state.summary = "so far"
        agent.state.context = [whole.model_copy(update={"content": blocks[1:]})]

    await kept.on_compress_context(agent, {}, compress)
    await agent.reply(UserMsg("ann", "And?"))
    fresh = Agent("helper", "Help.", SayingModel("y"), middlewares=[kept])
    await fresh.reply(UserMsg("ann", "Then?"))
    assert texts(fresh.state.context) == ["part 1\npart 2", "And?", "x", "Then?", "y"]
    assert texts(await kept.messages())[:2] == ["Go", "part 0\npart 1\npart 2"]
    await kept.clear()
    empty = Agent("helper", "Help.", SayingModel("z"), middlewares=[kept])
    await empty.reply(UserMsg("ann", "New?"))
    assert (empty.state.summary, len(empty.state.context)) == ("", 2)


async def test_messages_and_summary_expire_together():
    clock = SteppedClock()
    store = MemoryTurnStore(clock=clock)
    kept = KeptContext("a", memory=store, ttl_s=3_600)
    blocks = [TextBlock(text=f"part {n}") for n in range(3)]
    whole = AssistantMsg(name="helper", content=blocks)
    agent = Agent("helper", "Help.", SayingModel("x"), middlewares=[kept])
    agent.state.context = [UserMsg("ann", "Go"), whole]

    async def compress(**kwargs):
        agent.state.summary = "so far"
        agent.state.context = [whole.model_copy(update={"content": blocks[1:]})]

    await kept.on_compress_context(agent, {}, compress)

    async def reply(**kwargs):
        agent.state.context.append(UserMsg("ann", "And?"))
        yield "x"

    clock.advance(3_000)
    assert [item async for item in kept.on_reply(agent, {}, reply)] == ["x"]
    clock.advance(3_000)
    second = Agent("helper", "Help.", SayingModel("y"), middlewares=[kept])
    await second.reply(UserMsg("ann", "Then?"))
    assert second.state.summary == "so far"
    clock.advance(3_600)
    third = Agent("helper", "Help.", SayingModel("z"), middlewares=[kept])
    await third.reply(UserMsg("ann", "New?"))
    assert (third.state.summary, len(third.state.context)) == ("", 2)


def test_the_memory_of_agentscope_1_says_which_versions_have_one():
    with pytest.raises(BackendMissing, match=r"agentscope 1\.0\.12 to 1\.0\.21 .*'\.\[agentscope\]'"):
        importlib.import_module("rag.adapters.agentscope")


async def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    await run_example(rag.adapters.agentscope2, model=SayingModel("In `auth.py`."))
    assert "['Where is a token checked?']" in capsys.readouterr().out
