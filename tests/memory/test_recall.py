"""Older turns that bear on a question: words, windows, meaning, and what was edited or deleted meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rag import backends
from rag.errors import NotFound
from rag.memory.recall import recall_turns
from rag.memory.search import search_text
from rag.memory.turn_vectors import TurnVectors
from rag.ports import Embedder, MemoryStore
from rag.settings import Settings
from rag.types import AssistantResponse, Conversation, DialogTurn, UserQuery

SAID = (
    ("Where are sessions signed?", "In Session.sign, with an HMAC."),
    ("Who broke the build?", "Nobody knows."),
    ("What does getUserName return?", "The login of the person."),
    ("Which servers stand in 北京?", "Two of them."),
    ("And in 上海?", "None."),
)


@pytest.fixture(params=["memory:", ""], ids=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path):
    opened = backends.open_turn_store(Settings(home=tmp_path, memory=request.param))
    yield opened
    opened.close()


@pytest.fixture
def embedder() -> Embedder:
    return backends.open_embedder(Settings())


def _turn(question: str, answer: str = "") -> DialogTurn:
    return DialogTurn(user_query=UserQuery(question), assistant_response=AssistantResponse(answer))


def _said(store: MemoryStore, *said: tuple[str, str], name: str = "") -> Conversation:
    conversation = store.create_conversation(name=name)
    store.extend([_turn(*one) for one in said], conversation=conversation.id)
    return conversation


def _found(store: MemoryStore, query: str, **more: object) -> list[str]:
    return [one.turn.question for one in recall_turns(store, query, **more)]


def test_the_turn_that_holds_the_words_comes_first(store, embedder):
    _said(store, *SAID)
    for query, expected in {
        "How is a session signed?": 0,
        "user name": 2,
        "getUserName": 2,
        "北京": 3,
        "Whose build breaks?": 1,
    }.items():
        for one in (None, embedder):
            assert _found(store, query, embedder=one)[0] == SAID[expected][0], query


def test_split_words_and_characters_find_the_same_turns_by_their_words(store):
    _said(store, *SAID, ("北京天气", "晴朗"))
    assert len(search_text(store, "北京")) == 2
    assert [one.id for one in search_text(store, "user name")] == [
        one.id for one in search_text(store, "userName")
    ]


def test_a_neighbour_without_any_of_the_words_is_found_in_its_window(store):
    conversation = _said(
        store, ("What is the colour of the bikeshed?", ""), ("Green.", ""), *[("Noise.", "")] * 9
    )
    assert _found(store, "bikeshed", conversation=conversation.id)[:2] == [
        "What is the colour of the bikeshed?",
        "Green.",
    ]
    assert "Green." not in _found(store, "bikeshed", before=1)


def test_a_window_ends_where_its_conversation_does(store):
    _said(store, ("Tell me of the bikeshed.", ""))
    _said(store, ("Something else.", ""), ("Green.", ""))
    assert _found(store, "bikeshed") == ["Tell me of the bikeshed."]


def test_what_a_fork_inherited_is_its_window_too(store):
    conversation = _said(store, ("What of the bikeshed?", ""), ("Said in the first only.", ""))
    fork = store.fork(conversation.id, at=0)
    store.append(_turn("Green."), conversation=fork.id)
    assert _found(store, "bikeshed", conversation=fork.id) == ["What of the bikeshed?", "Green."]


def test_a_turn_is_found_as_it_is_now(store, embedder):
    conversation = _said(store, *SAID)
    vectors = TurnVectors(store, embedder, conversation.id)
    more = {"embedder": embedder, "vectors": vectors, "conversation": conversation.id}
    (first, *_, last) = store.turns(conversation.id)
    assert _found(store, "session signing", **more)[0] == SAID[0][0]
    store.edit_turn(replace(first, user_query=UserQuery("Which colour is it?")))
    store.delete_turn(last.id)
    store.append(_turn("Where are cookies signed?"), conversation=conversation.id)
    assert _found(store, "colour", **more)[0] == "Which colour is it?"
    assert "Where are cookies signed?" in _found(store, "session signing", **more)
    assert SAID[0][0] not in _found(store, "session signing", **more)
    assert SAID[-1][0] not in _found(store, "上海", **more)


def test_nothing_is_found_for_no_words_and_in_no_turns(store, embedder):
    assert _found(store, "anything", embedder=embedder) == []
    _said(store, *SAID)
    assert _found(store, "  ", embedder=embedder) == []
    assert _found(store, "the of", embedder=embedder) == []
    with pytest.raises(NotFound):
        recall_turns(store, "session", conversation="none")
