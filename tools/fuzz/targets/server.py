"""The server: JSON bodies and parameters of all routes, and messages of the Model Context Protocol."""

from __future__ import annotations

import http.client
import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, unquote_plus, urlencode

from rag.corpus.git import run_git
from rag.mcp.catalog import listed_tools
from rag.serve.app import create_app
from rag.serve.openai.parameters import CHAT, RESPONSES
from rag.serve.run import make_server
from rag.serve.settings import ServerSettings
from rag.settings import Settings
from rag.types import Source
from tools.fuzz import text
from tools.fuzz.case import Case, case_of
from tools.fuzz.targets.base import MANY_QUESTIONS, Bounds, Refused, Target, sample_copy
from tools.fuzz.targets.questions import SAMPLES, written

_WAIT_S = 800.0
"""Less than the fuzzer waits for a process, which it judges by CPU time: a busy machine is no fault."""
_LEFT_OUT = {"/api/repositories/{name}/index/events", "/api/events", "/metrics"}
"""Streams that have no end of their own, and a route that takes nothing."""

_KNOWN = {
    "name": "sample",
    "model": "rag:sample",
    "path": "snip/auth.py",
    "repositories": "sample",
    "repository": "sample",
    "repo_url": "{location}",
    "conversation": "{conversation}",
    "turn": "{turn}",
    "role": "user",
    "type": "local",
    "repo_type": "local",
    "language": "en",
    "format": "markdown",
    "question": SAMPLES[0],
    "query": SAMPLES[0],
    "content": SAMPLES[0],
    "input": SAMPLES[0],
    "text": SAMPLES[0],
    "key": "style",
    "value": "short",
    "user": "anna",
}
"""A usual value for parameters and fields of these names; those in braces are filled in when it is sent."""


_OPEN_BODIES = {"/v1/chat/completions": CHAT, "/v1/responses": RESPONSES}
"""Routes whose bodies have more fields than their schemas say."""
_PARAMETERS: dict[str, Any] = {
    "stop": ["\n"],
    "metadata": {"a": "b"},
    "tools": [{"type": "function", "function": {"name": "a", "parameters": {}}}],
    "tool_choice": "auto",
    "response_format": {"type": "text"},
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "reasoning": {"effort": "low"},
    "logit_bias": {"1": 2},
    "stream_options": {"include_usage": True},
    "stream": False,
    "store": True,
}


class Log(logging.Handler):
    """Keeps the last exception that the server logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what was raised."""
        error = record.exc_info[1] if record.exc_info else None
        self.last = (
            f"{type(error).__name__}: {error}"[:200] if error is not None else record.getMessage()[:200]
        )


class Serving:
    """A server in a thread of this process, with the sample repository ready."""

    def __init__(self, folder: Path) -> None:
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        self.log = Log()
        logging.getLogger("uvicorn.error").addHandler(self.log)
        self.root = sample_copy(folder)
        for command in ("init --quiet --initial-branch main", "add .", "commit --quiet --message sample"):
            run_git(["-c", "user.name=a", "-c", "user.email=a@b", *command.split()], cwd=self.root)
        self._server = make_server(_settings(folder, self.root))
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        deadline = time.monotonic() + _WAIT_S
        while not self._server.started or self.request("GET", "/ready")[0] != 200:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise RuntimeError("the server does not start")
            time.sleep(0.02)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """The status, headers and body of an answer."""
        port = self._server.servers[0].sockets[0].getsockname()[1] if self._server.started else 1
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_WAIT_S)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        except ConnectionRefusedError:
            return 0, {}, b""
        finally:
            connection.close()

    def check(self, answer: tuple[int, Mapping[str, str], bytes], asked: str = "") -> None:
        """Raise Refused for an answer that says that the server failed. It may quote what was `asked`."""
        status, headers, body = answer
        if status >= 500 and not (status == 503 and "retry-after" in headers):
            raise Refused(f"status {status} ({self.log.last})")
        if b"Traceback (most recent" in body and "Traceback (most recent" not in unquote_plus(asked):
            raise Refused("a traceback in the answer")

    def close(self) -> None:
        """Stop it."""
        self._server.stop()
        self._server.should_exit = True
        self._thread.join(10)


def _settings(folder: Path, root: Path) -> ServerSettings:
    engine = Settings(home=folder / "rag-home")
    sample = (("sample", Source(str(root.resolve()))),)
    return ServerSettings(engine=engine, port=0, repositories=sample, processes=0, grace_s=1.0, deepwiki=True)


# ---------------------------------------------------------------- routes


class Http(Target):
    """Every route of the specification; `label` is method and path, the content its body."""

    name, share = "http", 2.5

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        app = create_app(_settings(folder / "specification", sample_copy(folder)))
        self.specification: dict[str, Any] = app.openapi()
        self.schemas = self.specification["components"]["schemas"]
        paths = self.specification["paths"].items()
        operations = [(m, path, one) for path, of in paths for m, one in of.items() if path not in _LEFT_OUT]
        self.routes = [each for each in operations if "requestBody" in each[2]]
        self.others = [each for each in operations if "requestBody" not in each[2]]
        self.serving: Serving | None = None
        self.known: dict[str, str] = {}
        self.asked = 0

    def make(self, rng: Random) -> Case:
        has_body = rng.random() < 0.8
        method, path, operation = rng.choice(self.routes if has_body else self.others)
        named = operation.get("parameters", [])
        values = {
            one["name"]: _KNOWN.get(one["name"], self._example(one["schema"], one["name"]))
            for one in named
            if one.get("required") or (one["in"] == "query" and rng.random() < 0.4)
        }
        if values and rng.random() < (0.1 if has_body else 0.9):
            values[rng.choice(sorted(values))] = written(rng, 2_000)
        query = {}
        for one in named:
            if one["name"] in values and one["in"] == "path":
                path = path.replace(f"{{{one['name']}}}", _quoted(values[one["name"]]))
            elif one["name"] in values and one["in"] == "query":
                query[one["name"]] = values[one["name"]]
        if query:
            path += "?" + urlencode(query, doseq=True, errors="replace", safe="{}")
        body = (
            text.json_text(rng, text.mutated_json(rng, self._body(rng, path, operation), 300_000))
            if has_body
            else ""
        )
        return case_of(self.name, f"{method.upper()} {path}", body[:_MAX_BODY_CHARS])

    def _body(self, rng: Random, path: str, operation: Mapping[str, Any]) -> Any:
        schema = operation["requestBody"]["content"].get("application/json", {}).get("schema", {})
        body = self._example(schema)
        for name in _OPEN_BODIES.get(path, ()):
            body.setdefault(name, _PARAMETERS.get(name, 1))
        if isinstance(body, dict) and rng.random() < 0.5:
            required = self._resolved(schema).get("required", [])
            kept = 0.05 if path in _OPEN_BODIES else 0.3  # most of the others are refused
            body = {key: one for key, one in body.items() if key in required or rng.random() < kept}
        return body

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema:
            schema = self.schemas[schema["$ref"].rpartition("/")[2]]
        return schema

    def _example(self, schema: Mapping[str, Any], name: str = "", depth: int = 0) -> Any:
        """Something that a schema describes, with all its fields."""
        schema = self._resolved(schema)
        if "anyOf" in schema:
            return self._example(schema["anyOf"][0], name, depth)
        if "enum" in schema or "const" in schema:
            return schema["enum"][0] if "enum" in schema else schema["const"]
        kind = schema.get("type", "string")
        if kind == "object" and depth < 6:
            return {
                key: self._example(one, key, depth + 1) for key, one in schema.get("properties", {}).items()
            }
        if kind == "array":
            return [self._example(schema.get("items", {}), name, depth + 1)]
        if kind in ("integer", "number"):
            return schema.get("minimum", 1)
        return False if kind == "boolean" else _KNOWN.get(name, "sample")

    def ready(self) -> None:
        if self.serving is None:
            self.serving = Serving(self.folder)
        if self.asked % 25 == 0:
            asked = json.dumps({"question": SAMPLES[0], "repositories": ["sample"]}).encode()
            turn = json.loads(self.serving.request("POST", "/api/ask", asked)[2])
            self.known = {
                "conversation": turn["conversation"],
                "turn": turn["turn"],
                "location": str(self.serving.root),
            }
        self.asked += 1

    def allowed(self, case: Case) -> Bounds:
        return MANY_QUESTIONS if case.label.startswith("POST /api/eval") else self.bounds

    def run(self, case: Case) -> None:
        assert self.serving is not None
        method, _, path = case.label.partition(" ")
        body = case.content
        for name, value in self.known.items():
            path = path.replace(f"{{{name}}}", _quoted(value))
            body = body.replace(f"{{{name}}}".encode(), value.encode())
        self.serving.check(self.serving.request(method, path, body or None), path)

    def close(self) -> None:
        if self.serving is not None:
            self.serving.close()


_MAX_BODY_CHARS = 20_000_000


def _quoted(value: Any) -> str:
    return quote(str(value).encode("utf-8", "surrogatepass"), safe="{}")


# ---------------------------------------------------------------- the Model Context Protocol

_HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "fuzz", "version": "1"}}


_USUAL: dict[str, Any] = {
    "repoName": "sample",
    "query": "token",
    "path": "snip/auth.py",
    "name": "authenticate",
    "symbol": "authenticate",
    "range": "main..HEAD",
    "seen": ["snip/auth.py:1-5"],
    "text": "Tokens must be checked",
    "ref": "main",
}


def _messages(tools: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """A usual message of each kind; for each tool one with all of its arguments."""
    for tool in tools:
        given = {name: _argument(name, one) for name, one in tool["inputSchema"]["properties"].items()}
        yield {"method": "tools/call", "params": {"name": tool["name"], "arguments": given}}
        needed = {name: given[name] for name in tool["inputSchema"].get("required", [])}
        for name in given:
            one = {**needed, name: given[name]}
            yield {"method": "tools/call", "params": {"name": tool["name"], "arguments": one}}
    prompt = {"type": "ref/prompt", "name": "explain"}
    for name in ("repo", "conversation", "name"):
        yield {
            "method": "completion/complete",
            "params": {"ref": prompt, "argument": {"name": name, "value": "s"}},
        }
    for name, given in (("explain", {"name": "a"}), ("still_true", {"conversation": "a"}), ("overview", {})):
        yield {"method": "prompts/get", "params": {"name": name, "arguments": given}}
    yield {"method": "resources/list", "params": {"cursor": "50"}}
    yield {"method": "resources/templates/list", "params": {}}
    yield {"method": "initialize", "params": _HELLO}
    yield {"method": "tools/list", "params": {}}
    yield {"method": "resources/read", "params": {"uri": "turns://conversations/a"}}
    yield {"method": "notifications/cancelled", "params": {"requestId": 1}}


def _argument(name: str, schema: Mapping[str, Any]) -> Any:
    if name in _USUAL:
        return _USUAL[name]
    kind = schema.get("enum", [None])[0] or schema.get("default")
    if kind is not None:
        return kind
    usual = {"integer": 1, "boolean": True, "array": []}
    return usual.get(schema.get("type", ""), _KNOWN.get(name, "sample"))


class Mcp(Target):
    """Messages to /mcp in one session."""

    name, share = "mcp", 1.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.serving: Serving | None = None
        self.headers = {"Accept": "application/json, text/event-stream"}
        self.kinds = list(_messages(listed_tools("all")))

    def make(self, rng: Random) -> Case:
        message = {"jsonrpc": "2.0", "id": 7, **rng.choice(self.kinds)}
        if rng.random() < 0.7:
            message["params"] = text.mutated_json(rng, message["params"], 50_000)
        else:
            message = text.mutated_json(rng, message, 50_000)
        return case_of(self.name, "", text.json_text(rng, message))

    def ready(self) -> None:
        if self.serving is None:
            self.serving = Serving(self.folder)
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HELLO}
            _, headers, _ = self.serving.request("POST", "/mcp", json.dumps(hello).encode(), self.headers)
            self.headers["Mcp-Session-Id"] = headers.get("mcp-session-id", "")
            self.headers["MCP-Protocol-Version"] = "2025-06-18"

    def run(self, case: Case) -> None:
        assert self.serving is not None
        self.serving.check(self.serving.request("POST", "/mcp", case.content, self.headers))

    def close(self) -> None:
        if self.serving is not None:
            self.serving.close()
