"""A small real HTTP server that speaks the OpenAI protocol, or fails, as the test requests.

    with ProviderServer(answers=["It is in auth.py [1]."]) as server:
        client = OpenAICompatibleClient(server.base_url)
        ...
        assert "earlier question" in server.requests[-1].prompt

It listens on loopback, on a free port, and answers from a script: no model, no key, no network. Each
request takes the next of `behaviours` (the last one stays), each good answer the next of `answers`.
"""

from __future__ import annotations

import json
import os
import re
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, cast

from rag.backends.openai.thought_habits import ThoughtHabit

Behaviour = Literal[
    "good",
    "reasoning",
    "length",
    "empty",
    "endless",
    "held",
    "cut",
    "stops_short",
    "error_in_stream",
    "slow",
    "not_json",
    "unauthorized",
    "rate_limited",
    "out_of_quota",
    "fails",
    "unknown_model",
    "too_long",
    "no_stream_options",
    "no_max_tokens",
    "no_max_completion_tokens",
    "no_tools",
    "wrong_count",
    "wrong_dimension",
    "empty_vector",
    "shuffled",
]
"""What a request meets.

good: the next answer · reasoning: thoughts in `reasoning_content` first, then the answer · length: the
answer, ended by the limit · empty: no text at all · endless: pieces until the client leaves · held: half of
the answer, the rest after `go_on` · cut: the connection drops in the middle · stops_short: a neat end without
a reason · error_in_stream: an error instead of the second half · slow: nothing until the server stops ·
not_json: a web page · unauthorized: 401 that repeats the key · rate_limited: 429 with Retry-After ·
out_of_quota: 429 · fails: 500 · unknown_model: 404 · too_long: 400 · no_…: 400 while the parameter is there,
else good · wrong_count, wrong_dimension, empty_vector: embeddings that do not fit · shuffled: good embeddings
in another order.
"""

_REFUSABLE = {
    "no_stream_options": "stream_options",
    "no_max_tokens": "max_tokens",
    "no_max_completion_tokens": "max_completion_tokens",
    "no_tools": "tools",
}


Calls = Sequence[tuple[str, str]]
"""The calls of tools of one reply: for each the tool's name and its arguments as JSON."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it arrived. `headers` have lower-case names; `body` is {} for a GET."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def prompt(self) -> str:
        """All messages of a chat request, joined by line breaks."""
        return "\n".join(str(message["content"]) for message in self.body.get("messages", ()))


class ProviderServer:
    """A server on `base_url` from entering its `with` block (or `start`) to leaving it (or `stop`).

    Args:
        answers: what is answered, one after the other; the last one stays. Calls of tools are skipped
            where a request offers no tools.
        behaviours: how requests to /chat/completions and /embeddings are met, one after the other; the
            last one stays. GET /models is always good.
        models: what /models lists.
        api_key: when given, any other key is refused with 401.
        dim: numbers in an embedding. Equal texts give equal vectors, shared words bring texts nearer.
        retry_after: the Retry-After header of a 429.

    `requests` holds every request in the order of arrival. `client_left` is set when a client closes the
    connection of an "endless" answer; setting `go_on` ends the pause of "held" ones. `preamble` is a text
    before calls of tools.
    """

    def __init__(
        self,
        answers: Sequence[str | Calls] = ("It is in `auth.py` [1].",),
        behaviours: Sequence[Behaviour] = ("good",),
        *,
        models: Sequence[str] = ("test-model",),
        api_key: str | None = None,
        dim: int = 8,
        retry_after: str = "2",
    ) -> None:
        self.answers, self.behaviours, self.models = list(answers), list(behaviours), list(models)
        self.api_key, self.dim, self.retry_after = api_key, dim, retry_after
        self.requests: list[RecordedRequest] = []
        self.preamble = ""
        self.client_left = threading.Event()
        self.go_on = threading.Event()
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._http = _Http(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        """The address to give to a client, ending in /v1."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def chats(self) -> list[RecordedRequest]:
        """The chat requests among `requests`."""
        return [request for request in self.requests if request.path == "/v1/chat/completions"]

    def start(self) -> Self:
        """Begin to answer."""
        if home := os.environ.get("RAG_HOME"):
            self.known_in(Path(home))
        self._thread.start()
        return self

    def known_in(self, home: Path) -> None:
        """Make it known that its models begin with their answers, which are then streamed at once."""
        for model in (*self.models, "m"):
            ThoughtHabit(home, self.base_url, model).learn("answers")

    def stop(self) -> None:
        """End every answer and the server."""
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def record(self, request: RecordedRequest) -> None:
        """Note a request."""
        with self._lock:
            self.requests.append(request)

    def next_behaviour(self) -> Behaviour:
        """Take the next behaviour; the last one stays."""
        with self._lock:
            return self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]

    def next_answer(self) -> str | Calls:
        """Take the next answer; the last one stays."""
        with self._lock:
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def vector(self, text: str) -> list[float]:
        """The embedding of a text: its words, counted into `dim` buckets."""
        numbers = [0.1] * self.dim
        for word in re.findall(r"\w+", text.lower()):
            numbers[zlib.crc32(word.encode()) % self.dim] += 1.0
        return numbers


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, script: ProviderServer) -> None:
        self.script = script
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is part of the play."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def script(self) -> ProviderServer:
        return cast(_Http, self.server).script

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the tests' output clean."""

    def do_GET(self) -> None:
        self._record({})
        if self._refused():
            return
        if self.path == "/v1/models":
            self._send_json(
                200, {"object": "list", "data": [{"id": m, "object": "model"} for m in self.script.models]}
            )
        else:
            self._send_error(404, f"no such path: {self.path}")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        self._record(body)
        if self._refused():
            return
        behaviour = self.script.next_behaviour()
        if self._misbehaved(behaviour, body):
            return
        if self.path == "/v1/chat/completions":
            self._chat(behaviour, body)
        elif self.path == "/v1/embeddings":
            self._embed(behaviour, body)
        else:
            self._send_error(404, f"no such path: {self.path}")

    def _record(self, body: Mapping[str, Any]) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.script.record(RecordedRequest(self.command, self.path, headers, body))

    def _refused(self) -> bool:
        wanted = self.script.api_key
        if wanted is None or self.headers.get("authorization") == f"Bearer {wanted}":
            return False
        self._send_error(401, "Incorrect API key provided")
        return True

    def _misbehaved(self, behaviour: Behaviour, body: Mapping[str, Any]) -> bool:
        """Answer with the failure that is asked for; False when there is none."""
        key = self.headers.get("authorization", "").removeprefix("Bearer ")
        model = body.get("model")
        failures: dict[str, tuple[int, str, str | None]] = {
            "unauthorized": (401, f"Incorrect API key provided: {key}", "invalid_api_key"),
            "rate_limited": (429, "Rate limit reached", "rate_limit_exceeded"),
            "out_of_quota": (429, "You exceeded your current quota", "insufficient_quota"),
            "fails": (500, "The server had an error", None),
            "unknown_model": (404, f"The model `{model}` does not exist", "model_not_found"),
            "too_long": (
                400,
                "This model's maximum context length is 4096 tokens",
                "context_length_exceeded",
            ),
        }
        if behaviour in failures:
            self._send_error(*failures[behaviour])
        elif (parameter := _REFUSABLE.get(behaviour)) in body:
            self._send_error(400, f"Unsupported parameter: '{parameter}' is not supported with this model.")
        elif behaviour == "not_json":
            self._send(200, b"<html><title>Welcome</title></html>", "text/html")
        elif behaviour == "slow":
            self.script.stopping.wait(30)
            self.close_connection = True
        else:
            return False
        return True

    # ------------------------------------------------------------ chat

    def _chat(self, behaviour: Behaviour, body: Mapping[str, Any]) -> None:
        answer = "" if behaviour == "empty" else self.script.next_answer()
        reason = "length" if behaviour == "length" else "stop"
        while not isinstance(answer, str):
            if body.get("tools"):
                self._call_tools(body, answer)
                return
            answer = self.script.next_answer()
        if body.get("stream"):
            self._stream(behaviour, body, answer, reason)
            return
        message = {"role": "assistant", "content": answer}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        self._send_json(200, self._completion("chat.completion", [choice], _usage(body, answer)))

    def _call_tools(self, body: Mapping[str, Any], calls: Calls) -> None:
        listed = [
            {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for n, (name, arguments) in enumerate(calls)
        ]
        if body.get("stream"):
            self._stream_calls(body, listed)
            return
        message = {"role": "assistant", "content": None, "tool_calls": listed}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        self._send_json(200, self._completion("chat.completion", [choice], None))

    def _stream_calls(self, body: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> None:
        """Stream calls as OpenAI does: first the name, then the arguments in pieces."""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
        deltas += [{"content": self.script.preamble}] if self.script.preamble else []
        for index, call in enumerate(calls):
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            begun = {"index": index, **call, "function": {"name": name, "arguments": ""}}
            deltas.append({"tool_calls": [begun]})
            for at in range(0, len(arguments), 7):
                part = {"index": index, "function": {"arguments": arguments[at : at + 7]}}
                deltas.append({"tool_calls": [part]})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for delta in deltas:
            self._event(self._chunk(delta))
        self._event(self._chunk({}, "tool_calls"))
        if (body.get("stream_options") or {}).get("include_usage"):
            usage = _usage(body, json.dumps(calls))
            self._event(self._completion("chat.completion.chunk", [], usage))
        self._piece(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _stream(self, behaviour: Behaviour, body: Mapping[str, Any], answer: str, reason: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for delta in self._deltas(behaviour, answer):
                self._event(self._chunk(delta))
            if behaviour == "cut":
                self.close_connection = True
                return
            if behaviour == "error_in_stream":
                self._event({"error": {"message": "the model crashed", "type": "server_error"}})
            elif behaviour != "stops_short":
                self._event(self._chunk({}, reason))
                if (body.get("stream_options") or {}).get("include_usage"):
                    self._event(self._completion("chat.completion.chunk", [], _usage(body, answer)))
                self._piece(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
            self.script.client_left.set()

    def _deltas(self, behaviour: Behaviour, answer: str) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": ""}
        if behaviour == "reasoning":
            yield {"reasoning_content": "Let me think."}
            yield {"content": None}
        # A pause, so that no limit of tokens is reached before a test has looked at the first pieces.
        while behaviour == "endless" and not self.script.stopping.wait(0.002):
            yield {"content": "and on "}
        pieces = re.findall(r"\S+\s*|\s+", answer)
        if behaviour in ("cut", "stops_short", "error_in_stream"):
            pieces = pieces[: len(pieces) // 2]
        if behaviour == "held":
            yield from ({"content": piece} for piece in pieces[: len(pieces) // 2])
            while not self.script.go_on.wait(0.01) and not self.script.stopping.is_set():
                pass
            pieces = pieces[len(pieces) // 2 :]
        yield from ({"content": piece} for piece in pieces)

    def _chunk(self, delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return self._completion("chat.completion.chunk", [choice], None)

    def _completion(self, kind: str, choices: list[Any], usage: dict[str, int] | None) -> dict[str, Any]:
        made = {"id": "c-1", "object": kind, "created": 0, "model": self.script.models[0], "choices": choices}
        return made | ({"usage": usage} if usage else {})

    def _event(self, value: Mapping[str, Any]) -> None:
        self._piece(b"data: " + json.dumps(value).encode() + b"\n\n")

    def _piece(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.flush()

    # ------------------------------------------------------------ embeddings

    def _embed(self, behaviour: Behaviour, body: Mapping[str, Any]) -> None:
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        vectors = [self.script.vector(text)[: body.get("dimensions")] for text in texts]
        if behaviour == "wrong_count":
            vectors = vectors[:-1]
        elif behaviour == "wrong_dimension":
            vectors[-1] = [*vectors[-1], 1.0]
        elif behaviour == "empty_vector":
            vectors[-1] = []
        data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(vectors)]
        if behaviour == "shuffled":
            data.reverse()
        tokens = sum(len(text.split()) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        self._send_json(200, {"object": "list", "model": body.get("model"), "data": data, "usage": usage})

    # ------------------------------------------------------------ replies

    def _send_error(self, status: int, message: str, code: str | None = None) -> None:
        error = {"message": message, "type": "error", "code": code}
        self._send_json(status, {"error": error})

    def _send_json(self, status: int, value: Mapping[str, Any]) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if status == 429:
            self.send_header("Retry-After", self.script.retry_after)
        self.end_headers()
        self.wfile.write(content)


def _usage(body: Mapping[str, Any], answer: str) -> dict[str, int]:
    """Tokens as this server counts them: words."""
    prompt = sum(len(str(message["content"]).split()) for message in body.get("messages", ()))
    words = len(answer.split())
    return {"prompt_tokens": prompt, "completion_tokens": words, "total_tokens": prompt + words}
