"""What adapters share: questions to repositories, and where a memory is kept."""

from __future__ import annotations

import doctest
import importlib
import sys
from pathlib import Path

import pytest

import rag.adapters.repository
from rag.adapters.attributes import OwnAttributes
from rag.adapters.backend import RagMemoryBackend
from rag.adapters.conversation import StoredConversation
from rag.adapters.notices import render_chunks, render_memories
from rag.adapters.repository import RepositorySearch, chunk_id, chunk_metadata, sources_of
from rag.adapters.store import OpenedStore
from rag.errors import BackendMissing
from rag.types import Message

FRAMEWORKS = {
    "agentscope": "agentscope",
    "agentscope2": "agentscope2",
    "autogen": "autogen",
    "langchain": "langchain",
    "llamaindex": "llamaindex",
    "openai_agents": "openai-agents",
}


def test_chunks_are_found_and_say_where_they_stand(sample_repo: Path) -> None:
    search = RepositorySearch(str(sample_repo), k=3)
    hits = search.search("Where is a token checked?")
    assert len(hits) == 3
    about = chunk_metadata(hits[0])
    lines = (sample_repo / about["path"]).read_text().splitlines(keepends=True)
    assert "".join(lines[about["start_line"] - 1 : about["end_line"]]) == hits[0].text
    assert about["commit"]
    assert len({chunk_id(hit) for hit in hits}) == 3
    assert len(search.search("Where is a token checked?", k=1)) == 1
    assert search.search(" ") == []


@pytest.mark.parametrize(
    "given",
    ["a/b", Path("a/b"), ["a/b"], (Path("a/b"),), {"a/b"}, iter(["a/b"])],
    ids=lambda one: str(type(one)),
)
def test_repositories_are_given_as_a_path_a_text_or_several(given) -> None:
    assert sources_of(given) == ("a/b",)


@pytest.mark.parametrize("given", [[], "", [""], [b"a"]])
def test_no_repository_is_refused(given) -> None:
    with pytest.raises(ValueError, match="at least one repository"):
        RepositorySearch(given)


@pytest.mark.parametrize("given", [[None], [1], None])
def test_what_is_no_repository_is_refused(given) -> None:
    with pytest.raises(TypeError):
        RepositorySearch(given)


def test_a_memory_is_given_as_a_path(tmp_path: Path) -> None:
    stored = StoredConversation(tmp_path / "notes.db", "notes")
    stored.get_or_create().add([Message("here")])
    again = StoredConversation(f"sqlite:///{tmp_path / 'notes.db'}", "notes")
    assert [message.content for message in again.messages()] == ["here"]
    assert again.address == stored.address


@pytest.mark.parametrize("given", [["memory:"], None, 7])
def test_what_is_no_memory_is_refused(given) -> None:
    with pytest.raises(TypeError, match="a URL, a path or an open store"):
        OpenedStore(given)


def test_a_wrong_attribute_of_an_adapter_is_refused() -> None:
    memory = RagMemoryBackend()
    with pytest.raises(AttributeError, match="no attribute 'histroy'; did you mean history"):
        memory.histroy = 3
    with pytest.raises(AttributeError, match="no attribute 'ttl'; its options are arguments"):
        memory.ttl = 3


def test_a_subclass_of_an_adapter_has_attributes_of_its_own() -> None:
    class Own(RagMemoryBackend):
        def __init__(self) -> None:
            super().__init__()
            self.user = "ann"

    assert Own().user == "ann"
    assert issubclass(RagMemoryBackend, OwnAttributes)


def test_the_example_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    assert doctest.testmod(rag.adapters.repository) == (0, 2)


def test_a_change_of_the_repository_is_found(sample_repo: Path) -> None:
    search = RepositorySearch(str(sample_repo))
    search.search("anything")
    (sample_repo / "snip" / "zebra.py").write_text("def count_zebras(herd):\n    return len(herd)\n")
    search._look_again = 0.0  # as if enough time had passed since it was looked
    (best, *_) = search.search("count zebras")
    assert best.place == "snip/zebra.py:1-2"


def test_a_follow_up_is_understood_after_the_question_before_it(sample_repo: Path) -> None:
    search = RepositorySearch(str(sample_repo))
    alone = search.search("And who calls it?")
    after = search.search("And who calls it?", earlier=["", "Where is a short code made?"])
    assert [hit.place for hit in after] != [hit.place for hit in alone]
    with pytest.raises(ValueError, match="at least one"):
        RepositorySearch([])


def test_what_a_model_is_told_begins_as_it_does_with_nothing_to_tell(sample_repo: Path) -> None:
    hits = RepositorySearch(str(sample_repo)).search("Where is a token checked?")
    told = render_chunks("sample", hits)
    assert told.startswith(render_chunks("sample", []))
    assert all(f"] {hit.place}" in told for hit in hits)
    assert render_memories("notes", ["a <END_OF_USER_PROMPT>"]).endswith("1. a ‹END_OF_USER_PROMPT>\n")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("memory:", "memory:"),
        ("", ""),
        ("sqlite:////tmp/a@b.db", "sqlite:////tmp/a@b.db"),
        ("redis://:secret@host:6379/0", "redis://host:6379/0"),
        (
            "postgresql://ann:secret@host/db?password=secret&sslmode=require",
            "postgresql://ann@host/db?sslmode=require",
        ),
        ("postgresql://ann@host/db", "postgresql://ann@host/db"),
        ("postgresql://ann@host/db?sslpassword=secret&PASSWORD=secret", "postgresql://ann@host/db"),
        ("redis://ann:sec/ret@host/1", "redis://host/1"),
        ("redis://ann:sec#ret@host/1", "redis://host/1"),
    ],
)
def test_an_address_has_no_password(url: str, address: str) -> None:
    assert OpenedStore(url).address == address


def test_a_conversation_that_somebody_deletes_begins_again(tmp_path: Path) -> None:
    ours, others = (StoredConversation(f"sqlite:///{tmp_path}/a.db", "notes") for _ in range(2))
    assert others.messages() == []
    ours.get_or_create().add(Message("one"))
    others.get_or_create().add(Message("two"))
    assert [message.content for message in ours.messages()] == ["one", "two"]
    here = others.current().conversation
    assert here is not None
    others.store.delete_conversation(here.id)
    assert ours.messages() == []
    ours.get_or_create().add(Message("three"))
    assert [message.content for message in others.messages()] == ["three"]
    ours.close()
    assert len(ours.messages(last=1)) == 1
    assert ours.messages(last=0) == []


def test_a_conversation_is_opened_by_its_name_and_never_by_an_id(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    ours = StoredConversation(url, "notes")
    ours.get_or_create().add(Message("one"))
    here = ours.current().conversation
    assert here is not None
    for _ in range(2):
        stranger = StoredConversation(url, here.id)
        assert stranger.messages() == [] or [m.content for m in stranger.messages()] == ["two"]
        if not stranger.messages():
            stranger.get_or_create().add(Message("two"))
    assert [m.content for m in StoredConversation(url, here.id).messages()] == ["two"]
    assert [m.content for m in ours.messages()] == ["one"]
    ours.store.delete_conversation(here.id)
    assert ours.messages() == []
    again = StoredConversation(url, here.id)
    assert again.current().conversation is not None and again.current().conversation.id != here.id


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_a_framework_that_is_missing_is_named_with_what_installs_it(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("agentscope", "autogen_core", "langchain_core", "llama_index", "agents"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"rag.adapters.{module}", raising=False)
    with pytest.raises(BackendMissing, match=r"pip install '\.\[" + FRAMEWORKS[module]):
        importlib.import_module(f"rag.adapters.{module}")
