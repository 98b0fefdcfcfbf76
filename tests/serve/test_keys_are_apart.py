"""No id of one key means anything with another, in any parameter of any request or tool."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from conftest import git
from every_request import requests
from keys_given import add_key, memory_in
from live_server import Served, sample_copy, serving

from rag.serve.access.keys import key_hash, sharing
from rag.settings import KEYS_NAMESPACE
from rag.types import Source

MARK = "quokka"
"""A word of everything that Alice says; Bob never says it."""
NUMBERS = count(10)
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bob", "version": "1"}}


@dataclass
class Callers:
    """A server with two keys, and what Alice has there."""

    served: Served
    alice: dict[str, str]
    bob: dict[str, str]
    ids: dict[str, str]

    @property
    def hash(self) -> bytes:
        """What is stored of Alice's key."""
        return key_hash(self.alice["Authorization"].removeprefix("Bearer ")).encode()

    def of_alice(self) -> Any:
        """Everything that Alice can read of her own."""
        paths = [
            "/api/conversations",
            f"/api/conversations/{self.ids['conversation']}",
            f"/api/turns/{self.ids['turn']}",
            f"/api/turns/{self.ids['turn']}/events",
            "/api/facts",
            "/api/facts?state=proposed",
            "/api/facts?state=rejected",
            "/api/preferences",
            f"/v1/responses/{self.ids['response']}",
            f"/v1/responses/{self.ids['response']}/input_items",
        ]
        replies = [self.served.get(path, headers=self.alice) for path in paths]
        assert {reply.status for reply in replies} == {200}
        return [reply.body for reply in replies]


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    home = tmp_path_factory.mktemp("keys")
    memory = memory_in(home)
    shared = sharing(project="shop", writes="user")
    alice, bob = (
        {"Authorization": f"Bearer {add_key(memory, name, shared=shared)}"} for name in ("alice", "bob")
    )
    repositories = (("sample", sample_copy(home)),)
    with serving(home, repositories=repositories, engine={"cache": True, "memory": memory}) as running:
        yield Callers(running.ready(), alice, bob, stored(running, alice))


def stored(served: Served, key: dict[str, str]) -> dict[str, str]:
    """Store something of each kind; return the ids."""
    name = f"the {MARK} conversation"
    asked = {
        "question": f"Where is a token checked, {MARK}?",
        "repositories": ["sample"],
        "conversation": name,
    }
    turn = served.post("/api/ask", asked, headers=key).json
    wanted = {"model": "rag:sample", "input": f"Who calls authenticate, {MARK}?", "metadata": {"a": MARK}}
    response = served.post("/v1/responses", wanted, headers=key).json
    stated = {"text": f"The {MARK} must check the tokens", "repository": "sample"}
    fact = served.post("/api/facts", stated, headers=key).json
    about = {"text": f"The {MARK} of the turn must be kept", "turn": turn["turn"]}
    served.post("/api/facts", about, headers=key)
    served.request("PUT", "/api/preferences/style", {"value": MARK}, headers=key)
    return {
        "conversation": turn["conversation"],
        "turn": turn["turn"],
        "fact": fact["id"],
        "response": response["id"],
        "keys": KEYS_NAMESPACE,
    }


@pytest.mark.parametrize("kind", ["conversation", "turn", "fact", "response", "keys"])
def test_no_id_of_another_key_means_anything_in_any_request(callers: Callers, kind: str) -> None:
    before = callers.of_alice()
    own = stored_by_bob(callers)
    specification = callers.served.get("/openapi.json", headers=callers.bob).json
    for method, path, body in requests(specification, own, callers.ids[kind]):
        if path.startswith("/api/events") or "/index" in path:
            continue
        reply = callers.served.request(method.upper(), path, body, headers=callers.bob)
        assert MARK.encode() not in reply.body and callers.hash not in reply.body, (method, path, body)
        assert reply.status < 500, (method, path, body, reply.body)
    assert callers.of_alice() == before


def stored_by_bob(callers: Callers) -> dict[str, Any]:
    asked = {"question": "Where is a token checked?", "repositories": ["sample"]}
    turn = callers.served.post("/api/ask", asked, headers=callers.bob).json
    return {
        "name": "sample",
        "model": "rag:sample",
        "path": "snip/auth.py",
        "repositories": "sample",
        "repository": "sample",
        "role": "user",
        "conversation": turn["conversation"],
        "turn": turn["turn"],
    }


# ---------------------------------------------------------------- the Model Context Protocol


class Session:
    """An MCP session."""

    def __init__(self, served: Served, key: dict[str, str]) -> None:
        self._served = served
        self._headers = {**key, "Accept": "application/json, text/event-stream"}
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        reply = served.post("/mcp", hello, headers=self._headers)
        self._headers |= {
            "Mcp-Session-Id": reply.headers["mcp-session-id"],
            "MCP-Protocol-Version": "2025-06-18",
        }

    def call(self, method: str, params: dict[str, Any]) -> bytes:
        message = {"jsonrpc": "2.0", "id": next(NUMBERS), "method": method, "params": params}
        return self._served.post("/mcp", message, headers=self._headers).body

    def result(self, method: str, params: dict[str, Any]) -> Any:
        return json.loads(self.call(method, params))["result"]


def test_no_id_of_another_key_means_anything_to_an_agent(callers: Callers) -> None:
    before = callers.of_alice()
    session = Session(callers.served, callers.bob)
    tools = session.result("tools/list", {})["tools"]
    usual = {"question": "Where is a token checked?", "query": "token", "text": "A fact of mine must hold"}
    tried = 0
    for tool in tools:
        known = tool["inputSchema"]["properties"]
        needed = {name: usual.get(name, "authenticate") for name in tool["inputSchema"].get("required", [])}
        for name, schema in known.items():
            if "string" not in json.dumps(schema):
                continue
            for value in callers.ids.values():
                given = [value] if schema.get("type") == "array" else value
                arguments = {**needed, "repoName": "sample", name: given}
                arguments = {key: one for key, one in arguments.items() if key in known}
                reply = session.call("tools/call", {"name": tool["name"], "arguments": arguments})
                assert MARK.encode() not in reply and callers.hash not in reply, (tool["name"], arguments)
                tried += 1
    assert tried > 100
    assert callers.of_alice() == before


def test_lists_completions_and_resources_are_those_of_the_key(callers: Callers) -> None:
    session = Session(callers.served, callers.bob)
    whole = session.call("resources/list", {})
    for typed in ("", "the", callers.ids["conversation"][:4]):
        for name in ("conversation", "repo", "name", "range"):
            ref = {"type": "ref/prompt", "name": "still_true"}
            whole += session.call(
                "completion/complete", {"ref": ref, "argument": {"name": name, "value": typed}}
            )
    for name in (callers.ids["conversation"], f"the {MARK} conversation"):
        reply = session.call("resources/read", {"uri": f"turns://conversations/{quote(name)}"})
        assert b"error" in reply
        whole += reply.replace(quote(name).encode(), b"")
    assert MARK.encode() not in whole.replace(f"the {MARK} conversation".encode(), b"")
    assert callers.ids["conversation"].encode() not in whole.replace(
        f"turns://conversations/{callers.ids['conversation']}".encode(), b""
    ).replace(f"conversation {callers.ids['conversation']!r}".encode(), b"")


def test_a_branch_that_one_key_asks_about_is_not_shown_to_another(
    tmp_path: Path, committed_sample: Path
) -> None:
    """Neither its name nor a count of it, in lists, errors, models, tools, counters and the health check."""
    shutil.copytree(committed_sample, root := tmp_path / "sample")
    git(root, "branch", branch := f"fix/{MARK}")
    memory = memory_in(tmp_path)
    alice, bob = ({"Authorization": f"Bearer {add_key(memory, name)}"} for name in ("alice", "bob"))
    listed = [(name, Source(str(root.resolve()))) for name in ("sample", "other")]
    with serving(
        tmp_path,
        engine={"memory": memory},
        repositories=tuple(listed),
        groups=(("both", ("sample", "other")),),
    ) as served:
        served.wait_until(lambda: served.get("/health").json["ready"] == 2)

        def seen_by_bob() -> list[Any]:
            session = Session(served, bob)
            question = {"question": f"Where is {MARK} checked?"}
            replies = [
                served.get("/health"),
                served.get("/ready"),
                served.get("/api/repositories", headers=bob),
                served.get("/v1/models", headers=bob),
                served.get("/api/conversations", headers=bob),
                served.post("/api/search", {**question, "repositories": ["nothing"]}, headers=bob),
                served.post("/api/search", question, headers=bob),
                served.post("/api/search", {**question, "repositories": ["@all"]}, headers=bob),
                served.post("/api/search", {**question, "repositories": ["@both"]}, headers=bob),
                served.post("/api/search", {**question, "repositories": ["@none"]}, headers=bob),
            ]
            counts = [(reply.status, reply.headers.get("x-total-count")) for reply in replies]
            ref = {"type": "ref/prompt", "name": "still_true"}
            argument = {"name": "repo", "value": ""}
            tools = [
                session.call("tools/call", {"name": "list_repositories", "arguments": {}}),
                session.call("resources/list", {}),
                session.call("completion/complete", {"ref": ref, "argument": argument}),
                session.call(
                    "tools/call", {"name": "search_code", "arguments": {"query": "x", "repo": "no"}}
                ),
            ]
            bodies = [reply.body for reply in replies] + tools
            for echo in (question["question"], f'"{MARK}"'):  # the question, and its words in a confidence
                bodies = [body.replace(echo.encode(), b"") for body in bodies]
            assert not any(MARK.encode() in body for body in bodies)
            return [counts, replies[0].json, [len(reply.json) for reply in replies[2:4]]]

        before = seen_by_bob()
        asked = {"question": "Where is a short code made?", "repositories": [f"sample@{branch}"]}
        assert served.post("/api/ask", asked, headers=alice).status in (200, 202, 503)
        during = seen_by_bob()
        served.wait_until(lambda: served.post("/api/ask", asked, headers=alice).status == 200)
        assert MARK.encode() in served.get("/api/repositories", headers=alice).body
        assert MARK.encode() in served.get("/v1/models", headers=alice).body
        assert before == during == seen_by_bob()
