"""The path prefix of a proxy: who may name it, and what it changes."""

from __future__ import annotations

from typing import Any

import pytest

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


def test_no_file_of_the_page_names_an_absolute_path_under_a_prefix() -> None:
    page = PageFiles.read(packaged("serve/page/static"))
    index = page.index("/rag").data.decode()
    assert '"/rag/static/' in index and '"/static/' not in index and "{{" not in index
    assert '"/static/' in page.index("").data.decode()
    own = {name: file for name, file in page.files.items() if not name.startswith("vendor/")}
    for name, file in own.items():
        assert b'"/static/' not in file.data and b"url(/" not in file.data, name
    assert [name for name, file in own.items() if b"fetch(" in file.data] == ["js/api.js"]
