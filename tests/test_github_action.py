"""The GitHub Action and the pre-commit hooks: their files are valid, and their commands do what they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import rag, rag_process
from conftest import git

ROOT = Path(__file__).resolve().parent.parent
ACTION = ROOT / "deploy/github-action"
MARKER = "<!-- rag: outdated wiki pages and review -->"
EXPRESSION = re.compile(r"\$\{\{ ([\w.-]+) \}\}")
GONE = "sign_session"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


class Forge:
    """As much of GitHub's API as the comments of one pull request need."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.calls: list[tuple[str, str, str]] = []
        self.refuses: set[str] = set()
        forge = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else {}
                token = self.headers.get("Authorization", "")
                forge.calls.append((self.command, self.path, token))
                status, answer = forge.answer(self.command, self.path, body)
                sent = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_POST = do_PATCH = _answer  # noqa: N815 - the names of http.server

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        thread = "/repos/someone/sample/issues/7/comments"
        if method in self.refuses:
            return 403, {"message": "Resource not accessible by integration"}
        if method == "GET" and path.startswith(f"{thread}?per_page=100&page="):
            page = int(path.rpartition("=")[2])
            return 200, self.comments[100 * (page - 1) : 100 * page]
        if method == "POST" and path == thread:
            self.comments.append({"id": 1000 + len(self.comments), "body": body["body"]})
            return 201, self.comments[-1]
        if method == "PATCH":
            number = int(path.rpartition("/")[2])
            (found,) = [each for each in self.comments if each["id"] == number]
            found["body"] = body["body"]
            return 200, found
        return 404, {}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def forge() -> Iterator[Forge]:
    made = Forge()
    yield made
    made.close()


@pytest.fixture(scope="module")
def with_wiki(committed_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample repository with a commit that adds its wiki."""
    root = shutil.copytree(committed_sample, tmp_path_factory.mktemp("with_wiki") / "sample_repo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAG_HOME", str(root.parent / "rag-home"))
        assert rag("wiki", ".", cwd=root).code == 0
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Add the wiki")
    return root


@pytest.fixture
def checkout(with_wiki: Path, tmp_path: Path) -> Path:
    """A clone as actions/checkout makes it, on a pull request that has a wiki and changes nothing yet."""
    git(tmp_path, "clone", "--quiet", f"file://{with_wiki}", "checkout")
    clone = tmp_path / "checkout"
    git(clone, "checkout", "--quiet", "--detach")
    return clone


def change(checkout: Path) -> None:
    """Remove a function that is still used."""
    path = checkout / "snip/sessions.py"
    path.write_text(path.read_text().replace(f"def {GONE}(", "def sign("))
    git(checkout, "commit", "--all", "--quiet", "--message", "Rename it")


def run_step(checkout: Path, forge: Forge, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the last step of the action in bash, with the environment that GitHub gives it."""
    action = read(ACTION / "action.yml")
    step = action["runs"]["steps"][-1]
    temp = checkout.parent / "runner"
    (temp / "rag/bin").mkdir(parents=True, exist_ok=True)
    program = temp / "rag/bin/python"  # what the first step installs
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    (temp / "event.json").write_text(json.dumps({"number": 7, "pull_request": {"number": 7}}))
    context = {"github.base_ref": "main", "github.token": "a-token", "runner.temp": str(temp)}

    def value(text: str) -> str:
        return EXPRESSION.sub(lambda found: context[found[1]], text)

    for name, described in action["inputs"].items():
        context[f"inputs.{name}"] = inputs.get(name.replace("-", "_"), value(described["default"]))
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=checkout,
        env={
            **os.environ,
            **{name: value(text) for name, text in step["env"].items()},
            "RUNNER_TEMP": str(temp),
            "GITHUB_ACTION_PATH": str(ACTION),
            "GITHUB_API_URL": forge.url,
            "GITHUB_REPOSITORY": "someone/sample",
            "GITHUB_EVENT_PATH": str(temp / "event.json"),
            "GITHUB_STEP_SUMMARY": str(temp / "summary.md"),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_pull_request_that_outdates_nothing_gets_no_comment(checkout, forge):
    done = run_step(checkout, forge)
    assert done.returncode == 0, done.stdout + done.stderr
    assert forge.comments == []
    assert "is up to date" in (checkout.parent / "runner/summary.md").read_text()
    assert git(checkout, "status", "--porcelain") == ""


def test_outdated_pages_and_broken_uses_are_one_comment_that_is_updated(checkout, forge):
    forge.comments += [{"id": number, "body": "Nice."} for number in range(120)]
    change(checkout)
    done = run_step(checkout, forge)
    assert done.returncode == 1, done.stdout + done.stderr
    (body,) = [each["body"] for each in forge.comments if each["body"].startswith(MARKER)]
    assert "is outdated" in body and "| changed |" in body
    assert "broken use" in body and GONE in body
    assert {token for _, _, token in forge.calls} == {"Bearer a-token"}
    git(checkout, "revert", "--no-edit", "HEAD")
    assert run_step(checkout, forge).returncode == 0
    (again,) = [each["body"] for each in forge.comments if each["body"].startswith(MARKER)]
    assert "is up to date" in again


def test_a_comment_of_someone_else_with_our_marker_is_left(checkout, forge):
    forge.comments.append({"id": 1, "body": MARKER})
    forge.refuses.add("PATCH")
    change(checkout)
    run_step(checkout, forge)
    assert [each["body"] == MARKER for each in forge.comments] == [True, False]


def test_a_token_that_may_not_comment_is_a_warning(checkout, forge):
    forge.refuses |= {"GET", "POST"}
    change(checkout)
    done = run_step(checkout, forge, fail="false")
    assert done.returncode == 0
    assert "::warning::no comment was written (HTTP Error 403" in done.stdout
    assert "is outdated" in (checkout.parent / "runner/summary.md").read_text()


def test_its_inputs_choose_what_is_checked(checkout, forge):
    change(checkout)
    done = run_step(checkout, forge, wiki="", comment="false")
    assert done.returncode == 1 and "broken use" in done.stdout and "is outdated" not in done.stdout
    done = run_step(checkout, forge, review="false", comment="false")
    assert done.returncode == 1 and "is outdated" in done.stdout and "broken use" not in done.stdout
    assert forge.calls == []
    done = run_step(checkout, forge, wiki_options="--exclude 'docs/**'")
    assert done.returncode == 2 and "use the same options" in done.stdout
    done = run_step(checkout, forge, wiki="nowhere")
    assert done.returncode == 2 and "::error::`rag wiki . -o nowhere" in done.stdout
    assert run_step(checkout, forge, base="").returncode == 2
    assert forge.comments == []


def commands(log: str) -> list[str]:
    """Return the workflow commands that the runner of GitHub would obey."""
    obeyed: list[str] = []
    stopped = ""
    for line in map(str.strip, log.splitlines()):
        found = re.match(r"::([\w-]+)[^:]*::(.*)", line) or re.match(r"##\[([\w-]+)[^\]]*\](.*)", line)
        if stopped:
            stopped = "" if line == f"::{stopped}::" else stopped
        elif found and found[1] == "stop-commands":
            stopped = found[2]
        elif found:
            obeyed.append(line)
    return obeyed


def test_a_pull_request_gives_the_runner_no_commands(checkout, forge):
    change(checkout)
    code = (
        "import runpy, sys; m = runpy.run_path(sys.argv[1]); g = m['main'].__globals__;"
        "g['reports'] = lambda: ('text\\n  ::add-mask::a\\n##[error]b\\n::stop-commands::x', True);"
        "m['main'](); raise_ = lambda: (_ for _ in ()).throw(g['StepError']('a%\\n::add-mask::b'));"
        "g['reports'] = raise_; m['main']()"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, ACTION / "pull_request.py"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert commands("::add-mask::a") and "::add-mask::a" in done.stdout
    assert commands(done.stdout + done.stderr) == ["::error::a%25%0A::add-mask::b"]
    real = run_step(checkout, forge)
    assert real.returncode == 1 and commands(real.stdout + real.stderr) == []


def test_a_long_comment_is_cut_and_says_so(checkout, forge):
    code = (
        "import runpy, sys; m = runpy.run_path(sys.argv[1]); g = m['reports'].__globals__;"
        "g['report'] = lambda *a: ('line\\n' * 30_000, True); text, _ = m['reports']();"
        "assert len(text) < 65_536 and 'more characters' in text[-100:], len(text)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, ACTION / "pull_request.py"],
        env={**os.environ, "WIKI": "wiki", "REVIEW": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_action_uses_each_input_and_none_inside_a_script():
    action = read(ACTION / "action.yml")
    steps = action["runs"]["steps"]
    assert action["runs"]["using"] == "composite" and {"name", "description"} <= set(action)
    used = set()
    for step in steps:
        assert step["shell"] == "bash"
        assert not EXPRESSION.search(step["run"])  # a value could be a command
        used |= {name for text in step["env"].values() for name in EXPRESSION.findall(text)}
    assert {f"inputs.{name}" for name in action["inputs"]} == {name for name in used if name[:7] == "inputs."}
    assert all({"description", "default"} == set(each) for each in action["inputs"].values())
    assert "$GITHUB_ACTION_PATH/../.." in steps[0]["run"]
    assert (ACTION.parent.parent / "pyproject.toml").is_file()  # what that path leads to


def test_the_example_is_a_workflow_that_fits_the_action():
    workflow = read(ACTION / "example.yml")
    steps = workflow["jobs"]["rag"]["steps"]
    assert workflow[True] == "pull_request"  # YAML 1.1 reads `on` so
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert steps[0]["with"] == {"fetch-depth": 0}
    inputs = read(ACTION / "action.yml")["inputs"]
    assert steps[-1]["uses"].startswith("OWNER/REPOSITORY/deploy/github-action@")
    assert set(steps[-1]["with"]) <= set(inputs)


DEPLOYED = [
    path for path in (ROOT / "deploy").rglob("*") if path.is_file() and path.suffix not in (".txt", ".conf")
]


def test_each_python_in_deploy_is_isolated_from_the_current_folder():
    started = {
        f"{path.name}: {found[0]}": found[1]
        for path in DEPLOYED
        for found in re.finditer(r"(?:\bpython3?|sys\.executable)[\"',]*\s+(\S+)", path.read_text())
        if found[1].strip("\"',").startswith(("-", '"$'))
    }
    assert len(started) >= 6
    assert {each for each, option in started.items() if option.strip("\"',") != "-I"} == set()


def test_installing_runs_no_module_of_the_pull_request(tmp_path):
    checkout, temp, fired = tmp_path / "checkout", tmp_path / "runner", tmp_path / "fired"
    for name in ("venv", "ensurepip", "pip", "json", "os", "re", "sitecustomize", "usercustomize", "rag"):
        (checkout / name).mkdir(parents=True)
        (checkout / name / "__init__.py").write_text(f"open({str(fired)!r}, 'a').write(__name__)\n")
        (checkout / f"{name}.py").write_text(f"open({str(fired)!r}, 'a').write(__name__)\n")
    (checkout / "setup.cfg").write_text("[install]\nprefix = /nowhere\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    for step, install in ((0, "--help"), (1, "")):
        subprocess.run(
            [
                "bash",
                "--noprofile",
                "--norc",
                "-eo",
                "pipefail",
                "-c",
                read(ACTION / "action.yml")["runs"]["steps"][step]["run"],
            ],
            cwd=checkout,
            env={
                "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
                "PYTHONPATH": str(checkout),
                "HOME": str(tmp_path),
                "RUNNER_TEMP": str(temp),
                "GITHUB_ACTION_PATH": str(ACTION),
                "INSTALL": install,
            },
            capture_output=True,
            timeout=120,
            check=step == 0,
        )
    assert (temp / "rag/bin/pip").exists()
    assert not fired.exists(), fired.read_text()


HOOKS = {hook["id"]: hook for hook in read(ROOT / ".pre-commit-hooks.yaml")}


def test_the_hooks_have_what_pre_commit_requires():
    for hook in HOOKS.values():
        assert {"id", "name", "entry", "language"} <= set(hook)
        assert hook["language"] == "python" and hook["pass_filenames"] is False and hook["always_run"] is True


def test_the_hooks_fail_for_a_change_and_pass_without(checkout):
    def run(name: str, *more: str) -> int:
        program, *arguments = HOOKS[name]["entry"].split()
        assert program == "rag"
        return rag_process(*arguments, *more, cwd=checkout).code

    assert run("rag-wiki", "-o", "wiki") == run("rag-review") == 0
    path = checkout / "snip/sessions.py"
    path.write_text(path.read_text().replace(f"def {GONE}(", "def sign("))
    git(checkout, "add", "--all")
    assert run("rag-wiki", "-o", "wiki") == run("rag-review") == 1
