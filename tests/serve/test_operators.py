"""What operators rely on: request ids, log lines, keys that expire, and a proxy that names the caller."""

from __future__ import annotations

import io
import json
import logging
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from keys_given import add_key, memory_in, read_keys, with_keys

from rag.errors import NotFound, SettingsError
from rag.parsing import parse_expiry
from rag.request_context import RequestContext, new_request
from rag.serve.access.identity import PEER, IdentityHeader, forwarding_networks, identified
from rag.serve.access.key_changes import import_keys, remove_key, renew_key, rotate_key
from rag.serve.access.keys import Caller, Keyring, named_keys
from rag.serve.errors import Forbidden, KeyExpired, Unauthorized
from rag.serve.run import write_logs
from rag.serve.service import Service
from rag.serve.settings import ServerSettings
from rag.serve.telemetry import FORMATTERS
from rag.settings import Settings

QUESTION = {"question": "Where is a short code made?", "repositories": ["sample"]}
NOW = datetime(2027, 1, 1, tzinfo=UTC)


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


# ---------------------------------------------------------------- request ids


@pytest.mark.parametrize("path", ["/", "/health", "/no/such", "/v1/models", "/api/repositories", "/metrics"])
def test_the_clients_request_id_is_returned_everywhere(served, path):
    assert served.get(path, headers={"X-Request-ID": "Root=1-67:ab/_+.x"}).headers["x-request-id"] == (
        "Root=1-67:ab/_+.x"
    )


@pytest.mark.parametrize("invalid", ["", "a b", "x" * 129, "é", "a\tb", "a,b", '"', "<b>"])
def test_an_invalid_request_id_is_replaced(served, invalid):
    reply = served.get("/no/such", headers={"X-Request-ID": invalid.encode("latin-1")})
    assert len(reply.headers["x-request-id"]) == 32
    assert reply.json["error"]["request_id"] == reply.headers["x-request-id"]


def test_a_request_that_cannot_be_parsed_gets_an_id(served):
    reply = served.get("/no/such", headers={"X-Request-ID": "a\x1b[31m"})
    assert (reply.status, len(reply.headers["x-request-id"])) == (400, 32)


def test_two_request_ids_are_none():
    assert new_request(["a", "a"], []).id not in ("", "a")


def test_a_trace_is_passed_on_if_it_is_valid():
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    assert new_request([], [f"00-{trace}-{span}-01"]).trace_id == trace
    for invalid in (
        f"00-{trace.upper()}-{span}-01",
        f"00-{'0' * 32}-{span}-01",
        f"ff-{trace}-{span}-01",
        "x",
    ):
        assert new_request([], [invalid]).traceparent == ""


def test_a_stream_its_error_and_openais_protocol_have_the_id(served):
    given = {"X-Request-ID": "mine-1"}
    stream = served.post("/api/ask", {**QUESTION, "stream": True}, headers=given)
    assert stream.headers["x-request-id"] == "mine-1"
    chat = {"model": "rag:none", "messages": [{"role": "user", "content": "Where?"}]}
    refused = served.post("/v1/chat/completions", chat, headers=given)
    assert refused.json["error"]["request_id"] == refused.headers["x-request-id"] == "mine-1"


def test_a_failure_of_the_server_itself_has_the_id(serve, caplog):
    running = serve()

    @running.server.config.app.get("/api/fails")
    async def fails() -> None:
        raise ZeroDivisionError

    reply = running.get("/api/fails", headers={"X-Request-ID": "mine-2"})
    assert reply.status == 500
    assert reply.headers["x-request-id"] == reply.json["error"]["request_id"] == "mine-2"
    assert reply.json["error"]["code"] == "internal"


# ---------------------------------------------------------------- log lines


def lines_of(served, log_format, act):
    """Return the lines that the server logs while `act` is called, with its settings."""
    handler = logging.StreamHandler(stream := io.StringIO())
    handler.setFormatter(FORMATTERS[log_format]())
    logger = logging.getLogger("rag.serve")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        wanted = act()
        served.wait_until(lambda: wanted in stream.getvalue())
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return [line for line in stream.getvalue().splitlines() if wanted in line]


def test_each_request_is_one_line_with_its_repository(served):
    def act():
        headers = {"X-Request-ID": "line-1", "User-Agent": "\u202e".encode(), "Cookie": "token=hidden"}
        reply = served.post("/api/ask", QUESTION, headers=headers)
        act.size = len(reply.body)
        return "line-1"

    (line,) = lines_of(served, "json", act)
    fields = json.loads(line)
    assert {name: fields[name] for name in ("event", "method", "route", "status", "caller")} == {
        "event": "request",
        "method": "POST",
        "route": "/api/ask",
        "status": 200,
        "caller": "local",
    }
    assert fields["repository"] == "sample" and fields["bytes"] == act.size
    assert fields["cpu_s"] > 0 and fields["seconds"] > 0
    assert "hidden" not in line and "short code" not in line


def test_a_line_of_text_has_the_same(served):
    def act():
        served.get("/api/search?q=code&repository=sample&token=hidden", headers={"X-Request-ID": "line-2"})
        return "line-2"

    (line,) = lines_of(served, "text", act)
    assert " INFO request method=GET route=" in line and "request_id=line-2" in line
    assert "hidden" not in line


@pytest.mark.parametrize("log_format", FORMATTERS)
def test_a_line_has_no_control_and_no_reordering_characters(log_format):
    record = logging.LogRecord("rag.serve", logging.INFO, "", 0, "a\x1b[31m\u202e\nb\u2028c\x9b", (), None)
    record.fields = {"repository": "x\u2066\x1b]0;\ny"}
    line = FORMATTERS[log_format]().format(record)
    assert line.isprintable() and line.isascii()


def test_the_access_log_can_be_switched_off(capsys):
    access = logging.getLogger("rag.serve.access")
    parents = [logging.getLogger(name) for name in ("rag.serve", "uvicorn")]
    before = [(each, list(each.handlers), each.propagate, each.level) for each in parents]
    try:
        for is_on in (True, False):
            write_logs(ServerSettings(access_log=is_on, log_format="text"))
            access.info("request")
            assert ("INFO request" in capsys.readouterr().err) is is_on
    finally:
        access.disabled = False
        for logger, handlers, propagate, level in before:
            logger.handlers[:], logger.propagate = handlers, propagate
            logger.setLevel(level)


def test_credentials_of_a_url_are_not_logged():
    current = RequestContext("1")
    current.about("https://user:secret@example.org/app.git")
    assert list(current.repositories) == ["https://example.org/app.git"]


@pytest.mark.parametrize("name", ["haproxy.cfg", "nginx.conf"])
def test_the_example_proxies_pass_request_ids_and_no_foreign_identity(name):
    text = (Path(__file__).resolve().parents[2] / "deploy" / name).read_text()
    assert re.search(r"(http-request set-header|proxy_set_header) X-Request-ID \S+", text)
    assert re.search(r"del-header X-Forwarded-User|proxy_set_header X-Forwarded-User \$remote_user", text)


# ---------------------------------------------------------------- keys that expire


def test_an_expired_key_is_refused_with_the_reason(tmp_path, serve):
    memory = memory_in(tmp_path)
    ann = add_key(memory, "ann", expires=datetime.now(UTC) + timedelta(days=1))
    running = serve(engine={"memory": memory})
    assert running.get("/api/repositories", headers=bearer(ann)).status == 200
    with_keys(memory, lambda keys: renew_key(keys, "ann", datetime.now(UTC) - timedelta(seconds=1)))
    reply = running.wait_until(
        lambda: (found := running.get("/v1/models", headers=bearer(ann))).status == 401 and found
    )
    assert reply.json["error"]["code"] == "expired_api_key"
    assert "the key ann expired at " in reply.json["error"]["message"]
    assert "rag keys renew ann" in reply.json["error"]["message"]
    with_keys(memory, lambda keys: renew_key(keys, "ann", None))
    running.wait_until(lambda: running.get("/v1/models", headers=bearer(ann)).status == 200)
    with_keys(memory, lambda keys: remove_key(keys, "ann"))  # the last one: the server does not become open
    assert running.get("/v1/models").status == 401
    refused = running.wait_until(
        lambda: (found := running.get("/v1/models", headers=bearer(ann))).status == 401 and found
    )
    assert "the key is unknown" in refused.json["error"]["message"]


def test_a_rotated_key_keeps_its_rights_and_accepts_the_previous_one_for_a_while(tmp_path):
    memory, now = memory_in(tmp_path), [NOW]
    first = add_key(memory, "ci", "team", expires=NOW + timedelta(days=30))
    second = with_keys(memory, lambda keys: rotate_key(keys, "ci", previous_until=NOW + timedelta(days=7)))
    ring = Keyring(read_keys(memory), clock=lambda: now[0])
    assert ring.caller(f"Bearer {first}") == ring.caller(f"Bearer {second}") == Caller("ci", "team")
    now[0] += timedelta(days=8)
    assert ring.caller(f"Bearer {second}").name == "ci"
    with pytest.raises(KeyExpired):
        ring.caller(f"Bearer {first}")
    now[0] += timedelta(days=30)
    with pytest.raises(KeyExpired, match="the key ci expired at 2027-01-31 00:00 UTC"):
        ring.caller(f"Bearer {second}")
    third = with_keys(
        memory, lambda keys: rotate_key(keys, "ci", previous_until=None, expires=NOW + timedelta(days=99))
    )
    ring.replace(read_keys(memory))
    assert ring.caller(f"Bearer {third}").name == "ci"
    with pytest.raises(Unauthorized):
        ring.caller(f"Bearer {second}")


def test_changing_a_key_leaves_the_others(tmp_path):
    memory = memory_in(tmp_path)
    add_key(memory, "ann")
    add_key(memory, "bob", expires=NOW)
    with_keys(memory, lambda keys: renew_key(keys, "ann", NOW + timedelta(days=1)))
    found = {key.name: key.expires for key in read_keys(memory)}
    assert found == {"ann": NOW + timedelta(days=1), "bob": NOW}
    with_keys(memory, lambda keys: remove_key(keys, "bob"))
    assert [key.name for key in read_keys(memory)] == ["ann"]
    with pytest.raises(NotFound):
        with_keys(memory, lambda keys: remove_key(keys, "bob"))


OLD_KEYS = """# ours
[[key]]
name = "ann"
namespace = "team"
sha256 = "{ann}"
[[key]]
name = "bob"
expires = 2026-12-31
sha256 = "{bob}"
"""


def test_the_keys_of_a_file_of_version_02_are_imported_once(tmp_path):
    memory, file = memory_in(tmp_path), tmp_path / "keys.toml"
    file.write_text(OLD_KEYS.format(ann="0" * 64, bob="1" * 64))
    assert with_keys(memory, lambda keys: import_keys(keys, file)) == ["ann", "bob"]
    ann, bob = read_keys(memory)
    assert (ann.namespace, ann.sha256, ann.expires) == ("team", "0" * 64, None)
    assert bob.expires == datetime(2026, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert not file.exists()
    file.write_text(OLD_KEYS.format(ann="0" * 64, bob="2" * 64))  # one is the same, one is another
    with pytest.raises(SettingsError, match="other keys named bob are stored"):
        with_keys(memory, lambda keys: import_keys(keys, file))
    file.write_text(OLD_KEYS.format(ann="0" * 64, bob="short"))
    with pytest.raises(SettingsError, match="cannot import the keys"):
        with_keys(memory, lambda keys: import_keys(keys, file))
    assert file.exists()


def test_a_server_does_not_start_without_the_keys_of_a_file_of_version_02(tmp_path):
    (tmp_path / "keys.toml").write_text(OLD_KEYS.format(ann="0" * 64, bob="1" * 64))
    with pytest.raises(SettingsError, match="rag keys import"):
        Service(ServerSettings(engine=Settings(home=tmp_path), port=0))


def test_times_of_expiry():
    assert parse_expiry("30d", NOW) == NOW + timedelta(days=30)
    assert parse_expiry("2027-01-31", NOW) == datetime(2027, 1, 31, 23, 59, 59, tzinfo=UTC)
    assert parse_expiry("2027-01-31T12:00+01:00", NOW) == datetime(2027, 1, 31, 11, tzinfo=UTC)
    for text in ("", "soon", "2026-01-01", "30", "2027-13-01", "999999y", "0d"):
        with pytest.raises(ValueError):
            parse_expiry(text, NOW)


# ---------------------------------------------------------------- the identity header


def taken(headers, *, peer="10.0.0.5", proxies=("10.0.0.0/24",)):
    scope = {"headers": headers, PEER: peer}
    name = IdentityHeader("X-Forwarded-User", proxies).take(scope)
    return name, scope["headers"]


USER = (b"x-forwarded-user", b"ann@example.org")


@pytest.mark.parametrize("peer", ["10.0.0.5", "::ffff:10.0.0.5", "::ffff:a00:5"])
def test_a_trusted_proxy_names_the_user(peer):
    assert taken([USER, (b"host", b"x")], peer=peer) == ("ann@example.org", [(b"host", b"x")])
    assert taken([USER], peer=peer, proxies=("::ffff:10.0.0.0/120",)) == ("ann@example.org", [])


@pytest.mark.parametrize("peer", ["10.0.1.5", "127.0.0.1", "::1", "::ffff:10.0.1.5", "::10.0.0.5", "", "x"])
def test_it_is_removed_from_everyone_elses_requests(peer):
    for name in (b"x-forwarded-user", b"X-Forwarded-User", b"x_forwarded_user", b"X-FORWARDED_USER"):
        assert taken([(name, b"root"), (b"host", b"x")], peer=peer) == ("", [(b"host", b"x")])


def test_variants_are_removed_behind_the_proxy_too():
    assert taken([(b"x_forwarded_user", b"root"), USER]) == ("ann@example.org", [])
    assert taken([(b"x_forwarded_user", b"root")]) == ("", [])


@pytest.mark.parametrize("values", [[b"ann", b"root"], [b"ann", b"ann"], [b"ann, root"], [b"a b"], [b"\xe9"]])
def test_what_is_ambiguous_is_refused(values):
    with pytest.raises(Unauthorized):
        taken([(b"x-forwarded-user", value) for value in values])
    assert taken([(b"x-forwarded-user", b"")]) == ("", [])


@pytest.mark.parametrize("proxies", [(), ("*",), ("0.0.0.0/0",), ("::/0",), ("::ffff:0:0/96",), ("proxy",)])
def test_nobody_is_trusted_by_mistake(proxies):
    with pytest.raises(SettingsError):
        IdentityHeader("X-Forwarded-User", proxies)


@pytest.mark.parametrize("name", ["Authorization", "a b", "x_user", "Host", "X:"])
def test_a_header_that_cannot_be_the_identity(name):
    with pytest.raises(SettingsError):
        IdentityHeader(name, ("10.0.0.5",))


def test_an_identity_is_the_key_of_its_name_and_never_another_namespace(tmp_path):
    memory = memory_in(tmp_path)
    add_key(memory, "ann", "team")
    add_key(memory, "old", expires=NOW)
    own = named_keys(["a-key-of-the-environment"], "")
    ring = Keyring([*read_keys(memory), *own], required=True, clock=lambda: NOW)
    assert identified("ann", ring) == Caller("ann", "team")
    assert identified("bob", ring) == Caller("bob", "bob")
    assert identified("key-1", ring) == Caller("key-1", "key-1")
    with pytest.raises(Forbidden):
        identified("team", ring)
    with pytest.raises(KeyExpired):
        identified("old", ring)


def test_a_server_behind_a_proxy_serves_named_users_and_keys(tmp_path, serve):
    memory = memory_in(tmp_path)
    key = add_key(memory, "ann")
    behind = serve(
        engine={"memory": memory}, identity_header="X-Forwarded-User", trusted_proxies=("127.0.0.1",)
    )
    ann, bob = ({"X-Forwarded-User": name} for name in ("ann", "bob"))
    behind.wait_until(lambda: behind.get("/ready").status == 200)
    assert behind.get("/api/conversations").status == 401
    asked = behind.post("/api/ask", QUESTION, headers=ann)
    assert asked.status == 200
    path = f"/api/conversations/{asked.json['conversation']}"
    assert behind.get(path, headers=bearer(key)).status == 200  # the key's namespace
    assert behind.get(path, headers={**bob, "X-Forwarded-For": "10.1.1.1"}).status == 404
    assert behind.get(path, headers={"X_Forwarded_User": "ann"}).status == 401
    foreign = {**ann, "Sec-Fetch-Site": "cross-site"}  # a cookie of the proxy must not work for other pages
    assert behind.get(path, headers=foreign).status == 403
    assert behind.get(path, headers={**ann, "Origin": "https://evil.example"}).status == 403
    elsewhere = serve(
        engine={"memory": memory}, identity_header="X-Forwarded-User", trusted_proxies=("10.0.0.1",)
    )
    assert elsewhere.get("/api/conversations", headers={**ann, "X-Forwarded-For": "10.0.0.1"}).status == 401
    assert elsewhere.get("/api/conversations", headers=bearer(key)).status == 200


def test_mapped_addresses_are_proxies_for_uvicorn_too():
    assert forwarding_networks(("10.0.0.0/24", "fd00::1", "*")) == [
        "10.0.0.0/24", "fd00::1", "*", "::ffff:10.0.0.0/120"
    ]  # fmt: skip
