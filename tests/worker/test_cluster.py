"""`rag index --list-file … --executor dask://…`, with a scheduler and workers as an operator starts them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from command import command, rag, rag_process
from conftest import git
from unfinished_index import unfinished

from rag import backends
from rag.errors import BackendMissing, ProviderUnreachable, SettingsError
from rag.processes import PIPE, start
from rag.service import Engine, locate
from rag.service.jobs import JobRequest, index_request
from rag.service.shared_stores import shared_indexes
from rag.settings import Settings
from rag.worker.cluster import MAX_ATTEMPTS, on_cluster
from rag.worker.node import NodeJob, run_on_node
from tests.servers.dask import LocalDask, local_dask, until


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDask]:
    """A cluster with two workers of one thread each."""
    with local_dask(tmp_path_factory.mktemp("dask")) as cluster:
        cluster.add_worker(count=2)
        yield cluster


@pytest.fixture
def listed(tmp_path: Path, sample_repo: Path) -> Path:
    """Three repositories, and one that is not there."""
    for name in ("a", "b", "c"):
        git(sample_repo, "clone", "--quiet", str(sample_repo), str(tmp_path / "repositories" / name))
    file = tmp_path / "list.txt"
    file.write_text("repositories/a\nrepositories/missing\nrepositories/b\nrepositories/c\n")
    return file


def test_a_list_is_indexed_in_the_shared_data_folder(dask: LocalDask, listed: Path) -> None:
    done = rag_process("index", "--list-file", listed, "--executor", dask.address)
    assert done.code == 2
    assert done.out.startswith("failed\trepositories/missing\t") and done.out.count("\n") == 1
    assert "3 indexed, 1 failed" in done.err and "overhead per repository" in done.err
    names = [row["source"] for row in rag("index", "--list", "--json").json]
    assert sorted(Path(name).name for name in names) == ["a", "b", "c"]
    assert not dask.home.exists()
    assert not list(Path(os.environ["RAG_HOME"]).glob("cluster-*"))
    second = rag_process("index", "--list-file", listed, "--executor", dask.address, "--json")
    assert [one["skipped"] for one in second.json["repositories"]].count(True) == 3
    again = rag_process("index", "--list-file", listed, "--executor", dask.address, "--again")
    assert again.err.count("fresh") == 3, "an index that is current is not built again"


def test_workers_with_other_data_folders_publish(
    dask: LocalDask, listed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_STORES", str(tmp_path / "shelf"))
    urls = [f"file://{tmp_path}/repositories/{name}\n" for name in ("a", "b")]
    listed.write_text("".join([*urls, "repositories/c\n"]))
    done = rag_process("index", "--list-file", listed, "--executor", dask.address)
    assert done.code == 2 and "2 indexed, 1 failed" in done.err
    assert "repositories/c\tit is a folder, which other machines do not know" in done.out
    home = Path(os.environ["RAG_HOME"])
    assert dask.home.exists() and not (home / "stores").exists()
    reader = Settings(home=tmp_path / "reader", stores=str(tmp_path / "shelf"))
    assert len(shared_indexes(reader)[1]) == 2
    listed.write_text(urls[0])
    found = rag_process("index", "--list-file", listed, "--executor", dask.address, "--again")
    assert found.code == 0 and "1 indexed" in found.err
    assert ": built" not in found.err, "the other worker begins from the published index"


def test_a_worker_that_is_killed_loses_nothing(dask: LocalDask, listed: Path, tmp_path: Path) -> None:
    listed.write_text("repositories/b\nrepositories/a\n")
    with unfinished(Path(os.environ["RAG_HOME"]), tmp_path / "repositories" / "b"):
        process = start(
            command("index", "--list-file", listed, "--executor", dask.address),
            environment=os.environ, stdout=PIPE, stderr=PIPE,
        )  # fmt: skip
        os.kill(until(dask.working)[0], signal.SIGKILL)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err.decode()
    assert b"2 indexed, 0 failed" in err
    assert len(rag("index", "--list", "--json").json) == 2


def test_ctrl_c_ends_what_runs_and_the_next_run_continues(
    dask: LocalDask, listed: Path, tmp_path: Path
) -> None:
    source = tmp_path / "repositories" / "b"
    settings = Settings(home=Path(os.environ["RAG_HOME"]))
    listed.write_text("repositories/a\nrepositories/b\n")
    with unfinished(settings.home, source):
        process = start(
            command("index", "--list-file", listed, "--executor", dask.address),
            environment=os.environ, stdout=PIPE, stderr=PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        assert b"repositories/a: built" in process.stderr.readline()
        until(dask.working)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130 and b"Traceback" not in err, err.decode()
        until(lambda: not dask.working())
    assert not Engine(settings).store_file(locate(str(source))).exists()
    assert not list(settings.home.glob("cluster-*"))
    again = rag_process("index", "--list-file", listed, "--executor", dask.address)
    assert again.code == 0 and "1 indexed, 0 failed, 1 done by an earlier run" in again.err


def test_a_lost_scheduler_ends_the_run_with_a_message(listed: Path, tmp_path: Path) -> None:
    listed.write_text("repositories/b\n")
    (tmp_path / "other").mkdir()
    with (
        unfinished(Path(os.environ["RAG_HOME"]), tmp_path / "repositories" / "b"),
        local_dask(tmp_path / "other") as cluster,
    ):
        cluster.add_worker()
        process = start(
            command("index", "--list-file", listed, "--executor", cluster.address),
            environment=os.environ, stdout=PIPE, stderr=PIPE,
        )  # fmt: skip
        until(cluster.working)
        cluster.scheduler.kill()
        killed = monotonic()
        _, err = process.communicate(timeout=120)
        assert process.returncode == 3 and b"cannot be reached" in err and b"Traceback" not in err, (
            err.decode()
        )
        until(lambda: not cluster.working())
        assert monotonic() - killed < 25, "a worker that closes waits 30 s for what it runs"


OTHER_VERSION = "import rag.worker.node as node\nnode.node_version = lambda: '9.9 (index format 99)'\n"
NO_RAG = "import sys\nsys.modules['rag'] = None\n"


def test_workers_with_another_version_or_none_are_refused(listed: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with local_dask(tmp_path / "other") as cluster:
        cluster.add_worker(preload=OTHER_VERSION)
        cluster.add_worker(preload=NO_RAG)
        done = rag_process("index", "--list-file", listed, "--executor", cluster.address)
    assert done.code == 2 and done.err.count("tcp://127.0.0.1:") == 2
    assert (
        "it has rag 9.9 (index format 99), the command has rag" in done.err and "install it there" in done.err
    )
    assert not list(Path(os.environ["RAG_HOME"]).glob("stores/*"))


def test_what_ends_its_worker_each_time_fails_at_last(dask: LocalDask) -> None:
    def die(argument: str, is_cancelled: Callable[[], bool]) -> None:  # as a lack of memory does
        os.kill(os.getpid(), signal.SIGKILL)

    def broken(argument: str, is_cancelled: Callable[[], bool]) -> None:
        raise ValueError(argument)

    cluster = backends.open_cluster(dask.address)
    try:
        results = dict(cluster.run(die, {"dies": ""}))
        assert "its Dask worker ended each time" in str(results["dies"])
        (raised,) = dict(cluster.run(broken, {"raises": "why"})).values()
        assert isinstance(raised, ValueError) and str(raised) == "why"
    finally:
        cluster.close()
        cluster.close()


class FakeCluster:
    """Nodes in this process, whose answers are given."""

    def __init__(self, nodes: Mapping[str, Any], results: list[dict[str, Any]]) -> None:
        self.nodes, self.results, self.jobs = nodes, results, list[NodeJob]()

    def on_scheduler(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def on_workers(self, function: Callable[..., Any], *args: Any) -> dict[str, Any]:
        return {name: function(*args) if answer is None else answer for name, answer in self.nodes.items()}

    def run(self, function: Callable[..., Any], calls: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, job in calls.items():
            self.jobs.append(job)
            yield name, self.results.pop(0)


def request_of(folder: Path, settings: Settings) -> dict[str, JobRequest]:
    return {"one": index_request(locate(str(folder)), settings)}


RETRY = {"error": {"message": "no answer", "retry": True}}
FINAL = {"error": {"message": "no such branch", "retry": False}}
DONE = {"done": {"report": {}}}


@pytest.mark.parametrize(
    ("results", "state", "attempts"),
    [
        ([RETRY, RETRY, DONE], "done", 2),
        ([RETRY] * MAX_ATTEMPTS, "failed", MAX_ATTEMPTS),
        ([FINAL], "failed", 1),
        ([ValueError("broken")], "failed", MAX_ATTEMPTS),
    ],
)
def test_what_may_pass_is_attempted_again(
    results: list[Any], state: str, attempts: int, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path / "home", api_key="sk-secret", git_token="secret-token")
    cluster = FakeCluster({"worker": None}, list(results))
    with on_cluster(cluster, settings, pause_s=0) as run:
        ((name, job),) = run(request_of(tmp_path, settings))
    assert (name, job.state, job.attempts) == ("one", state, attempts)
    assert not cluster.results and "secret" not in repr(cluster.jobs), "keys and tokens stay here"


@pytest.mark.parametrize(
    "result",
    [
        None,
        7,
        "done",
        [],
        {},
        {"done": None},
        {"error": None},
        {"error": {}},
        {"error": {"message": 7}},
        b"x",
    ],
)
def test_a_result_that_is_none_of_a_job_is_a_failure(result: Any, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    with on_cluster(FakeCluster({"a": None}, [result]), settings, pause_s=0) as run:
        ((name, job),) = run(request_of(tmp_path, settings))
    assert (name, job.state) == ("one", "failed") and type(result).__name__ in job.error


def test_a_node_that_does_not_see_the_folder_is_refused(tmp_path: Path) -> None:
    from rag.worker.node import NodeCheck, node_version, problem

    unseen = problem(NodeCheck(node_version(), str(tmp_path / "elsewhere" / "marker")))
    assert "RAG_STORES" in unseen and str(tmp_path / "elsewhere") in unseen
    settings = Settings(home=tmp_path / "home")
    nodes = {"tcp://a": unseen, "tcp://b": None, **{f"tcp://{n}": unseen for n in range(7)}}
    with (
        pytest.raises(SettingsError, match=r"tcp://a: it does not see .*\(and 3 more\)"),
        on_cluster(FakeCluster(nodes, []), settings),
    ):
        raise AssertionError("it was not refused")
    assert not list(settings.home.iterdir())


def test_a_node_with_wrong_settings_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(home=tmp_path / "home")
    cluster = FakeCluster({}, [DONE])
    with on_cluster(cluster, settings) as run:
        list(run(request_of(tmp_path, settings)))
        monkeypatch.setenv("RAG_CONTEXT_TOKENS", "many")
        error = run_on_node(cluster.jobs[0], lambda: False)["error"]
    assert "RAG_CONTEXT_TOKENS" in error["message"] and not error["retry"]
    assert "it does not see the folder" in run_on_node(cluster.jobs[0], lambda: False)["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("index", ".", "--executor", "dask://h:1"), "need --list-file"),
        (("--executor", "ray://h:1"), "dask://HOST:PORT"),
        (("--executor", "dask://h"), "dask://HOST:PORT"),
        (("--executor", "dask://h:1", "--slots", "2"), "--nthreads"),
        (("--executor", "dask://h:1", "--shared", "postgresql://h/x"), "either"),
    ],
)
def test_wrong_options_are_named(arguments: tuple[str, ...], message: str, listed: Path) -> None:
    whole = arguments if arguments[0] == "index" else ("index", "--list-file", str(listed), *arguments)
    done = rag(*whole)
    assert done.code == 2 and message in done.err


def test_a_scheduler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from rag.backends import dask_cluster

    monkeypatch.setattr(dask_cluster, "_TIMEOUT_S", 0.2)
    with pytest.raises(ProviderUnreachable, match=r"dask://127\.0\.0\.1:9 cannot be reached"):
        backends.open_cluster("dask://127.0.0.1:9")


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "rag.backends.dask_cluster", raising=False)
    with pytest.raises(BackendMissing, match=r"distributed.*\.\[dask\]"):
        backends.open_cluster("dask://127.0.0.1:9")
