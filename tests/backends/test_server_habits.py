"""Servers that speak the protocol in their own way: each is answered, or its own words are in the error."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rag.backends.adal_generator import AdalGenerator
from rag.backends.openai import bounds
from rag.backends.openai.client import OpenAICompatibleClient
from rag.backends.openai.embedder import OpenAIEmbedder
from rag.backends.openai.endpoint import Retries
from rag.backends.openai.proxies import proxy_of
from rag.backends.openai.thought_habits import ThoughtHabit
from rag.errors import ProviderError
from rag.types import Conversation, Prepared, Prompt, Replacement

SAID = "It is in auth.py [1]. 😀"
PROMPT = (
    "<START_OF_SYSTEM_PROMPT>\nBe brief.\n<END_OF_SYSTEM_PROMPT>\n"
    "<START_OF_USER_PROMPT>\nWhere?\n<END_OF_USER_PROMPT>"
)
Reply = tuple[int, str, bytes]
Script = Callable[[dict[str, Any]], Reply]
SSE = "text/event-stream"


@contextmanager
def serving(script: Script) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve what the script returns for the body of a request; yield the address and the bodies."""
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            status, kind, content = script(bodies[-1])
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", bodies
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def chunk(delta: Any, reason: str | None = None, key: str = "delta") -> bytes:
    event = {"choices": [{"index": 0, key: delta, "finish_reason": reason}]}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def sse(*events: bytes) -> Reply:
    return 200, SSE, b"".join(events)


def whole(message: dict[str, Any]) -> Reply:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return 200, "application/json", json.dumps({"id": "x", "choices": [choice]}).encode()


def refusal(status: int, body: Any) -> Reply:
    return status, "application/json", json.dumps(body).encode()


def prepared() -> Prepared:
    prompt = Prompt(text=PROMPT, sources=(), turns=(), tokens=1, answer_tokens=200)
    return Prepared("Where?", "Where?", Conversation(id="c"), (), prompt)


def writer(url: str, habit: ThoughtHabit | None = None) -> AdalGenerator:
    return AdalGenerator(OpenAICompatibleClient(url, None, 5.0, Retries(limit=0)), "m", habit=habit)


def said(generator: AdalGenerator, how: str) -> str:
    async def pieces() -> list[str]:
        return [piece async for piece in generator.astream(prepared())]

    text = ""
    for piece in asyncio.run(pieces()) if how == "astream" else generator.stream(prepared()):
        text = piece if isinstance(piece, Replacement) else text + piece
    return text


DONE, STOP = b"data: [DONE]\n\n", chunk({}, "stop")
HALF = json.dumps(SAID)[1:-1].encode()
PARTS = [{"type": "thinking", "thinking": "no"}, {"type": "text", "text": SAID}]
REASONED = [
    {"type": "reasoning", "text": "no"},
    {"type": "text", "thought": True, "text": "no"},
    {"type": "output_text", "text": SAID},
]
GEMINI = {"content": "no", "extra_content": {"google": {"thought": True}}}
OTHER = b'data: {"choices":[{"index":1,"delta":{"content":"no"}}]}\n\n'
TEMPLATE = {"error": {"message": "System role not supported"}}


def ollama(*said: dict[str, str]) -> Reply:
    """A stream of Ollama's own protocol."""
    events = [{"model": "m", "message": {"role": "assistant", **one}, "done": False} for one in said]
    last = {
        "model": "m",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
    }
    lines = [*events, {**last, "prompt_eval_count": 20, "eval_count": 7}]
    return 200, "application/x-ndjson", b"".join(json.dumps(line).encode() + b"\n" for line in lines)


HABITS: dict[str, Script] = {
    "Ollama's own stream": lambda _: ollama({"thinking": "no"}, {"content": SAID[:5]}, {"content": SAID[5:]}),
    "Ollama's own reply": lambda _: refusal(200, {"message": {"content": SAID}, "done": True}),
    "a whole reply on several lines": lambda _: (
        200,
        "application/json",
        json.dumps(json.loads(whole({"content": SAID})[2]), indent=1).encode(),
    ),
    "empty heartbeats": lambda _: sse(b"data:\n\ndata: \n\n", chunk({"content": SAID}), STOP, DONE),
    "comments as data": lambda _: sse(b"data: : PROCESSING\n\n", chunk({"content": SAID}), STOP),
    "no finish reason": lambda _: sse(chunk({"content": SAID}), DONE),
    "an empty finish reason": lambda _: sse(chunk({"content": SAID}), chunk({}, ""), DONE),
    "a whole message": lambda _: sse(chunk({"content": SAID}, "stop", "message"), DONE),
    "the message again": lambda _: sse(chunk({"content": SAID}), chunk({"content": SAID}, "stop", "message")),
    "parts": lambda _: sse(chunk({"content": PARTS}), STOP),
    "thoughts as parts": lambda _: sse(chunk({"content": REASONED}), STOP),
    "one part": lambda _: sse(chunk({"content": REASONED[2]}), STOP),
    "thoughts with a mark": lambda _: sse(chunk(GEMINI), chunk({"content": SAID}), STOP),
    "thoughts with a role": lambda _: sse(
        chunk({"role": "thinking", "content": "no"}),
        chunk({"content": "no"}),
        chunk({"role": "assistant", "content": SAID}),
        STOP,
    ),
    "other answers too": lambda _: sse(OTHER, chunk({"content": SAID}), OTHER, STOP),
    "a byte order mark": lambda _: sse(b"\xef\xbb\xbf", chunk({"content": SAID}), STOP),
    "carriage returns": lambda _: sse((chunk({"content": SAID}) + STOP).replace(b"\n", b"\r")),
    "no last blank line": lambda _: sse(chunk({"content": SAID}), STOP.rstrip()),
    "halves of a character": lambda _: sse(
        chunk({"content": SAID[:-1]}),
        b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\\ude00"}}]}\n\n',
        STOP,
    ),
    "no stream": lambda _: whole({"content": SAID}),
    "no stream, parts": lambda _: whole({"content": PARTS}),
    "no stream, thoughts as parts": lambda _: whole({"content": REASONED}),
    "a refused stream": lambda body: (
        refusal(400, {"error": {"message": "must be verified to stream", "param": "stream"}})
        if body.get("stream")
        else whole({"content": SAID})
    ),
    "a refused stream, in words": lambda body: (
        refusal(422, {"detail": "streaming is off"}) if "stream" in body else whole({"content": SAID})
    ),
    "a refused system message": lambda body: (
        refusal(400, TEMPLATE)
        if any(message["role"] == "system" for message in body["messages"])
        else sse(chunk({"content": SAID}), STOP)
    ),
}


@pytest.mark.parametrize("how", ["stream", "astream"])
@pytest.mark.parametrize("habit", HABITS)
def test_a_server_is_understood_whatever_its_habits(habit: str, how: str) -> None:
    with serving(HABITS[habit]) as (url, bodies):
        generator = writer(url)
        assert said(generator, how) == SAID
        before = len(bodies)
        assert said(generator, how) == SAID
        assert len(bodies) == before + 1  # what it refuses is not sent again
    texts = " ".join(message["content"] for message in bodies[-1]["messages"])
    assert "Be brief." in texts


@pytest.mark.parametrize("reason", ["content_filter", "SAFETY", "insufficient_system_resource"])
def test_an_early_end_has_its_reason(reason: str) -> None:
    with serving(lambda _: sse(chunk({"content": "It is"}), chunk({}, reason), DONE)) as (url, _):
        generator = writer(url)
        assert said(generator, "stream") == "It is"
        assert (generator.finish_reason, generator.early_end) == ("interrupted", reason)
    with (
        serving(lambda _: sse(chunk({}, reason), DONE)) as (url, _),
        pytest.raises(ProviderError, match=reason),
    ):
        said(writer(url), "stream")


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, {"error": {"message": "quota exceeded for key", "code": 402}}, "quota exceeded for key"),
        (200, {"error": "model is down"}, "model is down"),
        (
            422,
            {"detail": [{"loc": ["body", "top_k"], "msg": "field required"}]},
            "body.top_k: field required",
        ),
        (400, {"detail": "too many inputs"}, "too many inputs"),
        (400, [{"error": {"message": "bad\x1b[31m thing"}}], "bad"),
        (400, {"title": "Model is paused", "status": 400, "type": "about:blank"}, "Model is paused"),
        (400, {"title": "Bad Request", "detail": "the model is paused"}, "the model is paused"),
        (403, {"Message": "User is not authorized"}, "User is not authorized"),
        (400, {"code": 5, "reason": "no such deployment"}, "no such deployment"),
        (400, {"Error": {"Code": "X", "Message": "no deployment"}}, "no deployment"),
        (200, {"title": "Model is paused"}, "Model is paused"),
        (400, {"message": "sk-012345678901234567 is no key"}, "… is no key"),
    ],
)
@pytest.mark.parametrize("how", ["stream", "astream", "complete", "embed"])
def test_the_words_of_the_server_are_shown(status: int, body: Any, words: str, how: str) -> None:
    with serving(lambda _: refusal(status, body)) as (url, _), pytest.raises(ProviderError) as caught:
        if how == "embed":
            OpenAIEmbedder("m", base_url=url, retries=Retries(limit=0)).embed(["one"], role="query")
        elif how == "complete":
            writer(url).complete("Where?")
        else:
            said(writer(url), how)
    message = str(caught.value)
    assert words in message
    assert message.isprintable()
    assert "0123456789" not in message


@pytest.mark.parametrize("how", ["stream", "astream", "complete", "embed"])
@pytest.mark.parametrize("status", [200, 400, 503])
def test_a_compressed_reply_that_is_not_declared_is_named(status: int, how: str) -> None:
    reply = status, "application/json", gzip.compress(whole({"content": SAID})[2])
    with serving(lambda _: reply) as (url, _), pytest.raises(ProviderError) as caught:
        if how == "embed":
            OpenAIEmbedder("m", base_url=url, retries=Retries(limit=0)).embed(["one"], role="query")
        elif how == "complete":
            writer(url).complete("Where?")
        else:
            said(writer(url), how)
    assert "a compressed reply without the header Content-Encoding" in str(caught.value)


def test_a_stream_of_ollama_has_its_usage_its_end_and_its_errors() -> None:
    with serving(lambda _: ollama({"content": SAID})) as (url, _):
        generator = writer(url)
        assert said(generator, "stream") == SAID
        assert generator.usage and (generator.usage.prompt_tokens, generator.usage.answer_tokens) == (20, 7)
        assert generator.finish_reason == "stop"
    broken = ollama({"content": "It"})[2].split(b"\n")[0] + b'\n{"error": "the runner has died"}\n'
    for content in (broken, broken.split(b"\n")[1] + b"\n"):
        with (
            serving(lambda _, content=content: (200, "application/x-ndjson", content)) as (url, _),
            pytest.raises(ProviderError, match="the runner has died"),
        ):
            said(writer(url), "stream")


def test_ollamas_own_reply_completes_a_prompt() -> None:
    with serving(lambda _: refusal(200, {"message": {"content": SAID}, "done": True})) as (url, _):
        assert writer(url).complete("Where?") == SAID


def test_a_model_that_closes_thoughts_is_remembered(tmp_path: Path) -> None:
    thoughts = sse(*(chunk({"content": text}) for text in ("I think", " so.</think>", SAID)), STOP)
    at_once = whole({"content": f"I think so.</think>{SAID}"})
    with serving(lambda body: thoughts if body.get("stream") else at_once) as (url, _):
        habit = ThoughtHabit(tmp_path, url, "m")
        pieces = list(writer(url, habit).stream(prepared()))
        assert pieces == [SAID]
        assert ThoughtHabit(tmp_path, url, "m").value == "closes"
        habit.learn("answers")  # the server was started with another template
        pieces = list(writer(url, habit).stream(prepared()))
        assert pieces == ["I think", "", SAID]
        assert isinstance(pieces[1], Replacement)
        assert writer(url).complete("Where?") == SAID
    assert habit.value == "closes"


@pytest.mark.parametrize("limit", [1, 3, 10])
@pytest.mark.parametrize("status", [400, 413])
def test_an_embedder_gets_batches_of_the_size_that_it_takes(limit: int, status: int) -> None:
    def script(body: dict[str, Any]) -> Reply:
        if len(body["input"]) > limit:
            return refusal(status, {"error": {"message": f"batch size should not be larger than {limit}"}})
        data = [{"index": n, "embedding": [float(text), 1.0]} for n, text in enumerate(body["input"])]
        return refusal(200, {"data": data})

    texts = [str(number) for number in range(40)]
    with serving(script) as (url, bodies):
        embedder = OpenAIEmbedder("m", base_url=url, retries=Retries(limit=0))
        rows = embedder.embed(texts, role="passage")
        assert [round(row[0] / row[1]) for row in rows] == list(range(40))
        before = len(bodies)
        embedder.embed(texts, role="passage")
        assert all(len(body["input"]) <= limit for body in bodies[before:])


def test_a_text_that_is_too_long_for_an_embedder_is_named() -> None:
    words = "This model's maximum context length is 512 tokens"
    with (
        serving(lambda _: refusal(400, {"error": {"message": words}})) as (url, _),
        pytest.raises(ProviderError, match=r"too long for the model: choose an embedding model") as caught,
    ):
        OpenAIEmbedder("m", base_url=url).embed(["one"], role="query")
    assert "--context-tokens" not in str(caught.value)


@pytest.mark.parametrize("variable", ["ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"])
@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "http://127.0.0.1:9"])
def test_this_machine_is_asked_directly(variable: str, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, proxy)
    for host in ("127.0.0.1", "localhost", "[::1]", "a.localhost", "0.0.0.0"):
        assert proxy_of(f"http://{host}:8000/v1") is None
    with serving(lambda _: sse(chunk({"content": SAID}), STOP)) as (url, _):
        assert said(writer(url), "stream") == SAID


def test_a_proxy_that_fails_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("HTTP_PROXY", f"http://me:secret@127.0.0.1:{port}")
    with pytest.raises(ProviderError, match=rf"the proxy 127.0.0.1:{port} \(HTTP_PROXY\)") as caught:
        said(writer("http://model.example/v1"), "stream")
    assert "secret" not in str(caught.value)
    assert "NO_PROXY" in str(caught.value)
    monkeypatch.setenv("NO_PROXY", "model.example")
    assert proxy_of("http://model.example/v1") is None


def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "ftp://127.0.0.1:9")
    with pytest.raises(ProviderError, match=r"ALL_PROXY.*'ftp' is unknown"):
        said(writer("https://model.example/v1"), "stream")


@pytest.mark.parametrize("variable", ["ALL_PROXY", "https_proxy"])
@pytest.mark.parametrize(
    "value",
    [
        "http://[",
        "http://a:b:c",
        "http://127.0.0.1:99999",
        "[::1",
        "http://",
        "http://a\x01b",
        "http://me:secret@[",
    ],
)
def test_an_unreadable_address_of_a_proxy_is_named(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ProviderError, match=rf"the proxy .*\({variable}\): ") as caught:
        said(writer("https://model.example/v1"), "stream")
    assert "secret" not in str(caught.value)


def test_a_missing_file_of_certificates_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    bounds._trusted_certificates.cache_clear()
    with pytest.raises(ProviderError, match=r"missing\.pem.*SSL_CERT_FILE"):
        said(writer("https://127.0.0.1:9/v1"), "stream")


def test_a_wait_until_another_century_is_no_number_of_seconds() -> None:
    late = "Wed, 21 Oct 2099 07:28:00 GMT"

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(429)
            self.send_header("Retry-After", late)
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        with pytest.raises(ProviderError, match=r"try again later$"):
            said(writer(f"http://127.0.0.1:{server.server_address[1]}/v1"), "stream")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
