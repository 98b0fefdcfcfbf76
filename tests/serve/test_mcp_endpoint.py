"""The server of MCP is made when /mcp is first asked."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from live_server import sample_copy, serving

pytest.importorskip("mcp", reason="the mcp extra is not installed")

from rag.errors import BackendMissing
from rag.serve.mcp import server as mcp_server

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
HEADERS = {"Accept": "application/json, text/event-stream"}


def test_a_server_starts_without_the_sdk(tmp_path: Path):
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from rag.serve.app import create_app\nfrom rag.serve.settings import ServerSettings\n"
        "from rag.settings import Settings\n"
        f"app = create_app(ServerSettings(engine=Settings(home=Path({str(tmp_path)!r}))))\n"
        "assert any(getattr(route, 'path', '') == '/mcp' for route in app.routes)\n"
        "print([name for name in ('mcp', 'rag.serve.mcp.server') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_first_requests_at_the_same_time_are_all_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = []
    make = mcp_server.http_endpoint
    monkeypatch.setattr(mcp_server, "http_endpoint", lambda service: (made.append(service), make(service))[1])
    with (
        serving(tmp_path, repositories=(("sample", sample_copy(tmp_path)),)) as served,
        ThreadPoolExecutor(4) as pool,
    ):
        replies = list(pool.map(lambda _: served.post("/mcp", HELLO, headers=HEADERS), range(4)))
    assert [reply.status for reply in replies] == [200] * 4
    assert len(made) == 1


def test_an_unknown_version_of_the_sdk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def missing(service: object) -> None:
        raise BackendMissing(backend="MCP", missing="mcp.server.fastmcp", extra="mcp")

    monkeypatch.setattr(mcp_server, "http_endpoint", missing)
    with serving(tmp_path, repositories=(("sample", sample_copy(tmp_path)),)) as served:
        for _ in range(2):
            reply = served.post("/mcp", HELLO, headers=HEADERS)
            assert reply.status == 400
            assert "MCP" in reply.body.decode()
        assert served.get("/health").status == 200
