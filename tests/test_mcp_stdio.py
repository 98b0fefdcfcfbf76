"""`rag mcp`: the protocol on stdin and stdout, as a client without an SDK sees it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command import command
from live_server import sample_copy
from servers.provider import ProviderServer

from rag.errors import ConfigError
from rag.mcp import stdio
from rag.mcp.catalog import tools as all_tools
from rag.mcp.host import Host
from rag.settings import ToolSet

TOOLS = list(all_tools())
BASIC = [name for name, one in all_tools().items() if one.basic]
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
SOON_S = 120.0


def message(method: str, id_: object = 1, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def notice(method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def call(id_: object, tool: str, **arguments: object) -> dict[str, Any]:
    return message("tools/call", id_, name=tool, arguments=arguments, _meta={"progressToken": id_})


def no_host() -> Host:
    raise ConfigError("there is no repository")


def unreadable_host() -> Host:
    raise PermissionError("the folder cannot be read")


def replies(
    *sent: object, tools: ToolSet = "basic", make_host: Callable[[], Host] = no_host
) -> list[dict[str, Any]]:
    """The replies of a server without repositories to messages, in any order of those that need one."""
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in sent]
    out = io.BytesIO()
    server = stdio.StdioServer(make_host, "sample", tools, lines=io.BytesIO(b"\n".join(lines)), out=out)
    server.run()
    assert server.close()
    return [json.loads(line) for line in out.getvalue().splitlines()]


def code(reply: dict[str, Any]) -> tuple[object, int]:
    return reply["id"], reply["error"]["code"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_released_revision_is_spoken(revision: str) -> None:
    (reply,) = replies(message("initialize", **HELLO | {"protocolVersion": revision}))
    assert reply["result"]["protocolVersion"] == revision
    assert reply["result"]["capabilities"].keys() == {"tools", "prompts", "resources", "completions"}


@pytest.mark.parametrize("revision", ["2026-07-28", "1.0", None, 3])
def test_for_another_revision_the_latest_is_offered(revision: object) -> None:
    (reply,) = replies(message("initialize", **HELLO | {"protocolVersion": revision}))
    assert reply["result"]["protocolVersion"] == REVISIONS[-1]


def test_what_is_no_request_is_refused_and_the_next_one_is_answered() -> None:
    for sent, expected in (
        (b"{", (None, -32700)),
        (b"\xff\xfe", (None, -32700)),
        (b"[" * 100_000, (None, -32700)),
        (json.dumps([message("ping"), message("ping", 2)]).encode(), (None, -32600)),
        (b"3", (None, -32600)),
        ({"id": 4, "method": "ping"}, (4, -32600)),
        ({"jsonrpc": "2.0", "id": 4, "method": "ping", "params": [1]}, (4, -32600)),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, (None, -32600)),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, (None, -32600)),
        (message("prompts/get", "a", name="nothing"), ("a", -32602)),
        (message("prompts/get", 0), (0, -32602)),
    ):
        refused, answered = replies(sent, b"", message("ping", 9))
        assert code(refused) == expected, sent
        assert answered == {"jsonrpc": "2.0", "id": 9, "result": {}}


def test_replies_and_unknown_notifications_are_ignored() -> None:
    sent = [
        notice("notifications/initialized"),
        notice("notifications/cancelled", requestId=3),
        notice("notifications/of/another/revision"),
        {"jsonrpc": "2.0", "id": 3, "result": {}},
        {"jsonrpc": "2.0", "id": 3, "error": {"code": -32601, "message": "no"}},
    ]
    assert [one["id"] for one in replies(*sent, message("ping", 4))] == [4]


def test_a_message_that_is_too_long_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "_MAX_LINE", 200)
    inside = json.dumps(message("ping", "smuggled"))
    begun, rest = b'{"text": "' + b"x" * 190, inside.encode().ljust(200)
    refused, answered = replies(begun + rest + rest, message("ping", 2))
    assert code(refused) == (None, -32600) and "200 bytes" in refused["error"]["message"]
    assert answered["id"] == 2


def test_without_a_repository_requests_fail_and_lists_are_answered() -> None:
    found = replies(message("tools/list", 1), message("resources/list", 2), message("no/such", 3))
    by_id = {one["id"]: one for one in found}
    assert [tool["name"] for tool in by_id[1]["result"]["tools"]] == BASIC
    assert by_id[2]["error"]["message"] == by_id[3]["error"]["message"] == "there is no repository"


def test_a_call_is_answered_though_the_repositories_cannot_be_opened(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed = replies(call(1, "facts"), call("b", "facts"), make_host=unreadable_host)
    assert {code(one) for one in failed} == {(1, -32603), ("b", -32603)}
    assert all("folder" not in one["error"]["message"] for one in failed)
    assert "the folder cannot be read" in caplog.text


def test_a_cancellation_without_an_id_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    wrong = [notice("notifications/cancelled", requestId=one) for one in ([1], {"a": 1}, None, 1.5)]
    (reply,) = replies(call(0, "facts"), *wrong, notice("notifications/cancelled"))
    assert code(reply) == (0, -32603)
    assert not caplog.records


def test_lists_are_short() -> None:
    for tools, names, most in (("basic", set(BASIC), 5_000), ("all", set(TOOLS), 9_450)):
        listed, prompts, hello = replies(
            message("tools/list"), message("prompts/list", 2), message("initialize", 3, **HELLO), tools=tools
        )
        assert {tool["name"] for tool in listed["result"]["tools"]} == names
        assert len(json.dumps(listed["result"], separators=(",", ":"))) <= most
        assert len(prompts["result"]["prompts"]) == (2 if tools == "basic" else 4)
        told = hello["result"]["instructions"]
        assert {name for name in TOOLS if name in told.replace(":", " ").replace(",", " ").split()} <= names


class Running:
    """A process of `rag mcp`, and what it has sent."""

    def __init__(self, home: Path, *words: object, **env: str) -> None:
        self.home = home
        self.process = subprocess.Popen(
            command("mcp", *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "RAG_HOME": str(home), **env},
        )
        self.received: list[dict[str, Any]] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._more:
                self.received.append(json.loads(line))
                self._more.notify()

    def send(self, *messages: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in messages))
        self.process.stdin.flush()

    def until(self, fits: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        with self._more:
            assert self._more.wait_for(lambda: any(map(fits, self.received)), SOON_S), self.received
            return next(filter(fits, self.received))

    def reply(self, id_: object) -> dict[str, Any]:
        return self.until(lambda one: one.get("id") == id_)


@contextmanager
def running(home: Path, *words: object, **env: str) -> Iterator[Running]:
    server = Running(home, *words, **env)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()
        server._reader.join()
        for stream in (server.process.stdin, server.process.stdout, server.process.stderr):
            if stream is not None:
                stream.close()


def test_the_first_call_indexes_and_reports_progress(tmp_path: Path) -> None:
    home, root = tmp_path / "home", sample_copy(tmp_path).location
    with running(home, "--repo", root) as server:
        server.send(message("initialize", 1, **HELLO), notice("notifications/initialized"))
        server.send(message("tools/list", 2))
        assert server.reply(1)["result"] and server.reply(2)["result"]
        assert not home.exists() or not any(home.rglob("*.rag*")), "nothing is indexed before a call"
        server.send(call(3, "find_symbol", name="authenticate"))
        assert not server.reply(3)["result"]["isError"]
        progress = [one["params"] for one in server.received if one.get("method") == "notifications/progress"]
        sent = [one["progress"] for one in progress]
        assert sent and sent == sorted(set(sent)) and {one["progressToken"] for one in progress} == {3}
        (Path(root) / "zebra.py").write_text("def paint_zebra():\n    return 1\n")
        server.send(call(4, "find_symbol", name="paint_zebra"))
        assert server.reply(4)["result"]["structuredContent"]["places"] == ["zebra.py:1-2"]


def test_a_question_may_leave_the_steps_to_the_model(tmp_path: Path) -> None:
    read = [("read", json.dumps({"path": "snip/app.py", "start": 1, "end": 12}))]
    with (
        ProviderServer(answers=[read, "They are signed [1]."]) as model,
        running(
            tmp_path / "home",
            *("--repo", sample_copy(tmp_path).location),
            **{"RAG_BASE_URL": model.base_url, "RAG_MODEL": "m", "RAG_STEPS": "0"},
        ) as server,
    ):
        server.send(message("initialize", 1, **HELLO))
        server.send(call(2, "ask_question", question="How are sessions signed?", steps="auto"))
        result = server.reply(2)["result"]
        assert not result["isError"], result
        assert "look read" in [step["name"] for step in result["structuredContent"]["trace"]]


@contextmanager
def asking(tmp_path: Path) -> Iterator[Running]:
    """A server whose model never answers, while it is asked."""
    with (
        ProviderServer(behaviours=["slow"]) as model,
        running(
            tmp_path / "home",
            *("--repo", sample_copy(tmp_path).location),
            RAG_BASE_URL=model.base_url,
            RAG_MODEL="m",
        ) as server,
    ):
        server.send(message("initialize", 1, **HELLO))
        server.send(call(2, "ask_question", question="Where is a token checked?"))
        server.until(lambda one: one.get("params", {}).get("message") == "answering")
        yield server


def test_a_call_that_is_cancelled_is_not_answered_and_others_are(tmp_path: Path) -> None:
    with asking(tmp_path) as server:
        server.send(notice("notifications/cancelled", requestId=2, reason="enough"), message("ping", 3))
        server.send(call(4, "find_symbol", name="authenticate"))
        assert server.reply(3)["result"] == {}
        assert not server.reply(4)["result"]["isError"]
        assert not [one for one in server.received if one.get("id") == 2]


@pytest.mark.parametrize(
    ("how", "ends_with"), [(None, 0), (signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)]
)
def test_it_ends_at_once_though_a_model_is_asked(
    tmp_path: Path, how: signal.Signals | None, ends_with: int
) -> None:
    with asking(tmp_path) as server:
        begun = time.monotonic()
        if how is None:
            assert server.process.stdin is not None
            server.process.stdin.close()
        else:
            server.process.send_signal(how)
        assert server.process.wait(SOON_S) == ends_with
        assert time.monotonic() - begun < 10, "the model answers after minutes"
        server._reader.join(SOON_S)
        assert not [one for one in server.received if one.get("id") == 2]
        assert server.process.stderr is not None
        assert "Traceback" not in server.process.stderr.read().decode()


@pytest.mark.parametrize("how", [None, signal.SIGTERM])
def test_an_index_that_was_not_finished_is_made_again(tmp_path: Path, how: signal.Signals | None) -> None:
    root = tmp_path / "many"
    root.mkdir()
    for number in range(2_400):
        text = "\n".join(f"def work_{number}_{each}(value):\n    return value + {each}" for each in range(20))
        (root / f"module_{number}.py").write_text(text + "\n")
    asked = call(2, "find_symbol", name="work_599_19")
    with running(tmp_path / "home", "--repo", root) as server:
        server.send(message("initialize", 1, **HELLO), asked)
        server.until(lambda one: one.get("method") == "notifications/progress")
        assert server.process.stdin is not None
        server.process.stdin.close() if how is None else server.process.send_signal(how)
        server.process.wait(SOON_S)
        assert not [one for one in server.received if one.get("id") == 2]
    with running(tmp_path / "home", "--repo", root) as server:
        server.send(message("initialize", 1, **HELLO), asked)
        assert server.reply(2)["result"]["structuredContent"]["places"] == ["module_599.py:39-40"]


def test_when_the_client_is_gone_it_ends(tmp_path: Path) -> None:
    """A client that reads no more has ended, and closed both streams."""
    with running(tmp_path / "home", "--repo", sample_copy(tmp_path).location) as server:
        server.send(message("initialize", 1, **HELLO))
        server.reply(1)
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.process.wait(SOON_S) == 0
