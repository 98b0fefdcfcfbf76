"""`%load_ext rag` in a real IPython shell: what is asked, shown, remembered and reported."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import CapturedIO, capture_output

from rag.notebook.magics import questions_as_calls
from tests.servers.provider import ProviderServer

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample_repo"
SIGNED = "How are sessions signed?"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("RAG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SAMPLE, tmp_path / "snip")
    shell = opened_shell()
    yield shell
    rag = shell.user_ns["ask_rag"]()
    if rag is not None:
        rag.engine.close()
    InteractiveShell.clear_instance()


def opened_shell() -> InteractiveShell:
    """A shell that displays as a notebook's kernel does."""
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.kernel = None
    shell.run_line_magic("load_ext", "rag")
    return shell


def cell(shell: InteractiveShell, code: str) -> CapturedIO:
    """Run a cell as a notebook does; an exception fails the test."""
    with capture_output() as captured:
        done = shell.run_cell(code)
    assert done.success, captured.stdout
    return captured


def drawn(captured: CapturedIO) -> list[str]:
    return [output.data["text/html"] for output in captured.outputs if "text/html" in output.data]


def test_an_answer_is_shown_stored_and_remembered(shell: InteractiveShell) -> None:
    first = cell(shell, f"%ask -r snip {SIGNED}")
    assert first.stderr == ""
    assert "searching …" in drawn(first)[0]
    assert "SessionSigner" in drawn(first)[-1]
    assert "searching …" not in drawn(first)[-1]
    assert shell.user_ns["answer"].question == SIGNED
    cell(shell, "%%ask -o second\nAnd when do\nthey expire?")
    assert shell.user_ns["second"].question == "And when do\nthey expire?"
    rag = shell.user_ns["ask_rag"]()
    assert [turn.question for turn in rag.memory().values()] == [SIGNED, "And when do\nthey expire?"]
    cell(shell, "%ask --new How is the rate limited?")
    assert [turn.question for turn in shell.user_ns["ask_rag"]().memory().values()] == [
        "How is the rate limited?"
    ]


def test_a_conversation_goes_on_by_its_name_in_another_shell(shell: InteractiveShell) -> None:
    cell(shell, f"%ask -r snip -c visit {SIGNED}")
    other = opened_shell()
    cell(other, "%ask -c visit And when do they expire?")
    assert len(other.user_ns["ask_rag"]().memory()) == 2


def test_two_repositories_stay_with_the_conversation_whatever_changes(
    shell: InteractiveShell, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.py").write_text("def brew_tea():\n    return 'tea'\n")
    cell(shell, "%ask -r snip -r other -c both How is tea brewed?")
    assert shell.user_ns["answer"].citations[0].path == "a.py"
    with ProviderServer() as provider:
        cell(shell, f"%ask -m m --base-url {provider.base_url} {SIGNED}")
    rag = shell.user_ns["ask_rag"]()
    assert len(rag.memory()) == 2
    assert {repository.source.name for repository in rag.repositories} == {"snip", "other"}
    cell(shell, f"%ask -r snip -c one {SIGNED}")
    assert "rag: " in cell(shell, "%ask -r other -c one Is there tea?").stderr, "it is about another one"
    cell(shell, "%ask -c both And how is tea brewed?")
    assert len(shell.user_ns["ask_rag"]().memory()) >= 2


def test_variables_of_the_notebook_can_be_used(shell: InteractiveShell) -> None:
    shell.user_ns["place"] = shell.user_ns["what"] = "snip"
    cell(shell, "%ask -r $place What is {what}?")
    assert shell.user_ns["answer"].question == "What is snip?"


def test_a_source_opens_the_file_below_the_current_folder(shell: InteractiveShell) -> None:
    html = drawn(cell(shell, f"%ask -r snip {SIGNED}"))[-1]
    assert 'href="snip/snip/sessions.py"' in html
    assert (Path.cwd() / "snip/snip/sessions.py").is_file()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("%ask Where is a token checked?", "no repository is chosen yet"),
        ("%ask -r nowhere Where is it?", "nowhere"),
        ("%ask -r snip", "the question is empty"),
        ("%ask", "the question is empty"),
        ("%ask --colour red Where?", "%ask --help"),
        ("%ask -r snip -o 1x Where is it?", "no name of a variable"),
        ("%ask -r snip --ref gone Where is it?", "gone"),
        ("%ask -r snip -m m --base-url http://127.0.0.1:9/v1 How are sessions signed?", "127.0.0.1:9"),
    ],
)
def test_an_error_is_one_clear_message(shell: InteractiveShell, code: str, says: str) -> None:
    captured = cell(shell, code)
    assert captured.stderr.startswith("rag: ")
    assert says in captured.stderr
    assert "Traceback" not in captured.stderr + captured.stdout
    assert captured.stderr.count("\n") <= 2
    assert "searching …" not in "".join(drawn(captured)[-1:])


def test_in_a_terminal_the_answer_is_printed(shell: InteractiveShell) -> None:
    del shell.kernel
    captured = cell(shell, f"%ask -r snip {SIGNED}")
    assert not captured.outputs
    assert re.search(r"in function `[\w.]+` \(`snip/sessions\.py:\d+`\) \[1\]", captured.stdout)
    assert len(re.findall(r"^\[\d\] snip/", captured.stdout, re.MULTILINE)) == 1, "one caption"


def test_code_of_a_repository_does_not_control_the_terminal(shell: InteractiveShell) -> None:
    hostile = "\x1b[2J\x9b31m\u202e\u2066"
    Path("snip/hostile.py").write_text(f'def walrus_paint():\n    return "red{hostile}"\n')
    shown = cell(shell, "%ask -r snip What does walrus_paint return?").outputs[-1].data
    del shell.kernel
    printed = cell(shell, "%ask -r snip What does walrus_paint return?").stdout
    for text in (shown["text/plain"], shown["text/html"], printed):
        assert "walrus_paint" in text
        assert not set(hostile.strip("[2J31m")) & set(text) - set("[2J31m")


def test_help_lists_the_options(shell: InteractiveShell) -> None:
    assert "--conversation" in cell(shell, "%ask --help").stdout


def test_a_model_streams_and_its_failure_shows_what_was_found(shell: InteractiveShell) -> None:
    with ProviderServer() as provider:
        cell(shell, f"%ask -r snip -m m --base-url {provider.base_url} {SIGNED}")
        assert shell.user_ns["answer"].model == "m"
        cell(shell, "%ask And when do they expire?")
        assert shell.user_ns["answer"].model == "m", "the model is remembered, too"
        assert len(shell.user_ns["ask_rag"]().memory()) == 2
    failed = cell(shell, "%ask How is the rate limited?")
    assert failed.stderr.startswith("rag: ")
    assert "ratelimit.py" in drawn(failed)[-1], "the quotes"


@pytest.mark.parametrize(
    ("lines", "there"),
    [
        (["%ask Who?\n"], ["get_ipython().run_line_magic('ask', 'Who?')\n"]),
        (
            ["x = 1\n", "  %ask -r a What's it?  \n"],
            ["x = 1\n", "  get_ipython().run_line_magic('ask', \"-r a What's it?\")\n"],
        ),
        (["%ask Explain it\n", "print?\n"], ["%ask Explain it\n", "print?\n"]),
        (["%%ask\n", "%ask Who?\n"], ["%%ask\n", "%ask Who?\n"]),
    ],
)
def test_a_question_mark_is_no_call_for_help(lines: list[str], there: list[str]) -> None:
    assert questions_as_calls(lines) == there


def test_loading_the_extension_is_cheap() -> None:
    code = (
        "import rag, sys\nfrom IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell()\nshell.run_line_magic('load_ext', 'rag')\n"
        "print([name for name in ('adalflow', 'faiss', 'pandas', 'openai') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_ipython_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import rag
    from rag.errors import BackendMissing

    shell: Any = None
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(BackendMissing, match=r"pip install '\.\[notebook\]'"):
        rag.load_ipython_extension(shell)
