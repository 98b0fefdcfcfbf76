"""Every answer rests on the files, and on the store, as they are when it is asked for."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from live_server import serving

from rag import RAG
from rag.database import update
from rag.serve.workers import tree_checks
from rag.serve.workers.indexing import ChildIndexers
from rag.serve.workers.tree_checks import TreeChecks
from rag.service import Engine
from rag.service.repositories import engine
from rag.settings import Settings
from rag.types import Source

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
WORDS = "Where is the zebra crossing painted?"


def git(root, *arguments):
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(
        ["git", *who, *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(autouse=True)
def on_a_busy_machine(monkeypatch):
    """Files are compared before an answer, however long this machine takes for it."""
    monkeypatch.setattr(tree_checks, "_MAX_WAIT_S", 20.0)


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    for number in range(5):
        (folder / f"mod{number}.py").write_text(f"def function_{number}():\n    return {number}\n")
    (folder / "logo.png").write_bytes(b"\x89PNG")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder.resolve()


def paint(root, number=0):
    (root / f"zebra{number}.py").write_text(f"def paint_zebra_crossing_{number}():\n    return 'stripes'\n")
    return f"zebra{number}.py"


def searched(running, name="work"):
    reply = running.post("/api/search", {"question": WORDS, "repositories": [name]})
    assert reply.status == 200, reply.body
    return {hit["path"] for hit in reply.json["hits"]}, reply.json["coverage"]


def rag(*arguments, home):
    environment = {**os.environ, "RAG_HOME": str(home / "rag-home")}
    command = [sys.executable, "-P", "-m", "rag", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def test_the_first_answer_after_an_edit_knows_the_edit(serve, root):
    running = serve(repositories=(("work", Source(str(root))),)).ready()
    commit = git(root, "rev-parse", "HEAD").strip()
    (coverage,) = searched(running)[1]
    assert (coverage["commit"], coverage["dirty"], coverage["not_indexed_count"]) == (commit, False, 0)
    assert coverage["skipped"] == {"binary": 1}
    assert coverage["checked_ago_s"] == 0.0
    for number in range(3):
        path = paint(root, number)
        paths, (coverage,) = searched(running)
        assert path in paths
        assert (coverage["dirty"], coverage["not_indexed"]) == (True, [])
    (root / path).unlink()
    assert path not in searched(running)[0]
    git(root, "add", ".")
    git(root, "commit", "-qm", "second")
    (coverage,) = searched(running)[1]
    assert (coverage["commit"], coverage["dirty"]) == (git(root, "rev-parse", "HEAD").strip(), False)


def test_questions_after_an_edit_share_one_look_at_the_files(serve, root, monkeypatch):
    running = serve(repositories=(("work", Source(str(root))),)).ready()
    searched(running)
    running.wait_until(lambda: not running.get("/api/repositories/work").json["job"]["running"])
    looks = []

    def counted(name, function):
        def looked(*given, **options):
            looks.append(name)
            return function(*given, **options)

        return looked

    monkeypatch.setattr(engine, "acquire", counted("acquire", engine.acquire))
    monkeypatch.setattr(update, "walk", counted("walk", update.walk))
    path = paint(root)
    assert path in searched(running)[0]
    assert looks == ["acquire", "walk"]
    path = paint(root, 1)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: searched(running)[0], range(8)))
    assert all(path in paths for paths in found)
    assert len(looks) <= 8, "at most one look more for those that came during the first one"


def test_an_index_run_next_to_a_server_leaves_it_current(serve, root):
    running = serve(repositories=(("work", Source(str(root))),)).ready()
    searched(running)
    path = paint(root)
    report = rag("search", str(root), WORDS, "--json", home=running.home)
    assert path in {hit["path"] for hit in report["hits"]}
    assert path in searched(running)[0]
    shell, server = report["coverage"], searched(running)[1]
    for coverage in (*shell, *server):
        coverage.pop("checked_ago_s")
    assert shell == server, "every interface says the same"


def test_what_one_server_fetched_the_other_answers_from(tmp_path, root):
    """A URL is not looked at again by the second server for minutes: only the store shows it."""
    url = Source(f"file://{root}")
    with (
        serving(tmp_path, repositories=(("work", url),)) as first,
        serving(tmp_path, repositories=(("work", url),)) as second,
    ):
        for running in (first, second):
            running.ready()
            assert not any("zebra" in path for path in searched(running)[0])
        path = paint(root)
        git(root, "add", ".")
        git(root, "commit", "-qm", "second")
        first.post("/api/repositories/work/index")
        first.wait_until(lambda: not first.get("/api/repositories/work").json["job"]["running"])
        for running in (first, second):
            paths, (coverage,) = searched(running)
            assert path in paths
            assert coverage["commit"] == git(root, "rev-parse", "HEAD").strip()
            assert coverage["checked_ago_s"] is not None


def test_the_age_of_a_url_is_that_of_its_last_fetch(tmp_path, root, monkeypatch):
    """By any process: a server knows it before its own first job has ended, and a failed fetch is none."""

    def is_idle():
        return not running.get("/api/repositories/work").json["job"]["running"]

    async def waits(self, *task):
        await asyncio.Event().wait()

    listed = (("work", Source(f"file://{root}")),)
    with serving(tmp_path, repositories=listed) as running:
        running.ready().wait_until(is_idle)
        (note,) = (tmp_path / "rag-home/repos").glob("*/.git/rag-fetched")
        os.utime(note, (time.time() - 100,) * 2)
        root.rename(tmp_path / "away")
        assert running.post("/api/repositories/work/index").status == 202
        running.wait_until(is_idle)
        assert searched(running)[1][0]["checked_ago_s"] >= 100
    monkeypatch.setattr(ChildIndexers, "index", waits)
    with serving(tmp_path, repositories=listed) as running:
        assert searched(running.ready())[1][0]["checked_ago_s"] >= 100
        note.write_text("0" * 40)
        assert searched(running)[1][0]["checked_ago_s"] is None, "another commit was fetched, and not indexed"


def test_fifty_changed_files_are_indexed_before_the_answer(serve, root):
    running = serve(repositories=(("work", Source(str(root))),)).ready()
    searched(running)
    for number in range(50):
        paint(root, number)
    (coverage,) = searched(running)[1]
    assert (coverage["not_indexed"], coverage["not_indexed_count"]) == ([], 0)


def test_an_unexpected_failure_of_an_update_is_named_and_not_repeated_at_once(serve, root, monkeypatch):
    running = serve(repositories=(("work", Source(str(root))),)).ready()
    searched(running)
    attempts = []

    def fails(engine, source):
        attempts.append(source)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Engine, "caught_up", fails)
    path = paint(root)
    for _ in range(2):
        (coverage,) = searched(running)[1]
        assert coverage["not_indexed"] == [path]
    assert len(attempts) == 1


def test_two_servers_on_one_folder_are_both_current(tmp_path, root):
    listed = (("work", Source(str(root))),)
    with serving(tmp_path, repositories=listed) as first, serving(tmp_path, repositories=listed) as second:
        for number, running in enumerate((first.ready(), second.ready(), first, second)):
            path = paint(root, number)
            assert path in searched(running)[0]


def test_a_branch_that_moves_is_followed(serve, root):
    running = serve(repositories=(("work", Source(str(root))),), wait_for_index_s=30.0).ready()
    searched(running, "work@main")
    path = paint(root)
    assert path not in searched(running, "work@main")[0], "it is not committed"
    git(root, "add", ".")
    git(root, "commit", "-qm", "second")
    paths, (coverage,) = searched(running, "work@main")
    assert path in paths
    assert coverage["commit"] == git(root, "rev-parse", "HEAD").strip()


@pytest.fixture
def jobs_never_end(monkeypatch):
    """The indexing processes of a busy machine do not get to work."""

    async def waits(self, *task):
        await asyncio.Event().wait()

    monkeypatch.setattr(ChildIndexers, "index", waits)


@pytest.mark.usefixtures("jobs_never_end")
def test_a_server_that_just_started_knows_what_changed_while_it_did_not_run(tmp_path, root):
    Engine(Settings(home=tmp_path / "rag-home")).repository(str(root))
    (root / "mod0.py").rename(root / "renamed.py")
    (root / "mod1.py").write_text("def another_name():\n    return 1\n")
    (root / "mod2.py").unlink()
    path = paint(root)
    with serving(tmp_path, repositories=(("work", Source(str(root))),)) as running:
        paths, (coverage,) = searched(running.ready())
        assert path in paths
        assert coverage["not_indexed_count"] == 0
        assert running.get("/api/repositories/work").json["job"]["running"]
        asked = {"question": "def function_", "mode": "exact", "repositories": ["work"]}
        found = {hit["path"] for hit in running.post("/api/search", asked).json["hits"]}
        assert found == {"renamed.py", "mod3.py", "mod4.py"}


@pytest.mark.usefixtures("jobs_never_end")
def test_no_question_waits_for_a_rebuild(tmp_path, root, monkeypatch):
    Engine(Settings(home=tmp_path / "rag-home")).repository(str(root))
    with serving(tmp_path, repositories=(("work", Source(str(root))),)) as running:
        running.ready().post("/api/repositories/work/index/cancel")
        assert running.post("/api/repositories/work/index", {"rebuild": True}).status == 202
        path = paint(root)
        monkeypatch.setattr(Engine, "caught_up", None)  # an update here would have to wait
        (coverage,) = searched(running)[1]
        assert coverage["not_indexed"] == [path]


@pytest.mark.usefixtures("jobs_never_end")
def test_many_changed_files_are_searched_as_text(tmp_path, root):
    """As long as they are not indexed, each interface says where the names in a question are in them."""
    (root / "uses.py").write_text("from mod3 import function_3\n\nfunction_3()\n")
    Engine(Settings(home=tmp_path / "rag-home")).repository(str(root))
    with serving(tmp_path, repositories=(("work", Source(str(root))),)) as running:
        running.ready()
        for number in range(60):
            paint(root, number)
        (root / "late.py").write_text("from mod3 import function_3\n\n\nfunction_3()\n")
        (root / "mod3.py").write_text("\n\ndef function_3():\n    return 3\n")
        place = "late.py:1, late.py:4, mod3.py:3 (not indexed yet)"
        asked = {"question": "What does function_3 return?", "repositories": ["work"]}
        assert place in " ".join(running.post("/api/ask", asked).json["notes"])
        assert place in " ".join(running.post("/api/search", asked).json["remarks"])
        exact = {**asked, "question": "function_3", "mode": "exact"}
        assert place in " ".join(running.post("/api/search", exact).json["remarks"])
        missing = {**exact, "question": "paint_zebra_crossing_7"}
        assert "zebra7.py:1 (not indexed yet)" in " ".join(
            running.post("/api/search", missing).json["remarks"]
        )
        began = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        session = {"Mcp-Session-Id": running.post("/mcp", began).headers["mcp-session-id"]}
        for tool, given in (
            ("who_calls", {"name": "function_3"}),
            ("explore", {"question": asked["question"]}),
            ("search_code", {"query": asked["question"]}),
            ("ask_question", {"question": asked["question"]}),
        ):
            call = {"name": tool, "arguments": {"repoName": "work", **given}}
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            assert place in running.post("/mcp", request, headers=session).body.decode(), tool


def test_many_changed_files_are_named_and_indexed_later(serve, root):
    running = serve(repositories=(("work", Source(str(root))),)).ready()
    searched(running)
    for number in range(60):
        paint(root, number)
    (root / "mod0.py").unlink()
    reply = running.post("/api/ask", {"question": "What does function_3 return?", "repositories": ["work"]})
    (coverage,) = reply.json["coverage"]
    assert coverage["not_indexed_count"] == 61
    assert len(coverage["not_indexed"]) == 20
    assert coverage["not_indexed"][0] == "mod0.py"
    assert any("61 changed files are not in the index yet: mod0.py, " in n for n in reply.json["notes"])
    running.wait_until(lambda: searched(running)[1][0]["not_indexed_count"] == 0)


def test_the_answers_of_all_interfaces_say_what_they_rest_on(serve, root, monkeypatch):
    running = serve(repositories=(("work", Source(str(root))),)).ready()
    question = "What does function_3 return?"
    (root / "mod3.py").write_text("def function_3():\n    return 'three'\n")
    (native,) = running.post("/api/ask", {"question": question, "repositories": ["work"]}).json["coverage"]
    asked = {"model": "rag:work", "messages": [{"role": "user", "content": question}]}
    (openai,) = running.post("/v1/chat/completions", asked).json["rag"]["coverage"]
    (cli,) = rag("ask", str(root), question, "--json", home=running.home)["coverage"]
    monkeypatch.setenv("RAG_HOME", str(running.home / "rag-home"))
    component = RAG()
    component.prepare_retriever(str(root))
    (python,) = component.call(question).coverage
    assert native.keys() == openai.keys() == cli.keys()
    for report in (native, openai, cli):
        assert (report["commit"], report["dirty"]) == (git(root, "rev-parse", "HEAD").strip(), True)
        assert report["skipped"] == {"binary": 1}
        assert (report["not_indexed"], report["not_indexed_count"]) == ([], 0)
        assert (report["commit"], report["dirty"]) == (python.commit, python.dirty)


def test_a_python_object_that_lives_long_knows_every_edit(tmp_path, root):
    component = RAG(settings=Settings(home=tmp_path / "home"))
    component.prepare_retriever(str(root))
    for number in range(2):
        path = paint(root, number)
        assert path in {hit.path for hit in component.call(f"What is paint_zebra_crossing_{number}?").hits}
    path = paint(root, 7)
    assert path in {hit.path for hit in component.retrieve("paint_zebra_crossing_7")}
    other = Engine(Settings(home=tmp_path / "home"))
    path = paint(root, 8)
    other.repository(str(root))
    assert path in {hit.path for hit in component.retrieve("paint_zebra_crossing_8")}


# ---------------------------------------------------------------- what that costs


@pytest.fixture
def opened(tmp_path, root):
    return Engine(Settings(home=tmp_path / "home")), str(root)


def counted(checks, monkeypatch):
    """When each comparison began; each takes a tenth of a second longer than it does."""
    began = []
    compared = checks._compared

    def slowly(repository):
        began.append(time.monotonic())
        return replace(compared(repository), took_s=0.1)

    monkeypatch.setattr(checks, "_compared", slowly)
    return began


def test_questions_that_come_together_share_a_comparison(opened, monkeypatch):
    engine, root = opened
    repository = engine.repository(root)

    async def run(is_watched):
        checks = TreeChecks(engine, recheck_s=60.0)
        if not is_watched and checks._watch is not None:
            checks._watch.close()
            checks._watch = None
        began = counted(checks, monkeypatch)
        await asyncio.gather(*(checks.checked(repository) for _ in range(32)))
        first = len(began)
        await asyncio.gather(*(checks.checked(repository) for _ in range(32)))
        await checks.close()
        return first, len(began) - first

    assert asyncio.run(run(is_watched=True)) == (1, 0 if sys.platform.startswith("linux") else 1)
    assert asyncio.run(run(is_watched=False)) == (1, 1)


def test_where_nothing_is_watched_comparisons_take_a_bounded_share_and_answers_say_how_old(
    opened, monkeypatch
):
    engine, root = opened
    repository = engine.repository(root)

    async def run():
        checks = TreeChecks(engine, recheck_s=60.0)
        if checks._watch is not None:
            checks._watch.close()
            checks._watch = None
        began = counted(checks, monkeypatch)
        ages = []
        while len(began) < 21 and len(ages) < 1_000:
            now, _ = await checks.checked(repository)
            ages.append(now.coverage.checked_ago_s)
        assert set(ages[:20]) == {0.0}, "somebody who edits and asks never meets the bound"
        while not ages[-1] and len(ages) < 1_000:
            now, _ = await checks.checked(repository)
            ages.append(now.coverage.checked_ago_s)
        await checks.close()
        return len(began), ages

    comparisons, ages = asyncio.run(run())
    assert comparisons <= 25
    assert ages[-1] > 0.0


def test_a_change_while_files_are_compared_is_not_lost(opened, root, monkeypatch):
    """The comparison that is under way when a question comes may have missed what was written before it."""
    engine, place = opened
    repository = engine.repository(place)

    async def run():
        checks = TreeChecks(engine, recheck_s=60.0)
        await checks.checked(repository)
        compared = checks._compared

        def and_then_written(repository):
            done = compared(repository)
            if not (root / "late.py").exists():
                (root / "late.py").write_text("late = 1\n")
            return done

        monkeypatch.setattr(checks, "_compared", and_then_written)
        (root / "early.py").write_text("early = 1\n")
        first, _ = await checks.checked(repository)
        second, _ = await checks.checked(repository)
        await checks.close()
        return first.coverage.not_indexed, second.coverage.not_indexed

    assert asyncio.run(run()) == (("early.py",), ("early.py", "late.py"))
