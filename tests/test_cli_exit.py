"""How the command ends: output, exit codes and stores are complete without dismantling the interpreter."""

import os
import shutil
import signal
import subprocess
import sys
import time
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


ENDLESS = """#!/bin/sh
exec 3>'{held}'
sleep 60 &
echo begun >&3
sleep 60
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_answers_ends_with_all_that_it_has_started(
    home: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    held, model = tmp_path / "held", tmp_path / "model.sh"
    os.mkfifo(held)
    model.write_text(ENDLESS.format(held=held))
    model.chmod(0o755)
    arguments = ["ask", str(SAMPLE), "How are sessions signed?", "--model", f"cmd:{model}"]
    # What starts the tests may ignore these signals, and a child would inherit that.
    before = "from signal import *; signal(SIGTERM, SIG_DFL); signal(SIGHUP, SIG_DFL)"
    words = [sys.executable, "-c", IN_PROCESS.format(arguments=arguments, before=before)]
    asking = subprocess.Popen(words, env=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with held.open() as open_while_it_runs:
        assert open_while_it_runs.readline() == "begun\n"
        asking.send_signal(number)
        began = time.monotonic()
        assert open_while_it_runs.read() == "" and time.monotonic() - began < 30
    _, errors = asking.communicate(timeout=30)
    assert asking.returncode == -signal.SIGTERM
    assert b"Traceback" not in errors


STUCK = """
import threading
from rag import __main__ as program
program._STOPPING_S = 1
try:
    program._stop(15, None)
except SystemExit:
    threading.Event().wait(60)
"""


@pytest.mark.parametrize(
    ("first", "code"), [((), -signal.SIGALRM), (("unshare", "--pid", "--fork"), 128 + signal.SIGTERM)]
)
def test_a_command_that_does_not_stop_is_ended(
    home: dict[str, str], first: tuple[str, ...], code: int
) -> None:
    """Also as the first process of a container, which ignores signals by default."""
    if first and (
        shutil.which(first[0]) is None or subprocess.run([*first, "true"], capture_output=True).returncode
    ):
        pytest.skip("no process can be the first one here")
    assert subprocess.run([*first, sys.executable, "-c", STUCK], env=home, timeout=50).returncode == code


def test_nohup_is_obeyed(home: dict[str, str]) -> None:
    before = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    before += "; import atexit; atexit.register(lambda: signal.raise_signal(signal.SIGHUP))"
    ended = python(["--version"], before, env=home, capture_output=True)
    assert ended.returncode == 0
