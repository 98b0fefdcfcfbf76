"""The path prefix of a proxy: who may name it, and what it changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from live_server import Served, serving
from websockets.sync.client import connect

from rag.errors import SettingsError
from rag.resources import packaged
from rag.serve.access.identity import PEER
from rag.serve.access.path_prefix import PathPrefix
from rag.serve.page.files import PageFiles


def applied(prefix: PathPrefix, *, path: str = "/api", header: str = "/rag", peer: str = "127.0.0.1") -> Any:
    headers = [(b"x-forwarded-prefix", header.encode())] if header else []
    scope: dict[str, Any] = {"path": path, "headers": headers, PEER: peer}
    prefix.apply(scope)
    return scope.get("root_path", ""), scope["path"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ("/rag", "/api")),
        ({"path": "/rag/api"}, ("/rag", "/api")),
        ({"path": "/rag"}, ("/rag", "/")),
        ({"path": "/ragged"}, ("/rag", "/ragged")),
        ({"header": "/a/b/"}, ("/a/b", "/api")),
        ({"header": ""}, ("", "/api")),
        ({"header": '/"><script>'}, ("", "/api")),
        ({"header": "//evil.example"}, ("", "/api")),
        ({"header": "/../x"}, ("", "/api")),
        ({"peer": "203.0.113.5"}, ("", "/api")),
    ],
)
def test_the_header_of_loopback_is_read(options: dict[str, str], expected: tuple[str, str]) -> None:
    assert applied(PathPrefix("", ()), **options) == expected


def test_only_named_proxies_are_believed_and_the_setting_wins() -> None:
    assert applied(PathPrefix("", ("10.0.0.0/8",))) == ("", "/api")
    assert applied(PathPrefix("", ("10.0.0.0/8",)), peer="10.1.1.1") == ("/rag", "/api")
    assert applied(PathPrefix("/own/", ())) == ("/own", "/api")
    with pytest.raises(SettingsError, match="write it as /rag"):
        PathPrefix("rag", ())


PREFIX = "/rag"
QUESTION = "Where is a short code made?"


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory, indexed_sample: Any) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("behind")
    sample = ("sample", indexed_sample.put_into(home))
    with serving(home, repositories=(sample,), deepwiki=True, root_path=PREFIX) as running:
        yield running.ready()


@pytest.mark.parametrize("prefix", ["", PREFIX], ids=["removed by the proxy", "passed on"])
def test_answers_are_streamed_under_a_prefix(behind: Served, prefix: str) -> None:
    asked = {"question": QUESTION, "repositories": ["sample"], "stream": True}
    reply = behind.post(f"{prefix}/api/ask", asked)
    assert (reply.status, reply.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    assert any("sources" in one for one in reply.events if isinstance(one, dict))
    chat = {"model": "rag:sample", "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
    assert behind.post(f"{prefix}/v1/chat/completions", chat).events[-1] == "[DONE]"


@pytest.mark.parametrize("prefix", ["", PREFIX], ids=["removed by the proxy", "passed on"])
def test_the_socket_answers_under_a_prefix(behind: Served, prefix: str) -> None:
    root = behind.settings.repositories[0][1].location
    body = {"repo_url": root, "type": "local", "messages": [{"role": "user", "content": QUESTION}]}
    with connect(f"ws://localhost:{behind.port}{prefix}/ws/chat", open_timeout=120) as socket:
        socket.send(json.dumps(body))
        assert "shortcodes.py" in "".join(socket)


def test_the_pages_of_a_list_are_linked_under_the_prefix(behind: Served) -> None:
    for _ in range(2):
        behind.post("/api/ask", {"question": QUESTION, "repositories": ["sample"]})
    link = behind.get(f"{PREFIX}/api/conversations?limit=1").headers["link"]
    following = link.partition("<")[2].partition(">")[0]
    assert following.startswith(f"{PREFIX}/api/conversations?")
    assert behind.get(following).status == 200


def test_no_file_of_the_page_names_an_absolute_path_under_a_prefix() -> None:
    page = PageFiles.read(packaged("serve/page/static"))
    index = page.index("/rag").data.decode()
    assert '"/rag/static/' in index and '"/static/' not in index and "{{" not in index
    assert '"/static/' in page.index("").data.decode()
    own = {name: file for name, file in page.files.items() if not name.startswith("vendor/")}
    for name, file in own.items():
        assert b'"/static/' not in file.data and b"url(/" not in file.data, name
    assert [name for name, file in own.items() if b"fetch(" in file.data] == ["js/api.js"]
