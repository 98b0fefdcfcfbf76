"""The server's settings file."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.errors import SettingsError
from rag.serve.config import read_config, server_settings
from rag.settings import Settings

WHOLE = """
version = 1
host = "0.0.0.0"
port = 9000
public_hosts = ["rag.example.org"]
rate = "120/minute"
access_log = false
drain_s = 2

[repositories]
api = "api"
"team/web" = "https://example.org/team/web.git"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "api").mkdir()
    path = tmp_path / "server.toml"
    path.write_text(WHOLE)
    return path


def test_the_file_says_what_is_served_and_flags_win(config: Path) -> None:
    settings = server_settings(Settings(), config, {"port": 9001, "host": None, "allow_urls": ()})
    assert (settings.host, settings.port, settings.rate, settings.access_log) == (
        "0.0.0.0",
        9001,
        "120/minute",
        False,
    )
    named = {name: source.location for name, source in settings.repositories}
    assert named == {
        "api": str((config.parent / "api").resolve()),
        "team/web": "https://example.org/team/web",
    }


def test_without_a_repository_the_current_folder_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = server_settings(Settings(), None, {"deepwiki": True})
    ((name, source),) = settings.repositories
    assert (name, source.location) == (tmp_path.name, str(tmp_path.resolve()))
    assert settings.port == 8001


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("version = 2", "version 2"),
        ("", "has no version"),
        ("hots = 'x'", "'hots'"),
        ("keys = ['secret']", "'keys'"),
        ("port = 'x'", "port = 'x' is invalid"),
        ("port = true", "port = True is invalid"),
        ("concurrent = -1", "concurrent = -1 must be between 0 and"),
        ("grace_s = inf", "grace_s = inf must be between 0 and 1000000000"),
        ("max_refs_bytes = 1" + "0" * 400, "max_refs_bytes = 1"),
        ("mcp_idle_s = 1", "'mcp_idle_s', which is not a server setting; the settings are: access_log"),
        ("origins = 'x'", "origins = "),
        ("repositories = ['x']", "repositories = "),
        ("port = ", "cannot read"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "server.toml"
    path.write_text(line if line.startswith("version") else f"version = 1\n{line}\n" if line else "")
    with pytest.raises(SettingsError, match=says) as caught:
        read_config(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nowhere"):
        read_config(tmp_path / "nowhere.toml")
