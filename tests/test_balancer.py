"""Servers behind HAProxy and nginx, as `deploy/` configures them: a rolling restart fails no request."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from live_server import Served, sample_copy

from rag.processes import Process, python_command, run
from tests.servers.balancers import DEPLOY, HAPROXY, NGINX, haproxy, nginx, running
from tests.servers.object_store import free_port
from tests.servers.postgres import LocalPostgres

DEADLINE_S = 60.0
KEY = "a-long-enough-key-for-the-servers-of-this-test"
needs_haproxy = pytest.mark.skipif(not HAPROXY, reason="HAProxy is not installed (apt-get install haproxy)")
needs_nginx = pytest.mark.skipif(not NGINX, reason="nginx is not installed (apt-get install nginx)")


def until_ready(port: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            threading.Event().wait(0.05)
    raise AssertionError("it did not become ready")


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


@needs_haproxy
def test_a_rolling_restart_fails_no_request(postgres: LocalPostgres, tmp_path: Path) -> None:
    sample, config = sample_copy(tmp_path), tmp_path / "server.toml"
    config.write_text(f'version = 1\ndrain_s = 3.0\n[repositories]\nsample = "{sample.location}"\n')
    ports = [free_port(), free_port()]
    with postgres.database("balanced") as url, ExitStack() as stack:
        ours = {"RAG_HOME": str(tmp_path / "home"), "RAG_SHARED": url}
        stack.enter_context(running(python_command("rag", "worker"), tmp_path / "worker.log", ours))

        def server(port: int) -> Process[bytes]:
            command = python_command("rag", "serve", "--config", str(config), "--port", str(port))
            return stack.enter_context(running(command, tmp_path / f"{port}.log", ours))

        servers = {port: server(port) for port in ports}
        for port in servers:
            until_ready(port)
        balancer = stack.enter_context(haproxy(ports, tmp_path / "haproxy.log"))
        until_ready(balancer)
        with Clients(balancer) as clients:
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
        logged = (tmp_path / "haproxy.log").read_text()
        assert re.search(r"POST /api/search servers/[ab] 200 \d+ bytes \d+ ms id \{[0-9a-f-]{36}\}", logged)
        print(f"{clients.seen.total():,} requests during two restarts: {dict(clients.seen)}")
        assert set(clients.seen) == {"200"} and clients.seen.total() > 100


# ---------------------------------------------------------------- nginx


@needs_nginx
def test_nginx_passes_ids_streams_and_no_foreign_identity(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    proxied = {"identity_header": "X-Forwarded-User", "trusted_proxies": ("127.0.0.1",)}
    server = serve(public_hosts=("rag.example.org",), keys=(KEY,), deepwiki=True, **proxied).ready()
    question = {"question": "Where is a short code made?", "repositories": ["sample"]}
    with nginx(server.port, tmp_path) as port:
        trusted = ssl.create_default_context(cafile=tmp_path / "rag.pem")

        def sent(path: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
            given = {"Host": "rag.example.org", "Content-Type": "application/json"}
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
            connection.connect()
            connection.sock = trusted.wrap_socket(connection.sock, server_hostname="rag.example.org")
            connection.request(
                "GET" if body is None else "POST",
                path,
                body,
                given | {name.replace("_", "-"): value for name, value in headers.items()},
            )
            reply = connection.getresponse()
            read = reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
            connection.close()
            return read

        assert sent("/health", X_Request_ID="mine-1")[1]["x-request-id"] == "mine-1"
        assert re.fullmatch("[0-9a-f]{32}", sent("/health")[1]["x-request-id"])
        body = json.dumps(question).encode()
        assert sent("/api/ask", body)[0] == 401
        assert sent("/api/ask", body, X_Forwarded_User="ann")[0] == 401
        assert sent("/api/ask", b" " * 5_000_000)[0] == 413
        mine = {"Authorization": f"Bearer {KEY}"}
        streamed = sent("/api/ask", json.dumps(question | {"stream": True}).encode(), **mine)
        assert streamed[0] == 200 and streamed[1]["content-type"].startswith("text/event-stream")
        wanted = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        key = {"Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode()}
        assert sent("/ws/chat", None, **mine, **wanted, **key)[0] == 101


# ---------------------------------------------------------------- manifests


@needs_haproxy
def test_haproxy_accepts_its_configuration(tmp_path: Path) -> None:
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
