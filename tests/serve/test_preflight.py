"""`rag doctor --server`: what a server lacks is named before it is started."""

from __future__ import annotations

import re
import socket
import subprocess
from datetime import timedelta
from urllib.request import urlopen

import pytest
from command import command, rag
from keys_given import add_key, memory_in, read_keys, with_keys
from live_server import SAMPLE

from rag.serve import preflight
from rag.serve.access.key_changes import rotate_key
from rag.serve.settings import ServerSettings
from rag.settings import Settings
from rag.types import now_utc


@pytest.fixture(autouse=True)
def free_port(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def look(free_port):
    """The findings about a server, by what was looked at."""

    def look(*more):
        done = rag("doctor", "--quick", "--json", "--server", "--port", free_port, *more)
        found = {finding["name"]: finding for finding in done.json}
        bad = any(finding["state"] == "bad" for finding in done.json)
        assert done.code == (2 if bad else 0)
        return found

    return look


def test_a_server_that_would_start_has_nothing_to_fix(look):
    found = look("--repo", f"sample={SAMPLE}")
    names = ("server packages", "served to", "limits", "repository sample", "port", "memory")
    assert {name: found[name]["state"] for name in names} == dict.fromkeys(names, "ok")
    assert found["keys"]["state"] == "off"
    assert "only this machine" in found["served to"]["detail"]


def test_it_is_not_looked_at_unless_asked():
    assert "port" not in {finding["name"] for finding in rag("doctor", "--quick", "--json").json}
    assert rag("doctor", "--quick", "--port", "9").code == 2


def test_a_port_that_is_taken_is_named(look):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = look("--port", port)["port"]
    assert (found["state"], found["detail"]) == ("bad", f"127.0.0.1:{port} is in use by another program")


@pytest.mark.parametrize("port", ["-1", "65536", "99999", "99999999999999999999999"])
def test_a_port_that_does_not_exist_is_refused(port):
    assert "port must be from 0 to 65535" in rag("serve", "--port", port).err
    (settings,) = (
        one
        for one in rag("doctor", "--quick", "--json", "--server", "--port", port).json
        if one["name"] == "server settings"
    )
    assert settings["state"] == "bad" and "port must be from 0 to 65535" in settings["detail"]


@pytest.mark.parametrize("host", ["a" * 70, "::zz", "1.2.3.4.5"])
@pytest.mark.parametrize("port", ["0", "1"])
def test_a_host_that_cannot_be_listened_on_is_refused(host, port):
    done = rag("serve", "--host", host, "--port", port)
    assert done.code == 2 and "cannot listen" in done.err


def test_listening_to_strangers_without_a_key_is_named(look, tmp_path):
    found = look("--host", "0.0.0.0")["served to"]
    assert (found["state"], found["fix"]) == ("bad", "rag keys add NAME")
    key = add_key(f"sqlite:///{tmp_path}/rag-home/turns.db", "ci")
    found = look("--host", "0.0.0.0")
    assert found["served to"]["state"] == "ok"
    assert found["keys"]["detail"] == "ci"
    assert key not in str(found)


def test_a_file_of_keys_of_version_02_is_named(look, tmp_path):
    file = tmp_path / "rag-home" / "keys.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text("")
    found = look()["keys"]
    assert found["state"] == "bad" and f"rag keys import {file}" in found["detail"]


def test_a_settings_file_is_read_as_the_server_reads_it(look, tmp_path):
    file = tmp_path / "server.toml"
    file.write_text(f'version = 1\nrate = "often"\n[repositories]\nhere = "{SAMPLE}"\n')
    found = look("--config", file)
    assert found["server settings"]["detail"] == str(file)
    assert found["limits"]["state"] == "bad"
    assert found["repository here"]["state"] == "ok"
    file.write_text('version = 1\n[repositories]\ngone = "./gone"\n')
    assert f"{tmp_path}/gone" in look("--config", file)["server settings"]["detail"]
    file.write_text("version = 99\n")
    found = look("--config", file)
    assert found["server settings"]["state"] == "bad"
    assert "version 99" in found["server settings"]["detail"]


def test_a_missing_package_is_named_with_what_brings_it(monkeypatch):
    monkeypatch.setattr(preflight, "find_spec", lambda name: None if name == "uvicorn" else object())
    (packages,) = preflight._packages()
    assert (packages.detail, packages.fix) == (
        "missing: uvicorn",
        "from the checkout: pip install '.[server]'",
    )


def test_a_url_is_asked_whether_it_answers(free_port, tmp_path):
    bare = tmp_path / "bare.git"
    tree = tmp_path / "tree"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", "--bare", bare], check=True)
    subprocess.run([*git, "clone", "-q", bare, tree], check=True, capture_output=True)
    (tree / "a.py").write_text("a = 1\n")
    subprocess.run([*git, "add", "."], check=True, cwd=tree)
    subprocess.run([*git, "commit", "-q", "-m", "a"], check=True, cwd=tree)
    subprocess.run([*git, "push", "-q", "origin", "HEAD"], check=True, cwd=tree, capture_output=True)
    repos = ("--repo", f"there=file://{bare}", "--repo", f"gone=file://{tmp_path}/gone")
    done = rag("doctor", "--json", "--server", "--port", free_port, *repos)
    found = {finding["name"]: finding for finding in done.json}
    assert found["repository there"]["state"] == "ok"
    assert found["repository gone"]["state"] == "bad"


def test_keys_that_expire_soon_are_reported(tmp_path):
    memory = memory_in(tmp_path)
    add_key(memory, "later", expires=now_utc() + timedelta(days=15))
    settings = ServerSettings(engine=Settings(home=tmp_path))
    assert preflight._keys(settings, read_keys(memory)).state == "ok"
    add_key(memory, "soon", expires=now_utc() + timedelta(days=13))
    found = preflight._keys(settings, read_keys(memory))
    assert found.state == "bad" and "soon (" in found.detail and "later" not in found.detail
    assert found.fix.startswith("rag keys renew soon --expires 90d")
    until = now_utc() + timedelta(days=1)
    with_keys(memory, lambda keys: rotate_key(keys, "later", previous_until=until))
    assert "later" not in preflight._keys(settings, read_keys(memory)).detail  # only its previous key ends


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--trusted-proxy", "zz", "'zz' is not an address or network of a proxy"),
        ("--trusted-proxy", "*", "'*' is not an address or network of a proxy"),
        ("--root-path", "my rag", "'my rag' is not a path prefix"),
    ],
)
def test_a_proxy_that_does_not_exist_is_refused(free_port, option, value, words):
    done = rag("serve", f"sample={SAMPLE}", "--port", free_port, option, value)
    assert done.code == 2 and words in done.err and "serving on" not in done.err


def test_the_address_of_a_free_port_is_printed():
    with subprocess.Popen(
        command("serve", f"sample={SAMPLE}", "--port", 0), stderr=subprocess.PIPE
    ) as running:
        try:
            assert running.stderr is not None
            line = next(line for line in running.stderr if b"serving on" in line).decode()
            address = re.search(r"http://127\.0\.0\.1:[1-9]\d*", line)[0]
            with urlopen(f"{address}/health", timeout=20) as reply:
                assert reply.status == 200
        finally:
            running.terminate()
