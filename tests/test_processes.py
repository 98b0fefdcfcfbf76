"""Child processes: where they import from, what they are told, and what they may use."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

import pytest

from rag import processes
from rag.processes import (
    PIPE,
    Limits,
    TimeoutExpired,
    closed_environment,
    import_path,
    python_command,
    run,
    search_path,
    start,
    users_environment,
)

ROOT = Path(processes.__file__).resolve().parents[1]
LOADS_CODE = (
    "LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES PYTHONSTARTUP PYTHONINSPECT PYTHONWARNINGS PYTHONBREAKPOINT "
    "PYTHONPYCACHEPREFIX PYTHONEXECUTABLE PYTHONPLATLIBDIR BASH_ENV ENV GIT_EXTERNAL_DIFF GIT_EXEC_PATH "
    "GIT_DIR PERL5OPT NODE_OPTIONS OMP_TOOL_LIBRARIES GCONV_PATH MALLOC_CONF SSLKEYLOGFILE"
).split()
NEEDED = {
    "LANG": "C.UTF-8",
    "LC_NUMERIC": "C",
    "https_proxy": "http://127.0.0.1:1",
    "NO_PROXY": "*",
    "SSL_CERT_FILE": "/ca.pem",
    "RAG_MODEL": "m",
    "OPENAI_API_KEY": "k",
    "OMP_NUM_THREADS": "1",
    "GIT_SSH_COMMAND": "ssh -v",
    "SSH_AUTH_SOCK": "/agent",
    "PGPASSFILE": "/pgpass",
    "XDG_DATA_HOME": "/data",
}
TELLS = (
    "import json, os, sys; print(json.dumps([sys.path, dict(os.environ), os.getcwd(), sys.flags.safe_path]))"
)


def child(tmp_path: Path) -> tuple[list[str], dict[str, str], str, bool]:
    """What a child finds."""
    (tmp_path / "tells.py").write_text(TELLS)
    command = python_command("tells")
    more = {"PYTHONPATH": f"{os.pathsep.join(import_path())}{os.pathsep}{tmp_path}"}
    with start(command, environment=closed_environment(more), stdout=PIPE) as process:
        told = json.loads(process.communicate()[0])
    assert process.returncode == 0
    return tuple(told)  # type: ignore[return-value]


def test_a_child_is_told_what_it_needs_and_nothing_that_loads_code(tmp_path, monkeypatch):
    for name in LOADS_CODE:
        monkeypatch.setenv(name, "/nowhere")
    for name, value in NEEDED.items():
        monkeypatch.setenv(name, value)
    _, told, folder, is_safe = child(tmp_path)
    assert (folder, is_safe) == ("/", True)
    assert {name for name in LOADS_CODE if name in told} == set()
    assert NEEDED.items() <= told.items()


def test_a_child_imports_from_where_we_do_and_never_from_the_current_folder(tmp_path, monkeypatch):
    here, other = tmp_path / "here", tmp_path / "other"
    for folder in (here, other):
        folder.mkdir()
    (tmp_path / "link").symlink_to(here)
    archive = tmp_path / "modules.zip"
    archive.touch()
    monkeypatch.chdir(here)
    ours = [str(here), "", "../other", str(archive), str(tmp_path / "link"), *sys.path]
    monkeypatch.setattr(sys, "path", ours)
    found, _, _, _ = child(tmp_path)
    assert {str(other), str(archive), str(ROOT)} <= set(found)
    assert not {str(here), "", ".", str(tmp_path / "link")} & set(found)
    assert set(filter(None, sys.path)) - {str(here), str(tmp_path / "link"), "../other"} <= set(found)


def test_the_package_is_found_though_it_lies_in_the_current_folder(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", ["", str(ROOT)])
    assert import_path() == [str(ROOT)]


def test_a_current_folder_that_is_gone_hinders_no_child(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert child(tmp_path)[2] == "/"


def test_relative_paths_that_the_user_gave_stay_the_users(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAG_HOME", "mine")
    monkeypatch.setenv("SSL_CERT_FILE", "ca.pem")
    monkeypatch.setenv("PATH", f":bin:.:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", "::lib:")
    told = closed_environment()
    assert (told["RAG_HOME"], told["SSL_CERT_FILE"]) == (str(tmp_path / "mine"), str(tmp_path / "ca.pem"))
    assert all(Path(entry).is_absolute() for entry in told["PATH"].split(os.pathsep))
    assert "LD_LIBRARY_PATH" not in told
    monkeypatch.setenv("MINE", "kept")
    monkeypatch.setenv("PYTHONPATH", ":")
    users = users_environment({"RAG_HOME": "/other"})
    assert (users["MINE"], users["RAG_HOME"]) == ("kept", "/other")
    assert "PYTHONPATH" not in users


@pytest.mark.parametrize(("given", "kept"), [("", ""), (":", ""), ("a:/b::.:/c", "/b:/c"), ("/b", "/b")])
def test_a_search_path_loses_what_depends_on_the_current_folder(given, kept):
    assert search_path(given) == kept


@pytest.mark.skipif(sys.platform != "linux", reason="a running process can be bounded on Linux only")
def test_memory_time_and_urgency_are_bounded(tmp_path):
    limits = Limits(memory_bytes=300 << 20, cpu_s=77, niceness=3)
    code = "import sys; sys.stdin.read(); b'x' * (400 << 20)"
    with start([sys.executable, "-c", code], stdin=PIPE, stderr=PIPE, limits=limits) as process:
        assert resource.prlimit(process.pid, resource.RLIMIT_CPU) == (77, 77)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 3
        _, said = process.communicate()
    assert b"MemoryError" in said


def test_a_program_is_run_to_its_end_or_killed(tmp_path):
    code = "import sys; print('out'); sys.stderr.write('err'); sys.exit(3)"
    assert run([sys.executable, "-c", code], timeout_s=60) == (3, "out\n", "err")
    with pytest.raises(TimeoutExpired):
        run([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.1)
    with pytest.raises(FileNotFoundError):
        run(["/no/such/program"], timeout_s=1)
