"""Who gets in, and what does not."""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import json
import socket
import threading
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from keys_given import add_key, memory_in, read_keys

from rag.errors import SettingsError
from rag.request_context import RequestContext
from rag.serve.access.rate_limits import AcceptedKeys, Limiter, Rate, Window, network_of
from rag.serve.access.redaction import PathRedactor
from rag.serve.access.ssrf import is_public
from rag.serve.app import create_app
from rag.serve.errors import TooMany
from rag.serve.settings import ServerSettings, check_name
from rag.settings import Settings
from rag.types import Source

QUESTION = {"question": "Where is a short code made?", "repositories": ["sample"]}


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def test_health_answers(served):
    reply = served.get("/health")
    assert reply.status == 200
    assert reply.json["status"] == "ok"
    assert reply.json["ready"] == 1


def test_it_refuses_to_listen_elsewhere_without_a_key(tmp_path):
    with pytest.raises(SettingsError, match="without a key"):
        create_app(ServerSettings(engine=Settings(home=tmp_path), host="0.0.0.0"))
    create_app(ServerSettings(engine=Settings(home=tmp_path), host="0.0.0.0", keys=("secret",)))


@pytest.mark.parametrize(
    "name", ["", "a b", "../etc", "a//b", "a@b", "rag:x", "a/", ".git", "a,b", "x" * 200]
)
def test_a_name_that_would_be_ambiguous_is_refused(name):
    with pytest.raises(SettingsError):
        check_name(name)


# ---------------------------------------------------------------- keys


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    from live_server import sample_copy, serving

    home = tmp_path_factory.mktemp("keyed")
    memory = memory_in(home)
    keys = {name: add_key(memory, name) for name in ("ann", "bob")}
    with serving(home, engine={"memory": memory}, repositories=(("sample", sample_copy(home)),)) as running:
        running.wait_until(lambda: running.get("/ready").status == 200)
        running.keys = keys
        yield running


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("wrong"),
        bearer(""),
        {"Authorization": "Basic YTpi"},
        {"Authorization": "Bearer"},
        {"Authorization": "é"},
    ],
)
@pytest.mark.parametrize("path", ["/api/repositories", "/v1/models", "/metrics", "/openapi.json", "/no/such"])
def test_without_a_known_key_nothing_is_returned(keyed, headers, path):
    reply = keyed.get(path, headers={k: v.encode("latin-1") for k, v in headers.items()})
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    assert reply.json["error"]["code"] == "invalid_api_key"


def test_health_needs_no_key(keyed):
    assert keyed.get("/health").status == 200


def test_a_key_never_sees_anothers_turns(keyed):
    ann, bob = (bearer(keyed.keys[name]) for name in ("ann", "bob"))
    response = keyed.post("/api/ask", {**QUESTION, "conversation": "mine"}, headers=ann).json
    conversation, turn = response["conversation"], response["turn"]
    assert [c["id"] for c in keyed.get("/api/conversations", headers=ann).json] == [conversation]
    assert keyed.get("/api/conversations", headers=bob).json == []
    for path in (
        f"/api/conversations/{conversation}",
        "/api/conversations/mine",
        f"/api/conversations/{conversation}/export",
        f"/api/turns/{turn}",
    ):
        assert keyed.get(path, headers=ann).status == 200
        assert keyed.get(path, headers=bob).status == 404
    assert keyed.request("DELETE", f"/api/turns/{turn}", headers=bob).status == 404
    assert keyed.request("DELETE", f"/api/conversations/{conversation}", headers=bob).status == 404
    for method, path, body in (
        ("PATCH", f"/api/turns/{turn}", {"answer": "Bob was here."}),
        ("POST", f"/api/conversations/{conversation}/fork", {}),
    ):
        assert keyed.request(method, path, body, headers=bob).status == 404
    about = f"/api/repositories/sample/turns?path={response['sources'][0]['path']}"
    for path in ("/api/turns?q=short+code", about):
        assert turn in keyed.get(path, headers=ann).body.decode()
        assert keyed.get(path, headers=bob).json == []
    kept = keyed.get(f"/api/conversations/{conversation}", headers=ann).json["all_turns"]
    assert [(one["answer"], one["version"]) for one in kept] == [(response["answer"], 1)]
    other = keyed.post("/api/ask", {**QUESTION, "conversation": "mine"}, headers=bob).json
    assert other["conversation"] != conversation
    assert keyed.get("/api/conversations/mine", headers=ann).json["turn_count"] == 1


def test_a_key_sees_no_ref_that_another_asked_for(serve, sample_repo):
    memory = memory_in(sample_repo.parent)
    ann, bob = (bearer(add_key(memory, name)) for name in ("ann", "bob"))
    running = serve(engine={"memory": memory}, repositories=(("links", Source(str(sample_repo.resolve()))),))
    running.wait_until(lambda: running.get("/ready").status == 200)
    asked = {**QUESTION, "repositories": ["links@main"]}
    running.wait_until(lambda: running.post("/api/ask", asked, headers=ann).status == 200)

    def seen(headers):
        repositories = [one["name"] for one in running.get("/api/repositories", headers=headers).json]
        models = [one["id"] for one in running.get("/v1/models", headers=headers).json["data"]]
        assert models == [f"rag:{name}" for name in repositories]
        return repositories

    assert seen(ann) == ["links", "links@main"]
    assert seen(bob) == ["links"]
    assert running.get("/health").json["repositories"] == 1
    alone = {"model": "rag", "messages": [{"role": "user", "content": "Where is a code made?"}]}
    assert running.post("/v1/chat/completions", alone, headers=bob).status == 200
    assert running.get("/api/repositories/links@main", headers=bob).json["state"] == "ready"
    assert seen(bob) == ["links", "links@main"]


def test_only_the_hash_of_a_key_is_kept(tmp_path):
    memory, file = memory_in(tmp_path), tmp_path / "turns-of-the-server.db"
    key = add_key(memory, "ann", "team")
    assert all(key.encode() not in one.read_bytes() for one in tmp_path.iterdir() if one.is_file())
    assert file.stat().st_mode & 0o777 == 0o600
    assert [(k.name, k.namespace) for k in read_keys(memory)] == [("ann", "team")]
    with pytest.raises(SettingsError, match="a key named"):
        add_key(memory, "ann")


# ---------------------------------------------------------------- hosts and origins


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 403),
        ("evil.example:80", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost", 200),
        ("LOCALHOST:1234", 200),
        ("[::1]:80", 200),
        ("", 403),
    ],
)
def test_a_name_bound_to_us_elsewhere_is_refused(served, host, status):
    assert served.get("/health", headers={"Host": host}).status == status


@pytest.mark.parametrize(("second", "status"), [("evil.example", 400), ("localhost", 200)])
@pytest.mark.parametrize("swapped", [False, True])
def test_two_host_lines_that_differ_are_refused(served, second, status, swapped):
    hosts = ["localhost", second][:: -1 if swapped else 1]
    lines = "".join(f"Host: {host}\r\n" for host in hosts)
    reply = exchange(served, f"GET /health HTTP/1.1\r\n{lines}\r\n".encode())
    assert reply.startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:1", "null", "http://["])
def test_a_page_of_another_origin_may_not_call(served, origin):
    reply = served.post("/api/search", QUESTION, headers={"Origin": origin})
    assert reply.status == 403
    assert "access-control-allow-origin" not in reply.headers


def test_our_own_page_may_call(served):
    assert served.get("/api/repositories", headers={"Origin": served.url}).status == 200


def test_an_allowed_origin_may_call(serve):
    running = serve(origins=("http://localhost:3000",), repositories=())
    reply = running.get("/api/repositories", headers={"Origin": "http://localhost:3000"})
    assert reply.headers["access-control-allow-origin"] == "http://localhost:3000"
    asked = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST"}
    assert running.request("OPTIONS", "/api/ask", headers=asked).status == 200


@pytest.mark.parametrize("scheme", ["https", "evil", "ftp", "", "file", "http://x", "javascript"])
def test_an_origin_is_ours_with_its_scheme_only(served, scheme):
    reply = served.get("/api/repositories", headers={"Origin": f"{scheme}://localhost:{served.port}"})
    assert (reply.status, reply.json["error"]["code"]) == (403, "not_allowed")


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    """A server with a name and a key, behind a proxy of this machine."""
    from live_server import serving

    settings = {"repositories": (), "public_hosts": ("rag.example.org",), "keys": ("secret",)}
    with serving(tmp_path_factory.mktemp("proxied"), **settings) as running:
        yield running


@pytest.mark.parametrize(
    ("origin", "forwarded", "status"),
    [
        ("https://rag.example.org", None, 200),  # TLS ends at a proxy that does not say so
        ("https://rag.example.org", "https", 200),
        ("http://rag.example.org", "http", 200),
        ("http://rag.example.org", "https", 403),
        ("https://localhost", "https", 200),
        ("http://localhost", "https", 403),
        ("evil://rag.example.org", "https", 403),
    ],
)
def test_behind_a_proxy_the_scheme_is_the_forwarded_one(proxied, origin, forwarded, status):
    headers = {"Origin": origin, "Host": origin.partition("://")[2], **bearer("secret")}
    if forwarded:
        headers["X-Forwarded-Proto"] = forwarded
    assert proxied.get("/api/repositories", headers=headers).status == status


def test_headers_of_an_untrusted_proxy_are_ignored(serve):
    running = serve(repositories=(), trusted_proxies=("192.0.2.1",))
    headers = {"Origin": f"https://localhost:{running.port}", "X-Forwarded-Proto": "https"}
    assert running.get("/api/repositories", headers=headers).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", "other"])
def test_no_page_of_another_site_loads_anything_but_what_is_everybodys(served, site):
    headers = {"Sec-Fetch-Site": site}
    before = [entry.name for entry in served.service.registry.entries()]
    for method, path in (
        ("GET", "/api/repositories/sample@main/source?path=README.md"),
        ("GET", "/api/repositories/sample@main/index/events"),
        ("GET", "/api/repositories"),
        ("GET", "/v1/models"),
        ("GET", "/mcp"),
        ("GET", "/openapi.json"),
        ("POST", "/api/ask"),
        ("HEAD", "/api/repositories"),
    ):
        assert served.request(method, path, headers=headers).status == 403, path
    assert [entry.name for entry in served.service.registry.entries()] == before
    for path in ("/", "/health", "/repos/sample/view?path=README.md"):
        assert served.get(path, headers=headers).status == 200, path


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_our_own_page_and_the_user_load_what_they_like(served, site):
    assert served.get("/api/repositories", headers={"Sec-Fetch-Site": site}).status == 200


def test_a_page_of_another_site_needs_a_key_or_a_rule(serve, keyed):
    page = {"Sec-Fetch-Site": "cross-site"}
    assert keyed.get("/api/repositories", headers=page).status == 401
    assert keyed.get("/api/repositories", headers={**page, **bearer(keyed.keys["ann"])}).status == 200
    running = serve(repositories=(), origins=("https://chat.example.org",))
    allowed = {**page, "Origin": "https://chat.example.org"}
    assert running.get("/api/repositories", headers=allowed).status == 200
    assert running.get("/api/repositories", headers=page).status == 403


# ---------------------------------------------------------------- bodies


def exchange(served, data, *, close=False):
    """What the server says to raw bytes."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=120) as wire:
        wire.sendall(data)
        if close:
            wire.shutdown(socket.SHUT_WR)
        said = b""
        while part := wire.recv(65_536):
            said += part
            if b"\r\n\r\n" in said and not close:
                break
    return said


def post(path, headers, body=b""):
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def test_a_body_that_is_announced_too_large_is_not_read(served):
    said = exchange(served, post("/api/ask", ["Content-Length: 100000000"]))
    assert said.startswith(b"HTTP/1.1 413 ")


def test_a_client_that_sends_a_large_body_before_it_reads_gets_the_refusal(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)
    with closing(connection):
        connection.request("POST", "/api/ask", b"x" * 40_000_000, {"Content-Type": "application/json"})
        assert connection.getresponse().status == 413


def test_a_body_that_grows_too_large_is_cut_off(served):
    chunk = b"%x\r\n" % 1_000_000 + b"x" * 1_000_000 + b"\r\n"
    said = exchange(served, post("/api/ask", ["Transfer-Encoding: chunked"], chunk * 5))
    assert said.startswith(b"HTTP/1.1 413 ")


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    """A server that waits a tenth of a second for what a request announces."""
    from live_server import serving

    with serving(tmp_path_factory.mktemp("impatient"), repositories=(), body_timeout_s=0.1) as running:
        yield running


def test_a_body_that_does_not_come_ends_in_time(impatient):
    said = exchange(impatient, post("/api/ask", ["Content-Length: 10"], b"{"))
    assert said.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 40_000,
        b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000,
        b"GET / HTTP/1.1" + b"\r\nX: a" * 8_000,
    ],
)
def test_a_head_that_grows_too_large_is_cut_off(served, head):
    assert exchange(served, head).startswith(b"HTTP/1.1 431 ")
    assert served.get("/health").status == 200


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nHost: localhost" + b"\r\na%d: b" * 10_000 % tuple(range(10_000)),
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 40_000,
        b"GET /health?" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: localhost",
        b"GET /health HTTP/1.1\r\nHost: localhost" + b"\r\nX:" * 9_000,
    ],
)
@pytest.mark.parametrize("before", [b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_a_head_that_comes_at_once_is_bounded_too(served, before, head):
    """As uvicorn receives it, whole in one segment, alone or behind another request."""
    from uvicorn.server import ServerState

    sent = bytearray()

    class Wire(asyncio.Transport):
        def get_extra_info(self, name, default=None):
            return default

        def write(self, data):
            sent.extend(data)

        def close(self):
            pass

        def is_closing(self):
            return False

    async def received():
        protocol = served.server.config.http_protocol_class(
            config=served.server.config, server_state=ServerState(), app_state={}
        )
        protocol.connection_made(Wire())
        protocol.data_received(before + head + b"\r\n\r\n")
        protocol.connection_lost(None)
        return len(protocol.tasks)

    started = asyncio.run(received())
    assert b"HTTP/1.1 431 " in sent
    assert started == (1 if before else 0)


def test_a_head_below_the_limit_passes(served):
    headers = b"".join(b"\r\na%d: b" % number for number in range(2_500))
    said = exchange(served, b"GET /health HTTP/1.1\r\nHost: localhost" + headers + b"\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("head", [b"", b"G", b"GET /health HTTP/1.1\r\nHost: local"])
def test_a_head_that_does_not_come_ends_in_time(impatient, head):
    assert exchange(impatient, head).startswith(b"HTTP/1.1 408 ")


def test_a_connection_goes_on_until_a_head_does_not_come(serve):
    running = serve(repositories=(), body_timeout_s=0.5)
    with socket.create_connection(("127.0.0.1", running.port), timeout=120) as wire:
        for _ in range(3):
            wire.sendall(b"GET /health HTTP/1.1\r\nHost: ")
            wire.sendall(b"localhost\r\n\r\n")
            said = b""
            while b'"status":"ok"' not in said:
                said += wire.recv(65_536)
        wire.sendall(b"GET /health HTTP/1.1\r\nHost: ")
        assert wire.recv(65_536).startswith(b"HTTP/1.1 408 ")
        assert wire.recv(65_536) == b""


LARGE = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n%s\r\n"


@pytest.mark.parametrize("last", [b"", b"Connection: close\r\n"], ids=["kept", "closed"])
def test_a_client_that_does_not_read_is_disconnected(serve, last):
    running = serve(repositories=(), body_timeout_s=0.5)
    open_ones = running.server.server_state.connections
    with socket.socket() as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        wire.connect(("127.0.0.1", running.port))
        wire.sendall(LARGE % b"" * 300 + LARGE % last)
        running.wait_until(lambda: any(one.flow.write_paused for one in open_ones))
        running.wait_until(lambda: not open_ones)
    assert running.get("/health").status == 200


def test_a_client_that_reads_slowly_gets_everything(serve):
    running = serve(repositories=(), body_timeout_s=2)
    open_ones = running.server.server_state.connections
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as wire:
        wire.sendall(LARGE % b"" * 99 + LARGE % b"Connection: close\r\n")
        running.wait_until(lambda: any(one.flow.write_paused for one in open_ones))
        read, asked = 0, len(wire.recv(4_096))
        while asked:
            asked = len(wire.recv(65_536))
            read += asked
    assert read > 99 * len(json.dumps(running.get("/openapi.json").json, separators=(",", ":")))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe{}",
        b'{"question": "\xff"}',
        b'{"question": "\\ud800"}',
        b"[" * 50_000,
    ],
)
@pytest.mark.parametrize("path", ["/api/ask", "/v1/chat/completions"])
def test_what_is_no_request_is_the_callers_mistake(served, path, body):
    reply = served.post(path, body, headers={"Content-Type": "application/json"})
    assert 400 <= reply.status < 500
    assert "error" in reply.json


def test_a_header_cannot_add_another(served):
    headers = ["X-Rag-Conversation: a\rSet-Cookie: x", "Content-Length: 2"]
    said = exchange(served, post("/v1/chat/completions", headers, b"{}"))
    assert b"set-cookie" not in said.lower()
    asked = {"model": "rag:sample", "messages": [{"role": "user", "content": "Where?"}]}
    reply = served.post("/v1/chat/completions", asked, headers={"X-Rag-Conversation": "a%0d%0aSet-Cookie: x"})
    assert "set-cookie" not in reply.headers


def test_an_error_has_one_shape_and_a_request_an_id(served):
    reply = served.get("/no/such")
    assert reply.status == 404
    assert set(reply.json["error"]) == {"message", "type", "code", "param", "request_id"}
    assert reply.json["error"]["request_id"] == reply.headers["x-request-id"]
    assert reply.headers["x-request-id"] != served.get("/no/such").headers["x-request-id"]
    assert reply.headers["x-content-type-options"] == "nosniff"


# ---------------------------------------------------------------- limits


def test_a_caller_above_the_rate_gets_retry_after(serve):
    running = serve(repositories=(), rate="3/minute")
    replies = [running.get("/api/repositories") for _ in range(4)]
    assert [reply.status for reply in replies] == [200, 200, 200, 429]
    assert 1 <= int(replies[-1].headers["retry-after"]) <= 60
    assert running.get("/health").status == 200


def test_an_address_without_a_key_is_not_answered_for_ever(serve):
    running = serve(repositories=(), keys=("secret",), attempts="5/minute")
    wrong = [running.get("/v1/models", headers=bearer(f"guess-{n}")).status for n in range(3)]
    without = [running.get("/api/repositories").status for _ in range(2)]
    assert wrong + without == [401] * 5
    for headers in ({}, bearer("guess"), bearer("secret")):  # the answer does not confirm a guess
        reply = running.get("/v1/models", headers=headers)
        assert (reply.status, reply.json["error"]["code"]) == (429, "rate_limit_exceeded")
        assert 1 <= int(reply.headers["retry-after"]) <= 60
    assert running.get("/health").status == 200
    elsewhere = {"X-Forwarded-For": "198.51.100.7"}  # by a proxy on this machine
    assert running.get("/v1/models", headers={**elsewhere, **bearer("secret")}).status == 200


def test_known_keys_are_not_counted_as_attempts(serve):
    running = serve(repositories=(), keys=("secret",), attempts="2/minute")
    assert [running.get("/v1/models", headers=bearer("secret")).status for _ in range(5)] == [200] * 5


def test_an_address_over_its_limit_passes_with_a_key_that_cannot_be_guessed(serve, tmp_path):
    memory = memory_in(tmp_path)
    made = add_key(memory, "ci")
    clear = "in-the-clear-" + "0123456789abcdef" * 2
    running = serve(repositories=(), keys=(clear,), engine={"memory": memory}, attempts="2/minute")
    guesses = [running.get("/v1/models", headers=bearer(f"guess-{n}")).status for n in range(4)]
    assert guesses == [401, 401, 429, 429]
    assert [running.get("/v1/models", headers=bearer(key)).status for key in (made, clear)] == [200, 200]
    almost = made[:-1] + ("x" if made[-1] != "x" else "y")
    replies = [running.get("/v1/models", headers=headers) for headers in ({}, bearer(almost), bearer("no"))]
    assert len({(reply.status, reply.json["error"]["message"]) for reply in replies}) == 1
    assert replies[0].status == 429


def test_a_short_key_passes_over_the_limit_only_where_it_was_used_before(serve):
    running = serve(repositories=(), keys=("secret", "other"), attempts="2/minute")
    assert running.get("/v1/models", headers=bearer("secret")).status == 200
    assert [running.get("/v1/models", headers=bearer("wrong")).status for _ in range(3)] == [401, 401, 429]
    assert running.get("/v1/models", headers=bearer("secret")).status == 200
    assert running.get("/v1/models", headers=bearer("other")).status == 429


def test_accepted_keys_are_remembered_in_a_bounded_table():
    table = AcceptedKeys(size=100)
    for number in range(1_000):
        table.add(f"10.0.{number // 250}.{number % 250}", "key-1")
    assert not table.has("10.0.0.0", "key-1")
    assert table.has("10.0.3.249", "key-1")
    assert not table.has("10.0.3.249", "key-2")


def test_a_rate_does_not_follow_the_time_of_the_system(monkeypatch):
    now = [1000.0]
    window = Window(Rate.parsed("2/minute"), size=2, clock=lambda: now[0])
    for jump_s in (0.0, 3600.0, -3600.0):
        monkeypatch.setattr("time.time", lambda jump_s=jump_s: 1.8e9 + jump_s)
        assert [window.hit("ann") for _ in range(3)] == [0.0, 0.0, 60.0]
        now[0] += 30
        assert window.hit("ann") == 30.0
        now[0] += 30
    for name in "abc":
        window.hit(name)
    assert list(window._times) == ["b", "c"]
    for name in "bbbd":  # the third of "b" is refused, and still counts as a use
        window.hit(name)
    assert list(window._times) == ["b", "d"]
    assert Window(Rate.parsed("0/minute")).hit("ann") == 60.0


def test_attempts_are_counted_in_a_bounded_table():
    now = [0.0]
    table = Window(Rate.parsed("2/minute"), size=100, clock=lambda: now[0])
    for number in range(1_000):
        table.hit(f"10.0.{number // 250}.{number % 250}")
    assert len(table) == 100
    for address in ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"):  # one network
        table.hit(network_of(address))
    assert table.wait_s(network_of("2001:db8:1:2:3:4:5:6")) == 60.0
    assert table.wait_s(network_of("2001:db8:1:3::1")) == 0.0
    for address in ("::ffff:192.0.2.1", "192.0.2.1"):
        table.hit(network_of(address))
    assert table.wait_s("192.0.2.1") == 60.0
    now[0] = 60.0
    assert table.wait_s("192.0.2.1") == 0.0
    table.hit("192.0.2.1")
    assert table.wait_s("192.0.2.1") == 0.0


@pytest.mark.parametrize(
    ("text", "amount", "period_s"),
    [("60/minute", 60, 60), ("5 per second", 5, 1), ("100/2 hours", 100, 7200), ("0/DAY", 0, 86400)],
)
def test_a_rate_is_read(text, amount, period_s):
    assert Rate.parsed(text)[:2] == (amount, period_s)


def test_a_rate_that_cannot_be_read_stops_the_server(tmp_path):
    for rate in ("often", "60", "/minute", "60/fortnight", "-1/minute", "5/0 minutes"):
        with pytest.raises(SettingsError, match="rate"):
            create_app(ServerSettings(engine=Settings(home=tmp_path), rate=rate))


def test_a_long_question_is_refused(served):
    reply = served.post("/api/ask", {**QUESTION, "question": "x" * 16_001})
    assert reply.status == 413


def test_a_history_of_a_hundred_thousand_messages_is_refused(served):
    message = b'{"role":"user","content":"x"}'
    body = b'{"model":"rag:sample","messages":[' + b",".join([message] * 100_000) + b"]}"
    reply = served.post("/v1/chat/completions", body, headers={"Content-Type": "application/json"})
    assert reply.status in (400, 413)
    short = b'{"model":"rag:sample","messages":[' + b",".join([message] * 3_000) + b"]}"
    reply = served.post("/v1/chat/completions", short, headers={"Content-Type": "application/json"})
    assert reply.status == 413


def test_when_all_slots_are_taken_the_next_request_gets_retry_after(serve, provider):
    provider.behaviours[:] = ["slow"]
    running = serve(
        engine={"base_url": provider.base_url, "model": "m", "api_key": "k", "timeout_s": 20.0},
        concurrent=1,
        waiting=1,
    ).ready()
    threads = [threading.Thread(target=running.post, args=("/api/ask", QUESTION)) for _ in range(2)]
    for thread in threads:
        thread.start()
    running.wait_until(lambda: running.service.limiter.waiting == 1)
    reply = running.post("/api/ask", QUESTION)
    assert reply.status == 429
    assert int(reply.headers["retry-after"]) >= 1
    provider.behaviours[:] = ["good"]
    provider.stopping.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/search", QUESTION),
        ("GET", "/api/repositories/sample/calls?symbol=sign_session", None),
        ("GET", "/api/repositories/sample/wiki", None),
        ("GET", "/api/repositories/sample/wiki/page?page=overview", None),
        ("GET", "/api/repositories/sample/source?path=snip/auth.py", None),
        ("GET", "/api/repositories/sample/turns?path=snip/auth.py", None),
        ("GET", "/api/conversations", None),
        ("GET", "/api/conversations/kept", None),
        ("GET", "/api/conversations/kept/export", None),
        ("GET", "/api/conversations/kept/freshness", None),
        ("GET", "/api/turns?q=code", None),
        ("POST", "/v1/embeddings", {"model": "rag", "input": "x"}),
    ],
)
def test_long_work_in_a_thread_takes_a_slot(without_slots, method, path, body):
    reply = without_slots.request(method, path, body)
    assert (reply.status, reply.json["error"]["code"]) == (429, "rate_limit_exceeded")
    assert int(reply.headers["retry-after"]) >= 1
    assert without_slots.get("/health").status == 200


@pytest.fixture(scope="module")
def without_slots(tmp_path_factory):
    """A server that has a conversation, and no seat for anyone."""
    from live_server import sample_copy, serving

    home = tmp_path_factory.mktemp("without-seats")
    with serving(home, repositories=(("sample", sample_copy(home)),), concurrent=0, waiting=0) as running:
        running.ready()
        running.service.engine.turns.create_conversation(name="kept")
        yield running


def test_long_work_leaves_threads_to_questions():
    async def run():
        limiter = Limiter(ServerSettings(threads=4, waiting=1))
        done = asyncio.Event()

        async def work():
            async with limiter.long_slot():
                await done.wait()

        working = [asyncio.create_task(work()) for _ in range(3)]
        while limiter.waiting_long < 1 or limiter.asking < 2:
            await asyncio.sleep(0)
        async with limiter.slot():
            assert (limiter.asking, limiter.waiting, limiter.waiting_long) == (3, 0, 1)
        with pytest.raises(TooMany):
            await work()
        done.set()
        await asyncio.gather(*working)
        assert (limiter.asking, limiter.waiting_long) == (0, 0)

    asyncio.run(run())


def test_no_folder_of_the_server_is_revealed_to_remote_callers(serve, tmp_path, caplog):
    gone = tmp_path / "srv" / "gone"
    gone.mkdir(parents=True)
    source = Source(str(gone.resolve()))
    gone.rmdir()

    def response(**settings):
        running = serve(repositories=(("api", source),), **settings)
        running.wait_until(lambda: running.get("/api/repositories/api").json["state"] == "failed")
        replies = [
            running.post("/api/ask", {**QUESTION, "repositories": ["api"]}),
            running.post(
                "/v1/chat/completions", {"model": "rag:api", "messages": [{"role": "user", "content": "x"}]}
            ),
            running.get("/api/repositories"),
            running.get("/api/repositories/api/index/events"),
        ]
        assert [reply.status for reply in replies] == [424, 424, 200, 200]
        return [reply.body.decode() for reply in replies]

    assert all(str(gone) in text for text in response())
    caplog.clear()
    texts = response(public_hosts=("rag.example",))
    assert not any(str(tmp_path) in text for text in texts)
    assert json.loads(texts[0])["error"]["message"].startswith("there is no folder api")
    assert f"there is no folder {gone}" in caplog.text


def test_a_folder_is_replaced_by_its_name_and_the_path_below_stays(tmp_path):
    settings = ServerSettings(
        engine=Settings(home=tmp_path / "home", memory=f"sqlite:///{tmp_path}/turns/all.db"),
        repositories=(("team/api", Source("/srv/api")), ("web", Source("https://example.org/srv/api"))),
    )
    redact = PathRedactor(settings).redact
    for text, shown in (
        ("cannot read /srv/api/a.py: no", "cannot read team/api/a.py: no"),
        ("there is no folder /srv/api.", "there is no folder team/api."),
        ("'/srv/api'; /srv/api-2, /srv/api.git", "'team/api'; /srv/api-2, /srv/api.git"),
        ("https://example.org/srv/api", "https://example.org/srv/api"),
        (f"the store {tmp_path}/home/stores/x.pkl", "the store RAG_HOME/stores/x.pkl"),
        (f"{tmp_path}/turns/all.db is locked", "all.db is locked"),
    ):
        assert redact(text) == shown


# ---------------------------------------------------------------- what an operator sees


def test_methods_that_clients_make_up_are_one_series(serve):
    running = serve(repositories=())
    for n in range(3):
        running.service.telemetry.request(
            method=f"M{n}",
            route="unmatched",
            status=405,
            seconds=0.1,
            size_bytes=0,
            caller="-",
            current=RequestContext("1"),
        )
    text = running.get("/metrics").body.decode()
    assert 'rag_http_requests_total{method="other",route="unmatched",status="405"} 3.0' in text
    assert 'method="M' not in text


def test_metrics_count_without_revealing_content(served):
    served.post("/api/ask", {**QUESTION, "question": "Where is the secret zebra?"})
    text = served.get("/metrics").body.decode()
    assert 'rag_questions_total{outcome="answered"}' in text
    assert 'route="/api/ask"' in text
    assert "zebra" not in text


def test_log_lines_hold_no_prompt_and_no_key(keyed, caplog):
    caplog.set_level("DEBUG", "rag.serve")
    key = keyed.keys["ann"]
    keyed.post("/api/ask?token=hidden", {**QUESTION, "question": "Is there a zebra?"}, headers=bearer(key))

    def line():
        response = (record.fields for record in caplog.records if hasattr(record, "fields"))
        return [fields for fields in response if fields["route"] == "/api/ask"]

    assert keyed.wait_until(line)[0]["caller"] == "ann"
    response = "".join(str(record.__dict__) for record in caplog.records)
    assert not any(secret in response for secret in ("zebra", key, "hidden"))


def test_files_of_the_page_are_logged_for_who_looks_closely_only(served, caplog):
    caplog.set_level("DEBUG", "rag.serve")
    served.get("/static/none/app.js")
    served.get("/health")

    def levels():
        response = [record for record in caplog.records if hasattr(record, "fields")]
        return len(response) == 2 and {record.fields["route"]: record.levelname for record in response}

    assert served.wait_until(levels) == {"/static/{version}/{path:path}": "DEBUG", "/health": "INFO"}


# ---------------------------------------------------------------- the allow-list


@pytest.mark.parametrize(
    "name",
    [
        "/etc",
        "../..",
        "file:///etc",
        "sample/../../etc",
        "http://127.0.0.1:1/a/b",
        "https://169.254.169.254/a/b",
        "https://github.com/a/b",
        "ssh://git@github.com/a/b",
        "git@github.com:a/b",
        "sample\x00",
        "~",
        ".",
        "ext::sh -c id",
        "--upload-pack=x",
    ],
)
def test_nothing_outside_the_list_is_opened(served, name):
    before = len(served.service.registry.names())
    bodies = (
        ("/api/ask", {"question": "x", "repositories": [name]}),
        ("/api/search", {"question": "x", "repositories": [name]}),
        ("/v1/chat/completions", {"model": f"rag:{name}", "messages": [{"role": "user", "content": "x"}]}),
    )
    for path, body in bodies:
        assert served.post(path, body).status in (400, 403, 404, 422)
    assert len(served.service.registry.names()) == before


@pytest.fixture(scope="module")
def allowing(tmp_path_factory):
    """A server of nothing but URLs on one host."""
    from live_server import serving

    with serving(
        tmp_path_factory.mktemp("allowing"), repositories=(), allow_urls=("code.example",)
    ) as running:
        yield running


@pytest.mark.parametrize(
    "url",
    [
        "http://code.example/a/b",
        "https://other.example/a/b",
        "https://code.example:8443/a/b",
        "https://code.example@other.example/a/b",
        "https://user:pw@code.example/a/b",
        "https://code.example/a/../b",
        "https://code.example/a/%2e%2e/b",
        "https://code.example/a/b?x=1",
        "https://code.example.evil/a/b",
        "HTTPS://127.0.0.1/a/b",
        "https://[::1]/a/b",
    ],
)
def test_an_allowed_host_allows_nothing_else(allowing, url):
    reply = allowing.post("/api/search", {"question": "x", "repositories": [url]})
    assert reply.status == 403
    assert allowing.service.registry.names() == []


@pytest.mark.parametrize(
    ("addresses", "public"),
    [
        ("127.0.0.1 10.1.2.3 169.254.169.254 0.0.0.0 224.0.0.1 100.100.100.200 198.18.0.1", False),
        ("::1 fd00::1 fe80::1 fec0::1 ::ffff:127.0.0.1 2002:7f00:1:: 64:ff9b::7f00:1", False),
        ("8.8.8.8 2606:4700::1111 ::ffff:8.8.8.8", True),
    ],
)
def test_which_addresses_are_public(addresses, public):
    assert {is_public(address) for address in addresses.split()} == {public}


CLOUDS = "168.63.129.16 192.0.0.192 192.0.0.9 192.0.0.255 100.100.100.200 169.254.169.254 169.254.170.2"
WRAPPED = (
    "::ffff:{0}",
    "::{0}",
    "::ffff:0:{0}",
    "64:ff9b::{0}",
    "64:ff9b:1::{0}",
    "2002:{1}::",
    "2002:{1}:1:2:3:4:5",
    "2001:0:{1}::1",
    "2001:0:4136:e378:8000:63bf:{2}",
    "2606:4700::5efe:{0}",
    "2606:4700::200:5efe:{0}",
    "fe80::5efe:{0}",
)


@pytest.mark.parametrize("address", [*CLOUDS.split(), "10.0.0.1", "127.0.0.1", "0.0.0.0"])
def test_what_clouds_answer_their_own_machines_at_is_not_public_however_it_is_written(address):
    number = int(ipaddress.ip_address(address))
    halves = [f"{one >> 16:x}:{one & 0xFFFF:x}" for one in (number, number ^ 0xFFFF_FFFF)]
    assert not is_public(address)
    for form in WRAPPED:
        assert not is_public(form.format(address, *halves)), form


@pytest.mark.parametrize("address", "fd00:ec2::254 fd20:ce::254 fd00:42::42 fe80::a9fe:a9fe".split())
def test_what_clouds_answer_at_in_ipv6_is_not_public(address):
    assert not is_public(address)


@given(address=st.ip_addresses())
def test_only_what_the_registries_call_global_is_public(address):
    if is_public(str(address)):
        assert address.is_global or address.ipv4_mapped.is_global
        assert not (address.is_multicast or address.is_link_local or address.is_loopback)


def test_an_allowed_host_that_leads_inside_is_refused(serve):
    running = serve(repositories=(), allow_urls=("localhost",))
    reply = running.post("/api/search", {"question": "x", "repositories": ["https://localhost/a/b"]})
    assert reply.status == 403
    assert "not public" in reply.json["error"]["message"]


def test_only_files_of_the_index_are_shown(serve, tmp_path):
    root = tmp_path / "repo"
    root.mkdir()
    (tmp_path / "secret.txt").write_text("the secret")
    (root / "a.py").write_text("def a():\n    return 1\n")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    running = serve(repositories=(("r", Source(str(root.resolve()))),)).ready()
    assert running.get("/api/repositories/r/source?path=a.py").status == 200
    for path in ("../secret.txt", "/etc/passwd", "link.txt", "a/../../secret.txt", "%00"):
        reply = running.get(f"/api/repositories/r/source?path={path}")
        assert reply.status in (404, 422), path
        assert b"the secret" not in reply.body, path


def test_a_ref_of_a_listed_repository_may_be_asked(serve, sample_repo):
    running = serve(repositories=(("links", Source(str(sample_repo.resolve()))),)).ready()
    asked = {"question": QUESTION["question"], "repositories": ["links@main"]}
    assert running.post("/api/ask", asked).json["sources"]
    assert running.post("/api/ask", {**asked, "repositories": ["links@no-such"]}).status in (404, 424)
    assert running.post("/api/ask", {**asked, "repositories": ["links@--upload-pack=x"]}).status == 404
