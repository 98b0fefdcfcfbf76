"""Our memory as a chat history of LangChain, our retrieval as one of its retrievers."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import QUESTION, check_chunks
from docstring_examples import run_example
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables.history import RunnableWithMessageHistory

import rag.adapters.langchain
from rag.adapters.langchain import RagChatMessageHistory, RepositoryRetriever
from rag.service import Engine
from rag.settings import Settings
from rag.types import Message

CALL = {"name": "look", "args": {"path": "a.py", "deep": [None, 1.5]}, "id": "1", "type": "tool_call"}
MESSAGES = [
    SystemMessage("Be kind."),
    HumanMessage("Hello", name="ann", id="h1"),
    AIMessage(
        [{"type": "text", "text": "Looking"}],
        tool_calls=[CALL],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        response_metadata={"model_name": "fake"},
    ),
    ToolMessage("北京", tool_call_id="1", artifact={"rows": [1]}, status="error"),
    ChatMessage("As a judge", role="judge"),
    HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]),
    RemoveMessage(id="h1"),
]


@pytest.mark.parametrize("given", ["data/sample_repo", Path("data/sample_repo"), ["data/sample_repo"]])
def test_repositories_are_given_as_to_the_other_adapters(given):
    for retriever in (RepositoryRetriever(given, k=2), RepositoryRetriever(sources=given, k=2)):
        assert len(retriever.invoke(QUESTION)) == 2


def test_unknown_options_are_refused():
    with pytest.raises(ValueError, match="top_k"):
        RepositoryRetriever("data/sample_repo", top_k=2)
    with pytest.raises(ValueError, match="top_k"):
        RepositoryRetriever("data/sample_repo").top_k = 2
    with pytest.raises(AttributeError, match="ttl"):
        RagChatMessageHistory("ann").ttl = 2


@pytest.mark.parametrize("url", ["memory:", "sqlite:///chats.db"])
async def test_messages_of_every_kind_come_back_as_they_were_in_their_order(url):
    history = RagChatMessageHistory("ann", memory=url)
    assert history.messages == []
    history.add_messages(MESSAGES[:4])
    await history.aadd_messages(MESSAGES[4:])
    history.add_user_message("Hello")
    history.add_ai_message("Hi")
    history.add_messages([])
    more = [HumanMessage("Hello"), AIMessage("Hi")]
    assert history.messages == await history.aget_messages() == [*MESSAGES, *more]
    history.close()
    if url != "memory:":
        assert RagChatMessageHistory("ann", memory=url).messages == [*MESSAGES, *more]
        assert RagChatMessageHistory("ann", memory=url, last=2).messages == more
        other = RagChatMessageHistory("bob", memory=url)
        await other.aclear()
        assert len(history.messages) == 9
    await history.aclear()
    assert history.messages == []


def test_a_message_added_twice_or_to_two_sessions_is_kept_as_often():
    store = Engine(Settings(memory="memory:")).turns
    ann, bob = (RagChatMessageHistory(name, memory=store) for name in ("ann", "bob"))
    ann.add_messages([MESSAGES[1], MESSAGES[1]])
    bob.add_messages([MESSAGES[1]])
    assert ann.messages == [MESSAGES[1], MESSAGES[1]]
    assert bob.messages == [MESSAGES[1]]


def test_a_session_never_opens_another_conversation_by_its_id():
    store = Engine(Settings(memory="memory:")).turns
    ann = RagChatMessageHistory("ann", memory=store)
    ann.add_messages([MESSAGES[1]])
    secret = store.conversation("ann").id
    for _ in range(2):
        stranger = RagChatMessageHistory(secret, memory=store)
        assert stranger.messages == []
        stranger.add_messages([MESSAGES[0]])
        assert stranger.messages == [MESSAGES[0]]
        stranger.clear()
    assert ann.messages == [MESSAGES[1]]


def test_what_cannot_be_stored_is_an_error_and_stores_nothing():
    history = RagChatMessageHistory()
    with pytest.raises(TypeError):
        history.add_messages([MESSAGES[1], HumanMessage("x", additional_kwargs={"set": {1}})])
    assert history.messages == []


def test_messages_that_others_have_stored_are_read_by_their_role():
    store = Engine(Settings(memory="memory:")).turns
    here = store.create_conversation(name="ann")
    said = [Message("a", role="user"), Message("b", role="assistant"), Message({"c": 1}, role="judge")]
    store.add_messages(said, conversation=here.id)
    human, ai, judge = RagChatMessageHistory("ann", memory=store).messages
    assert (human.type, ai.type, judge.type, judge.role) == ("human", "ai", "chat", "judge")
    assert (human.content, ai.content, judge.content) == ("a", "b", '{"c": 1}')


@pytest.mark.filterwarnings("ignore:.*RunnableWithMessageHistory")
async def test_a_chain_remembers_each_session_also_after_a_restart():
    class Repeating(FakeListChatModel):
        def _call(self, messages, *args, **kwargs):
            return f"{len(messages)} messages, the first is {messages[0].content}"

    def chain():
        prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{question}")])
        return RunnableWithMessageHistory(
            prompt | Repeating(responses=[]),
            lambda session_id: RagChatMessageHistory(session_id, memory="sqlite:///chats.db"),
            input_messages_key="question",
            history_messages_key="history",
        )

    ann, bob = ({"configurable": {"session_id": name}} for name in ("ann", "bob"))
    chain().invoke({"question": "I am Ann"}, config=ann)
    assert (await chain().ainvoke({"question": "Hello"}, config=ann)).content.startswith("3 messages")
    assert chain().invoke({"question": "I am Bob"}, config=bob).content.endswith("the first is I am Bob")
    kept = RagChatMessageHistory("ann", memory="sqlite:///chats.db").messages
    assert [one.content for one in kept][::2] == ["I am Ann", "Hello"]


async def test_a_retriever_finds_chunks_with_their_places_and_calls_back():
    class Heard(BaseCallbackHandler):
        def __init__(self):
            self.queries, self.found = [], []

        def on_retriever_start(self, serialized, query, **kwargs):
            self.queries.append(query)

        def on_retriever_end(self, documents, **kwargs):
            self.found.append(documents)

    heard = Heard()
    retriever = RepositoryRetriever(sources=["data/sample_repo"], k=3)
    found = retriever.invoke(QUESTION, config={"callbacks": [heard]})
    assert len(found) == 3
    check_chunks([(document.page_content, document.metadata) for document in found])
    assert await retriever.ainvoke(QUESTION, config={"callbacks": [heard]}) == found
    assert heard.queries == [QUESTION, QUESTION]
    assert heard.found == [found, found]
    assert len({document.id for document in found}) == 3
    assert retriever.batch([QUESTION, ""]) == [found, []]
    assert retriever.invoke(QUESTION, k=1) == found[:1] == await retriever.ainvoke(QUESTION, k=1)


@pytest.mark.filterwarnings("ignore:.*RunnableWithMessageHistory")
async def test_the_example_runs(capsys):
    scope = await run_example(rag.adapters.langchain, model=FakeListChatModel(responses=["Hi"]))
    assert "snip/auth.py" in capsys.readouterr().out
    history = scope["RagChatMessageHistory"]("ann", memory="sqlite:///chats.db")
    assert [message.content for message in history.messages] == ["Hello", "Hi"]
