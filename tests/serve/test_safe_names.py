"""Folders whose names cannot be names of repositories."""

from __future__ import annotations

import socket

import pytest

from rag.errors import ConfigError
from rag.serve.preflight import check_port
from rag.serve.settings import ServerSettings, check_name
from rag.service.repositories.named_sources import safe_name, with_safe_names
from rag.types import Source

NAMES = [
    "My Project",
    "日本語",
    "Ünïcode",
    "libstdc++",
    "a@b",
    "app (copy)",
    "-x",
    ".hidden",
    "a" * 200,
    "🦊",
    "a:b",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_folder_gets_a_valid_name(name: str) -> None:
    check_name(safe_name(name))


def test_names_are_similar_and_do_not_meet() -> None:
    assert [safe_name(name) for name in ("My Project", "Ünïcode", "a@b", "good")] == [
        *("My-Project", "Unicode", "a-b", "good")
    ]
    folders = ["My Project", "My-Project", "My(Project", "日本語", "日本", *NAMES[1:]]
    found = with_safe_names([(name, Source(f"/r/{name}")) for name in dict.fromkeys(folders)])
    assert len({name for name, _ in found}) == len(found)


def test_a_given_name_stays_as_it_is() -> None:
    given = (("not valid", Source("/r/My Project")),)
    assert with_safe_names(given) == given


def test_a_used_port_is_reported() -> None:
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        with pytest.raises(ConfigError, match="in use"):
            check_port(ServerSettings(port=used.getsockname()[1]))
