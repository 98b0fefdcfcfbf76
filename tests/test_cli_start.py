"""A command that is called by its name starts alone, and looks as it does among the others."""

import subprocess
import sys

import pytest
from command import rag_process
from typer.testing import CliRunner

from rag import cli

NAMES = list(cli._COMMANDS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rest", [["--help"], ["--no-such-option"], []])
def test_a_command_alone_says_what_it_says_among_all(name, rest):
    if name in ("chat", "serve", "mcp", "doctor", "index", "wiki", "storage") and not rest:
        rest = ["--help"]  # these begin to work at once
    alone, among = (CliRunner().invoke(app, [name, *rest]) for app in (cli.commands([name]), cli.commands()))
    assert (alone.exit_code, alone.stdout, alone.stderr) == (among.exit_code, among.stdout, among.stderr)
    assert alone.stdout or alone.stderr


def test_help_and_a_mistyped_name_know_every_command():
    shown = rag_process("--help").out + rag_process("admin").out
    assert [name for name in NAMES if name in shown] == NAMES
    mistyped = rag_process("serch", "x")
    assert mistyped.code == 2
    assert "search" in mistyped.err


@pytest.mark.parametrize("arguments", [["search", ".", "token", "--help"], ["--version"]])
def test_a_search_and_the_version_do_not_load_the_other_commands(arguments):
    code = (
        "import sys\nfrom rag.cli import main\n"
        f"sys.argv = ['rag', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([n for n in ('rag.cli.serve', 'rag.cli.turns', 'numpy') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_cold_search_does_without_faiss(sample_repo):
    code = (
        "import sys\nfrom rag.cli import main\n"
        f"sys.argv = ['rag', 'search', {str(sample_repo)!r}, 'token']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([n for n in ('faiss', 'pathspec', 'adalflow', 'openai') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("question", "rules"),
    [
        ("token", set()),
        ("Where is the token checked?", {"messages"}),
        ("Who calls shorten?", {"callers"}),
    ],
)
def test_a_cold_search_imports_the_rules_of_the_kinds_that_the_question_is_of(sample_repo, question, rules):
    code = (
        "import sys\nfrom rag.cli import main\n"
        f"sys.argv = ['rag', 'search', {str(sample_repo)!r}, {question!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*(n.rpartition('.')[2] for n in sys.modules if n.startswith('rag.retrieval.kinds.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    every = {
        "messages",
        "callers",
        "lists",
        "line_series",
        "list_fit",
        "settings",
        "declared",
        "failures",
        "trace",
    }
    assert every & set(done.stdout.splitlines()[-1].split()) == rules


@pytest.mark.parametrize("question", ["Where is handle_request used?", "Who calls shorten?"])
def test_a_cold_question_does_without_masked_arrays(sample_repo, question):
    code = (
        "import sys\nfrom rag.cli import main\n"
        f"sys.argv = ['rag', 'ask', {question!r}, '--repo', {str(sample_repo)!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([n for n in ('numpy', 'numpy.ma') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['numpy']"


def test_ctrl_c_while_it_starts_is_quiet():
    code = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == {at!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from rag.__main__ import main\n"
        "sys.argv = ['rag', 'doctor']\n"
        "main()\n"
    )
    for at in ("rag.cli", "typer", "rag.cli.doctor"):
        done = subprocess.run([sys.executable, "-c", code.format(at=at)], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (130, "", ""), at
