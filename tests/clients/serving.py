"""A server for clients that live in an environment of their own: started as a user would, with `rag serve`.

`RAG_COMMAND` is the `rag` of the environment that has it. Nothing of ours is imported.
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
from contextlib import contextmanager
from pathlib import Path

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample_repo"
COMMAND = os.environ.get("RAG_COMMAND", "rag")


def sample_copy(folder: Path) -> Path:
    """A copy of the sample repository, without git."""
    root = folder / "sample"
    shutil.copytree(SAMPLE, root, ignore=shutil.ignore_patterns("__pycache__"))
    return root


@contextmanager
def serving(home: Path, *options: str) -> Iterator[str]:
    """The address of a running server that has the sample repository ready.

    Args:
        home: an empty folder.
        options: of `rag serve`, beside the repository and the port.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [COMMAND, "serve", "--repo", f"sample={sample_copy(home)}", "--port", str(port), *options]
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
