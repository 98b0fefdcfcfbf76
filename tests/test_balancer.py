"""Two servers behind HAProxy, with the configuration of `deploy/`: a rolling restart fails no request."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml
from live_server import sample_copy

from rag.processes import Process, closed_environment, python_command, start
from tests.servers.postgres import LocalPostgres

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
DEADLINE_S = 60.0
HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def until_ready(port: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            threading.Event().wait(0.05)
    raise AssertionError("it did not become ready")


@contextmanager
def running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[Process[bytes]]:
    with log.open("ab") as file:
        process = start(command, environment=closed_environment(environment), stdout=file, stderr=file)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Clients:
    """Threads that ask through the balancer until the block ends, on connections that are kept open."""

    def __init__(self, port: int, count: int = 4) -> None:
        self.seen: Counter[str] = Counter()
        self._port, self._stop = port, threading.Event()
        self._threads = [threading.Thread(target=self._work) for _ in range(count)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(DEADLINE_S)

    def _work(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=DEADLINE_S)
        body = json.dumps({"question": "Where is a short code made?", "repositories": ["sample"]})
        while not self._stop.is_set():
            for method, path, sent in (
                ("GET", "/api/repositories", None),
                ("POST", "/api/search", body),
                ("POST", "/api/ask", body),
            ):
                try:
                    headers = {"Content-Type": "application/json", "Accept": "application/json"}
                    connection.request(method, path, sent, headers)
                    response = connection.getresponse()
                    response.read()
                    self.seen[f"{response.status}"] += 1
                except (OSError, http.client.HTTPException) as error:
                    self.seen[f"{method} {path}: {error!r}"] += 1
                    connection.close()
        connection.close()


@pytest.mark.skipif(HAPROXY is None, reason="HAProxy is not installed (apt-get install haproxy)")
def test_a_rolling_restart_fails_no_request(postgres: LocalPostgres, tmp_path: Path) -> None:
    assert HAPROXY is not None
    sample, config = sample_copy(tmp_path), tmp_path / "server.toml"
    config.write_text(f'version = 1\ndrain_s = 3.0\n[repositories]\nsample = "{sample.location}"\n')
    ports = free_ports(3)
    with postgres.database("balanced") as url, ExitStack() as stack:
        ours = {"RAG_HOME": str(tmp_path / "home"), "RAG_SHARED": url}
        stack.enter_context(running(python_command("rag", "worker"), ours, tmp_path / "worker.log"))

        def server(port: int) -> Process[bytes]:
            command = python_command("rag", "serve", "--config", str(config), "--port", str(port))
            return stack.enter_context(running(command, ours, tmp_path / f"{port}.log"))

        servers = {port: server(port) for port in ports[:2]}
        for port in servers:
            until_ready(port)
        places = {"RAG_A": f"127.0.0.1:{ports[0]}", "RAG_B": f"127.0.0.1:{ports[1]}"}
        places |= {"RAG_BIND": f"127.0.0.1:{ports[2]}"}
        stack.enter_context(
            running([HAPROXY, "-f", str(DEPLOY / "haproxy.cfg"), "-db"], places, tmp_path / "haproxy.log")
        )
        until_ready(ports[2])
        with Clients(ports[2]) as clients:
            for port, process in list(servers.items()):
                began = time.monotonic()
                process.terminate()
                process.wait(DEADLINE_S)
                print(f"\na server stopped {time.monotonic() - began:.1f} s after it was asked to")
                servers[port] = server(port)
                until_ready(port)
                asked = clients.seen.total()
                deadline = time.monotonic() + DEADLINE_S
                while clients.seen.total() < asked + 50 and time.monotonic() < deadline:
                    threading.Event().wait(0.05)
        print(f"{clients.seen.total():,} requests during two restarts: {dict(clients.seen)}")
        assert set(clients.seen) == {"200"} and clients.seen.total() > 100


# ---------------------------------------------------------------- manifests


@pytest.mark.skipif(HAPROXY is None, reason="HAProxy is not installed (apt-get install haproxy)")
def test_haproxy_accepts_its_configuration(tmp_path: Path) -> None:
    from rag.processes import run

    assert HAPROXY is not None
    places = {"RAG_BIND": ":8000", "RAG_A": "127.0.0.1:1", "RAG_B": "127.0.0.1:2"}
    text = (DEPLOY / "haproxy.cfg").read_text()
    for name, value in places.items():
        text = text.replace(f'"${{{name}}}"', value)
    (tmp_path / "haproxy.cfg").write_text(text)
    code, _, errors = run([HAPROXY, "-c", "-f", tmp_path / "haproxy.cfg"], timeout_s=DEADLINE_S)
    assert code == 0 and "WARNING" not in errors, errors


def manifests() -> list[dict]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


def test_the_manifests_are_valid() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate (108 MB)")
    for one in manifests():
        validate.validate(one, "1.31", strict=True)


def test_the_manifests_fit_together() -> None:
    kinds = {(one["kind"], one["metadata"]["name"]): one for one in manifests()}
    assert all(one["apiVersion"] in ("v1", "apps/v1", "policy/v1") for one in kinds.values())
    config = kinds["ConfigMap", "rag"]["data"]
    for name in ("rag-server", "rag-worker"):
        deployment = kinds["Deployment", name]["spec"]
        pod = deployment["template"]
        assert deployment["selector"]["matchLabels"] == pod["metadata"]["labels"] == {"app": name}
        (container,) = pod["spec"]["containers"]
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        for variable in container["env"]:
            assert variable["valueFrom"]["configMapKeyRef"]["key"] in config
        assert container["resources"]["requests"] and container["resources"]["limits"]["memory"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
    assert kinds["Service", "rag"]["spec"]["selector"] == {"app": "rag-server"}
    server = kinds["Deployment", "rag-server"]["spec"]["template"]["spec"]
    probes = {
        server["containers"][0][f"{kind}Probe"]["httpGet"]["path"] for kind in ("readiness", "liveness")
    }
    assert probes == {"/ready", "/health"}


def test_a_pod_has_the_time_that_its_server_takes_to_stop(tmp_path: Path) -> None:
    from rag.serve.config import read_config
    from rag.serve.settings import ServerSettings

    kinds = {(one["kind"], one["metadata"]["name"]): one for one in manifests()}
    (tmp_path / "server.toml").write_text(kinds["ConfigMap", "rag"]["data"]["server.toml"])
    settings = ServerSettings(**read_config(tmp_path / "server.toml"))
    assert settings.repositories
    pod = kinds["Deployment", "rag-server"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > settings.drain_s + settings.grace_s + 5
    worker = kinds["Deployment", "rag-worker"]["spec"]["template"]["spec"]
    arguments = worker["containers"][0]["args"]
    grace_s = float(arguments[arguments.index("--grace") + 1])
    assert worker["terminationGracePeriodSeconds"] > grace_s + 5


@pytest.mark.parametrize("kind", ["server", "worker"])
def test_the_commands_of_the_manifests_exist(kind: str) -> None:
    from command import rag

    kinds = {(one["kind"], one["metadata"]["name"]): one for one in manifests()}
    pod = kinds["Deployment", f"rag-{kind}"]["spec"]["template"]["spec"]
    arguments = pod["containers"][0]["args"]
    shown = rag(arguments[0], "--help", cwd=Path(os.sep)).out
    assert all(argument in shown for argument in arguments if argument.startswith("--"))
