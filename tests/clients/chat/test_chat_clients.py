"""Programs that talk to OpenAI talk to us, unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from serving import conversations

FIRST, SECOND = "Where is a short code made?", "And who calls it?"


def test_llm_asks_and_goes_on(server, tmp_path):
    pytest.importorskip("llm", reason="the llm command is not installed; see `make test-clients`")
    model = {"model_id": "sample", "model_name": "rag:sample", "api_key_name": "rag"}
    models = [{**model, "api_base": f"{server}/v1"}]
    (tmp_path / "extra-openai-models.yaml").write_text(json.dumps(models))  # JSON is YAML
    environment = {**os.environ, "LLM_USER_PATH": str(tmp_path)}
    llm = str(Path(sys.executable).parent / "llm")

    def run(*words):
        done = subprocess.run([llm, *words], env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("keys", "set", "rag", "--value", "anything")
    before = len(conversations(server))
    assert "[1]" in run("-m", "sample", FIRST)
    assert "[1]" in run("-c", SECOND)
    assert "[1]" in run("-c", "--no-stream", "What is a link?")
    (newest, *_) = conversations(server)
    assert len(conversations(server)) == before + 1
    assert newest["turn_count"] == 3


async def test_autogens_assistant_asks_and_goes_on(server):
    agents = pytest.importorskip("autogen_agentchat.agents", reason="autogen is not installed")
    from autogen_core.memory import ListMemory, MemoryContent, MemoryMimeType
    from autogen_core.models import ModelInfo
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    client = OpenAIChatCompletionClient(
        model="rag:sample",
        base_url=f"{server}/v1",
        api_key="anything",
        model_info=ModelInfo(
            vision=False,
            function_calling=True,
            json_output=False,
            family="unknown",
            structured_output=False,
            multiple_system_messages=True,  # its memory adds one behind the question
        ),
    )
    memory = ListMemory()
    await memory.add(MemoryContent(content="The user likes short answers.", mime_type=MemoryMimeType.TEXT))
    agent = agents.AssistantAgent("asker", model_client=client, memory=[memory])
    first = await agent.run(task=FIRST)
    assert "[1]" in first.messages[-1].content
    second = await agent.run(task=SECOND)
    assert "[1]" in second.messages[-1].content
    (newest, *_) = conversations(server)
    assert newest["turn_count"] == 2
    streaming = agents.AssistantAgent("streaming", model_client=client, model_client_stream=True)
    third = await streaming.run(task=FIRST)
    assert "[1]" in third.messages[-1].content
    await client.close()
