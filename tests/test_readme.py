"""What the documents say is true: commands parse, Python runs, sessions repeat, links lead somewhere."""

import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from command import rag as run_rag
from conftest import git
from live_server import Served

import rag
import rag.wiki
from rag.cli import app, with_command
from rag.cli.settings_options import field_texts, split_options
from rag.prompt.templates import _ANSWER_VARIABLES
from rag.serve.settings import ServerSettings
from rag.settings import Settings
from tests.servers.provider import ProviderServer
from tools.docs.links import PAGES, targets

ROOT = Path(__file__).resolve().parent.parent
PAGE_FILES = sorted((ROOT / "docs").glob("*.md"))
FILES = [*(ROOT / name for name in PAGES if name.endswith(".md")), *PAGE_FILES, ROOT / "examples/README.md"]
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in FILES}
README = TEXTS["README.md"]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = set(PYPROJECT["project"]["optional-dependencies"]) - {"test", "check"}
BLOCK = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
OPERATORS = {"<", ">", "|", "&&", "||", ";", "2>"}


def blocks(language: str, name: str = "") -> list[str]:
    """The blocks of a language, of one document or of all; a block that several have comes once."""
    texts = [TEXTS[name]] if name else TEXTS.values()
    found = [block[3] for text in texts for block in BLOCK.finditer(text) if block[2] == language]
    return list(dict.fromkeys(found))


def command_lines(text: str) -> Iterator[list[str]]:
    """The `rag …` commands of a shell text, as words up to a pipe, a redirection or a comment."""
    for line in re.findall(r"^(?:\$ |uvx --from \. )?(rag .*)$", text, re.MULTILINE):
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
    root: Any = typer.main.get_command(app)
    if words[0].startswith("-"):
        assert words[0] in [option for each in root.params for option in each.opts]
        return
    words = with_command(split_options(root.params, words)[1])
    name = " ".join(words[:2]) if " ".join(words[:2]) in commands() else words[0]
    command = commands()[name]
    arguments = words[len(name.split()) :]
    with command.make_context(f"rag {name}", list(arguments)):
        pass


COMMANDS = {
    " ".join(words): words for text in (*blocks("sh"), *blocks("text")) for words in command_lines(text)
}
EXAMPLES = [
    (name, line.strip())
    for name, command in commands().items()
    for line in (command.callback.__doc__ or "").splitlines()
    if line.strip().startswith("rag ")
]


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_in_the_documents_parses(line: str) -> None:
    parse(COMMANDS[line])


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
def test_every_example_parses(name: str, line: str) -> None:
    (words,) = command_lines(line)
    assert " ".join(words).startswith(name)
    parse(words)


SERVER = "http://127.0.0.1:8000"
PYTHON = [code for code in blocks("python") if SERVER not in code]
CLIENT = [code for code in blocks("python") if SERVER in code]


@pytest.mark.parametrize("code", CLIENT, ids=lambda code: code.split("\n", 1)[0])
def test_a_client_s_python_in_the_documents_runs(code: str, serve: Callable[..., Served]) -> None:
    runs(code.replace(SERVER, serve().ready().url))


@pytest.mark.parametrize("code", PYTHON, ids=lambda code: code.split("\n", 1)[0])
def test_python_in_the_documents_runs(code: str) -> None:
    runs(code)


def runs(code: str) -> None:
    """Run a program in this process, where everything is imported. It must print something."""
    printed = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(printed):
        exec(code, {"__name__": "__main__"})
    assert printed.getvalue().strip()


def sessions(name: str) -> list[tuple[str, list[str]]]:
    """The commands of a document whose output it shows, with that output."""
    shown = [block for block in blocks("text", name) if block.startswith("$ rag") and ".demo" not in block]
    _, *parts = re.split(r"^\$ (rag .*)$", "".join(shown), flags=re.MULTILINE)
    return [(parts[n], parts[n + 1].strip("\n").splitlines()) for n in range(0, len(parts), 2)]


@pytest.mark.parametrize(("name", "start", "count"), [("README.md", 3, 1), ("docs/quickstart.md", 0, 2)])
def test_a_recorded_session_is_what_the_commands_print(name: str, start: int, count: int) -> None:
    recorded = sessions(name)[start:]
    assert len(recorded) == count
    for command, shown in recorded:
        (words,) = command_lines(command)
        done = run_rag(*words, cwd=ROOT)
        assert done.code == 0, done.err
        assert shows(shown, done.out.splitlines()), done.out


READS = [
    ("read", json.dumps({"path": "snip/app.py", "start": 31, "end": 38})),
    ("read", json.dumps({"path": "snip/errors.py", "start": 16, "end": 31})),
]


def test_the_session_with_a_model_is_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model reads what it lacks, and repeats the answer shown with the numbers of its sources."""
    repository = tmp_path / "snip"
    shutil.copytree(ROOT / "data/sample_repo", repository)
    for words in (["init"], ["add", "."], ["commit", "-m", "snip"]):
        git(repository, *words)
    (command, shown), *later = sessions("README.md")[:3]
    (ask,) = command_lines(command)
    with ProviderServer() as server:
        ask += ["--base-url", server.base_url, "--model", server.models[0]]
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv("RAG_HOME", str(tmp_path / "elsewhere"))
            server.answers[:] = [READS, "Nothing."]
            run_rag(*ask, cwd=repository)
        places = re.findall(r"^\[(\d+)\] (\S+)", server.chats[-1].prompt, re.MULTILINE)
        in_prompt = {place: number for number, place in places}
        cited = dict(re.findall(r"^\[(\d+)\] (\S+)", "\n".join(shown), re.MULTILINE))
        said = "\n".join(line for line in shown if not line.startswith("["))
        server.answers[:] = [READS, re.sub(r"\[(\d+)\]", lambda n: f"[{in_prompt[cited[n[1]]]}]", said)]
        answer = run_rag(*ask, cwd=repository)
    assert answer.out.splitlines() == shown
    changed = repository / "snip/auth.py"
    text = changed.read_text()
    changed.write_text(
        text.replace("user_by_token(hash_token(token))", "user_by_token(hash_token(token.strip()))")
    )
    for command, shown in later:
        (words,) = command_lines(command)
        printed = re.sub(r"HEAD \(\w+\)", "HEAD (1b198017b1)", run_rag(*words, cwd=repository).out)
        assert shows(shown, printed.splitlines()), printed


def shows(shown: list[str], printed: list[str]) -> bool:
    """Whether lines are shown as printed. "…" alone omits lines, at the end of a line its rest."""
    pattern = ""
    for line in shown:
        left_out = line == "…"
        beginning = line.removesuffix("…")
        rest = "[^\n]*" if line != beginning else ""
        pattern += "(?:[^\n]*\n)*?" if left_out else f"{re.escape(beginning)}{rest}\n"
    return re.fullmatch(pattern + r"\s*", "\n".join(printed) + "\n") is not None


def test_a_session_that_shows_something_else_would_be_seen() -> None:
    assert shows(["a", "…", "c…"], ["a", "b", "", "cd"])
    assert not shows(["a", "c"], ["a", "b", "c"])
    assert not shows(["a"], ["a", "b"])


def test_batch_answers_as_the_readme_shows(sample_repo: Path) -> None:
    (block,) = [block for block in blocks("text") if block.startswith("→")]
    asked = re.findall(r"^→ (.*)$", block, re.MULTILINE)
    shown = [json.loads(line.replace("…", "null")) for line in re.findall(r"^← (.*)$", block, re.MULTILINE)]
    done = run_rag("search", sample_repo, "--batch", stdin="\n".join(asked))
    ready, *answers = map(json.loads, done.out.splitlines())
    assert list(ready) == ["ready", "chunks", "history"]
    for answer in answers:
        for result in answer["results"]:
            result["score"] = None
    assert answers == shown


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_somewhere(name: str) -> None:
    for target in targets(TEXTS[name]):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        place = (ROOT / name).parent / path if path else ROOT / name
        assert place.exists(), target
        if anchor and place.suffix == ".md" and "<!-- generated" not in place.read_text(encoding="utf-8"):
            assert anchor in anchors(place.read_text(encoding="utf-8")), target


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as forges and MkDocs make them."""
    titles = re.findall(r"^#+ (.*)$", BLOCK.sub("", text), re.MULTILINE)
    words = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", each).strip().replace(" ", "-") for each in words}


@pytest.mark.parametrize("name", TEXTS)
def test_every_path_that_a_document_names_exists(name: str) -> None:
    """Paths of this repository, as `rag/corpus` or `tests/test_layers.py`."""
    text = BLOCK.sub(lambda block: "" if block[2] == "text" else block[0], TEXTS[name])
    named = re.findall(r"(?<![\w./~-])((?:rag|tests|tools|templates|data|docs|examples)/[\w./-]*\w)", text)
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", TEXTS)
def test_make_targets_extras_and_compose_files_exist(name: str) -> None:
    text = TEXTS[name]
    made = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"(?:`|^    |^)make ([\w-]+)", text, re.MULTILINE)) <= set(made)
    named = re.findall(r"(?:\.|rag-turns)\[([\w,-]+)\]", text)
    assert {extra for each in named for extra in each.split(",")} <= EXTRAS
    assert all((ROOT / file).is_file() for file in re.findall(r"docker compose -f (\S+)", text))


def test_every_benchmark_that_a_document_names_exists() -> None:
    named = {name for text in TEXTS.values() for name in re.findall(r"make bench ONLY=(\w+)", text)}
    command = [sys.executable, "-m", "tools.benchmarks", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert named
    assert [name for name in named if not re.search(rf"^  {name} ", done.stdout, re.MULTILINE)] == []


@pytest.mark.parametrize("name", TEXTS)
def test_data_in_the_documents_can_be_read(name: str) -> None:
    for block in blocks("toml", name):
        tomllib.loads(block)
    for block in blocks("json", name):
        json.loads(block)


def test_the_readme_is_short() -> None:
    assert len(README.encode()) <= 9_000
    assert len(README.splitlines()) <= 170


@pytest.mark.parametrize("kind", [Settings, ServerSettings])
def test_every_setting_is_described(kind: type[Any]) -> None:
    texts = field_texts(kind)
    assert set(texts) == {field.name for field in fields(kind)}
    assert [name for name, text in texts.items() if not text and name != "home"] == []


def test_every_template_variable_is_in_the_page_of_prompts() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", TEXTS["docs/prompts.md"], re.MULTILINE)) == _ANSWER_VARIABLES


def test_every_public_name_is_on_the_page_of_the_python_api() -> None:
    named = re.findall(r"^::: (\S+)$", TEXTS["docs/python-api.md"], re.MULTILINE)
    public = [f"rag.{name}" for name in rag.__all__] + [f"rag.wiki.{name}" for name in rag.wiki.__all__]
    assert sorted(named) == sorted(public)


def test_every_extra_is_on_the_page_of_installation() -> None:
    assert [name for name in EXTRAS if f"`{name}`" not in TEXTS["docs/installation.md"]] == []


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
    install = r"(?:pip|uv|pipx)[\w -]*(?:(?<!un)install|add|download)\s+(?:-\S+\s+)*"
    bare = re.compile(install + r"[\"'`]?(?:rag|repo-rag|rag-turns)(?![\w-]|(?:\[[\w,-]+\])? @)")
    assert bare.search("pip install " + "rag")
    assert bare.search("uv pip install -U '" + "repo-rag[x]'")
    found = [
        str(path) for path in text_files() if bare.search(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert not found
