"""A second look through every door of a server."""

from __future__ import annotations

import json

import pytest

READ = [("read", json.dumps({"path": "snip/app.py", "start": 1, "end": 12}))]
QUESTION = "How are sessions signed?"
ANSWER = "They are signed with HMAC [1]."


@pytest.fixture
def looking(serve, provider):
    provider.answers = [READ, ANSWER]
    return serve(engine={"model": "m", "base_url": provider.base_url}).ready()


def names(steps):
    return [step["name"] for step in steps]


def test_the_native_api_sends_each_step_before_the_text(looking):
    asked = {"question": QUESTION, "steps": 4, "stream": True}
    reply = looking.post("/api/ask", asked)
    lines = reply.body.decode().splitlines()
    kinds = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert kinds[:4] == ["asked", "sources", "step", "sources"]
    answer = reply.events[-1]
    assert names(answer["trace"])[1:3] == ["look read", "look"]
    assert "snip/app.py" in [source["path"] for source in answer["sources"]]
    turn = looking.get(f"/api/conversations/{answer['conversation']}").json["all_turns"][0]
    assert names(turn["trace"]) == ["search", "look read", "look", "prompt", "answer"]


@pytest.mark.parametrize("steps", [-1, 21, "4", 1.5, True, False])
def test_a_wrong_number_of_steps_is_refused(looking, steps):
    messages = [{"role": "user", "content": QUESTION}]
    chat = {"model": "rag:sample", "messages": messages, "steps": steps}
    response = {"model": "rag:sample", "input": QUESTION, "steps": steps}
    assert looking.post("/api/ask", {"question": QUESTION, "steps": steps}).status == 422
    assert looking.post("/v1/chat/completions", chat).status == 400
    assert looking.post("/v1/responses", response).status == 400


@pytest.mark.parametrize("stream", [False, True])
def test_openai_clients_get_the_steps_apart_from_the_text(looking, stream):
    messages = [{"role": "user", "content": QUESTION}]
    asked = {"model": "rag:sample", "messages": messages, "steps": 2, "stream": stream}
    reply = looking.post("/v1/chat/completions", asked)
    if stream:
        chunks = [chunk for chunk in reply.events if isinstance(chunk, dict)]
        rag = next(chunk["rag"] for chunk in chunks if "rag" in chunk)
        choices = [choice for chunk in chunks for choice in chunk["choices"]]
        text = "".join(choice["delta"].get("content") or "" for choice in choices)
    else:
        rag, text = reply.json["rag"], reply.json["choices"][0]["message"]["content"]
    assert names(rag["trace"])[1:3] == ["look read", "look"]
    assert "look" not in text
    assert text.startswith("They are signed")


def test_the_server_may_set_the_steps_and_a_request_may_turn_them_off(serve, provider):
    provider.answers = [ANSWER]
    server = serve(engine={"model": "m", "base_url": provider.base_url, "steps": 4}).ready()
    unlooked = server.post("/api/ask", {"question": QUESTION, "steps": 0}).json
    assert names(unlooked["trace"]) == ["search", "prompt", "answer"]
    assert len(provider.chats) == 1
    provider.answers = [READ, ANSWER]
    looked = server.post("/api/ask", {"question": QUESTION}).json
    assert names(looked["trace"])[1:3] == ["look read", "look"]


def test_every_interface_takes_auto_and_it_is_the_default(looking, provider):
    messages = [{"role": "user", "content": QUESTION}]
    asked = {"model": "rag:sample", "messages": messages, "steps": "auto"}
    assert looking.post("/v1/chat/completions", asked).status == 200
    assert looking.post("/api/ask", {"question": QUESTION, "steps": "auto"}).status == 200
    assert looking.post("/v1/responses", {"model": "rag:sample", "input": QUESTION}).status == 200
    assert all("tools" in chat.body for chat in provider.chats)


def test_a_question_of_an_agent_may_leave_the_steps_to_the_model(serve, provider):
    provider.answers = [READ, ANSWER]
    served = serve(engine={"model": "m", "base_url": provider.base_url, "steps": 0}).ready()
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    headers = {"Mcp-Session-Id": served.post("/mcp", message).headers["mcp-session-id"]}
    asked = {"name": "ask_question", "arguments": {"question": QUESTION, "steps": "auto"}}
    message |= {"method": "tools/call", "params": asked}
    result = served.post("/mcp", message, headers=headers).json["result"]
    assert not result["isError"], result
    assert "look read" in names(result["structuredContent"]["trace"])
