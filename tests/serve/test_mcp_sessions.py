"""A session of the Model Context Protocol is its key's alone, and there are never too many."""

from __future__ import annotations

import http.client
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from keys_given import add_key, memory_in
from live_server import sample_copy, serving

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Client:
    """A client of the protocol that knows its key, and says what it likes."""

    def __init__(self, served, key):
        self.served = served
        self.headers = {
            "Authorization": f"Bearer {key}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-06-18",
        }

    def begin(self):
        reply = self.served.post("/mcp", INITIALIZE, headers=self.headers)
        session = reply.headers.get("mcp-session-id")
        if session:
            assert self.send(session, READY) == 202
        return session or reply.status

    def send(self, session, body=LIST, method="POST"):
        headers = {**self.headers, "Mcp-Session-Id": session}
        return self.served.request(method, "/mcp", body, headers=headers).status


@pytest.fixture
def start(tmp_path):
    """Start a server with two keys: `start(mcp_sessions=…)` gives it, ann and bob."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def started(**settings):
            memory = memory_in(tmp_path)
            keys = [add_key(memory, name) for name in ("ann", "bob")]
            repositories = (("sample", sample_copy(tmp_path)),)
            served = stack.enter_context(
                serving(tmp_path, engine={"memory": memory}, repositories=repositories, **settings)
            )
            return served, *(Client(served, key) for key in keys)

        yield started


def sessions_of(served):
    (route,) = [route for route in served.server.config.app.routes if getattr(route, "path", "") == "/mcp"]
    return route.app


def test_a_session_is_not_there_for_another_key(start):
    served, ann, bob = start()
    session = ann.begin()
    for method, body in (("POST", LIST), ("GET", None), ("DELETE", None)):
        assert bob.send(session, body, method) == 404
        assert bob.send("0" * 32, body, method) == 404
    assert ann.send(session) == 200
    assert ann.send(session, None, "DELETE") == 200
    assert ann.send(session) == 404
    assert len(sessions_of(served)) == 0


def test_where_there_are_keys_nobody_is_taken_for_the_user(start, tmp_path):
    served, ann, bob = start()
    asked = {"name": "ask_question", "arguments": {"question": "Where is a token checked?"}}
    call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": asked}
    (tmp_path / "alone").mkdir()
    session = ann.begin()
    for key in (None, "Bearer ", "Bearer unknown", "Basic YTpi"):
        headers = {} if key is None else {"Authorization": key}
        assert served.post("/mcp", INITIALIZE, headers=headers).status == 401
        assert served.post("/mcp", call, headers={**headers, "Mcp-Session-Id": session}).status == 401
    bob.begin()
    owners = [one.owner.namespace for one in sessions_of(served)._sessions.values()]
    assert len(set(owners)) == 2 and "" not in owners
    with serving(tmp_path / "alone", repositories=served.settings.repositories) as open_to_all:
        assert Client(open_to_all, "any").begin()
        (one,) = sessions_of(open_to_all)._sessions.values()
        assert one.owner.namespace == ""


def test_the_session_used_longest_ago_makes_room_and_it_is_one_of_who_has_most(start):
    served, ann, bob = start(mcp_sessions=4)
    alone = bob.begin()
    many = [ann.begin() for _ in range(3)]
    assert ann.send(many[0]) == 200
    many.append(ann.begin())
    assert [ann.send(one) for one in many] == [200, 404, 200, 200]
    assert bob.send(alone) == 200
    for _ in range(20):
        assert len(ann.begin()) == 32
    assert bob.send(alone) == 200
    assert len(sessions_of(served)) == 4


def test_when_all_sessions_are_in_use_the_next_comes_again(start):
    served, ann, bob = start(mcp_sessions=1, concurrent=0, waiting=1)  # a call waits until it is cancelled
    session = ann.begin()
    call = {"name": "find_symbol", "arguments": {"name": "authenticate"}}
    waiting = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    with ThreadPoolExecutor(1) as pool:
        answered = pool.submit(ann.send, session, waiting)
        (one,) = sessions_of(served)._sessions.values()
        served.wait_until(lambda: one.running)
        refused = served.post("/mcp", INITIALIZE, headers=bob.headers)
        assert refused.status == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert ann.send(session, cancelled) == 202
        assert answered.result() == 200
    assert bob.begin() != 503


def test_a_session_that_is_not_used_ends(start):
    served, ann, bob = start(mcp_idle_s=600)
    now, sessions = [1_000.0], sessions_of(served)
    sessions._clock = lambda: now[0]

    def later(seconds):
        now[0] += seconds

    session = ann.begin()
    later(599)
    assert ann.send(session) == 200
    later(600)
    assert ann.send(session) == 404
    assert len(sessions_of(served)) == 0
    stays = bob.begin()
    assert bob.send(stays) == 200


def test_what_is_no_message_begins_no_session(start):
    served, ann, _ = start(mcp_sessions=3)
    for body in (b"{", b"[]", b"x" * 1_100_000):
        reply = served.post("/mcp", body, headers={**ann.headers, "Content-Type": "application/json"})
        assert 400 <= reply.status < 500
    for _ in range(10):
        assert served.post("/mcp", LIST, headers=ann.headers).status >= 400
    assert len(sessions_of(served)) <= 3
    assert len(ann.begin()) == 32


def status_of(served, method, headers, body=None):
    """The status of a reply; of a stream only its beginning is read."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    try:
        connection.putrequest(method, "/mcp")
        for name, value in [*headers, ("Content-Length", str(len(body or b"")))]:
            connection.putheader(name, value)
        connection.endheaders(body)
        return connection.getresponse().status
    finally:
        connection.close()


IDS = ["0", "-1", "x", "0" * 32, "a" * 2000, "\xff\xfe", " ", "1e999", "../x", "%00", "{}"]


@pytest.mark.parametrize("name", ["Mcp-Session-Id", "MCP-Protocol-Version", "Accept"])
def test_a_header_that_means_nothing_is_the_client_s_mistake(start, name):
    served, ann, _ = start(mcp_sessions=50)
    session = ann.begin()
    known = {**ann.headers, "Mcp-Session-Id": session, "Content-Type": "application/json"}
    message = json.dumps(LIST).encode()
    for value in IDS:
        for method, body in (
            ("GET", None),
            ("POST", message),
            ("DELETE", b""),
            ("PUT", b""),
            ("OPTIONS", b""),
        ):
            if (method, name) == ("DELETE", "Accept"):
                continue  # it ends the session, as it should
            for headers in ({**known, name: value}, {**ann.headers, name: value}):
                status = status_of(served, method, list(headers.items()), body)
                assert status < 500, (method, name, value)
        twice = [*known.items(), (name, value), (name, value)]
        assert status_of(served, "POST", twice, message) < 500
    assert ann.send(session) == 200
