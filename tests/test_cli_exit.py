"""How the command ends: output, exit codes and stores are complete without dismantling the interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import rag_process

SAMPLE = Path(__file__).parent.parent / "data" / "sample_repo"
IN_PROCESS = (
    "import atexit, sys; from rag.__main__ import main; {before}; sys.argv = ['rag', *{arguments}]; main()"
)


def python(
    arguments: list[str], before: str = "pass", **options: object
) -> subprocess.CompletedProcess[bytes]:
    code = IN_PROCESS.format(arguments=arguments, before=before)
    return subprocess.run([sys.executable, "-c", code], check=False, timeout=120, **options)


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "RAG_HOME": str(tmp_path)}


def test_exit_codes_and_output_are_complete(home: dict[str, str]) -> None:
    found = rag_process("search", SAMPLE, "How are sessions signed?", "--json", env=home)
    assert (found.code, bool(found.json)) == (0, True)
    assert rag_process("search", SAMPLE / "missing", "a question", env=home).code == 2
    assert rag_process("search", "--no-such-option", env=home).code == 2
    assert rag_process("--version", env=home).out.startswith("rag-turns ")


def test_a_stored_turn_leaves_no_log_behind(home: dict[str, str]) -> None:
    assert rag_process("ask", SAMPLE, "How are sessions signed?", env=home).code == 0
    assert [path.name for path in Path(home["RAG_HOME"]).glob("*.db*")] == ["turns.db"]


def test_functions_registered_for_the_exit_are_called(home: dict[str, str]) -> None:
    before = "atexit.register(lambda: print('called'))"
    ended = python(["--version"], before, env=home, capture_output=True)
    assert (ended.returncode, ended.stdout.split()[-1]) == (0, b"called")


def test_other_threads_are_waited_for(home: dict[str, str]) -> None:
    before = (
        "from threading import Thread, main_thread; "
        "Thread(target=lambda: (main_thread().join(), print('ended'))).start()"
    )
    ended = python(["--version"], before, env=home, capture_output=True)
    assert (ended.returncode, ended.stdout.split()[-1]) == (0, b"ended")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_an_error(home: dict[str, str]) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = python(["--version"], env=home, stdout=full, stderr=subprocess.PIPE)
    assert ended.returncode != 0
