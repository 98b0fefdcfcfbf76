"""More repositories than the process may have files open: each is answered, at once, and lists are paged."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from live_server import serving

from rag.database.store import Store
from rag.errors import StoreCorrupt, StoreUnreadable, TooManyOpenFiles
from rag.serve.errors import status_of
from rag.serve.repositories.registry import RepositoryRegistry
from rag.serve.settings import ServerSettings
from rag.serve.workers.indexing import _JobQueue
from rag.serve.workers.open_files import max_open_stores
from rag.service import Engine
from rag.settings import Settings
from rag.types import Source

REPOSITORIES, OPEN_FILES = 60, 80


def repositories(folder: Path, count: int) -> list[tuple[str, Source]]:
    listed = []
    for number in range(count):
        root = folder / "many" / f"r{number:03}"
        root.mkdir(parents=True)
        (root / "app.py").write_text(f"def handler_{number:03}(request):\n    return {number}\n")
        listed.append((f"r{number:03}", Source(str(root.resolve()))))
    return listed


@contextmanager
def started(command: list[str], home: Path, *, files: int):
    """A server in a process with a limit of open files: its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    limited = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command, "--port", str(port)]
    environment = {**os.environ, "RAG_HOME": str(home / "rag-home")}
    with (home / "log").open("wb") as log:
        running = subprocess.Popen(limited, env=environment, stderr=log)
        try:
            yield port, running
        finally:
            running.kill()
            running.wait()


def asked(port: int, name: str) -> list[str]:
    body = json.dumps({"question": f"Where is handler_{name[1:]}?", "repositories": [name], "k": 1}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/search", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        return [hit["text"] for hit in json.load(response)["hits"]]


def test_each_of_many_is_answered_after_a_restart_under_a_low_limit_and_the_server_stops_at_once(tmp_path):
    listed = repositories(tmp_path, REPOSITORIES)
    engine = Engine(Settings(home=tmp_path / "rag-home"))
    for _, source in listed:
        engine.repository(source)
        engine.release(source)
    named = [part for name, source in listed for part in ("--repo", f"{name}={source.location}")]
    with started([sys.executable, "-P", "-m", "rag", "serve", *named], tmp_path, files=OPEN_FILES) as (
        port,
        running,
    ):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            threading.Event().wait(0.01)
        for name, _ in reversed(listed):
            assert f"handler_{name[1:]}" in asked(port, name)[0]
        assert len(list(Path(f"/proc/{running.pid}/fd").iterdir())) < OPEN_FILES
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) in (0, -signal.SIGTERM)
    assert "open files" not in (tmp_path / "log").read_text()


def test_stores_that_were_not_asked_for_longest_are_closed(tmp_path, monkeypatch):
    monkeypatch.setattr("rag.serve.repositories.registry.max_open_stores", lambda: 3)
    listed = repositories(tmp_path, 8)
    with serving(tmp_path, repositories=tuple(listed)) as running:
        for name, _ in listed:
            running.wait_until(
                lambda name=name: running.get(f"/api/repositories/{name}").json["state"] == "ready"
            )
            reply = running.post("/api/search", {"question": "handler", "repositories": [name]})
            assert reply.status == 200
        registry = running.service.registry
        is_open = [entry.name for entry in registry.entries() if entry.repository is not None]
        assert is_open == ["r005", "r006", "r007"]
        assert all(entry.can_answer for entry in registry.entries())
        assert set(registry._engine._open) == {source for name, source in listed if name in is_open}
        again = running.post(
            "/api/search", {"question": "handler", "repositories": ["r000", "r001", "r002", "r003"]}
        )
        assert {hit["repository"] for hit in again.json["hits"]} == {"r000", "r001", "r002", "r003"}


def test_too_many_open_files_are_called_that(tmp_path):
    (_, source), *_ = repositories(tmp_path, 1)
    engine = Engine(Settings(home=tmp_path / "home"))
    path = engine.repository(source).store.path
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    try:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 20, before[1])
        )
        with suppress(OSError):
            while True:
                held.append(Path(os.devnull).open())  # noqa: SIM115
        with pytest.raises(
            TooManyOpenFiles, match=r"Too many open files; raise the limit \(`ulimit -n`"
        ) as caught:
            Store.open(path)
    finally:
        for file in held:
            file.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert status_of(caught.value)[0] == 503
    assert Store.open(path)


def test_a_store_that_may_not_be_read_is_not_called_damaged(tmp_path):
    folder = tmp_path / "store.pkl"
    folder.mkdir()
    with pytest.raises(StoreUnreadable) as caught:
        Store.open(folder)
    assert not isinstance(caught.value, StoreCorrupt)
    assert "--rebuild" not in str(caught.value)


def test_the_limit_leaves_room_for_connections():
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 4 <= max_open_stores() <= max(4, (soft - 100) // 2)


# ---------------------------------------------------------------- who is next


async def settled() -> None:
    """All that can go on without waiting has done so."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_who_is_asked_is_next_and_waits_for_no_long_job():
    order = []

    async def run():
        queue = _JobQueue(2)
        ends = {name: asyncio.Event() for name in "abcdef"}

        async def job(name):
            async with queue.slot(Source(name)):
                order.append(name)
                await ends[name].wait()

        jobs = {name: asyncio.create_task(job(name)) for name in "abcde"}
        await asyncio.sleep(0)
        queue.prioritize(Source("e"))
        await settled()
        assert order == ["a", "b", "e"], "one that is asked runs in addition to two long ones"
        queue.prioritize(Source("d"))
        ends["e"].set()
        await settled()
        assert order == ["a", "b", "e", "d"]
        jobs["c"].cancel()
        queue.prioritize(Source("f"))
        jobs["f"] = asyncio.create_task(job("f"))
        ends["a"].set()
        ends["d"].set()
        await settled()
        assert order == ["a", "b", "e", "d", "f"]
        for event in ends.values():
            event.set()
        await asyncio.gather(*jobs.values(), return_exceptions=True)
        assert (queue._running, list(queue._waiting), queue._prioritized) == (0, [], set())

    asyncio.run(run())


def test_stopping_starts_none_of_the_jobs_that_wait(tmp_path):
    listed = repositories(tmp_path, 40)
    settings = Settings(home=tmp_path / "home")
    registry = RepositoryRegistry(
        ServerSettings(engine=settings, repositories=tuple(listed)), Engine(settings)
    )

    async def run():
        await registry.start()
        while not any(entry.stage not in ("", "waiting") for entry in registry.entries()):
            await asyncio.sleep(0.01)
        await registry.close()
        return sum(entry.report is not None for entry in registry.entries())

    assert asyncio.run(run()) < 10
    assert not any(entry.running for entry in registry.entries())


def test_a_question_adds_no_job_where_one_waits(tmp_path):
    (name, source), *others = repositories(tmp_path, 3)
    settings = Settings(home=tmp_path / "home")
    Engine(settings).repository(source)
    registry = RepositoryRegistry(
        ServerSettings(engine=settings, repositories=((name, source), *others)), Engine(settings)
    )

    async def run():
        await registry.start()
        for _ in range(5):
            assert (await registry.repository(name)).store.file_count == 1
        jobs = registry.entry(name).jobs
        await registry.close()
        return jobs

    assert asyncio.run(run()) == 1


# ---------------------------------------------------------------- lists


def test_lists_say_how_many_there_are_and_where_more_follow(serve, tmp_path):
    running = serve(repositories=tuple(repositories(tmp_path, 7)))
    names, following = [], "/api/repositories?limit=3"
    while following:
        reply = running.get(following)
        assert reply.headers["x-total-count"] == "7"
        names += [one["name"] for one in reply.json]
        found = re.fullmatch(r'<(/api/repositories\?[^>]+)>; rel="next"', reply.headers.get("link", ""))
        following = found and found[1]
    assert names == [f"r{number:03}" for number in range(7)]
    assert running.get("/api/repositories?offset=7").json == []
    assert "link" not in running.get("/api/repositories?offset=4&limit=3").headers
    for path in ("/api/repositories?limit=0", "/api/repositories?limit=201", "/api/repositories?offset=-1"):
        assert running.get(path).status == 422


def test_every_list_route_is_paged_in_the_same_way(serve):
    running = serve().ready()
    schema = running.get("/openapi.json").json
    lists = {
        path: {each["name"] for each in route["get"].get("parameters", [])}
        for path, route in schema["paths"].items()
        if path.startswith("/api/") and "get" in route and _shape(route["get"]).get("type") == "array"
    }
    assert "/api/repositories" in lists
    assert "/api/conversations" in lists
    searches = {"/api/turns"}  # the best come first; nobody pages through the worst
    of_one = {path for path in lists if "{conversation}" in path or "{turn}" in path}
    for path, parameters in lists.items():
        wanted = {"limit"} if path in searches else {"limit", "offset"}
        assert path in of_one or wanted <= parameters, path


def _shape(route):
    content = route["responses"].get("200", {}).get("content", {}).get("application/json", {})
    return content.get("schema", {})
