"""A server for clients that live in an environment of their own: started as a user would, with `rag serve`.

`RAG_COMMAND` is the `rag` of the environment that has it. These tests import nothing of ours.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

SAMPLE = Path(__file__).resolve().parents[3] / "data" / "sample_repo"
COMMAND = os.environ.get("RAG_COMMAND", "rag")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running server that has the sample repository ready."""
    home = tmp_path_factory.mktemp("server")
    shutil.copytree(SAMPLE, home / "sample")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [COMMAND, "serve", "--repo", f"sample={home / 'sample'}", "--port", str(port)]
    environment = {**os.environ, "RAG_HOME": str(home / "rag-home")}
    with (home / "log").open("wb") as log:
        running = subprocess.Popen(command, env=environment, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        while not _is_ready(url):
            assert running.poll() is None, (home / "log").read_text()
            assert time.monotonic() < deadline, "the server does not become ready"
            time.sleep(0.1)
        yield url
    finally:
        running.terminate()
        assert running.wait(30) in (0, -signal.SIGTERM)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/ready", timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def conversations(url: str) -> list[dict[str, object]]:
    """The conversations the server keeps."""
    with urllib.request.urlopen(f"{url}/api/conversations", timeout=10) as reply:
        found: list[dict[str, object]] = json.load(reply)
    return found
