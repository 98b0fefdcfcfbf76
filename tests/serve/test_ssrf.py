"""A host that a request names is where it was when it was looked at, also for git."""

from __future__ import annotations

import asyncio
import http.server
import os
import socket
import subprocess
import threading
from typing import ClassVar

import pytest
from conftest import git
from live_server import sample_copy

from rag.errors import SettingsError, SourceError
from rag.serve import preflight
from rag.serve.access import ssrf
from rag.serve.access.ssrf import git_pins_addresses, resolve_public
from rag.serve.errors import Forbidden, IndexingFailed
from rag.serve.repositories.registry import RepositoryRegistry
from rag.serve.service import Service
from rag.serve.settings import ServerSettings
from rag.serve.workers.indexing import ChildIndexers, IndexTask
from rag.service import Engine
from rag.settings import Settings
from rag.types import Source


class GitServer(http.server.BaseHTTPRequestHandler):
    """git's own HTTP server; what it is asked is in `asked`, and below /moved/ it sends elsewhere."""

    root = ""
    asked: ClassVar[list[str]] = []

    def do_GET(self):
        path, _, query = self.path.partition("?")
        self.asked.append(f"{self.headers['Host']}{path}")
        if path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/moved"))
            self.end_headers()
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        environment = {
            **os.environ,
            "GIT_PROJECT_ROOT": self.root,
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type") or "",
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True)
        heads, _, content = done.stdout.partition(b"\r\n\r\n")
        self.wfile.write(b"HTTP/1.0 200 OK\r\n" + heads + b"\r\n\r\n" + content)

    do_POST = do_GET  # noqa: N815

    def log_message(self, format, *arguments):
        pass


@pytest.fixture
def port(sample_repo, tmp_path):
    """The port of a git server on 127.0.0.1 that has /repo.git."""
    git(tmp_path, "clone", "-q", "--bare", str(sample_repo), "served/repo.git")
    GitServer.root = str(tmp_path / "served")
    GitServer.asked.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), GitServer) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running.server_port
        running.shutdown()
        thread.join()


def indexed(tmp_path, url, place):
    async def run():
        indexers = ChildIndexers(Settings(home=tmp_path / "home", git_timeout_s=20.0), notice=print)
        try:
            return await indexers.index(IndexTask(Source(url), place=place), lambda *_: None)
        finally:
            await indexers.close()

    return asyncio.run(run())


def test_git_connects_to_the_place_that_was_looked_at_and_looks_nothing_up(tmp_path, port):
    assert git_pins_addresses()
    url, place = f"http://code.invalid:{port}/repo", f"code.invalid:{port}:127.0.0.1"
    assert indexed(tmp_path, url, place).report["action"] == "built"
    assert GitServer.asked[0] == f"code.invalid:{port}/repo/info/refs"
    assert [file.name for file in (tmp_path / "home").glob(".gitconfig*")] == []


def test_a_name_that_comes_to_lead_inside_after_it_was_looked_at_leads_git_nowhere(tmp_path, port):
    # By now `localhost` leads to the server of the test; it was another address that was looked at.
    with pytest.raises(IndexingFailed, match="cannot fetch"):
        indexed(tmp_path, f"http://localhost:{port}/repo", f"localhost:{port}:127.0.0.9")
    assert GitServer.asked == []


def test_a_redirect_is_followed_only_for_what_the_operator_listed(tmp_path, port):
    url = f"http://127.0.0.1:{port}/moved/repo.git"
    with pytest.raises(IndexingFailed):
        indexed(tmp_path, url, f"127.0.0.1:{port}:127.0.0.1")
    assert all("/moved/" in asked for asked in GitServer.asked)
    assert indexed(tmp_path, url, None).report["action"] == "built"


@pytest.mark.parametrize("goes", ["job", "server"])
def test_git_ends_with_the_job_that_is_cancelled_and_with_the_server(goes, tmp_path, monkeypatch):
    program, pid_file = tmp_path / "bin" / "git", tmp_path / "pid"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho $$ > "{pid_file}.new"\nmv "{pid_file}.new" "{pid_file}"\nexec sleep 600\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    home = tmp_path / "home"

    async def run():
        indexers, source = (
            ChildIndexers(Settings(home=home), notice=print),
            Source("https://code.invalid/repo"),
        )
        child = await indexers._child()
        indexers._idle.append(child)
        place = "code.invalid:443:127.0.0.1"
        work = indexers.index(IndexTask(source, place=place), lambda *_: None)
        job = asyncio.create_task(work)
        async with asyncio.timeout(120):
            while not pid_file.exists():
                await asyncio.sleep(0.01)
            if goes == "job":
                job.cancel()
            else:
                child.stdin.write_eof()
            await asyncio.gather(job, return_exceptions=True)
            return await child.wait()

    assert asyncio.run(run()) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
    assert list(home.glob(".gitconfig*")) == []


def leading_to(monkeypatch, *addresses):
    """Have every name lead to these addresses."""

    async def found(self, host, port, **more):
        if not addresses:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", found)


def test_a_place_is_the_host_with_all_its_addresses(monkeypatch):
    leading_to(monkeypatch, "8.8.8.8", "2606:4700::1111", "8.8.8.8")
    place = asyncio.run(resolve_public("https://code.example/a/b"))
    assert place == "code.example:443:8.8.8.8,[2606:4700::1111]"
    leading_to(monkeypatch, "8.8.8.8", "10.0.0.1")
    with pytest.raises(Forbidden, match="not public"):
        asyncio.run(resolve_public("https://code.example:8443/a/b"))
    leading_to(monkeypatch)
    with pytest.raises(SourceError, match="cannot be resolved"):
        asyncio.run(resolve_public("https://code.example/a/b"))


def test_what_the_operator_listed_is_fetched_from_where_it_is_at_any_ref(tmp_path, monkeypatch):
    settings = Settings(home=tmp_path / "home")
    listed = (("own", Source("https://git.internal/own")), ("here", sample_copy(tmp_path)))
    registry = RepositoryRegistry(
        ServerSettings(engine=settings, repositories=listed, allow_urls=("code.example",)), Engine(settings)
    )
    leading_to(monkeypatch, "8.8.8.8")
    places = {}

    async def index(self, task, *others):
        places[str(task.source)] = task.place
        raise IndexingFailed("enough", kind="Test")

    monkeypatch.setattr(ChildIndexers, "index", index)

    async def run():
        await registry.start()
        names = ("own", "own@v1", "here", "https://code.example/a/b", "https://code.example/a/b@v1")
        for name in names:
            with pytest.raises(IndexingFailed):
                await registry.repository(name)
        await registry.close()

    asyncio.run(run())
    assert {source.removeprefix(str(tmp_path)): place for source, place in places.items()} == {
        "https://git.internal/own": None,
        "https://git.internal/own@v1": None,
        "/sample": None,
        "https://code.example/a/b": "code.example:443:8.8.8.8",
        "https://code.example/a/b@v1": "code.example:443:8.8.8.8",
    }


def test_a_git_that_looks_names_up_again_is_named(monkeypatch):
    settings = ServerSettings(allow_urls=("code.example",))
    monkeypatch.setattr(preflight, "_PROXIES", ("NO_SUCH_PROXY",))
    assert preflight._allowed_hosts(settings).state == "ok"
    monkeypatch.setattr(ssrf, "_FIRST_GIT_THAT_PINS", (99, 0))
    found = preflight._allowed_hosts(settings)
    assert (found.state, found.fix) == ("bad", "git 2.37 or newer")
    assert preflight._allowed_hosts(ServerSettings()).state == "off"


def test_hosts_are_not_allowed_with_a_git_that_looks_names_up_again(tmp_path, monkeypatch):
    engine = Settings(home=tmp_path)
    monkeypatch.setattr(ssrf, "_FIRST_GIT_THAT_PINS", (99, 0))
    with pytest.raises(SettingsError, match=r"install git 99\.0 or newer, or serve without --allow-urls"):
        Service(ServerSettings(engine=engine, allow_urls=("code.example",)))
    Service(ServerSettings(engine=engine))
