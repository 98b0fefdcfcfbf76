"""Streams end as they should: with their client, with their model, with the server."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading

import pytest

from rag.serve.sse import EventStream, Streams

QUESTION = {"question": "Where is a short code made?", "repositories": ["sample"]}
CHAT = {"model": "rag:sample", "messages": [{"role": "user", "content": QUESTION["question"]}]}


@pytest.fixture
def modelled(serve, provider):
    """A server that answers with a model's service."""
    return serve(engine={"base_url": provider.base_url, "model": "m", "api_key": "k"}, grace_s=0.2).ready()


def begin(served, path, body):
    """Send a request and return the open connection and its response."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    return connection, connection.getresponse()


def turns(served):
    return [c.turn_count for c in served.service.engine.turns.conversations()]


def states(served):
    """The states of all turns, by conversation, the newest first."""
    store = served.service.engine.turns
    return [turn.state for one in store.conversations() for turn in store.turns(one.id)]


def test_a_models_answer_comes_as_it_is_written(modelled, provider):
    provider.answers[:] = ["It is made in codes [1]."]
    reply = modelled.post("/v1/chat/completions", {**CHAT, "stream": True})
    text = "".join(e["choices"][0]["delta"].get("content", "") for e in reply.events[:-1])
    assert text == "It is made in codes [1]."
    whole = modelled.post("/v1/chat/completions", CHAT).json
    assert whole["choices"][0]["message"]["content"] == text
    assert whole["usage"]["prompt_tokens"] > 0


def test_when_a_chat_client_goes_the_model_stops_and_what_came_is_kept(modelled, provider):
    provider.behaviours[:] = ["endless"]
    connection, response = begin(modelled, "/v1/chat/completions", {**CHAT, "stream": True})
    assert response.status == 200
    assert response.read(100)
    connection.sock.close() if connection.sock else None
    response.close()
    connection.close()
    assert provider.client_left.wait(25)
    modelled.wait_until(lambda: modelled.service.limiter.asking == 0)
    assert states(modelled) == ["partial"]
    assert 'outcome="given_up"' in modelled.get("/metrics").body.decode()


def test_when_the_client_goes_before_the_answer_it_is_given_up(modelled, provider):
    provider.behaviours[:] = ["endless"]
    connection = http.client.HTTPConnection("127.0.0.1", modelled.port, timeout=120)
    connection.request("POST", "/api/ask", json.dumps(QUESTION), {"Content-Type": "application/json"})
    modelled.wait_until(lambda: provider.chats)
    connection.close()
    assert provider.client_left.wait(25)
    modelled.wait_until(lambda: modelled.service.limiter.asking == 0)
    assert set(states(modelled)) <= {"partial", "failed"}
    assert turns(modelled) == [1]


@pytest.mark.parametrize("behaviour", ["unauthorized", "fails", "not_json", "unknown_model", "rate_limited"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_fails_at_once_gives_the_error_a_status(modelled, provider, behaviour, stream):
    provider.behaviours[:] = [behaviour]
    provider.retry_after = "0"
    reply = modelled.post("/v1/chat/completions", {**CHAT, "stream": stream})
    assert reply.status in (429, 502)
    assert reply.json["error"]["message"]
    assert "[1]" in reply.json["quotes"]["choices"][0]["message"]["content"]
    native = modelled.post("/api/ask", {**QUESTION, "stream": stream})
    assert native.status == (200 if stream else reply.status)
    last = native.events[-1] if stream else native.json
    ids = {"request_id": native.headers["x-request-id"]}
    assert last["error"] == {**reply.json["error"], **ids}
    assert last["quotes"]["model"] == "extractive"
    assert last["quotes"]["sources"]
    assert states(modelled) == ["failed"]


@pytest.mark.parametrize("behaviour", ["cut", "error_in_stream"])
def test_a_model_that_fails_in_the_middle_ends_the_stream_with_an_error(modelled, provider, behaviour):
    provider.behaviours[:] = [behaviour]
    # Long enough to be shown while tools may be called.
    provider.answers[:] = ["It is made in a place that has many words before it breaks off somewhere. " * 8]
    reply = modelled.post("/api/ask", {**QUESTION, "stream": True})
    assert reply.status == 200
    assert reply.events[-1]["error"]["code"] == "provider_error"
    assert reply.events[-1]["quotes"]["sources"]
    chat = modelled.post("/v1/chat/completions", {**CHAT, "stream": True})
    assert "The language model failed" in chat.body.decode()
    assert chat.events[-1]["error"]["code"] == "provider_error"
    assert states(modelled) == ["failed"]


def test_a_server_that_stops_ends_its_streams_cleanly(modelled, provider):
    provider.behaviours[:] = ["endless"]
    connection, response = begin(modelled, "/v1/chat/completions", {**CHAT, "stream": True})
    assert response.read(100)
    modelled.server.stop()
    rest = response.read().decode()
    assert '"code": "shutting_down"' in rest.rsplit("data: ", 1)[-1]
    connection.close()
    refused = modelled.post("/api/ask", QUESTION)
    assert refused.status == 503
    assert refused.headers["retry-after"]
    assert states(modelled) == ["partial"]


def test_a_client_that_reads_nothing_of_its_answer_takes_no_seat_from_others(serve):
    running = serve(concurrent=1, waiting=0).ready()
    body = json.dumps({**QUESTION, "stream": True}).encode()
    head = f"POST /api/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    with socket.socket() as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_024)
        wire.connect(("127.0.0.1", running.port))
        wire.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        running.wait_until(lambda: turns(running) == [1])
        running.wait_until(lambda: running.service.limiter.asking == 0)
        assert running.post("/api/ask", QUESTION).status == 200


def test_writers_of_one_conversation_each_store_their_turn(served):
    body = {**QUESTION, "conversation": "together"}
    replies = []
    threads = [
        threading.Thread(target=lambda: replies.append(served.post("/api/ask", body))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reply.status for reply in replies] == [200] * 8
    assert sorted(reply.json["number"] for reply in replies) == list(range(1, 9))
    assert len({reply.json["conversation"] for reply in replies}) == 1


def test_chats_that_go_on_from_one_turn_at_once_do_not_mix(served):
    first = served.post("/v1/chat/completions", CHAT).json
    heard = first["choices"][0]["message"]
    bodies = [
        {**CHAT, "messages": [*CHAT["messages"], heard, {"role": "user", "content": f"And question {n}?"}]}
        for n in range(6)
    ]
    replies = []
    threads = [
        threading.Thread(target=lambda b=b: replies.append(served.post("/v1/chat/completions", b)))
        for b in bodies
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    talks = [reply.json["rag"]["conversation"] for reply in replies]
    assert len(set(talks)) == 6
    kept = [
        [turn.question for turn in served.service.engine.turns.turns(conversation)] for conversation in talks
    ]
    assert sorted(kept) == [[QUESTION["question"], f"And question {n}?"] for n in range(6)]


def test_a_stream_that_takes_long_begins_before_its_first_piece():
    async def run():
        sent, commented = [], asyncio.Event()

        async def pieces():
            await commented.wait()
            yield b"data: 1\n\n"

        async def send(message):
            sent.append(message)
            if message.get("body"):
                commented.set()

        stream = EventStream(pieces(), streams=Streams(), error_event=lambda error: b"", start_after_s=0)
        await stream({}, asyncio.Event().wait, send)
        return sent

    start, *bodies = asyncio.run(run())
    assert start["status"] == 200
    assert [message["body"] for message in bodies] == [b": working on it\n\n", b"data: 1\n\n", b""]
    assert [message["more_body"] for message in bodies] == [True, True, False]
