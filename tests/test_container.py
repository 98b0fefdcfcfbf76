"""The container files: what they name is there, and their commands do what they say, run as processes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from conftest import SAMPLE_REPO, git
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
SERVER = ROOT / "deploy"
DEADLINE_S = 60
EXTRAS = ("server", "redis", "postgres", "queue", "object-store")
OTHER_USER = 12_345
DOCKERFILE = (SERVER / "Dockerfile").read_text(encoding="utf-8")
IMAGE_COMMAND = json.loads(re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)[-1])


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """The folder that is mounted at /repositories: two repositories of another user, and a plain folder."""
    folder = tmp_path / "repositories"
    for name in ("api", "web app"):
        root = folder / name.replace(" ", "-")
        root.mkdir(parents=True)
        (root / "sessions.py").write_bytes((SAMPLE_REPO / "snip" / "sessions.py").read_bytes())
        git(root, "init", "--quiet", "--template=")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", f"Begin {name}")
        git(root, "tag", "v1")
    (folder / "notes").mkdir()
    if os.getuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, OTHER_USER, OTHER_USER)
    return folder


class Running:
    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str, body: object = None) -> object:
        headers = {"Authorization": "Bearer secret", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as reply:
            return json.load(reply)


@pytest.fixture
def running(mounted: Path, tmp_path: Path) -> Iterator[Running]:
    """The image's entry point and command, with the folders and the port of this machine."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    home = tmp_path / "container-home"
    home.mkdir()
    command = [str(mounted) if word == "/repositories" else word for word in IMAGE_COMMAND]
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "REPOSITORIES": str(mounted),
        "RAG_HOME": str(tmp_path / "data"),
        "RAG_SERVER_KEYS": "secret",
        "PYTHONSAFEPATH": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    log = tmp_path / "log"  # a pipe that nobody reads would stop the server when it is full
    with log.open("wb") as file:
        started = subprocess.Popen(
            ["sh", str(SERVER / "entrypoint.sh"), *command, "--port", str(port)],
            cwd="/",
            env=environment,
            stderr=file,
        )
    try:
        found = Running(port)
        _until(found, lambda: b"serving on" in log.read_bytes())
        _until(found, lambda: found.ask("/ready"))
        yield found
    finally:
        started.terminate()
        started.communicate(timeout=DEADLINE_S)


def _until(running: Running, condition) -> object:
    from live_server import Served

    def quietly() -> object:
        try:
            return condition()
        except OSError:  # refused, or 503
            return None

    return Served.wait_until(running, quietly)  # type: ignore[arg-type]


def test_each_mounted_repository_is_served_with_its_history(running: Running, mounted: Path) -> None:
    def indexed() -> object:
        found = running.ask("/api/repositories")
        return found if all(one["indexed"] and not one["job"]["running"] for one in found) else None

    states = {one["name"]: one for one in _until(running, indexed)}
    assert states.keys() == {"api", "web-app"}
    for name, state in states.items():
        commit = git(mounted / name, "-c", "safe.directory=*", "rev-parse", "HEAD")
        assert state["commit"] == commit
    asked = {"question": "How are sessions signed?", "repositories": ["api@v1"]}
    found = _until(running, lambda: running.ask("/api/search", asked))
    assert found["hits"][0]["commit"] == states["api"]["commit"]


def test_git_reads_named_folders_only() -> None:
    assert "safe.directory" not in DOCKERFILE
    script = (SERVER / "entrypoint.sh").read_text(encoding="utf-8")
    assert "'*'" not in script
    assert IMAGE_COMMAND == ["serve", "--host", "0.0.0.0", "--repos", "/repositories"]


# ---------------------------------------------------------------- compose


def compose(name: str, variables: dict[str, str]) -> dict:
    """The file as compose reads it: variables put in, and those that are required missed."""
    text = (SERVER / name).read_text(encoding="utf-8")

    def value(match: re.Match[str]) -> str:
        variable, kind, other = match.groups()
        if kind == "?" and not variables.get(variable):
            raise KeyError(variable)
        return variables.get(variable) or (other if kind == "-" else "")

    return yaml.safe_load(re.sub(r"\$\{(\w+):([-?])([^}]*)\}", value, text))


FILES = {"compose.yaml": "valkey", "compose.postgres.yaml": "postgres"}
GIVEN = {"RAG_SERVER_KEYS": "secret", "POSTGRES_PASSWORD": "abc123"}


@pytest.mark.parametrize("name", FILES)
def test_a_compose_file_starts_its_store_and_no_other(name: str) -> None:
    services = compose(name, GIVEN)["services"]
    store = FILES[name]
    assert services.keys() == {"rag", store}
    assert services["rag"]["depends_on"] == {store: {"condition": "service_healthy"}}
    memory = services["rag"]["environment"]["RAG_MEMORY"]
    assert f"@{store}:" in memory or f"/{store}:" in memory
    volumes = compose(name, GIVEN)["volumes"].keys()
    used = {volume.split(":")[0] for one in services.values() for volume in one["volumes"]}
    assert volumes == used - {".."}


def test_postgres_is_used_with_the_password_that_it_has() -> None:
    services = compose("compose.postgres.yaml", GIVEN)["services"]
    from rag.backends import open_turn_store
    from rag.settings import Settings

    memory = services["rag"]["environment"]["RAG_MEMORY"]
    assert memory == "postgresql://rag:abc123@postgres:5432/rag"
    database = services["postgres"]["environment"]
    assert database == {"POSTGRES_USER": "rag", "POSTGRES_DB": "rag", "POSTGRES_PASSWORD": "abc123"}
    with closing(open_turn_store(Settings(memory=memory))) as store:  # which connects when it is first used
        assert "postgres" in type(store).__module__


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("compose.yaml", "RAG_SERVER_KEYS"),
        ("compose.postgres.yaml", "RAG_SERVER_KEYS"),
        ("compose.postgres.yaml", "POSTGRES_PASSWORD"),
    ],
)
def test_what_guards_the_server_has_no_default(name: str, missing: str) -> None:
    with pytest.raises(KeyError, match=missing):
        compose(name, {**GIVEN, missing: ""})


def test_the_server_is_the_same_with_either_store() -> None:
    ours = [compose(name, GIVEN)["services"]["rag"] for name in FILES]
    for one in ours:
        del one["depends_on"], one["environment"]["RAG_MEMORY"]
    assert ours[0] == ours[1]


def test_the_servers_of_one_database_differ_in_nothing_but_their_names() -> None:
    found = compose("compose.scale.yaml", GIVEN)
    services = found["services"]
    assert services.keys() == {"a", "b", "worker", "balancer", "postgres"}
    assert services["a"] == services["b"]
    worker = {name: services["worker"][name] for name in services["a"]}
    assert worker == services["a"] and services["worker"]["command"] == ["worker"]
    assert services["a"]["environment"]["RAG_SHARED"] == "postgresql://rag:abc123@postgres:5432/rag"
    assert services["balancer"]["environment"].keys() == {"RAG_BIND", "RAG_A", "RAG_B"}
    used = {volume.split(":")[0] for one in services.values() for volume in one.get("volumes", ())}
    assert found["volumes"].keys() == used - {"..", "./haproxy.cfg"}
    for missing in GIVEN:
        with pytest.raises(KeyError, match=missing):
            compose("compose.scale.yaml", {**GIVEN, missing: ""})


# ---------------------------------------------------------------- what is locked


def locked(name: str) -> dict[str, tuple[Version, int]]:
    """The packages of a lock file: version, and how many hashes."""
    text = (SERVER / name).read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[a-zA-Z0-9])", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    found = {}
    for entry in filter(str.strip, entries):
        wanted = Requirement(entry.partition("\\")[0].strip())
        (pinned,) = wanted.specifier
        assert pinned.operator == "==", entry
        found[_plain(wanted.name)] = (Version(pinned.version), entry.count("--hash=sha256:"))
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(project: dict, extras: tuple[str, ...]) -> list[Requirement]:
    lines = [
        *project["dependencies"],
        *(one for extra in extras for one in project["optional-dependencies"][extra]),
    ]
    return [one for one in map(Requirement, lines) if _plain(one.name) != _plain(project["name"])]


def test_the_lock_of_the_image_holds_what_pyproject_asks_for() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for name, asked in (
        ("requirements.txt", wanted(pyproject["project"], EXTRAS)),
        ("build-requirements.txt", list(map(Requirement, pyproject["build-system"]["requires"]))),
    ):
        there = locked(name)
        assert [str(one) for one in asked if _plain(one.name) not in there] == [], "run `make lock`"
        off = [
            str(one)
            for one in asked
            if not one.specifier.contains(there[_plain(one.name)][0], prereleases=True)
        ]
        assert off == [], "run `make lock`"
        assert [package for package, (_, hashes) in there.items() if not hashes] == []


def test_the_image_installs_the_lock_and_nothing_else() -> None:
    installs = re.findall(r"pip (?:install|wheel) ([^\n]*)", DOCKERFILE)
    assert len(installs) == 4
    for options in installs:
        assert "--require-hashes" in options or {"--no-deps", "--no-index"} <= set(options.split()), options
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"LOCKED_EXTRAS := {' '.join(EXTRAS)}" in makefile
    python = re.findall(r"^FROM python:(\d+\.\d+)", DOCKERFILE, re.MULTILINE)
    assert set(python) == set(re.findall(r"--python-version (\S+)", makefile))


def test_no_digest_is_made_up() -> None:
    """One is written where it was resolved by who builds the image, never by us."""
    for name in ("Dockerfile", *FILES):
        assert "@sha256:" not in (SERVER / name).read_text(encoding="utf-8")
