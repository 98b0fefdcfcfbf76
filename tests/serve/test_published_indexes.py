"""A server answers about a git URL from a published index, and clones only when something needs the files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from conftest import git
from live_server import Served, serving
from test_mcp import called, over_http

from rag.errors import SourceError
from rag.service import Engine, locate
from rag.service.repositories.published_index import take
from rag.service.repositories.remotes import remote_commit
from rag.service.tools.definition_history import NO_HISTORY
from rag.settings import Settings
from rag.types import Source

QUESTION = "Where is a short code made?"


@pytest.fixture
def origin(tmp_path: Path, sample_repo: Path) -> Path:
    """The repository that the publisher clones and the server does not."""
    folder = tmp_path / "origin"
    shutil.copytree(sample_repo, folder)
    return folder


def commit(folder: Path, name: str) -> None:
    (folder / f"{name}.py").write_text(f"def {name}_crossing():\n    return '{name}'\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", f"Add {name}")


def publish(home: Path, stores: Path, source: Source) -> None:
    stores.mkdir(exist_ok=True)
    with closing(Engine(Settings(home=home, stores=str(stores)))) as engine:
        engine.publish(engine.repository(source))


@pytest.fixture
def node(tmp_path: Path, origin: Path) -> Iterator[Callable[..., Served]]:
    """Starts a server that has nothing of the repository; its index is published."""
    source = locate(f"file://{origin}")
    publish(tmp_path / "publisher", tmp_path / "stores", source)
    with ExitStack() as stack:

        def start(**settings: Any) -> Served:
            engine = {"stores": str(tmp_path / "stores"), **settings}
            served = serving(tmp_path / "node", engine=engine, repositories=(("app", source),))
            return stack.enter_context(served)

        yield start


def clones(tmp_path: Path) -> list[str]:
    folder = tmp_path / "node" / "rag-home" / "repos"
    return [entry.name for entry in folder.glob("*/.git")] if folder.is_dir() else []


def ask(server: Served, question: str, conversation: str | None = None) -> Any:
    body = {"question": question, "repositories": ["app"], "conversation": conversation}
    reply = server.post("/api/ask", {name: value for name, value in body.items() if value})
    assert reply.status == 200, reply
    return reply.json


def is_idle(server: Served) -> bool:
    return not server.get("/api/repositories/app").json["job"]["running"]


def test_everything_but_the_history_is_answered_without_a_clone(tmp_path: Path, node: Any) -> None:
    server = node()
    server.ready()
    first = ask(server, QUESTION, "about")
    coverage = first["coverage"][0]
    assert first["sources"] and coverage["has_files"] is False and coverage["checked_ago_s"] is not None
    assert coverage["commit"] == server.get("/api/repositories/app").json["commit"]
    path = first["sources"][0]["path"]
    assert server.get(f"/api/repositories/app/source?path={path}").json["text"]
    again = ask(server, "And who calls it?", "about")
    assert again["sources"] and not again["warning"]
    checked = server.get("/api/conversations/about/freshness").json
    states = [each["freshness"]["state"] for turn in checked for each in turn["citations"]]
    assert len(checked) == 2 and set(states) == {"fresh"}
    assert server.get("/api/repositories/app/wiki").status == 200
    server.wait_until(lambda: is_idle(server))
    assert clones(tmp_path) == []


def test_a_cached_answer_is_served_without_a_clone(node: Any) -> None:
    server = node(cache=True)
    server.ready()
    assert not ask(server, QUESTION)["cached"]
    assert ask(server, QUESTION)["cached"]


def test_a_question_about_the_history_says_so_and_has_it_fetched(tmp_path: Path, node: Any) -> None:
    server = node()
    server.ready()
    question = "When was `issue_token` last changed?"
    answer = ask(server, question)
    assert NO_HISTORY in answer["code_facts"]["note"] and NO_HISTORY in answer["answer"]
    server.wait_until(lambda: len(clones(tmp_path)) == 1 and is_idle(server))
    later = ask(server, question)
    assert later["coverage"][0]["has_files"] and "last changed" in later["code_facts"]["summary"]


def by_mcp(tool: str) -> Callable[[Served, str], Any]:
    async def through(session: Any, question: str) -> Any:
        name = "question" if tool == "explore" else "query"
        text, _, failed = await called(session, tool, **{"repoName": "app", name: question})
        assert not failed, text
        return text

    return lambda server, question: over_http(server, lambda session: through(session, question))


@pytest.mark.parametrize(
    "search",
    [
        lambda server, question: server.post("/api/search", {"question": question}).json["code_facts"][
            "note"
        ],
        by_mcp("search_code"),
        by_mcp("explore"),
    ],
    ids=["/api/search", "search_code", "explore"],
)
def test_a_search_for_the_history_has_it_fetched(tmp_path: Path, node: Any, search: Any) -> None:
    server = node()
    server.ready()
    server.wait_until(lambda: is_idle(server))
    assert clones(tmp_path) == []
    assert search(server, "When was `issue_token` last changed?")
    server.wait_until(lambda: len(clones(tmp_path)) == 1 and is_idle(server))


def test_a_commit_that_is_not_published_is_cloned_and_one_that_is_is_not(
    tmp_path: Path, origin: Path, node: Any
) -> None:
    """The branch moves on. Whoever publishes it first decides whether the server needs a clone."""
    server = node()
    server.ready()
    source = locate(f"file://{origin}")

    def found(animal: str) -> bool:
        reply = server.post("/api/search", {"question": f"{animal}_crossing", "repositories": ["app"]})
        return any(hit["path"] == f"{animal}.py" for hit in reply.json["hits"])

    server.wait_until(lambda: is_idle(server))
    commit(origin, "zebra")
    publish(tmp_path / "publisher", tmp_path / "stores", source)
    assert server.post("/api/repositories/app/index").status == 202
    server.wait_until(lambda: found("zebra"))
    server.wait_until(lambda: is_idle(server))
    assert clones(tmp_path) == []
    commit(origin, "llama")
    assert server.post("/api/repositories/app/index").status == 202
    server.wait_until(lambda: found("llama"))
    assert len(clones(tmp_path)) == 1


def test_without_the_git_server_the_published_index_answers(tmp_path: Path, origin: Path, node: Any) -> None:
    origin.rename(tmp_path / "away")
    server = node()
    server.ready()
    answer = ask(server, QUESTION)
    coverage = answer["coverage"][0]
    assert answer["sources"] and coverage["has_files"] is False and coverage["checked_ago_s"] is None


def test_an_index_of_a_folder_is_not_taken_for_one_of_its_url(tmp_path: Path, origin: Path) -> None:
    """It has the places of that folder; it is where the index of a clone begins."""
    work, url = tmp_path / "work", f"file://{origin}"
    git(tmp_path, "clone", "-q", str(origin), str(work))
    with closing(Engine(Settings(home=tmp_path / "publisher", stores=str(tmp_path / "stores")))) as engine:
        (tmp_path / "stores").mkdir()
        engine.shared_name = url
        engine.publish(engine.repository(str(work)))
    with closing(Engine(Settings(home=tmp_path / "node", stores=str(tmp_path / "stores")))) as engine:
        assert take(engine, locate(url), is_checked=False) is None
        assert engine.repository(locate(url)).checkout.has_files


def test_a_branch_is_not_confused_with_one_whose_name_ends_alike(tmp_path: Path, origin: Path) -> None:
    git(origin, "branch", "release")
    git(origin, "checkout", "-q", "-b", "old/release")
    commit(origin, "zebra")
    git(origin, "tag", "-a", "v1", "-m", "one")
    url = f"file://{origin}"
    commits = {ref: git(origin, "rev-parse", f"{ref}^{{commit}}").strip() for ref in ("release", "v1")}
    assert {ref: remote_commit(locate(url, ref), timeout_s=60) for ref in commits} == commits
    with pytest.raises(SourceError, match="no such ref"):
        remote_commit(locate(url, "lease"), timeout_s=60)


def test_what_a_worker_of_another_version_published_is_checked(tmp_path: Path, origin: Path) -> None:
    """It has another key, so what is published under ours may be of an older commit."""
    source = locate(f"file://{origin}")
    publish(tmp_path / "publisher", tmp_path / "stores", source)
    commit(origin, "zebra")
    with closing(Engine(Settings(home=tmp_path / "node", stores=str(tmp_path / "stores")))) as engine:
        assert engine.shared is not None
        ours = engine.shared.key_of(source)
        assert take(engine, source, is_checked=False, published_as=f"{ours}-older") is None
        assert take(engine, source, is_checked=False, published_as=ours) is not None
