"""The route /mcp, as a client without an SDK uses it."""

from __future__ import annotations

import json

from live_server import Served

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
HEADERS = {"Accept": "application/json, text/event-stream"}


def message(method: str, number: int = 1, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def begun(served: Served) -> dict[str, str]:
    """The headers of a new session."""
    reply = served.post("/mcp", message("initialize", **HELLO), headers=HEADERS)
    return HEADERS | {"Mcp-Session-Id": reply.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-06-18"}


def test_a_revision_that_is_not_spoken_is_answered_with_one_that_is(served: Served) -> None:
    for asked, spoken in (("2024-11-05", "2024-11-05"), ("2099-01-01", "2025-11-25")):
        reply = served.post("/mcp", message("initialize", **HELLO | {"protocolVersion": asked}))
        assert reply.json["result"]["protocolVersion"] == spoken
    wrong = begun(served) | {"MCP-Protocol-Version": "2026-07-28"}
    assert served.post("/mcp", message("tools/list"), headers=wrong).status == 400


def test_a_call_with_a_token_is_answered_by_events_and_one_without_by_json(served: Served) -> None:
    headers = begun(served)
    call = {"name": "read_wiki_structure", "arguments": {}}
    plain = served.post("/mcp", message("tools/call", 2, **call), headers=headers)
    assert plain.headers["content-type"] == "application/json"
    streamed = served.post(
        "/mcp", message("tools/call", 3, **call, _meta={"progressToken": "p"}), headers=headers
    )
    progress, reply = streamed.events
    assert progress["params"] == {
        "progressToken": "p",
        "progress": 0.5,
        "total": 1.0,
        "message": "reading the structure",
    }
    assert reply == {**plain.json, "id": 3}


def test_what_is_no_request_is_named(served: Served) -> None:
    headers = begun(served)
    for body, code in (
        (b"{", -32700),
        (b"[]", -32600),
        (json.dumps([message("ping"), message("ping", 2)]).encode(), -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600),
        (json.dumps(message("no/such")).encode(), -32601),
        (json.dumps(message("tools/call", name="no_such")).encode(), -32602),
        (json.dumps(message("tools/call", name=3)).encode(), -32602),
        (json.dumps(message("prompts/get", name="explain")).encode(), -32602),
        (json.dumps(message("resources/list", cursor="of another list")).encode(), -32602),
        (json.dumps(message("resources/read", uri="file:///etc/passwd")).encode(), -32002),
    ):
        reply = served.post("/mcp", body, headers={**headers, "Content-Type": "application/json"})
        assert reply.json["error"]["code"] == code, body
    assert served.post("/mcp", {"jsonrpc": "2.0", "id": 9, "result": {}}, headers=headers).status == 202


def test_no_stream_is_opened_for_what_the_server_never_sends(served: Served) -> None:
    reply = served.get("/mcp", headers=begun(served))
    assert (reply.status, reply.headers["allow"]) == (405, "POST, DELETE")
