"""HAProxy and nginx before servers on loopback, with the configurations of `deploy/`."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rag.processes import Process, closed_environment, run, start
from tests.servers.object_store import free_port

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
HAPROXY, NGINX = (
    shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    for name in ("haproxy", "nginx")
)
_PATIENCE_S = 60.0


@contextmanager
def running(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Process[bytes]]:
    """Run a program until the block ends; its output is appended to the log."""
    with log.open("ab") as file:
        process = start(command, environment=closed_environment(environment or {}), stdout=file, stderr=file)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def haproxy(ports: Sequence[int], log: Path) -> Iterator[int]:
    """Run HAProxy before two servers; give its port."""
    assert HAPROXY is not None
    port = free_port()
    places = {f"RAG_{name}": f"127.0.0.1:{at}" for name, at in zip("AB", ports, strict=True)}
    places |= {"RAG_BIND": f"127.0.0.1:{port}"}
    with running([HAPROXY, "-f", str(DEPLOY / "haproxy.cfg"), "-db"], log, places) as process:
        _wait_for(port, process)
        yield port


@contextmanager
def nginx(server_port: int, folder: Path) -> Iterator[int]:
    """Run nginx with TLS before a server; give its port. Only addresses and the certificate are replaced."""
    assert NGINX is not None
    port = free_port()
    make_certificate(folder)
    text = (DEPLOY / "nginx.conf").read_text()
    for written, here in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("http://127.0.0.1:8000", f"http://127.0.0.1:{server_port}"),
        ("/etc/ssl/rag", f"{folder}/rag"),
    ):
        assert written in text, written
        text = text.replace(written, here)
    places = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = f"pid {folder}/pid; daemon off; master_process off; error_log stderr; events {{}}"
    (folder / "nginx.conf").write_text(f"{main} http {{ access_log off; {places}\n{text}}}\n")
    code, _, errors = run([NGINX, "-t", "-c", str(folder / "nginx.conf")], timeout_s=_PATIENCE_S)
    assert code == 0 and "warn" not in errors, errors
    with running([NGINX, "-c", str(folder / "nginx.conf")], folder / "nginx.log") as process:
        _wait_for(port, process)
        yield port


def _wait_for(port: int, process: Process[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        assert process.poll() is None, "the program has ended"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the program does not answer"
            time.sleep(0.01)


def make_certificate(folder: Path) -> None:
    """Write a certificate for the host of the example, and its key."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=rag.example.org"]
    command += ["-addext", "subjectAltName=DNS:rag.example.org"]
    command += ["-keyout", str(folder / "rag.key"), "-out", str(folder / "rag.pem")]
    code, _, errors = run(command, timeout_s=_PATIENCE_S)
    assert code == 0, errors
