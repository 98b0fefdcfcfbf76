"""Repositories are indexed in the background, and kept up to date."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from keys_given import add_key, memory_in
from live_server import sample_copy, serving
from unfinished_index import unfinished

from rag.serve.access.keys import Caller
from rag.serve.errors import IndexingFailed, TooMany
from rag.serve.repositories import names as names_module
from rag.serve.repositories.registry import RepositoryRegistry
from rag.serve.service import Service
from rag.serve.settings import ServerSettings
from rag.serve.workers.indexing import ChildIndexers, IndexTask
from rag.service import Engine
from rag.settings import Settings
from rag.types import Source

QUESTION = {"question": "Where is a short code made?", "repositories": ["sample"]}


def test_a_changed_file_is_found_without_a_request(serve, tmp_path):
    sample = sample_copy(tmp_path)
    running = serve(repositories=(("sample", sample),), refresh_s=0.05).ready()
    (Path(sample.location) / "zebra.py").write_text("def zebra_crossing():\n    return 'stripes'\n")

    def found():
        asked = {"question": "zebra_crossing", "repositories": ["sample"]}
        return [h for h in running.post("/api/search", asked).json["hits"] if h["path"] == "zebra.py"]

    running.wait_until(found)


@pytest.fixture
def waits(tmp_path):
    """Starts a server whose repository is not indexed before a block ends: `with waits() as running`."""
    sample, home = sample_copy(tmp_path), tmp_path / "waiting"
    with ExitStack() as servers:

        @contextmanager
        def started(**settings):
            given = {"repositories": (("sample", sample),), "wait_for_index_s": 0.05, **settings}
            with unfinished(home / "rag-home", sample):
                yield servers.enter_context(serving(home, **given))

        yield started


def test_while_a_repository_is_indexed_health_answers_and_questions_come_again(waits):
    took = []
    with waits() as running:
        for _ in range(20):
            assert running.get("/ready").status == 503
            began = time.perf_counter()
            assert running.get("/health").status == 200
            took.append(time.perf_counter() - began)
            reply = running.post("/api/ask", QUESTION)
            assert reply.status == 503 and reply.json["error"]["code"] == "indexing"
            assert reply.headers["retry-after"]
    took.sort()
    assert took[len(took) // 2] < 0.5, "health waited for the index"
    states = running.ready().get("/api/repositories").json
    assert states[0]["files"] > 10


def test_a_job_is_cancelled_and_begun_again(waits):
    with waits() as running:
        running.wait_until(lambda: running.get("/api/repositories/sample").json["job"]["stage"] == "scan")
        cancelled = running.post("/api/repositories/sample/index/cancel").json
        assert cancelled["state"] == "cancelled"
        assert not cancelled["job"]["running"]
        reply = running.post("/api/ask", QUESTION)
        assert reply.json["error"]["code"] == "indexing_failed"
        assert running.post("/api/repositories/sample/index").json["job"]["running"]
    running.ready()


def test_a_job_that_one_key_has_started_is_not_cancelled_by_another(waits, tmp_path):
    memory = memory_in(tmp_path)
    ann, bob = ({"Authorization": f"Bearer {add_key(memory, name)}"} for name in ("ann", "bob"))
    place = "/api/repositories/sample/index"
    with waits(engine={"memory": memory}) as running:
        assert running.post(f"{place}/cancel", headers=bob).json["state"] == "cancelled"  # the server's own
        assert running.post(place, headers=ann).json["job"]["running"]
        refused = running.post(f"{place}/cancel", headers=bob)
        assert refused.status == 403 and "only its callers can cancel" in refused.json["error"]["message"]
        assert running.post(f"{place}/cancel", headers=ann).json["state"] == "cancelled"


def test_a_job_that_is_cancelled_before_it_began_can_be_begun_again(tmp_path):
    settings = Settings(home=tmp_path / "home")
    registry = RepositoryRegistry(
        ServerSettings(engine=settings, repositories=(("sample", sample_copy(tmp_path)),)), Engine(settings)
    )

    async def run():
        await registry.start()
        entry = registry.entry("sample")
        assert await registry.cancel(entry, Caller(namespace=""))
        assert (entry.running, entry.state) == (False, "cancelled")
        assert registry.index(entry)
        await registry.close()

    asyncio.run(run())


def test_a_job_that_ends_in_a_mistake_of_ours_is_logged_and_lets_nobody_wait(tmp_path, monkeypatch, caplog):
    settings = Settings(home=tmp_path / "home")
    registry = RepositoryRegistry(
        ServerSettings(engine=settings, repositories=(("sample", sample_copy(tmp_path)),)), Engine(settings)
    )

    async def mistaken(*args, **more):
        raise ZeroDivisionError

    async def run():
        monkeypatch.setattr(ChildIndexers, "index", mistaken)
        await registry.start()
        with pytest.raises(ZeroDivisionError):
            await registry.entry("sample")._task
        with pytest.raises(IndexingFailed):
            await registry.repository("sample")
        await registry.close()

    asyncio.run(run())
    assert "ZeroDivisionError" in caplog.text


def test_a_server_that_ends_in_the_middle_of_indexing_begins_again(tmp_path):
    source = sample_copy(tmp_path)
    with serving(tmp_path, repositories=(("sample", source),)) as first:
        first.wait_until(lambda: first.get("/api/repositories/sample").json["job"]["running"])
    with serving(tmp_path, repositories=(("sample", source),)) as second:
        second.ready()
        response = second.post("/api/ask", {**QUESTION, "conversation": "kept"}).json
    with serving(tmp_path, repositories=(("sample", source),)) as third:
        third.ready()
        again = third.post("/api/ask", {"question": "Why?", "conversation": "kept"}).json
    assert again["conversation"] == response["conversation"]
    assert again["number"] == 2


def test_two_servers_build_one_store_once(tmp_path):
    source = sample_copy(tmp_path)
    with (
        serving(tmp_path, repositories=(("sample", source),)) as one,
        serving(tmp_path, repositories=(("sample", source),)) as other,
    ):
        one.ready()
        other.ready()
        actions = [s.service.registry.entry("sample").report["action"] for s in (one, other)]
    assert "built" in actions
    assert len(list((tmp_path / "rag-home" / "stores").glob("*.pkl"))) == 1


def test_a_folder_that_is_gone_is_named_and_the_others_are_served(serve, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    source = Source(str(gone.resolve()))
    gone.rmdir()
    running = serve(repositories=(("gone", source), ("sample", sample_copy(tmp_path))))
    running.wait_until(lambda: running.get("/api/repositories/gone").json["state"] == "failed")
    ready = running.ready().get("/ready").json
    assert (ready["repositories"], ready["ready"], ready["more"]) == (2, 1, False)
    ((name, state, why),) = [each.values() for each in ready["not_ready"]]
    assert (name, state) == ("gone", "failed")
    assert "there is no folder" in why
    reply = running.post("/api/ask", {**QUESTION, "repositories": ["gone"]})
    assert reply.status == 424
    assert "there is no folder" in reply.json["error"]["message"]
    running.wait_until(lambda: running.get("/api/repositories/sample").json["state"] == "ready")
    assert running.post("/api/ask", QUESTION).status == 200


def test_a_conversation_about_what_is_not_served_is_not_opened(tmp_path):
    source = sample_copy(tmp_path)
    with serving(tmp_path, repositories=(("sample", source),)) as first:
        first.ready()
        first.post("/api/ask", {**QUESTION, "conversation": "kept"})
    with serving(tmp_path, repositories=()) as second:
        reply = second.post("/api/ask", {"question": "Why?", "conversation": "kept"})
    assert reply.status == 403


def test_a_ref_that_does_not_exist_is_not_found(serve, sample_repo):
    served = serve(repositories=(("sample", Source(str(sample_repo.resolve()))),)).ready()
    asked = {"question": "How are sessions signed?", "repositories": ["sample@no-such"]}
    for path, body in (
        ("/api/ask", asked),
        ("/api/search", asked),
        (
            "/v1/chat/completions",
            {"model": "rag:sample@no-such", "messages": [{"role": "user", "content": "?"}]},
        ),
    ):
        reply = served.post(path, body)
        assert (reply.status, reply.json["error"]["code"]) == (404, "ref_not_found")
        assert "no-such" in reply.json["error"]["message"]
    assert [one["name"] for one in served.get("/api/repositories").json] == ["sample"]
    assert not [one for one in served.get("/v1/models").json["data"] if "no-such" in one["id"]]


def test_refs_that_do_not_exist_keep_no_place(serve, sample_repo):
    served = serve(repositories=(("sample", Source(str(sample_repo.resolve()))),)).ready()
    for number in range(60):
        assert served.get(f"/api/repositories/sample@typo-{number}").status == 200
    asked = {"question": "How are sessions signed?", "repositories": ["sample@main"]}
    served.wait_until(lambda: served.post("/api/ask", asked).status == 200)
    for number in range(60):
        served.get(f"/api/repositories/sample@mistake-{number}")
    names = [one["name"] for one in served.get("/api/repositories").json]
    assert names[0] == "sample"
    assert "sample@main" in names
    assert len(names) <= 51


def test_the_least_recently_used_entry_is_evicted(sample_repo, monkeypatch):
    monkeypatch.setattr(names_module, "_MAX_UNLISTED", 3)
    source = Source(str(sample_repo.resolve()))
    registry = RepositoryRegistry(ServerSettings(repositories=(("sample", source),)), engine=None)
    for number, name in enumerate(("a", "b", "c")):
        entry = registry.entry("sample", name)
        entry.repository, entry.checked = object(), 10.0 - number
    registry.entry("sample", "d")
    assert [entry.name for entry in registry.entries()] == ["sample", "sample@a", "sample@b", "sample@d"]
    for entry in registry.entries():
        entry.running = True
    with pytest.raises(TooMany):
        registry.entry("sample", "e")
    assert registry.entry("sample", "a").checked == 10.0


def test_an_indexing_process_that_died_while_it_waited_costs_no_job(tmp_path):
    settings, source = Settings(home=tmp_path / "home"), sample_copy(tmp_path)

    async def run():
        indexers = ChildIndexers(settings, notice=print)
        for _ in range(2):
            indexed = await indexers.index(IndexTask(source), lambda *how_far: None)
            (child,) = indexers._idle
            child.kill()
            await child.wait()
        await indexers.close()
        return indexed

    assert asyncio.run(run()).report["action"] == "fresh"


def test_another_ref_is_one_of_the_repository_whatever_ref_it_is_known_at(tmp_path):
    own, url = "https://git.internal/demo", "https://code.example/o/r"
    listed = (("demo", Source(own, "v1")),)
    engine = Settings(home=tmp_path / "home")
    service = Service(ServerSettings(engine=engine, repositories=listed, allow_urls=("code.example",)))
    for name, location in (("demo", own), ("demo@v3", own), (f"{url}@v1", url)):
        at = service.at_ref(service.registry.entry(name), "v2", Caller())
        assert (at.name, at.source) == (f"{name.partition('@')[0]}@v2", Source(location, "v2"))


def test_conversations_are_looked_for_without_a_new_place_for_their_repository(serve):
    served = serve().ready()
    assert served.get("/api/conversations?repository=sample@v9").json == []
    assert [entry.name for entry in served.service.registry.entries()] == ["sample"]
