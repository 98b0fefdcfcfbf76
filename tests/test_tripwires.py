"""Nothing of a repository runs, whichever command is started in it and however its files are called.

The repository has modules and packages named after ours, after every package that is installed, and after
the whole standard library, and programs named like those that we run. Each writes down that it ran.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from command import command, rag
from conftest import git
from typer.main import get_command

DEADLINE_S = 300
SCRIPT = Path(sysconfig.get_path("scripts")) / "rag"
PROGRAMS = "git python python3 sh bash ssh uname file ldconfig lsb_release ps which env less".split()
HONEST = '"""Signs sessions."""\n\n\ndef sign_session(user, key):\n    return f"{user}:{key}"\n'
QUESTION = "Where is a session signed?"
CELL = {"path": "shop/sessions.py", "start": 4, "end": 5}


@dataclass(frozen=True)
class Trapped:
    """A hostile repository, and the file into which its tripwires write."""

    root: Path
    fired: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """As a shell has it whose PATH begins with an empty entry: the current folder."""
        return {
            **os.environ,
            "RAG_HOME": str(self.home),
            "PATH": f":{os.environ['PATH']}:.",
            "PYTHONSTARTUP": str(self.root / "startup.py"),
            "BASH_ENV": str(self.root / "startup.sh"),
        }

    def check(self) -> None:
        """Nothing has run since the last time."""
        assert self.ran() == []

    def ran(self) -> list[str]:
        """What has run since the last time."""
        names = self.fired.read_text().split() if self.fired.exists() else []
        self.fired.unlink(missing_ok=True)
        return names


def names() -> list[str]:
    found = {name for name in packages_distributions() if name.isidentifier()}
    return sorted(found | sys.stdlib_module_names | {"rag", "sitecustomize", "usercustomize", "startup"})


def fill(root: Path) -> None:
    """Text of 3.2 MB, for which worker processes are started, and of a kind that takes little time."""
    for number in range(4):
        (root / f"words{number}.txt").write_text(f"The same words once more, {number}\n" * 28_600)


@pytest.fixture(scope="module")
def trapped(tmp_path_factory: pytest.TempPathFactory) -> Trapped:
    root = tmp_path_factory.mktemp("hostile") / "repository"
    fired = root.parent / "fired"
    (root / "shop").mkdir(parents=True)
    (root / "shop" / "sessions.py").write_text(HONEST)
    tripwire = f"open({str(fired)!r}, 'a').write(__name__ + '\\n')\n"
    for number, name in enumerate(names()):
        if number % 2 and name != "rag":
            (root / f"{name}.py").write_text(tripwire)
        else:
            (root / name).mkdir()
            (root / name / "__init__.py").write_text(tripwire)
    for module in ("serve", "database", "cli"):
        (root / "rag" / module).mkdir()
        (root / "rag" / module / "__init__.py").write_text(tripwire)
    for name in ("evil.pth", "rag-turns.pth"):
        (root / name).write_text(f"import builtins; {tripwire}")
    for name in (*PROGRAMS, "startup.sh"):
        if not (root / name).exists():
            (root / name).write_text(f"#!/bin/sh\necho {name} >> '{fired}'\n")
            (root / name).chmod(0o755)
    fill(root)
    git(root, "init", "--quiet", "--template=")
    git(root, "add", "shop")
    git(root, "commit", "--quiet", "--message", "Sign sessions")
    return Trapped(root, fired, root.parent / "home")


@pytest.fixture(scope="module")
def conversation(trapped: Trapped) -> str:
    """A conversation about the repository, with two turns."""
    for question in (QUESTION, "What does sign_session return?"):
        done = run(trapped, "ask", ".", question, "--conversation", "first")
        assert done.returncode == 0, done.stderr
    trapped.check()
    return "first"


def run(trapped: Trapped, *arguments: str, said: str = "", safe: bool = True) -> Any:
    """Run the console script in the repository; without one `python -P -m rag`."""
    start = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-P", "-m", "rag"]
    return subprocess.run(
        [*(start if safe else [sys.executable, "-m", "rag"]), *arguments],
        cwd=trapped.root,
        env=trapped.environment,
        input=said,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


ASKING = {
    "index": ((".", "--rebuild"), 0),
    "search": ((".", "sign_session"), 0),
    "explore": ((".", "sign_session"), 0),
    "ask": ((".", QUESTION, "--json"), 0),
    "chat": ((".",), 0),
    "wiki": ((".", "-o", "{out}/wiki", "--no-draw"), 0),
    "eval": ((".", "--questions", "{out}/questions.jsonl", "--json"), 0),
    "review": ((), 0),
    "check": (("shop/sessions.py", "--all"), 0),
    "doctor": (("--quick", "--server", "--repo", "."), 0),
    "agents list": ((), 0),
    "agents install": (("codex", "--instructions"), 0),
    "agents uninstall": (("codex",), 0),
}
"""The commands that read the repository, with the arguments and the exit code."""
KEEPING = {
    "setup": (("--json",), 0),
    "settings": ((), 0),
    "prefer": (("language", "de"), 0),
    "turns list": ((), 0),
    "turns show": ((), 0),
    "turns search": (("session",), 0),
    "turns check": ((), 0),
    "turns about": (("shop/sessions.py",), 0),
    "turns consolidate": ((), 0),
    "turns fork": (("1", "--name", "fork"), 0),
    "turns edit": (("1", "--answer", "There.", "--conversation", "first", "--yes"), 0),
    "turns mark": (("good", "1"), 0),
    "turns unmark": (("good",), 0),
    "turns export": (("--all", "-o", "{out}/turns.jsonl"), 0),
    "turns import": (("{out}/turns.jsonl",), 0),
    "turns backup": (("{out}/backup.db",), 0),
    "turns restore": (("{out}/backup.db",), 0),
    "facts add": (("Sessions are signed", "--repo", "."), 0),
    "facts list": ((), 0),
    "facts check": ((), 0),
    "facts propose": ((), 0),
    "facts proposed": ((), 0),
    "facts confirm": (("ffffffff",), 2),
    "facts reject": (("ffffffff",), 2),
    "facts forget": (("ffffffff",), 2),
    "facts push": (("--remote", "{out}/missing.git"), 2),
    "facts pull": (("--remote", "{out}/missing.git"), 2),
    "storage show": ((), 0),
    "storage prune": (("--max-size", "9GB", "--yes"), 0),
    "storage shared": ((), 2),
    "memory namespaces": ((), 0),
    "memory delete": (("nowhere", "--yes"), 2),
    "memory retention": ((), 0),
    "keys add": (("tripwire",), 0),
    "keys import": (("nowhere.toml",), 2),
    "keys list": ((), 0),
    "keys renew": (("tripwire", "--expires", "30d"), 0),
    "keys rotate": (("tripwire",), 0),
    "keys remove": (("tripwire",), 0),
    "memory sweep": ((), 0),
    "memory persistence": ((), 2),
    "jobs list": ((), 2),
    "jobs show": (("1",), 2),
    "jobs cancel": (("1",), 2),
    "jobs add": ((".",), 2),
    "worker": ((), 2),
    "cache stats": ((), 0),
    "cache list": ((), 0),
    "cache clear": ((), 0),
    "turns undo": (("--conversation", "first"), 0),
    "turns rewind": (("0", "--conversation", "first", "--yes"), 0),
    "turns rename": (("second", "--conversation", "first"), 0),
    "turns delete": (("--conversation", "fork", "--yes"), 0),
}
"""The commands about what is remembered, in an order in which each has something to do."""
SERVING = {"serve", "mcp"}


def every_command() -> set[str]:
    from rag.cli import app

    def below(group: Any, path: tuple[str, ...]) -> Iterator[str]:
        for name, inner in getattr(group, "commands", {}).items():
            if hasattr(inner, "commands"):
                yield from below(inner, (*path, name))
            else:
                yield " ".join((*path, name))

    return set(below(get_command(app), ()))


def test_each_command_there_is_is_tried_here():
    assert every_command() == {*ASKING, *KEEPING, *SERVING}


@pytest.mark.parametrize("name", ASKING)
def test_a_command_that_reads_the_repository_runs_nothing_of_it(name, trapped, conversation, tmp_path):
    question = {"id": "q", "question": QUESTION, "answers": [CELL]}
    (tmp_path / "questions.jsonl").write_text(json.dumps(question) + "\n")
    arguments, code = ASKING[name]
    done = run(
        trapped, *name.split(), *(each.format(out=tmp_path) for each in arguments), said=f"{QUESTION}\n"
    )
    trapped.check()
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


DRIVER = """
import io, json, sys

def run(arguments):
    sys.argv = ["rag", *arguments]
    sys.stdin = io.StringIO("")
    try:
        main()
    except SystemExit as ended:
        return ended.code or 0

from rag.processes import drop_current_folder
drop_current_folder()
from rag.cli import main  # not that of rag.__main__, which ends the process
given, codes = sys.argv[1:]
open(codes, "w").write(json.dumps([run(arguments) for arguments in json.loads(given)]))
"""


def test_commands_about_what_is_remembered_run_nothing(trapped, conversation, tmp_path):
    # One process for all: whatever the last of them imports, it imports from the same places.
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    commands = [
        [*name.split(), *(each.format(out=tmp_path, home=trapped.home) for each in arguments)]
        for name, (arguments, _) in KEEPING.items()
    ]
    done = subprocess.run(
        [sys.executable, str(driver), json.dumps(commands), str(tmp_path / "codes")],
        cwd=trapped.root,
        env=trapped.environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    trapped.check()
    assert done.returncode == 0, done.stderr
    codes = json.loads((tmp_path / "codes").read_text())
    assert dict(zip(KEEPING, codes, strict=True)) == {name: code for name, (_, code) in KEEPING.items()}


def test_the_server_and_its_processes_run_nothing(trapped, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    start = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-P", "-m", "rag"]
    environment = {**trapped.environment, "RAG_HOME": str(tmp_path / "home")}
    log = tmp_path / "log"  # a pipe that nobody reads is full after 300 requests, and the server waits
    with (
        log.open("w") as output,
        subprocess.Popen(
            [*start, "serve", "--repo", ".", "--port", str(port)],
            cwd=trapped.root,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as server,
    ):
        try:
            ready(server, f"http://127.0.0.1:{port}/ready", log)

            def sent(path: str, body: Any = None) -> Any:
                request = urllib.request.Request(
                    f"http://127.0.0.1:{port}{path}",
                    None if body is None else json.dumps(body).encode(),
                    {"Content-Type": "application/json", "Accept": "application/json"},
                )
                with urllib.request.urlopen(request, timeout=DEADLINE_S) as response:
                    return json.load(response)

            def ask(number: int) -> Any:
                asked = {"question": f"{QUESTION} {number}", "repositories": ["repository"]}
                return sent("/api/ask", asked)["found"]

            with ThreadPoolExecutor(6) as several:  # so that processes are started that prepare questions
                assert set(several.map(ask, range(24))) == {True}
            answer = sent("/v1/responses", {"model": "rag:repository", "input": QUESTION})
            sent(f"/v1/responses/{answer['id']}")
            conversation, turn = answer["rag"]["conversation"], answer["rag"]["turn"]
            assert sent("/api/repositories/repository/review")["counts"]["files"] > 100
            assert sent(f"/api/conversations/{conversation}/freshness?diff=true")
            assert sent("/api/facts", {"text": "Sessions must be signed", "turn": turn})
            assert sent("/api/facts?check=true")
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=DEADLINE_S)
    trapped.check()
    logged = log.read_text()
    assert "Traceback" not in logged
    assert "could be started" not in logged


def ready(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Wait until the server is; fails when it ends instead."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            threading.Event().wait(0.05)
    raise AssertionError("the server did not become ready")


TOOLS = {
    "ask_question": {"question": QUESTION},
    "explore": {"question": QUESTION},
    "search_code": {"query": QUESTION},
    "find_symbol": {"name": "sign_session"},
    "who_calls": {"symbol": "sign_session"},
    "read_span": {"path": "shop/sessions.py"},
    "review": {},
    "check": {"text": "See `shop/sessions.py`."},
    "remember": {"text": "Sessions must be signed"},
    "facts": {},
    "turns_about": {"path": "shop/sessions.py"},
    "read_wiki_structure": {},
}


def test_the_mcp_server_runs_nothing(trapped, tmp_path):
    def message(method: str, number: int | None = None, **parameters: Any) -> str:
        counted = {} if number is None else {"id": number}
        return json.dumps({"jsonrpc": "2.0", "method": method, "params": parameters, **counted}) + "\n"

    begin = message(
        "initialize",
        1,
        protocolVersion="2025-06-18",
        capabilities={},
        clientInfo={"name": "test", "version": "1"},
    )
    start = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-P", "-m", "rag"]
    with subprocess.Popen(
        [*start, "mcp", "--repo", "."],
        cwd=trapped.root,
        env={**trapped.environment, "RAG_HOME": str(tmp_path / "home")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        try:
            server.stdin.write(begin)
            server.stdin.flush()
            assert json.loads(server.stdout.readline())["id"] == 1
            server.stdin.write(message("notifications/initialized"))
            told = {}
            for number, (name, arguments) in enumerate(TOOLS.items(), 2):
                arguments = {"repoName": "repository", **arguments}
                server.stdin.write(message("tools/call", number, name=name, arguments=arguments))
                server.stdin.flush()
                told[name] = json.loads(server.stdout.readline())
                while told[name].get("id") != number:
                    told[name] = json.loads(server.stdout.readline())
        finally:
            server.kill()
    trapped.check()
    assert not [name for name, one in told.items() if one["result"].get("isError")]
    assert "shop/sessions.py" in json.dumps(told["ask_question"])


@pytest.mark.parametrize("name", ["index", "ask"])
def test_python_with_safe_path_runs_nothing(name, trapped, tmp_path):
    arguments, code = ASKING[name]
    done = subprocess.run(
        command(name, *arguments),
        cwd=trapped.root,
        env={**trapped.environment, "RAG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    trapped.check()
    assert done.returncode == code, done.stderr


def test_the_tripwires_do_fire_where_nobody_can_be_protected(trapped):
    run(trapped, "--version", safe=False)
    assert trapped.ran()


def test_doctor_reports_that_the_current_folder_was_imported_from(tmp_path):
    def imports(*start: str, **variables: str) -> str:
        done = subprocess.run(
            [*start, "doctor", "--quick", "--json"],
            cwd=tmp_path,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return {each["name"]: each["state"] for each in json.loads(done.stdout)}["imports"]

    assert imports(sys.executable, "-m", "rag") == "bad"
    assert imports(sys.executable, "-P", "-m", "rag", PYTHONPATH=f":{tmp_path}/x") == "bad"
    assert imports(sys.executable, "-P", "-m", "rag") == "ok"


def test_a_checkout_of_numpy_can_be_indexed_from_inside(tmp_path):
    root = tmp_path / "numpy-checkout"
    for package in ("numpy", "faiss", "tree_sitter", "typing"):
        (root / package).mkdir(parents=True)
        (root / package / "__init__.py").write_text("raise ImportError('build me first')\n")
    fill(root)
    done = rag("index", cwd=root)
    assert done.code == 0, done.err
    assert "8" in done.out
