"""Several servers and workers on one database: what one does, the others show and use."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import git
from live_server import Served, sample_copy, serving
from unfinished_index import unfinished

from rag.backends.queue.postgres import PostgresJobs
from rag.service.repositories.shared_stores import shared_indexes
from rag.settings import Settings
from rag.types import Source
from rag.worker.loop import Worker
from tests.servers.cut import Cut
from tests.servers.object_store import MotoServer, S3rver, s3rver_script
from tests.servers.postgres import LocalPostgres
from tests.servers.proxy import Proxy

DEADLINE_S = 60
KEY = "a-long-enough-key-for-the-servers-of-this-test"


@pytest.fixture
def url(postgres: LocalPostgres) -> Iterator[str]:
    with postgres.database("servers") as address:
        yield address


@contextmanager
def working(url: str, home: Path, **settings: Any) -> Iterator[Worker]:
    """Run a worker until the block ends."""
    jobs = PostgresJobs(url)
    worker = Worker(jobs, Settings(home=home, shared=url, **settings), poll_s=0.05)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop(grace_s=0)
        thread.join(DEADLINE_S)
        jobs.close()


@pytest.fixture
def two(url: str, tmp_path: Path) -> Iterator[Callable[..., tuple[Served, Served]]]:
    """Starts two servers of one database, with one data folder unless two are named."""
    with ExitStack() as stack:

        def start(*homes: Path, stores: str = "", **settings: Any) -> tuple[Served, Served]:
            engine = {"shared": url, "memory": url, "stores": stores}
            first, second = homes or (tmp_path, tmp_path)
            return (
                stack.enter_context(serving(first, engine=dict(engine), **settings)),
                stack.enter_context(serving(second, engine=dict(engine), **settings)),
            )

        yield start


def found(server: Served, word: str, repository: str = "sample") -> list[str]:
    reply = server.post("/api/search", {"question": word, "repositories": [repository]})
    return [hit["path"] for hit in reply.json.get("hits", ())]


def chat(server: Served, messages: list[dict[str, str]], **headers: str) -> Any:
    body = {"model": "rag:sample", "messages": messages}
    return server.post("/v1/chat/completions", body, headers=headers)


def conversations(server: Served) -> list[Any]:
    return server.get("/api/conversations").json


def test_what_is_indexed_through_one_server_is_answered_by_the_other(
    two: Any, url: str, tmp_path: Path
) -> None:
    sample = sample_copy(tmp_path)
    with working(url, tmp_path / "rag-home"):
        a, b = two(repositories=(("sample", sample),))
        for server in (a, b):
            server.ready()
            assert found(server, "make a short code")
        (Path(sample.location) / "zebra.py").write_text("def zebra_crossing():\n    return 'stripes'\n")
        began = time.monotonic()
        assert a.post("/api/repositories/sample/index").status == 202
        b.wait_until(lambda: "zebra.py" in found(b, "zebra_crossing"))
        took_s = time.monotonic() - began
        print(f"\nindexed on A, answered on B after {took_s:.2f} s (bound 5 s)")
        assert took_s < 5


@pytest.fixture(params=["folder", "moto", "s3rver"])
def stores(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Cut | None]]:
    """The address of shared stores, and how to cut them off if they are in a bucket."""
    if request.param == "folder":
        (tmp_path / "stores").mkdir()
        yield str(tmp_path / "stores"), None
        return
    pytest.importorskip("obstore", reason="the object-store extra is not installed")
    if request.param == "s3rver" and s3rver_script() is None:
        pytest.skip("s3rver is not installed (npm)")
    with ExitStack() as stack:
        server = stack.enter_context(MotoServer() if request.param == "moto" else S3rver())
        server.create("stores")
        port = server.port
        if request.param == "s3rver":  # which ignores conditions
            port = int(stack.enter_context(Proxy(server.url, conditional=True)).url.rpartition(":")[2])
        cut = stack.enter_context(Cut(port))
        account = {"ENDPOINT_URL": f"http://127.0.0.1:{cut.port}", "REGION": "us-east-1"}
        for name, value in {**account, "ACCESS_KEY_ID": "S3RVER", "SECRET_ACCESS_KEY": "S3RVER"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        yield "s3://stores/main", cut


def test_servers_without_a_common_folder_share_stores(
    two: Any, url: str, tmp_path: Path, stores: tuple[str, Cut | None]
) -> None:
    """Each has a data folder of its own, and the repository is a git URL. Then the stores are cut off."""
    place, cut = stores
    origin, work = tmp_path / "origin.git", tmp_path / "work"
    sample_copy(tmp_path)
    (tmp_path / "sample").rename(work)
    git(work, "init", "--quiet", "--template=")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message", "Begin")
    git(tmp_path, "clone", "--quiet", "--bare", str(work), str(origin))
    git(work, "remote", "add", "origin", str(origin))

    def pushed(animal: str) -> float:
        """Push a function; return the time when its indexing was requested from the first server."""
        (work / f"{animal}.py").write_text(f"def {animal}_crossing():\n    return '{animal}'\n")
        git(work, "add", "--all")
        git(work, "commit", "--quiet", "--message", f"Add {animal}")
        git(work, "push", "--quiet", "origin", "HEAD")
        assert a.post("/api/repositories/sample/index").status == 202
        return time.monotonic()

    listed = (("sample", Source(f"file://{origin}")),)
    with working(url, tmp_path / "worker", stores=place):
        a, b = two(tmp_path / "a", tmp_path / "b", stores=place, repositories=listed)
        a.ready()
        b.ready()
        assert len(shared_indexes(Settings(home=tmp_path / "reader", stores=place))[1]) == 1
        began = pushed("zebra")
        b.wait_until(lambda: "zebra.py" in found(b, "zebra_crossing"))
        took_s = time.monotonic() - began
        print(f"\npublished by a worker, answered by another server after {took_s:.2f} s (aim 5 s)")
        assert took_s < DEADLINE_S / 2  # three processes work for it, on a machine that may be busy
        a.wait_until(lambda: "zebra.py" in found(a, "zebra_crossing"))
        assert not list(tmp_path.glob("[ab]/rag-home/repos/*/.git")), "what workers publish needs no clone"
        if cut is not None:
            cut.refuse()
            assert "zebra.py" in found(a, "zebra_crossing")
            began = pushed("llama")
            for server in (a, b):
                server.wait_until(lambda server=server: "llama.py" in found(server, "llama_crossing"))
            print(f"without the bucket, both answered after {time.monotonic() - began:.2f} s")
            cut.heal()


def test_progress_is_shown_and_cancelled_at_every_server(two: Any, url: str, tmp_path: Path) -> None:
    sample = sample_copy(tmp_path)
    a, b = two(repositories=(("sample", sample),))

    def state(server: Served) -> dict[str, Any]:
        return server.get("/api/repositories").json[0]

    assert state(a)["state"] == state(b)["state"] == "waiting"
    with unfinished(tmp_path / "rag-home", sample), working(url, tmp_path / "rag-home") as worker:
        for server in (a, b):
            server.wait_until(lambda server=server: state(server)["state"] == "indexing")
        assert b.post("/api/repositories/sample/index/cancel").status == 200
        a.wait_until(lambda: state(a)["state"] in ("cancelled", "failed"))
        b.wait_until(lambda: state(b)["state"] in ("cancelled", "failed"))
        a.wait_until(lambda: worker.ended["cancelled"])


def test_the_same_question_twice_at_once_is_one_conversation(two: Any, url: str, tmp_path: Path) -> None:
    sample = sample_copy(tmp_path)
    with working(url, tmp_path / "rag-home"):
        servers = two(repositories=(("sample", sample),))
        for server in servers:
            server.ready()
        first = [{"role": "user", "content": "Where is a short code made?"}]
        answer = chat(servers[0], first).json["choices"][0]["message"]
        for number in range(4):
            again = [*first, answer, {"role": "user", "content": f"Who calls it? {number}"}]
            before = len(conversations(servers[0]))
            with ThreadPoolExecutor(4) as pool:
                replies = list(pool.map(lambda n, again=again: chat(servers[n % 2], again), range(4)))
            assert {reply.status for reply in replies} == {200}
            named = {reply.headers["x-rag-conversation"] for reply in replies}
            assert len(named) == 1, named
            assert len(conversations(servers[0])) - before <= 1


def test_two_questions_at_once_do_not_mix(two: Any, url: str, tmp_path: Path) -> None:
    sample = sample_copy(tmp_path)
    with working(url, tmp_path / "rag-home"):
        servers = two(repositories=(("sample", sample),))
        for server in servers:
            server.ready()
        first = [{"role": "user", "content": "Where is a short code made?"}]
        answer = chat(servers[0], first).json["choices"][0]["message"]
        for number in range(4):
            asked = [f"Who calls it? {number}", f"Where is it tested? {number}"]
            histories = [[*first, answer, {"role": "user", "content": text}] for text in asked]
            with ThreadPoolExecutor(2) as pool:
                replies = list(pool.map(chat, servers, histories))
            for reply, text in zip(replies, asked, strict=True):
                about = f"/api/conversations/{reply.headers['x-rag-conversation']}"
                turns = [turn["question"] for turn in servers[0].get(about).json["all_turns"]]
                assert turns == [first[0]["content"], text]


def test_a_rate_holds_for_all_servers_together(two: Any, tmp_path: Path) -> None:
    sample = sample_copy(tmp_path)
    servers = two(repositories=(("sample", sample),), rate="6/hour", keys=(KEY,))
    for server in servers:
        server.headers["Authorization"] = f"Bearer {KEY}"
    statuses = [servers[number % 2].get("/api/conversations").status for number in range(10)]
    assert statuses == [200] * 6 + [429] * 4
    refused = servers[0].get("/api/conversations")
    assert 0 < int(refused.headers["retry-after"]) <= 7200


def test_keys_are_shared(two: Any, url: str, tmp_path: Path) -> None:
    from command import rag

    sample = sample_copy(tmp_path)
    key = rag("keys", "add", "ann", "--shared", url).out.strip()
    a, b = two(repositories=(("sample", sample),))
    for server in (a, b):
        assert server.get("/api/conversations").status == 401
        assert server.get("/api/conversations", headers={"Authorization": f"Bearer {key}"}).status == 200
    later = rag("keys", "add", "bob", "--shared", url).out.strip()
    assert rag("keys", "add", "bob", "--shared", url).code == 2

    def status(server: Served, key: str) -> int:
        return server.get("/api/conversations", headers={"Authorization": f"Bearer {key}"}).status

    for server in (a, b):
        server.wait_until(lambda server=server: status(server, later) == 200)
    assert rag("keys", "remove", "bob", "--shared", url).code == 0
    for server in (a, b):
        server.wait_until(lambda server=server: status(server, later) == 401)
    assert rag("keys", "remove", "bob", "--shared", url).code == 2
    assert rag("keys", "remove", "bob").code == 2
    assert status(a, key) == 200


def test_events_reach_clients_of_the_other_server(two: Any, url: str, tmp_path: Path) -> None:
    sample = sample_copy(tmp_path)
    with working(url, tmp_path / "rag-home"):
        a, b = two(repositories=(("sample", sample),))
        a.ready()
        b.ready()
        connection = http.client.HTTPConnection("127.0.0.1", b.port, timeout=DEADLINE_S)
        connection.request("GET", "/api/events")
        response = connection.getresponse()
        line = response.readline()  # it watches from now on
        assert line
        asked = a.post("/api/ask", {"question": "Where is a short code made?", "repositories": ["sample"]})
        assert asked.status == 200
        mine = asked.headers.get("x-rag-conversation") or conversations(a)[0]["id"]
        seen: list[str] = []
        while not seen:
            line = response.readline().decode()
            assert line, "the stream ended"
            if line.startswith("data: ") and (data := json.loads(line[6:])):
                seen.append(data["id"])
        assert seen == [mine]
        response.close()
        connection.close()


def test_a_server_that_drains_still_answers_but_is_not_ready(two: Any, url: str, tmp_path: Path) -> None:
    sample = sample_copy(tmp_path)
    with working(url, tmp_path / "rag-home"):
        a, b = two(repositories=(("sample", sample),))
        a.ready()
        b.ready()
        a.service.drain()
        ready = a.get("/ready")
        assert (ready.status, ready.json["status"]) == (503, "stopping")
        asked = a.post("/api/ask", {"question": "Where is a short code made?", "repositories": ["sample"]})
        assert asked.status == 200 and asked.headers["connection"] == "close"
        assert b.get("/ready").status == 200


def test_the_doctor_checks_the_shared_database(url: str, tmp_path: Path) -> None:
    from command import rag

    def finding(name: str, *arguments: str) -> dict[str, Any]:
        done = rag("doctor", "--server", "--repo", tmp_path, "--port", "0", "--json", *arguments)
        return next(one for one in done.json if one["name"] == name)

    assert finding("shared database")["state"] == "off"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAG_SHARED", url)
        rag("keys", "add", "ann")
        assert finding("shared database")["detail"] == "0 jobs run"
        assert "ann" in finding("keys")["detail"]
        assert finding("shared database", "--quick")["detail"] == "not checked"
        patch.setenv("RAG_SHARED", "postgresql:///x?host=/nowhere")
        assert finding("shared database")["state"] == "bad"
