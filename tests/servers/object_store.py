"""S3 servers of our own on loopback: moto's, and s3rver from npm.

with MotoServer() as server:
    server.create("bucket")

moto handles one request at a time here, so that its conditional writes are atomic. s3rver ignores conditions,
so a gateway in front of it obeys them (`tests.servers.proxy`); its own behaviour is everything else.
"""

from __future__ import annotations

import math
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag.processes import Process, start

_PATIENCE_S = 120.0

_MOTO = """
import logging, sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
logging.getLogger("werkzeug").setLevel(logging.ERROR)
run_simple("127.0.0.1", int(sys.argv[1]), DomainDispatcherApplication(create_backend_app), threaded=False)
"""


def free_port() -> int:
    """Return a port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class S3Server:
    """A started server; its data is removed at the end."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="s3-"))
        self.port = free_port()
        self.process: Process[bytes] | None = None
        try:
            self.process = self._started()
            self._wait()
        except BaseException:
            self.stop()
            raise

    def _started(self) -> Process[bytes]:
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def create(self, bucket: str) -> None:
        raise NotImplementedError

    def _wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            assert self.process is not None and self.process.poll() is None, "the server has ended"
            try:
                urllib.request.urlopen(self.url, timeout=5).close()
                return
            except urllib.error.HTTPError:
                return
            except OSError:
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.05)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> S3Server:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()


class MotoServer(S3Server):
    """moto's server. It checks credentials only while it is asked to, and then knows none."""

    def _started(self) -> Process[bytes]:
        return start(
            [sys.executable, "-c", _MOTO, str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Check the credentials of requests until the block ends."""
        self._check_from(0)
        try:
            yield
        finally:
            self._check_from(math.inf)

    def _check_from(self, number: float) -> None:
        """Check the credentials of all requests but the next so many."""
        url, plain = f"{self.url}/moto-api/reset-auth", {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(url, str(number).encode(), plain), timeout=10).close()

    def create(self, bucket: str) -> None:
        request = urllib.request.Request(f"{self.url}/{bucket}", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()


class S3rver(S3Server):
    """s3rver. It checks no credentials, and ignores the conditions of writes."""

    def _started(self) -> Process[bytes]:
        script = s3rver_script()
        assert script is not None
        node = shutil.which("node")
        assert node is not None
        return start(
            [
                node,
                script,
                "-d",
                str(self.folder),
                "-a",
                "127.0.0.1",
                "-p",
                str(self.port),
                "--no-vhost-buckets",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def create(self, bucket: str) -> None:
        request = urllib.request.Request(f"{self.url}/{bucket}", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()


def s3rver_script() -> Path | None:
    """Return the program of s3rver, which `make` installs from npm; None if it or node is missing."""
    script = Path(__file__).parents[2] / ".venv" / "node" / "node_modules" / "s3rver" / "bin" / "s3rver.js"
    return script if script.is_file() and shutil.which("node") else None
