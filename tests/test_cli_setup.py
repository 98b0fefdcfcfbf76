"""`rag setup`: what it finds, what it contacts, what it stores; and who may choose a command as the model."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from command import Ran, rag, rag_process
from test_cli import Terminal

from rag.backends import open_generator
from rag.service.upkeep.model_choices import find_models
from rag.settings import Settings, load_settings, store_settings
from tests.servers.provider import ProviderServer

KEYS = ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "MISTRAL", "OPENROUTER", "GROQ", "DEEPSEEK")


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No key, no command, and no Ollama; return the only folder of the PATH."""
    for name in KEYS:
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    return folder


@pytest.fixture
def has_git(nothing_here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{nothing_here}:{os.defpath}")


@pytest.fixture
def ollama(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    models = ["qwen3:8b", "gpt-oss:120b-cloud", "nomic-embed-text:latest"]
    with ProviderServer(answers=["Ready."], models=models) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.base_url.removesuffix("/v1"))
        yield server


@pytest.fixture
def claude(nothing_here: Path) -> Path:
    """A command that answers, and leaves a mark whenever it runs."""
    path = nothing_here / "claude"
    path.write_text(
        f'#!/bin/sh\necho "$@" >>{nothing_here}/ran\n/bin/cat >/dev/null\necho Ready, from claude.\n'
    )
    path.chmod(0o755)
    return path


def listed(*names: str) -> list[dict[str, Any]]:
    """The choices with these names; other programs of this machine may have the ports of other servers."""
    choices: list[dict[str, Any]] = rag("setup", "--json").json["choices"]
    assert [choice["number"] for choice in choices] == list(range(1, len(choices) + 1))
    return [choice for choice in choices if choice["name"] in names]


def config(tmp_path: Path) -> Path:
    return tmp_path / "rag-home" / "config.toml"


# ---------------------------------------------------------------- finding


def test_a_server_of_this_machine_is_found_with_its_models(ollama):
    first, second, third = listed("ollama")
    assert (third["model"], third["reranks"]) == ("nomic-embed-text:latest", True)
    assert (first["model"], first["base_url"], first["sends_to"]) == ("qwen3:8b", ollama.base_url, "")
    assert (second["model"], second["sends_to"]) == ("gpt-oss:120b-cloud", "ollama.com")


def test_an_embedding_model_is_stored_as_second_stage_and_leaves_the_model(ollama, tmp_path):
    rag("setup", "--use", "ollama")
    number = listed("ollama")[-1]["number"]
    done = rag("setup", "--use", str(number))
    assert done.code == 0
    assert "stay on this machine" in done.err
    assert "orders the first 50 results" in done.err
    settings = load_settings()
    assert (settings.reranker, settings.model) == ("openai:nomic-embed-text:latest", "qwen3:8b")
    assert settings.embedding_base_url == ollama.base_url
    store_settings(config(tmp_path), {"embedder": "openai:e", "embedding_base_url": "http://127.0.0.1:9/v1"})
    refused = rag("setup", "--use", str(number))
    assert refused.code == 2
    assert "the embedder asks http://127.0.0.1:9/v1" in refused.err


@pytest.mark.parametrize(
    ("variable", "name", "host"),
    [
        ("OPENAI_API_KEY", "openai", "api.openai.com"),
        ("ANTHROPIC_API_KEY", "anthropic", "api.anthropic.com"),
        ("GEMINI_API_KEY", "google", "generativelanguage.googleapis.com"),
        ("GOOGLE_API_KEY", "google", "generativelanguage.googleapis.com"),
        ("MISTRAL_API_KEY", "mistral", "api.mistral.ai"),
        ("OPENROUTER_API_KEY", "openrouter", "openrouter.ai"),
        ("GROQ_API_KEY", "groq", "api.groq.com"),
        ("DEEPSEEK_API_KEY", "deepseek", "api.deepseek.com"),
    ],
)
def test_a_key_is_found_and_only_the_name_of_its_variable_is_stored(
    variable, name, host, tmp_path, monkeypatch
):
    monkeypatch.setenv(variable, "the-secret-key")
    (choice,) = listed(name)
    assert (choice["api_key_variable"], choice["sends_to"]) == (variable, host)
    done = rag("setup", "--use", name)
    assert done.code == 0
    assert f"are sent to {host}; the key in {variable}" in done.err
    assert "the-secret-key" not in done.out + done.err + config(tmp_path).read_text()
    settings = load_settings()
    assert (settings.api_key, settings.has_model) == ("the-secret-key", True)
    assert open_generator(settings).generator.model_client.host == host


def test_each_command_is_found_with_the_arguments_that_ask_nothing(nothing_here):
    names = ("claude", "codex", "gemini", "llm", "ollama")
    for name in names:
        (nothing_here / name).write_text("#!/bin/sh\n")
        (nothing_here / name).chmod(0o755)
    found = {choice["name"]: choice["model"] for choice in listed(*names)}
    assert found == {
        "claude": 'cmd:claude -p --tools "" --strict-mcp-config',
        "codex": "cmd:codex exec --skip-git-repo-check -",
        "gemini": "cmd:gemini",
        "llm": "cmd:llm",
        "ollama": "",
    }
    assert "needs a model: rag setup --use ollama --model NAME" in rag("setup", "--use", "ollama").err
    stored = rag("setup", "--use", "ollama", "--model", "qwen3", "--json")
    assert (stored.json["model"], stored.json["sends_to"]) == ("cmd:ollama run qwen3", "")


def test_where_nothing_is_found_the_ways_to_connect_a_model_are_named():
    done = rag_process("setup")
    if "no model was found" in done.err:  # else another program of this machine is a server of models
        assert (done.code, done.out) == (1, "")
        assert 'rag setup --use cmd:"COMMAND"' in done.err


def test_our_own_server_is_no_model():
    with ProviderServer(models=["rag:snip"]) as server:
        environ = {"OLLAMA_HOST": server.base_url.removesuffix("/v1"), "PATH": ""}
        assert "ollama" not in {choice.name for choice in find_models(environ).choices}


@pytest.mark.parametrize("name", ["cmd:touch ran", " cmd:touch ran", "qwen\n3", "\x1b[2Jqwen", "q" * 201])
def test_a_server_lists_no_command_and_no_name_that_cannot_be_shown(name):
    with ProviderServer(models=[name, "qwen3"]) as server:
        environ = {"OLLAMA_HOST": server.base_url.removesuffix("/v1"), "PATH": ""}
        found = find_models(environ).choices
        assert [choice.model for choice in found if choice.name == "ollama"] == ["qwen3"]


class Elsewhere(BaseHTTPRequestHandler):
    """Redirects to another machine, or sends without end."""

    def do_GET(self) -> None:
        self.send_response(302 if self.server.redirects else 200)  # type: ignore[attr-defined]
        self.send_header("Location", "http://192.0.2.1/v1/models")
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        while not self.server.redirects:  # type: ignore[attr-defined]
            try:
                self.wfile.write(b"[" * 65_536)
            except OSError:
                return

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(params=["redirects", "endless"])
def hostile(request: pytest.FixtureRequest) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    server.redirects = request.param == "redirects"  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


WATCHED = """
import json, os, sys
seen = open(sys.argv.pop(1), "a", buffering=1)
def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        address = args[1] if event == "socket.connect" else args[0]
        seen.write(json.dumps([event, address]) + "\\n")
    elif event in ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system"):
        seen.write(json.dumps(["process", str(args[0])]) + "\\n")
sys.addaudithook(watch)
from rag.cli import main
main()
"""


def watched(tmp_path: Path, *arguments: str, **environ: str) -> tuple[Ran, set[str]]:
    """Run a command; return the addresses it has contacted and looked up, and the programs it has started."""
    log = tmp_path / "seen"
    log.write_text("")
    done = subprocess.run(
        [sys.executable, "-P", "-c", WATCHED, str(log), *arguments],
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    events = [json.loads(line) for line in log.read_text().splitlines()]
    seen = {args[0] if isinstance(args, list) else args for _, args in events} - {"uname"}  # of `platform`
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode()), seen


def test_nothing_but_this_machine_is_contacted_before_the_user_agrees(tmp_path, claude, hostile):
    everything = {f"{name}_API_KEY": "key" for name in KEYS}
    for arguments in ((), ("--json",), ("--use", "mistral"), ("--use", "claude")):
        done, seen = watched(tmp_path, "setup", *arguments, OLLAMA_HOST=hostile, **everything)
        assert (done.code, seen) == (0, {"127.0.0.1"}), done.err
        assert "ollama" not in done.out
    assert not (claude.parent / "ran").exists()


def test_the_watch_sees_what_is_contacted_and_started(tmp_path, claude, ollama):
    assert watched(tmp_path, "setup", "--use", "claude", "--check")[1] == {"127.0.0.1", str(claude)}


# ---------------------------------------------------------------- choosing


def test_a_choice_on_a_terminal_is_asked_once(ollama, tmp_path):
    with Terminal(name="setup") as terminal:
        terminal.wait_for("qwen3:8b")
        terminal.wait_for("stay on this machine")
        terminal.wait_for("Which one?")
        terminal.type("1\n")
        terminal.wait_for("stored in")
        assert terminal.end() == 0
    assert load_settings().model == "qwen3:8b"


def test_a_choice_can_be_declined(ollama, tmp_path):
    with Terminal(name="setup") as terminal:
        terminal.wait_for("Which one?")
        terminal.type("\n")
        assert terminal.end() == 0
    assert not config(tmp_path).exists()


def test_the_chosen_model_is_checked_with_one_small_question(ollama):
    done = rag("setup", "--use", "ollama", "--model", "qwen3:4b", "--check")
    assert re.search(r"^qwen3:4b answered “Ready\.” in \d", done.out, re.MULTILINE)
    (request,) = [one for one in ollama.requests if one.body]
    assert request.body["model"] == "qwen3:4b"
    assert rag("setup", "--check", "--json").json["reply"] == "Ready."


def test_a_chosen_command_answers_and_runs_only_when_it_is_asked(claude):
    assert rag("setup", "--use", "claude").code == 0
    assert not (claude.parent / "ran").exists()
    assert "cmd:claude answered “Ready, from claude.”" in rag("setup", "--check").out
    assert (claude.parent / "ran").read_text() == "-p --tools  --strict-mcp-config\n"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--use", "99"), "there is no choice '99'; found: "),
        (("--use", "mistral"), "there is no choice 'mistral'"),
        (("--use", "cmd:no-such-program"), "there is no command 'no-such-program'"),
        (("--use", "cmd:./program"), "relative to the current folder"),
        (("--use", "cmd:"), "it is empty"),
        (("--use", "claude", "--model", "opus"), 'name its model in it: --use cmd:"claude …"'),
        (("--check",), "no model is configured; `rag setup` finds one"),
    ],
)
def test_a_choice_that_cannot_be_used_is_refused_and_nothing_is_stored(arguments, why, claude, tmp_path):
    done = rag("setup", *arguments)
    assert done.code == 2 and why in done.err
    assert not config(tmp_path).exists()


def test_a_model_that_fails_the_check_is_named(claude):
    claude.write_text("#!/bin/sh\necho please log in >&2\nexit 1\n")
    done = rag("setup", "--use", "claude", "--check")
    assert done.code == 3
    assert "the command claude ended with exit code 1: please log in" in done.err


def test_what_takes_precedence_over_the_stored_choice_is_named(ollama, monkeypatch):
    monkeypatch.setenv("RAG_MODEL", "other")
    assert "model is other (RAG_MODEL), not what was stored" in rag("setup", "--use", "ollama").err


# ---------------------------------------------------------------- the settings file


def test_all_else_in_the_settings_file_stays(ollama, tmp_path):
    file = config(tmp_path)
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        '# mine\nsteps = 3  # often\nmodel = "old"\nclient = "mistral"\n\n[groups]\nall_of_us = ["a"]\n'
    )
    file.chmod(0o640)
    assert rag("setup", "--use", "ollama").code == 0
    assert file.read_text() == (
        f'# mine\nsteps = 3  # often\nmodel = "qwen3:8b"\nbase_url = "{ollama.base_url}"\n'
        '\n[groups]\nall_of_us = ["a"]\n'
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert load_settings().steps == 3


@pytest.mark.parametrize(
    ("before", "use", "after"),
    [
        ({"base_url": "http://127.0.0.1:9/v1"}, "cmd:true", "http://127.0.0.1:9/v1"),
        ({"base_url": "http://127.0.0.1:9/v1"}, "ollama", "http://127.0.0.1:9/v1"),
        ({}, "ollama", "https://api.openai.com/v1"),
        ({}, "cmd:true", None),
        (
            {"base_url": "http://127.0.0.1:9/v1", "embedding_base_url": "http://127.0.0.1:8/v1"},
            "ollama",
            "http://127.0.0.1:8/v1",
        ),
        ({"base_url": "http://127.0.0.1:9/v1", "embedder": "potion"}, "cmd:true", None),
    ],
)
def test_another_model_does_not_move_the_embeddings(before, use, after, ollama, has_git, tmp_path):
    store_settings(config(tmp_path), {"embedder": "openai:nomic-embed-text", **before})
    done = rag("setup", "--use", use)
    assert done.code == 0, done.err
    settings = load_settings()
    assert settings.embedding_base_url == after
    moved = after is not None and after != before.get("embedding_base_url")
    assert (f"the embedder still sends the code to {after}" in done.err) == moved


def test_a_new_settings_file_is_private_and_a_link_stays_one(ollama, tmp_path):
    file, real = config(tmp_path), tmp_path / "dotfiles" / "rag.toml"
    file.parent.mkdir(exist_ok=True)
    file.symlink_to(real)
    assert rag("setup", "--use", "ollama").code == 0
    assert file.is_symlink() and stat.S_IMODE(real.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ['"""\nmodel = 1', "[groups]\nmodel = ['a']\n", 'model = """\n  x"""\n'])
def test_a_file_that_cannot_be_edited_safely_is_left_alone(text, tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(Exception, match='write these lines into it yourself:\nmodel = "m"'):
        store_settings(file, {"model": "m", "base_url": None})
    assert file.read_text() == text


def test_the_key_of_one_server_is_not_sent_to_another(monkeypatch, tmp_path):
    store_settings(
        config(tmp_path),
        {"model": "m", "base_url": "https://api.mistral.ai/v1", "api_key_variable": "MISTRAL_API_KEY"},
    )
    environ = {"MISTRAL_API_KEY": "m-key", "OPENAI_API_KEY": "o-key", "RAG_HOME": str(tmp_path / "rag-home")}
    assert load_settings(environ=environ).api_key == "m-key"
    assert load_settings(environ={**environ, "RAG_API_KEY": "r-key"}).api_key == "r-key"
    assert load_settings(environ={**environ, "MISTRAL_API_KEY": ""}).api_key is None
    elsewhere = load_settings(environ={**environ, "OPENAI_BASE_URL": "https://gateway.example/v1"})
    assert (elsewhere.api_key, elsewhere.api_key_variable) == ("o-key", "")
    assert load_settings({"base_url": "https://other.example/v1"}, environ).api_key == "o-key"
    assert load_settings({"api_key": "given"}, environ).api_key == "given"


# ---------------------------------------------------------------- the hint

HINT = "no model is connected: `rag setup` finds one"


def test_the_first_answer_on_a_terminal_says_how_to_connect_a_model_once(sample_repo, has_git):
    with Terminal(sample_repo) as terminal:
        terminal.wait_for("> ")
        terminal.type("How are sessions signed?\n")
        shown = terminal.wait_for(HINT) + terminal.wait_for("> ")
        terminal.type("And when do they expire?\n")
        shown += terminal.wait_for("turn 2") + terminal.wait_for("> ")
        assert shown.count("model") == 1
    with Terminal(sample_repo, "What is a short code?", name="ask") as terminal:
        assert "model" not in terminal.wait_for(HINT).removesuffix(HINT)
        assert terminal.end() == 0


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_a_pipe_gets_no_hint(sample_repo, has_git, arguments):
    done = rag("ask", sample_repo, "How are sessions signed?", *arguments)
    assert "rag setup" not in done.out + done.err


# ---------------------------------------------------------------- who may choose a command


@pytest.mark.parametrize(
    "command",
    [
        ("ask", "Where is session_token defined?"),
        ("search", "session_token"),
        ("setup", "--json"),
        ("index",),
    ],
)
def test_files_of_a_repository_choose_no_model(command: tuple[str, ...], tmp_path, has_git):
    root = tmp_path / "hostile"
    (root / ".rag").mkdir(parents=True)
    line = f"cmd:/bin/sh -c 'echo ran >{tmp_path}/ran'"
    (root / "it.py").write_text("def session_token():\n    return 1\n")
    (root / ".env").write_text(f'RAG_MODEL="{line}"\nRAG_HOME=.\nOLLAMA_HOST=192.0.2.1\n')
    for name in ("rag.toml", "config.toml", ".rag/config.toml", ".rag.toml", "pyproject.toml"):
        (root / name).write_text(f'model = "{line}"\n[tool.rag]\nmodel = "{line}"\n')
    done = rag_process(*command, cwd=root)
    assert done.code == 0, done.err
    assert not (tmp_path / "ran").exists()
    if command[0] == "ask":
        assert "This is in function `session_token`" in done.out and not done.err.count("model")
    if command[0] == "setup":
        assert "/bin/sh" not in done.out


def test_the_user_may_choose_a_command_in_each_way(tmp_path, claude, monkeypatch):
    flag = load_settings({"model": "cmd:claude -p"})
    monkeypatch.setenv("RAG_MODEL", "cmd:claude -p")
    variable = load_settings()
    for settings in (flag, variable):
        assert open_generator(settings).complete("?") == "Ready, from claude.\n"
    assert Settings(model="cmd:claude -p").command == "claude -p"
    assert Settings(model="claude -p").command is None


def test_an_answer_of_a_command_cites_the_sources(sample_repo, nothing_here, has_git):
    (nothing_here / "mine").write_text("#!/bin/sh\n/bin/cat >/dev/null\necho 'In `authenticate` [1].'\n")
    (nothing_here / "mine").chmod(0o755)
    done = rag("ask", sample_repo, "Where is a token checked?", "--model", "cmd:mine")
    assert done.code == 0, done.err
    assert done.out.startswith("In `authenticate` [1].")
    assert "[1] snip/auth.py" in done.out
    assert "questions and excerpts of the code are sent to the command `mine`" in done.err
