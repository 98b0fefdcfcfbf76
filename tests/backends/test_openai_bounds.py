"""A model's server that sends too much, for too long, or something else, against real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from rag.backends.adal_generator import AdalGenerator
from rag.backends.openai import bounds
from rag.backends.openai.answer_limit import AnswerLimit
from rag.backends.openai.client import OpenAICompatibleClient
from rag.backends.openai.embedder import OpenAIEmbedder
from rag.backends.openai.endpoint import Retries, list_models, request_limits
from rag.backends.openai.queue import RequestQueue
from rag.backends.tiktoken_counter import counter_of_answers
from rag.errors import ProviderBroke, ProviderError, ProviderRejected
from rag.settings import load_settings
from rag.types import Conversation, Prepared, Prompt

WAYS = ["stream", "astream", "complete", "acomplete"]
ALL = [*WAYS, "embed", "models"]
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
EVENT = b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":%s}]}\n\n'
PADDED = b'{"%s":"' + b"x" * 2_000 + b'"}'
BIG = 8_500_000
SOON = Retries(first_pause_s=0.01)

Play = Callable[["Raw", socket.socket], None]


class Raw:
    """A server of raw sockets: each connection is read up to the request's end, then `play` answers it."""

    def __init__(self, play: Play) -> None:
        self.play, self.sent, self.requests = play, 0, 0
        self.stopping = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        with suppress(OSError), self._listening:
            while True:
                connection, _ = self._listening.accept()
                if self.stopping.is_set():
                    connection.close()
                    return
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.settimeout(20)
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(65_536)
            head, _, body = request.partition(b"\r\n\r\n")
            length = next(
                (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0
            )
            while len(body) < length:
                body += connection.recv(65_536)
            self.requests += 1
            self.play(self, connection)

    def send(self, connection: socket.socket, content: bytes) -> None:
        connection.sendall(content)
        self.sent += len(content)

    def close(self) -> None:
        """Stop, and end the thread: else it may accept for another socket that gets the number of its own."""
        self.stopping.set()
        socket.create_connection(self._listening.getsockname()).close()
        self._accepting.join()


@contextmanager
def serving(play: Play) -> Iterator[Raw]:
    server = Raw(play)
    try:
        yield server
    finally:
        server.close()


def asked(
    server: Raw,
    how: str,
    *,
    timeout_s: float = 5.0,
    answer_tokens: int = 40,
    first_byte_s: float | None = None,
    at_once: int | None = None,
) -> Any:
    """What comes of asking the server in one of all the ways it can be asked."""
    if how == "models":
        return list_models(server.url, None, timeout_s)
    if how == "embed":
        embedder = OpenAIEmbedder("m", base_url=server.url, timeout_s=timeout_s, retries=SOON)
        return embedder.embed(["one"], role="query")
    client = OpenAICompatibleClient(
        server.url, None, timeout_s, SOON, first_byte_s=first_byte_s, at_once=at_once
    )
    writer = AdalGenerator(client, "m")
    prompt = Prompt(text="Where?", sources=(), turns=(), tokens=1, answer_tokens=answer_tokens)
    question = Prepared("Where?", "Where?", Conversation(id="c"), (), prompt)
    if how == "stream":
        return ("".join(writer.stream(question)), writer.finish_reason)
    if how == "complete":
        return writer.complete("Where?", answer_tokens)

    async def ask() -> Any:
        if how == "astream":
            return ("".join([piece async for piece in writer.astream(question)]), writer.finish_reason)
        return await writer.acomplete("Where?", answer_tokens)

    return asyncio.run(ask())


def until_left(head: bytes, content: bytes) -> Play:
    """Send the head, then the content again and again until the client leaves."""

    def play(server: Raw, connection: socket.socket) -> None:
        server.send(connection, head)
        while not server.stopping.is_set():
            server.send(connection, content)

    return play


def once(content: bytes) -> Play:
    return lambda server, connection: server.send(connection, content)


# ---------------------------------------------------------------- bytes


@pytest.mark.parametrize("how", ALL)
def test_a_reply_without_end_is_left(how: str) -> None:
    with serving(until_left(JSON, b"[" + b" " * 65_535)) as server:
        with pytest.raises(ProviderBroke, match=r"127\.0\.0\.1:\d+ sent .* of more than [\d,]+ bytes"):
            asked(server, how)
        assert server.requests == 1
        assert server.sent < 60_000_000


@pytest.mark.parametrize("how", ["stream", "astream"])
@pytest.mark.parametrize(
    "content", [b"data: " + b"x" * 65_536, b": " + b"x" * 65_536], ids=["data", "comment"]
)
def test_a_line_of_a_stream_without_end_is_left(how: str, content: bytes) -> None:
    with serving(until_left(STREAM, content)) as server:
        with pytest.raises(ProviderBroke, match="a line of more than 1,000,000 bytes"):
            asked(server, how)
        assert server.sent < BIG


@pytest.mark.parametrize("how", ["stream", "astream"])
@pytest.mark.parametrize(
    "content",
    [
        EVENT % (PADDED % b"role"),
        EVENT % (PADDED % b"reasoning_content"),
        b": ping" * 300 + b"\n\n",
        b"data: {{{{" * 300 + b"\n",
    ],
    ids=["roles", "thoughts", "comments", "an event of many lines"],
)
def test_a_stream_that_says_nothing_is_left(how: str, content: bytes) -> None:
    with (
        serving(until_left(STREAM, content * (65_536 // len(content)))) as server,
        pytest.raises(ProviderBroke, match="an answer of more than 4,040,000 bytes"),
    ):
        asked(server, how)


@pytest.mark.parametrize("how", ALL)
@pytest.mark.parametrize("packed", ["gzip", "deflate"])
def test_a_compressed_bomb_is_left_while_it_is_unpacked(how: str, packed: str) -> None:
    bomb = gzip.compress(b" " * 60_000_000, 1) if packed == "gzip" else zlib.compress(b" " * 60_000_000, 1)
    head = JSON[:-2] + f"Content-Encoding: {packed}\r\n\r\n".encode()
    with serving(once(head + bomb)) as server, pytest.raises(ProviderBroke, match="of more than"):
        asked(server, how)


@pytest.mark.parametrize("how", ["stream", "astream"])
def test_an_answer_compressed_unasked_is_read(how: str) -> None:
    body = EVENT % b'{"content":"It is in auth.py."}' + b"data: [DONE]\n\n"
    whole = body.replace(b'"delta"', b'"finish_reason":"stop","delta"')
    head = STREAM[:-2] + b"Content-Encoding: gzip\r\n\r\n"
    with serving(once(head + gzip.compress(whole))) as server:
        assert asked(server, how) == ("It is in auth.py.", "stop")


def test_a_compression_that_nobody_can_read_is_named() -> None:
    with (
        serving(once(JSON[:-2] + b"Content-Encoding: zpaq\r\n\r\nabc")) as server,
        pytest.raises(ProviderBroke, match="compressed with 'zpaq'"),
    ):
        asked(server, "complete")


@pytest.mark.parametrize("how", ALL)
def test_a_failure_with_an_endless_body_is_reported(how: str) -> None:
    head = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n<html>"
    with (
        serving(until_left(head, b"x" * 65_536)) as server,
        pytest.raises(ProviderRejected, match="404: it sent a web page"),
    ):
        asked(server, how)


# ---------------------------------------------------------------- time


def drip(head: bytes, content: bytes, each_s: float = 0.03) -> Play:
    """Send a little now and then, more often than any read gives up."""

    def play(server: Raw, connection: socket.socket) -> None:
        server.send(connection, head)
        while not server.stopping.wait(each_s):
            server.send(connection, content)

    return play


def failures_of(ways: list[str], play: Play, timeout_s: float, **limits: Any) -> dict[str, str]:
    """What each way of asking fails with. All wait at once, each for two seconds."""

    def failure(how: str) -> str:
        with serving(play) as server, pytest.raises(ProviderError) as caught:
            asked(server, how, timeout_s=timeout_s, **limits)
        return str(caught.value)

    with ThreadPoolExecutor(len(ways)) as at_once:
        return dict(zip(ways, at_once.map(failure, ways), strict=True))


@pytest.mark.parametrize(
    ("head", "content"),
    [(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"), (JSON, b" "), (b"HTTP/1.1 503 No\r\n\r\n", b" ")],
    ids=["head", "body", "failure"],
)
def test_a_server_that_drips_does_not_hold_a_question(head: bytes, content: bytes) -> None:
    began = time.monotonic()
    for how, why in failures_of(ALL, drip(head, content), 0.4).items():
        assert "did not finish within 2 s" in why, (how, why)
    assert time.monotonic() - began < 2 + 5


def test_comments_that_keep_a_stream_alive_do_not_make_it_longer() -> None:
    for how, why in failures_of(["stream", "astream"], drip(STREAM, b": keep-alive\n\n"), 0.4).items():
        assert re.search(r"did not finish within 2 s; .*raise timeout_s \(RAG_TIMEOUT\)", why), (how, why)


def slowly(first_s: float, each_s: float, pieces: int) -> Play:
    """Send a streamed answer: the first piece after a while, the others in turn, then nothing more."""

    def play(server: Raw, connection: socket.socket) -> None:
        server.send(connection, STREAM)
        for number in range(pieces):
            server.stopping.wait(each_s if number else first_s)
            server.send(connection, EVENT % b'{"content":"piece "}')
        server.stopping.wait(10)

    return play


@pytest.mark.parametrize("how", ["stream", "astream"])
def test_a_patient_question_waits_long_for_the_first_piece_and_longer_while_others_come(
    how: str,
) -> None:
    with serving(slowly(0.8, 0.05, 40)) as server:
        began = time.monotonic()
        with pytest.raises(
            ProviderBroke, match=r"sent nothing for 0\.5 s \(240 characters of the answer arrived\)"
        ):
            asked(server, how, timeout_s=0.5, first_byte_s=2, answer_tokens=100)
        assert time.monotonic() - began > 0.8 + 39 * 0.05 + 0.4


@pytest.mark.parametrize("how", WAYS)
def test_a_patient_question_ends_if_nothing_comes(how: str) -> None:
    # A whole answer may take longer, by the tokens it may have.
    with serving(lambda server, connection: bool(server.stopping.wait(10)) and None) as server:
        with pytest.raises(ProviderError, match=r"sent nothing for (0\.4|0\.6) s"):
            asked(server, how, timeout_s=0.1, first_byte_s=0.4, answer_tokens=1)
        assert server.requests <= 1


PATIENT: dict[str, Any] = {"timeout_s": 1.0, "first_byte_s": 1.0, "answer_tokens": 1}


@pytest.mark.parametrize(
    "play",
    [drip(STREAM, b":\n", 0.03), drip(STREAM, b"d", 0.2), drip(JSON, b" ", 0.2)],
    ids=["many comments", "bytes", "spaces"],
)
def test_a_patient_question_ends_if_too_little_comes(play: Play) -> None:
    # At first 10 bytes a second, which is enough until the time of the whole answer, 5 s, is over.
    began = time.monotonic()
    for how, why in failures_of(WAYS, play, **PATIENT).items():
        assert re.search(r"sent only [\d,]+ bytes in \d s", why), (how, why)
    assert time.monotonic() - began < 1 + 0.2 + 1 + 5 + 5


def test_a_server_that_drips_holds_its_only_place_for_a_while_only() -> None:
    dripped = threading.Event()

    def play(server: Raw, connection: socket.socket) -> None:
        if dripped.is_set():
            found, end = EVENT % b'{"content":"found"},"finish_reason":"stop"', b"data: [DONE]\n\n"
            server.send(connection, STREAM + found + end)
        else:
            dripped.set()
            drip(STREAM, b":\n", 0.2)(server, connection)

    with serving(play) as server, ThreadPoolExecutor(1) as other:
        first = other.submit(asked, server, "stream", at_once=1, **PATIENT)
        assert dripped.wait(5)
        assert asked(server, "stream", at_once=1, **PATIENT)[0] == "found"
        with pytest.raises(ProviderError, match="sent only"):
            first.result()


def test_requests_beyond_the_limit_of_a_server_wait_for_the_others() -> None:
    queue = RequestQueue(1)
    queue.enter("host", 1.0)
    with pytest.raises(ProviderError, match=r"busy with other questions for 0\.01 s.*RAG_MODEL_CONCURRENCY"):
        queue.enter("host", 0.01)

    async def wait(timeout_s: float) -> None:
        await queue.aenter("host", timeout_s)

    with pytest.raises(ProviderError, match="busy with other questions"):
        asyncio.run(wait(0.01))
    queue.leave()
    asyncio.run(wait(1.0))


@pytest.mark.parametrize(
    ("base_url", "flags", "limits"),
    [
        ("http://127.0.0.1:11434/v1", {}, (120.0, 16_000 / 30, 1)),
        ("http://localhost:8080/v1", {"context_tokens": 2_000}, (120.0, 120.0, 1)),
        ("http://[::1]:8080/v1", {"timeout_s": 7, "model_concurrency": 4}, (7.0, 7.0, 4)),
        ("http://10.0.0.7:8000/v1", {}, (120.0, None, None)),
        ("https://api.example.org/v1", {"model_concurrency": 8}, (120.0, None, 8)),
        (None, {}, (120.0, None, None)),
    ],
)
def test_a_server_on_this_machine_gets_one_request_at_once_and_time_for_the_prompt(
    base_url: str | None, flags: dict[str, float], limits: tuple[float | None, ...]
) -> None:
    found = request_limits(load_settings({"base_url": base_url, "api_key": "k", **flags}))
    assert (found["timeout_s"], found["first_byte_s"], found["at_once"]) == limits


@pytest.mark.parametrize("how", WAYS)
def test_all_tries_together_keep_the_time(how: str) -> None:
    refuses = once(b"HTTP/1.1 503 No\r\nRetry-After: 20\r\nContent-Length: 2\r\n\r\nno")
    with serving(refuses) as server:
        began = time.monotonic()
        with pytest.raises(ProviderError, match="503"):
            asked(server, how, timeout_s=3)
        assert time.monotonic() - began < 5 * 3
        assert server.requests == 1


@pytest.mark.parametrize(
    "after", ["1000000000", "1e999", "nan", "-5", "Fri, 31 Dec 9999 23:59:59 GMT", "x" * 4_000]
)
def test_no_pause_that_a_server_asks_for_is_longer_than_ours(after: str) -> None:
    head = f"HTTP/1.1 429 No\r\nRetry-After: {after}\r\nContent-Length: 2\r\n\r\nno".encode()
    pauses: list[float] = []
    with serving(once(head)) as server:
        client = OpenAICompatibleClient(server.url, None, 5.0, Retries(sleep=pauses.append))
        with pytest.raises(ProviderError):
            AdalGenerator(client, "m").complete("hello")
    assert all(0 <= pause <= 30 for pause in pauses)


@pytest.mark.parametrize(("refusals", "answers"), [(12, True), (500, False)])
def test_a_server_that_loads_its_model_is_waited_for_but_not_for_ever(refusals: int, answers: bool) -> None:
    body = b'{"error":{"message":"Loading model"}}'
    loading = b"HTTP/1.1 503 No\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    good = JSON + b'{"choices":[{"message":{"content":"yes"}}]}'
    pauses: list[float] = []

    def play(server: Raw, connection: socket.socket) -> None:
        server.send(connection, good if server.requests > refusals else loading)

    with serving(play) as server:
        client = OpenAICompatibleClient(server.url, None, 60.0, Retries(sleep=pauses.append))
        writer = AdalGenerator(client, "m")
        if answers:
            assert writer.complete("Where?") == "yes"
        else:
            with pytest.raises(ProviderBroke, match="503: Loading model"):
                writer.complete("Where?")
    assert 15 < sum(pauses) < 130


# ---------------------------------------------------------------- tokens


@pytest.mark.parametrize("how", ["stream", "astream"])
@pytest.mark.parametrize("words", [1, 100, 5_000], ids=["a word", "a line", "a book"])
def test_an_answer_ends_at_its_tokens_whatever_the_server_goes_on_to_send(how: str, words: int) -> None:
    said = json.dumps({"content": "and on " * words}).encode()
    with serving(until_left(STREAM, EVENT % said)) as server:
        text, reason = asked(server, how, answer_tokens=300)
    counter = counter_of_answers("m")
    assert reason == "length"
    assert text.startswith("and on and on")
    assert 280 <= counter.count(text) <= 300


@pytest.mark.parametrize("how", ["complete", "acomplete"])
def test_a_whole_answer_is_cut_at_its_tokens(how: str) -> None:
    message = {"role": "assistant", "content": "and on " * 5_000}
    reply = {"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}
    with serving(once(JSON + json.dumps(reply).encode())) as server:
        text = asked(server, how, answer_tokens=300)
    assert counter_of_answers("m").count(text) <= 300


def test_an_answer_in_another_script_is_not_cut_because_one_vocabulary_needs_more_tokens_for_it() -> None:
    text = "टोकन की जाँच प्रमाणीकरण में होती है। " * 10
    counter = counter_of_answers("gemma")
    limit = AnswerLimit(len(text) // 3, counter)
    assert counter.count(text) > 2 * len(text) // 3
    assert limit.take(text) == text
    limit = AnswerLimit(len(text) // 8, counter)
    assert text.startswith(limit.take(text))
    assert limit.reached


# ---------------------------------------------------------------- other places


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("how", ALL)
def test_a_redirect_is_refused_and_the_prompt_goes_nowhere_else(how: str, status: int) -> None:
    with serving(once(JSON + b"{}")) as other:
        head = f"HTTP/1.1 {status} Go\r\nLocation: {other.url}/chat/completions\r\nContent-Length: 0\r\n\r\n"
        with serving(once(head.encode())) as server:
            with pytest.raises(ProviderRejected) as caught:
                asked(server, how)
            assert server.requests == 1
        assert other.requests == 0
    said = f"answered {status} and redirects to {other.url[7:-3]}; nothing was sent there"
    assert said in str(caught.value)
    assert "--base-url" in str(caught.value)
    assert caught.value.status == status


# ---------------------------------------------------------------- what is no answer

DEEP = b"[" * 200_000
ODD = [
    DEEP,
    b'{"choices":' + DEEP,
    b"[" * 900 + b"]" * 900,
    b'{"error":{"message":' + b"[" * 900 + b"]" * 900 + b"}}",
    b"1" * 10_000,
    b"\xff\xfe",
    b"null",
    b"[]",
    b'"text"',
    b'{"choices":{"a":1}}',
    b'{"choices":"abc"}',
    b'{"choices":[1]}',
    b'{"choices":[{"message":1,"delta":1}]}',
    b'{"choices":[{"message":{"content":[1]},"delta":{"content":[1]}}]}',
    b'{"choices":[{"message":{"content":{}},"delta":{"content":7}}],"usage":"x"}',
    b'{"data":7}',
    b'{"data":[7]}',
    b'{"data":[{"index":"x","embedding":[1]},{"index":0,"embedding":[1]}]}',
    b'{"data":[{"index":0,"embedding":{"a":1}}]}',
    b'{"data":[{"index":0,"embedding":[[1]]}]}',
    b'{"data":[{"index":0,"embedding":["a"]}]}',
    b'{"data":[{"index":0,"embedding":[1e999]}]}',
    b'{"data":[{"index":0,"embedding":[' + b"9" * 400 + b"]}]}",
    b'{"data":[{"index":0,"embedding":"AAA"}]}',
]


@pytest.mark.parametrize("how", ["stream", "complete", "embed", "models"])
@pytest.mark.parametrize("content", ODD, ids=lambda content: content[:40].decode("latin-1"))
def test_whatever_json_comes_is_an_error_of_the_provider(how: str, content: bytes) -> None:
    if how == "models" and content.startswith(b'{"data":['):
        pytest.skip("a list of models is read entry by entry")
    streams = how.endswith("stream")
    reply = STREAM + b"data: " + content + b"\n\n" if streams else JSON + content
    with serving(once(reply)) as server, pytest.raises(ProviderError) as caught:
        asked(server, how)
    assert len(str(caught.value)) < 700


def test_a_count_of_tokens_that_is_none_is_not_believed() -> None:
    end = (
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":%s}}\n\n'
    )
    for odd in (b'"x"', b"-5", b"9" * 30, b"[]", b"1.5"):
        with serving(once(STREAM + EVENT % b'{"content":"yes"}' + end % odd)) as server:
            assert asked(server, "stream") == ("yes", "stop")


def test_the_clients_of_a_process_load_the_trusted_certificates_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[ssl.SSLContext] = []
    load = bounds.httpx.create_ssl_context

    def counted() -> ssl.SSLContext:
        loaded.append(load())
        return loaded[-1]

    monkeypatch.setattr(bounds.httpx, "create_ssl_context", counted)
    bounds._trusted_certificates.cache_clear()
    for _ in range(2):
        bounds.http_client("https://host/v1").close()
        asyncio.run(bounds.async_http_client("https://host/v1").aclose())
    (only,) = loaded
    assert only.verify_mode == ssl.CERT_REQUIRED and only.check_hostname
