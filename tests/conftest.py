"""What every test stands on: no network, a home of its own, and a small real repository."""

from __future__ import annotations

import functools
import gc
import ipaddress
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer.testing
from hypothesis import settings

if TYPE_CHECKING:
    from rag.retrieval.search import Searcher

pytest.register_assert_rewrite("tests.contracts")
collect_ignore = ["clients"]  # they run in an environment of their own: `make test-clients`
pytest_plugins = ["real_model", "live_server", "postgres_server", "small_repositories"]
pytest_plugins += ["fuzz_inputs", "chromium"]

SAMPLE_REPO = Path(__file__).resolve().parent.parent / "data" / "sample_repo"

_PRIVATE_PREFIXES = ("RAG_", "AWS_", "OPENAI_", "AZURE_OPENAI_", "ANTHROPIC_", "GIT_", "XDG_")
_COMMIT = {
    "GIT_AUTHOR_NAME": "Sample Author",
    "GIT_AUTHOR_EMAIL": "author@example.org",
    "GIT_AUTHOR_DATE": "2026-01-01T12:00:00+00:00",
    "GIT_COMMITTER_NAME": "Sample Author",
    "GIT_COMMITTER_EMAIL": "author@example.org",
    "GIT_COMMITTER_DATE": "2026-01-01T12:00:00+00:00",
}


_MEMORY = Path("/dev/shm")
_NEEDED_BYTES = 4 << 30
"""The files of all tests take at most half of it."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and "TMPDIR" not in os.environ and _has_room():
        _put_files_into_memory(config)
    # Read when numpy, faiss and llama.cpp are loaded. Their threads wait for each other in busy loops:
    # with more workers than processors, tests take three to ten times the CPU time.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # A developer's own encodings folder may lack the one we ship, and tiktoken would then download it.
    os.environ.pop("TIKTOKEN_CACHE_DIR", None)
    # A runner would make all commands of the command line again for each call: a third of the time of a call.
    typer.testing._get_command = functools.cache(typer.testing._get_command)  # type: ignore[attr-defined]
    # How long an example takes says more about the machine than about us.
    settings.register_profile("any machine", deadline=None)
    settings.load_profile("any machine")
    # A background job of a shell ignores Ctrl-C, and would pass that on to the commands under test.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _has_room() -> bool:
    """Whether this machine has a file system in memory for programs and files of this size."""
    if not os.access(_MEMORY, os.W_OK):
        return False
    found = os.statvfs(_MEMORY)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    is_large = min(found.f_bavail * found.f_frsize, memory // 2) >= _NEEDED_BYTES
    return is_large and not found.f_flag & os.ST_NOEXEC


def _put_files_into_memory(config: pytest.Config) -> None:
    """Let all temporary folders be in memory, also those of the workers, until the end of the session.

    Stores wait for the disk after each write: on a usual disk this is a third of the time of their tests.
    `TMPDIR=/tmp` and `--basetemp` keep the files.
    """
    for left in _MEMORY.glob("rag-tests-*"):  # by a session that was killed
        if not Path(f"/proc/{left.name.rpartition('-')[2]}").exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = _MEMORY / f"rag-tests-{os.getpid()}"
    folder.mkdir(mode=0o711)  # the servers of some tests run as other users
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return more workers than processors: tests wait for servers and processes half of their time."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 2 * processors


_LONGEST = (
    "serve/test_page_browser",
    "backends/test_object_store",
    "serve/test_shared",
    "backends/test_redis_stores",
    "backends/test_openai_bounds",
    "database/test_parts",
    "corpus/test_chunk",
    "test_scale_demo",
    "worker/test_worker",
    "test_cli_start",
    "fuzz/test_fuzz_kept",
    "test_tripwires",
    "test_bad_input",
    "wiki/test_wiki_writer",
    "worker/test_cluster",
    "test_notebooks",
    "test_cli",
    "wiki/test_wiki_prose",
    "test_github_action",
    "test_isolation_of_text",
    "prompt/test_compose",
    "test_examples",
    "evaluation/test_report",
    "agent/test_second_look",
    "notebook/test_magics",
)
"""The modules that take longest. A module runs in one worker: begun last, one would run alone at the end."""


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let each worker begin to collect at another file.

    In a fresh checkout the modules are compiled, with their assertions rewritten: two thirds of the time that
    collecting takes. Workers that begin at the same file would all compile the same modules.
    """
    report = yield
    if collector.nodeid == "tests" and (worker := os.environ.get("PYTEST_XDIST_WORKER")):
        first = len(report.result) * int(worker[2:]) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        report.result = report.result[first:] + report.result[:first]
    return report


_CORE = {"agent", "answer", "code", "database", "memory", "prompt", "retrieval", "review", "service"}
"""The folders whose tests are marked `core`."""

_NOT_CORE = {
    "agent/test_second_look",
    "database/test_approximate",
    "database/test_parts",
    "database/test_update",
    "memory/test_staleness_figures",
    "prompt/test_compose",
    "retrieval/test_exact",
    "retrieval/test_long_questions",
    "service/test_answer_cache",
    "service/test_backup",
}
"""Modules of these folders that need servers or take longest."""


def _is_core(item: pytest.Item) -> bool:
    module = item.nodeid.partition("::")[0].removeprefix("tests/").removesuffix(".py")
    return module.partition("/")[0] in _CORE and module not in _NOT_CORE


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in filter(_is_core, items):
        item.add_marker("core")
    ranks = {f"tests/{name}.py": rank for rank, name in enumerate(_LONGEST)}

    def order(item: pytest.Item) -> tuple[int, str]:
        module = item.nodeid.partition("::")[0]
        return ranks.get(module, len(ranks)), module

    items.sort(key=order)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()  # what is made while collecting lives to the end
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    # Half a million objects of the collected tests live to the end. Without this, each full collection walks
    # through them for 0.3 s of CPU time, in the middle of whatever a test measures.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


def _is_local(address: Any) -> bool:
    if not isinstance(address, tuple):
        return True  # unix sockets, and families that never leave the machine
    host = str(address[0])
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    """Only loopback and unix sockets connect; anything else is an error that names the address."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def checked(sock: socket.socket, address: Any) -> Any:
        if not _is_local(address):
            sock.close()  # the caller only expects an OSError, and would leave it open
            raise AssertionError(f"a test connects to {address!r}; only loopback is allowed")
        return address

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", lambda s, address: connect(s, checked(s, address)))
        patch.setattr(socket.socket, "connect_ex", lambda s, address: connect_ex(s, checked(s, address)))
        yield


_folders = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh folder. Pytest's own fixture lists the folders of all tests before, to find a free number."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}_{next(_folders)}"
    folder.mkdir(0o700)
    return folder


@pytest.fixture(autouse=True)
def isolated_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh HOME and RAG_HOME, and none of the settings or keys of whoever runs the tests.

    Most scripted models have a reply for each question and follow-up: a first question is not reworded.
    """
    for name in [n for n in os.environ if n.startswith(_PRIVATE_PREFIXES)]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("RAG_HOME", str(tmp_path / "rag-home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("RAG_REWORD", "no")
    return home


def git(folder: Path, *arguments: str) -> str:
    """Run git in `folder` as a fixed author at a fixed time; return what it printed."""
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *arguments],
        cwd=folder,
        env={**os.environ, **_COMMIT},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    """The sample repository as it ships, indexed and ready to be searched."""
    from rag.service import Engine
    from rag.settings import Settings

    with closing(Engine(Settings(home=tmp_path_factory.mktemp("home"), memory="memory:"))) as engine:
        yield engine.repository(str(SAMPLE_REPO)).searcher


@pytest.fixture(scope="session")
def committed_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """data/sample_repo as a git repository with one commit, which `sample_repo` is copied from."""
    root = tmp_path_factory.mktemp("committed") / "sample_repo"
    shutil.copytree(SAMPLE_REPO, root, ignore=shutil.ignore_patterns("__pycache__"))
    git(root, "init", "--quiet", "--template=")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Begin the link shortener")
    return root


@pytest.fixture
def sample_repo(tmp_path: Path, committed_sample: Path) -> Path:
    """A fresh copy of data/sample_repo: a git repository with one commit, the same every time."""
    return shutil.copytree(committed_sample, tmp_path / "sample_repo")
