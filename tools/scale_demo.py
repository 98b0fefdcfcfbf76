"""`make scale-demo`: two servers, two workers, Postgres, an S3 server and a balancer; one of each is killed.

Everything runs on loopback, from packages, in one folder. The repositories are Python packages of PyPI
(`examples/scale/requirements.txt`), each with a git history. A worker is killed in the middle of a build
and a server in the middle of traffic. Afterwards every repository must be answered by both servers, and
every answer that was acknowledged must be in the database; the exit code is 1 if anything is missing.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from rag.backends.queue.postgres import PostgresJobs
from rag.job_queue import QueuedJob
from rag.processes import Process, closed_environment, python_command, start
from tests.servers.object_store import MotoServer, free_port
from tests.servers.postgres import LocalPostgres

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ROOT / "examples/scale/requirements.txt"
HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
BUILD_BOUND_S, ANSWER_BOUND_S = 600.0, 30.0
"""The job of a killed worker waits for its lease (15 s) to end, and then for the jobs before it."""
_PATIENCE_S = 900.0
_CLIENTS = 4
_ASKED_BEFORE, _ASKED_AFTER = 20, 40


class Failed(Exception):
    """The demo cannot go on, or found that something was lost."""


class Cluster:
    """The processes of the demo. Leaving the block ends them all."""

    def __init__(self, folder: Path, repositories: Mapping[str, Path], stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self.ports = {name: free_port() for name in "ab"}
        self.running: dict[str, Process[bytes]] = {}
        self.url = stack.enter_context(LocalPostgres(durable=True)).url()
        s3 = stack.enter_context(MotoServer())
        s3.create("stores")
        self._environment = {
            "RAG_SHARED": self.url,
            "RAG_MEMORY": self.url,
            "RAG_STORES": "s3://stores/demo",
            "AWS_ENDPOINT_URL": s3.url,
            "AWS_ACCESS_KEY_ID": "demo",
            "AWS_SECRET_ACCESS_KEY": "demo",
            "AWS_REGION": "us-east-1",
        }
        listed = "".join(f'"{name}" = "file://{path}"\n' for name, path in repositories.items())
        (folder / "server.toml").write_text(f"version = 1\n[repositories]\n{listed}")
        self.jobs = stack.enter_context(closing(PostgresJobs(self.url)))
        stack.callback(self._end)

    def start(self, name: str) -> None:
        """Start the server `a` or `b`, or a worker, with a data folder of its own."""
        if name in self.ports:
            config = ["--config", str(self.folder / "server.toml"), "--port", str(self.ports[name])]
            self._run(name, python_command("rag", "serve", *config), self._environment)
        else:
            self._run(name, python_command("rag", "worker"), self._environment)

    def start_balancer(self) -> int:
        """Start HAProxy and return its port. Without HAProxy return 0: clients choose a server themselves."""
        if HAPROXY is None:
            return 0
        port = free_port()
        places = {f"RAG_{name.upper()}": f"127.0.0.1:{at}" for name, at in self.ports.items()}
        command = [HAPROXY, "-f", str(ROOT / "deploy/haproxy.cfg"), "-db"]
        self._run("balancer", command, places | {"RAG_BIND": f"127.0.0.1:{port}"})
        return port

    def kill(self, name: str) -> None:
        """Kill a process as `kill -9` does."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def _run(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        more = {**environment, "RAG_HOME": str(self.folder / "homes" / name)}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = start(command, environment=closed_environment(more), stdout=log, stderr=log)

    def _end(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Traffic:
    """Clients that ask until the block ends; they repeat a request that failed."""

    def __init__(self, ports: Sequence[int], names: Sequence[str]) -> None:
        self.acknowledged: dict[str, str] = {}
        """The question of each answered turn, by the turn's id."""
        self.failed: Counter[str] = Counter()
        self.slowest_s = 0.0
        self._ports, self._names, self._stop = ports, names, threading.Event()
        self._threads = [threading.Thread(target=self._work, args=[number]) for number in range(_CLIENTS)]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, client: int) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            name = self._names[(number * _CLIENTS + client) % len(self._names)]
            self._ask(f"Where is {name} configured, question {number} of client {client}?", name)

    def _ask(self, question: str, name: str) -> None:
        began, tried = time.monotonic(), 0
        while not self._stop.is_set():
            port = self._ports[tried % len(self._ports)]
            tried += 1
            try:
                done = requested(port, "/api/ask", {"question": question, "repositories": [name]})
            except (OSError, http.client.HTTPException) as error:
                self.failed[type(error).__name__] += 1
                self._stop.wait(0.1)
                continue
            self.acknowledged[done["turn"]] = question
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            return


def requested(port: int, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Return the JSON of a response. Raises OSError for a status of an error too."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/json", "Accept": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def until(wanted: Callable[[], bool], what: str, *, every_s: float = 0.2) -> float:
    """Wait, and return the seconds that it took. Raises Failed after 15 minutes."""
    began = time.monotonic()
    while True:
        with suppress(OSError, http.client.HTTPException):
            if wanted():
                return time.monotonic() - began
        if time.monotonic() - began > _PATIENCE_S:
            raise Failed(f"{what}: not within {_PATIENCE_S:.0f} s")
        threading.Event().wait(every_s)


def obtain(folder: Path, count: int) -> dict[str, Path]:
    """Return the repositories by name; packages are downloaded once and verified, nothing in them is run."""
    lines = [line for line in PACKAGES.read_text().splitlines() if not line.startswith("#")][:count]
    wheels = folder / "wheels"
    wheels.mkdir(exist_ok=True)
    wanted = folder / "wanted.txt"
    wanted.write_text("\n".join(lines) + "\n")
    if len(list(wheels.glob("*.whl"))) < len(lines):
        command = ["pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", "--require-hashes", "-r", str(wanted), "-d", str(wheels)]
        subprocess.run([sys.executable, "-m", *command], check=True)
    return {
        path.name.partition("-")[0].lower(): _repository(path, folder / "repositories")
        for path in sorted(wheels.glob("*.whl"))[: len(lines)]
    }


def _repository(wheel: Path, folder: Path) -> Path:
    """Return a git repository with the files of a wheel."""
    place = folder / wheel.name.partition("-")[0].lower()
    if not place.is_dir():
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as name:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(name)
            author = ["-c", "user.name=Demo", "-c", "user.email=demo@example.org"]
            for arguments in (["init", "-q"], ["add", "-A"], [*author, "commit", "-q", "-m", wheel.name]):
                subprocess.run(["git", *arguments], cwd=name, check=True)
            Path(name).rename(place)
            Path(name).mkdir()  # which the block removes
    return place


def demonstrate(folder: Path, count: int) -> list[tuple[str, str]]:
    """Run the demo and return its table. Raises Failed if anything was lost or took longer than its bound."""
    began = time.monotonic()
    repositories = obtain(folder, count)
    names = list(repositories)
    report(f"{len(names)} repositories obtained")
    with ExitStack() as stack:
        cluster = Cluster(folder, repositories, stack)
        for name in ("a", "b", "worker-1", "worker-2"):
            cluster.start(name)
        balancer = cluster.start_balancer()
        rows = _kill_worker(cluster, names)
        rows += [("both servers ready", f"{_all_ready(cluster, names):.1f} s later")]
        rows += _ask_both(cluster, names)
        rows += _kill_server(cluster, balancer, names)
    with_balancer = "HAProxy" if balancer else "none installed; clients go to the other server"
    rows = [("repositories", str(len(names))), ("balancer", with_balancer), *rows]
    return [*rows, ("in all", f"{time.monotonic() - began:.0f} s")]


def _kill_worker(cluster: Cluster, names: Sequence[str]) -> list[tuple[str, str]]:
    """Kill a worker that builds; return how long its job was delayed."""
    building: list[QueuedJob] = []

    def is_building() -> bool:
        building[:] = [job for job in cluster.jobs.jobs(states=["running"]) if job.stage]
        return bool(building)

    until(is_building, "a worker builds", every_s=0.02)
    job = building[0]
    killed_worker = next(name for name, one in cluster.running.items() if job.worker.endswith(f"-{one.pid}"))
    cluster.kill(killed_worker)
    killed = time.monotonic()
    report("a worker was killed")
    cluster.start("worker-3")

    def has_ended() -> bool:
        return cluster.jobs.job(job.id).has_ended

    until(has_ended, "the job of the killed worker ends")
    took_s = time.monotonic() - killed
    done = cluster.jobs.job(job.id)
    if done.state != "done" or took_s > BUILD_BOUND_S:
        raise Failed(f"the job of the killed worker: {done.error or done.state} after {took_s:.1f} s")
    return [
        ("worker killed in a build: its job done after", f"{took_s:.1f} s (bound {BUILD_BOUND_S:.0f} s)"),
        ("failed attempts of that job", str(done.attempts)),
    ]


def _all_ready(cluster: Cluster, names: Sequence[str]) -> float:
    def ready() -> bool:
        return all(requested(port, "/health")["ready"] == len(names) for port in cluster.ports.values())

    return until(ready, "both servers can answer about every repository", every_s=0.5)


def _ask_both(cluster: Cluster, names: Sequence[str]) -> list[tuple[str, str]]:
    """Ask both servers about every repository; all must answer with lines of it."""
    missing = []
    for server, port in cluster.ports.items():
        for name in names:
            body = {"question": f"What does {name} define?", "repositories": [name], "k": 1}
            hits = requested(port, "/api/search", body)["hits"]
            if [hit["repository"] for hit in hits] != [name]:
                missing.append(f"{server}: {name}")
    if missing:
        raise Failed(f"{len(missing)} repositories are not answered: {', '.join(missing[:5])}")
    return [("repositories answered by server a, b", f"{len(names)}, {len(names)}")]


def _kill_server(cluster: Cluster, balancer: int, names: Sequence[str]) -> list[tuple[str, str]]:
    """Kill a server in the middle of traffic, and start it again; count what was acknowledged and is gone."""
    with Traffic([balancer] if balancer else list(cluster.ports.values()), names) as traffic:
        until(lambda: len(traffic.acknowledged) >= _ASKED_BEFORE, "answers before the outage")
        cluster.kill("a")
        killed = time.monotonic()
        report("a server was killed")
        before = len(traffic.acknowledged)
        until(lambda: len(traffic.acknowledged) > before, "the next answer", every_s=0.01)
        next_s = time.monotonic() - killed
        until(lambda: len(traffic.acknowledged) > before + _ASKED_AFTER, "answers during the outage")
        cluster.start("a")
        again_s = until(lambda: bool(requested(cluster.ports["a"], "/ready")), "the server is ready again")
    present = {turn for turn in traffic.acknowledged if _has_turn(cluster, turn, traffic.acknowledged[turn])}
    lost = traffic.acknowledged.keys() - present
    if lost or traffic.slowest_s > ANSWER_BOUND_S:
        raise Failed(f"{len(lost)} acknowledged answers are lost; slowest {traffic.slowest_s:.1f} s")
    return [
        ("server killed in traffic: next answer after", f"{next_s:.2f} s"),
        ("slowest question, tries included", f"{traffic.slowest_s:.2f} s (bound {ANSWER_BOUND_S:.0f} s)"),
        ("requests that failed and were repeated", str(traffic.failed.total())),
        ("the killed server ready again after", f"{again_s:.1f} s"),
        ("answers acknowledged", f"{len(traffic.acknowledged):,}"),
        ("acknowledged answers lost", str(len(lost))),
    ]


def _has_turn(cluster: Cluster, turn: str, question: str) -> bool:
    """Return whether both servers have a turn."""
    found = []
    for port in cluster.ports.values():
        try:
            found.append(requested(port, f"/api/turns/{turn}")["question"] == question)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            found.append(False)
    return all(found)


def report(text: str) -> None:
    """Print a step of the demo."""
    print(f"scale-demo: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.scale_demo", description="Kill parts of a cluster."
    )
    parser.add_argument("--repositories", type=int, default=51, help="how many (default: 51)")
    parser.add_argument("--folder", type=Path, default=Path(".scale-demo"), help="where it writes")
    options = parser.parse_args(arguments)
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "homes", ignore_errors=True)
    try:
        rows = demonstrate(folder, options.repositories)
    except Failed as error:
        report(f"{error}; the logs are in {folder}")
        return 1
    width = max(len(name) for name, _ in rows)
    print("\n".join(f"{name:{width}}  {value}" for name, value in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
