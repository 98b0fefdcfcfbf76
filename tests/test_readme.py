"""What README.md says is so: commands parse, Python runs, links lead somewhere."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from live_server import Served

from rag.cli import app
from rag.prompt.templates import _ANSWER_VARIABLES
from rag.settings import ENVIRONMENT, Settings

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
OPERATORS = {"<", ">", "|", "&&", "||", ";", "2>"}


def blocks(language: str) -> list[str]:
    return [block[3] for block in BLOCK.finditer(README) if block[2] == language]


def command_lines(text: str) -> Iterator[list[str]]:
    """The `rag …` commands of a shell text, as words up to a pipe, a redirection or a comment."""
    for line in re.findall(r"^(?:\$ )?(rag .*)$", text, re.MULTILINE):
        words = shlex.split(line, comments=True)
        end = next((n for n, word in enumerate(words) if word in OPERATORS), len(words))
        yield words[1:end]


@cache
def commands() -> dict[str, Any]:
    """Every command by its words: `ask`, `turns show`, …"""
    root: Any = typer.main.get_command(app)
    found: dict[str, Any] = {}
    for name, command in root.commands.items():
        if hasattr(command, "commands"):
            found |= {f"{name} {inner}": one for inner, one in command.commands.items()}
        else:
            found[name] = command
    return found


def parse(words: list[str]) -> None:
    """Parse a command line without running it; raises when there is no such command or option."""
    name = " ".join(words[:2]) if " ".join(words[:2]) in commands() else words[0]
    command = commands()[name]
    arguments = words[len(name.split()) :]
    with command.make_context(f"rag {name}", list(arguments)):
        pass


README_COMMANDS = [words for text in (*blocks("sh"), *blocks("text")) for words in command_lines(text)]
EXAMPLES = [
    (name, line.strip())
    for name, command in commands().items()
    for line in (command.callback.__doc__ or "").splitlines()
    if line.strip().startswith("rag ")
]


@pytest.mark.parametrize("words", README_COMMANDS, ids=" ".join)
def test_every_command_in_the_readme_parses(words: list[str]) -> None:
    parse(words)


def test_a_command_that_does_not_exist_would_be_seen() -> None:
    for line in ('rag ask . "why" --no-such-option', "rag search"):
        with pytest.raises(Exception, match=r"(?i)no such option|missing"):
            parse(next(command_lines(line)))
    with pytest.raises(KeyError):
        parse(["no-such-command"])


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_has_an_example_in_its_help(name: str) -> None:
    assert [line for command, line in EXAMPLES if command == name]


@pytest.mark.parametrize(("name", "line"), EXAMPLES, ids=[line for _, line in EXAMPLES])
def test_every_example_parses_and_is_in_the_readme(name: str, line: str) -> None:
    (words,) = command_lines(line)
    assert " ".join(words).startswith(name)
    parse(words)
    assert line in README


SERVER = "http://127.0.0.1:8000"
PYTHON = [code for code in blocks("python") if SERVER not in code]
CLIENT = [code for code in blocks("python") if SERVER in code]


@pytest.mark.parametrize("code", CLIENT, ids=lambda code: code.split("\n", 1)[0])
def test_a_client_s_python_in_the_readme_runs(code: str, serve: Callable[..., Served]) -> None:
    runs(code.replace(SERVER, serve().ready().url))


@pytest.mark.parametrize("code", PYTHON, ids=lambda code: code.split("\n", 1)[0])
def test_python_in_the_readme_runs(code: str) -> None:
    runs(code)


def runs(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"snip/(sessions|auth)\.py", done.stdout)


def test_the_demo_shown_is_the_demo_that_runs() -> None:
    script = (ROOT / "examples/demo/run.sh").read_text(encoding="utf-8")
    shown = [block for block in blocks("text") if block.startswith("$ rag ask .demo/")]
    questions = re.findall(r'^\$ rag ask .*"(.*)"', shown[0], re.MULTILINE)
    assert len(questions) == 2
    assert all(f'="{question}"' in script for question in questions)


def test_batch_answers_as_the_readme_shows(sample_repo: Path) -> None:
    (block,) = [block for block in blocks("text") if block.startswith("→")]
    asked = re.findall(r"^→ (.*)$", block, re.MULTILINE)
    shown = [json.loads(line.replace("…", "null")) for line in re.findall(r"^← (.*)$", block, re.MULTILINE)]
    done = subprocess.run(
        [sys.executable, "-m", "rag", "search", str(sample_repo), "--batch"],
        input="\n".join(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    ready, *answers = map(json.loads, done.stdout.splitlines())
    assert list(ready) == ["ready", "chunks", "history"]
    for answer in answers:
        for result in answer["results"]:
            result["score"] = None
    assert answers == shown


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets
    missing = [t for t in targets if "://" not in t and not (ROOT / t).exists()]
    assert not missing


def test_every_setting_is_in_the_readme_with_its_environment_and_default() -> None:
    rows = {
        match[1]: match[2]
        for match in re.finditer(r"^\| `(\w+)` \| (`RAG_.*)\|[^|]*\|$", README, re.MULTILINE)
    }
    assert set(rows) == {field.name for field in fields(Settings)} - {"home", "set_by"}
    defaults = Settings(home=ROOT)
    for name, row in rows.items():
        variables, _, default = row.partition("|")
        assert re.findall(r"`(\w+)`", variables) == list(ENVIRONMENT[name])
        value = getattr(defaults, name)
        if isinstance(value, bool):
            assert default.strip() == ("on" if value else "off")
        elif isinstance(value, int | float):
            assert default.strip() == f"{value:g}" or default.strip() == str(value)
        elif name in ("client", "embedder", "language"):
            assert default.strip() == f"`{value}`"


def test_every_template_variable_is_in_the_readme() -> None:
    table = README[README.index("### Your own prompt") : README.index("## How it works")]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == _ANSWER_VARIABLES


def text_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:  # an unpacked sdist
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
    else:
        names = listed.stdout.decode().split("\0")
    kinds = (".md", ".py", ".toml", ".sh", ".j2", ".ipynb", ".txt", ".yml", ".yaml")
    return [
        path
        for name in names
        if (name.endswith(kinds) or Path(name).name in ("Makefile", "run"))
        and (path := ROOT / name).is_file()
        and not name.startswith((".venv", "tools/questions/"))
    ]


def test_nowhere_is_a_stranger_s_package_installed_by_name() -> None:
    install = r"(?:pip|uv|pipx)[\w -]*(?:install|add|download)\s+(?:-\S+\s+)*"
    bare = re.compile(install + r"[\"'`]?(?:rag|repo-rag|rag-turns)(?![\w-]|(?:\[[\w,-]+\])? @)")
    assert bare.search("pip install " + "rag")
    assert bare.search("uv pip install -U '" + "repo-rag[x]'")
    found = [
        str(path) for path in text_files() if bare.search(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert not found
