"""Snippets written for DeepWiki-open, AdalFlow and agents on Redis run here as they stand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag import RAG
from rag.answer_cache.cache import AnswerCache
from rag.backends.memory.turns import MemoryTurnStore
from rag.backends.sqlite.turns import SqliteTurnStore
from rag.memory.user_memory import LongTermMemory, UnifiedMemory
from rag.ports import MemoryStore
from rag.service.loop.agent import ConversationalAgent


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryStore]:
    store = MemoryTurnStore() if request.param == "memory" else SqliteTurnStore(tmp_path / "turns.db")
    yield store
    store.close()


class CustomRAG(RAG):
    """Overrides `call` with the body that DeepWiki-open's has, up to the generator."""

    def call(self, query: str, language: str | None = None) -> Any:
        retrieved_documents = self.retriever(query)
        # Fill in the documents
        retrieved_documents[0].documents = [
            self.transformed_docs[doc_index] for doc_index in retrieved_documents[0].doc_indices
        ]
        prompt_kwargs = {
            "input_str": query,
            "contexts": retrieved_documents[0].documents,
            "conversation_history": self.memory(),
        }
        answer = f"{len(prompt_kwargs['contexts'])} documents"
        self.memory.add_dialog_turn(user_query=query, assistant_response=answer)
        return answer, retrieved_documents


def test_a_subclass_that_overrides_call_finds_its_retriever_and_documents(sample_repo: Path) -> None:
    rag = CustomRAG()
    rag.prepare_retriever(str(sample_repo))
    (sample_repo / "snip" / "more.py").write_text("def more():\n    return 'sessions are signed'\n")
    rag.prepare_retriever(str(sample_repo))  # some rows of the store are dead now
    query = "How are sessions signed?"
    _, (found,) = rag(query)
    hits = rag.retrieve(query)
    assert len(hits) == len(found.documents) > 3
    for hit, document in zip(hits, found.documents, strict=True):
        about = document.meta_data
        assert (about["file_path"], about["start_line"], document.text) == (hit.path, hit.start, hit.text)
        assert len(document.vector) > 0
    assert [turn.user_query.query_str for turn in rag.memory().values()] == [query]


def test_a_retriever_of_several_repositories_counts_through_all(sample_repo: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sign.py").write_text("def sign_session(session):\n    return hmac(session)\n")
    rag = RAG()
    rag.prepare_retriever(str(sample_repo))
    rag.add_repository(str(other))
    (found,) = rag.retriever("Where is a session signed?")
    hits = rag.retrieve("Where is a session signed?")
    texts = [rag.transformed_docs[index].text for index in found.doc_indices]
    assert texts == [hit.text for hit in hits]
    assert {hit.repo for hit in hits} == {"sample_repo", "other"}


def test_preferences_have_the_names_of_the_redis_example(store: MemoryStore) -> None:
    long_term = LongTermMemory(store)
    long_term.save_preference("user_123", "language", "zh-CN")
    long_term.save_preference("user_123", "theme", "dark")
    assert long_term.get_preference("user_123", "language") == "zh-CN"
    assert long_term.get_preference("user_123", "nothing") is None
    assert long_term.get_all_preferences("user_123") == {"language": "zh-CN", "theme": "dark"}
    assert long_term.delete_preference("user_123", "theme")
    assert not long_term.delete_preference("user_123", "theme")


def test_the_third_chat_of_the_redis_example_is_answered_from_the_cache(store: MemoryStore) -> None:
    asked: list[str] = []

    def complete(messages: list[dict[str, Any]]) -> str:
        asked.append(messages[-1]["content"])
        return f"reply {len(asked)}"

    memory = UnifiedMemory(store, AnswerCache(store))
    memory.add_conversation("user_123", "user", "你好")
    memory.add_conversation("user_123", "assistant", "你好！有什么可以帮助你的？")
    memory.save_user_preference("user_123", "language", "zh-CN")
    memory.cache_qa("什么是 RAG？", "RAG 是检索增强生成...")
    agent = ConversationalAgent(memory, complete, language="zh-CN", model="gpt-4")
    agent.chat("user_123", "什么是 RAG？")
    agent.chat("user_123", "能举个例子吗？")
    response3 = agent.chat("user_456", "RAG 是什么？")  # ✅ 缓存命中
    assert response3 == "RAG 是检索增强生成..."
    assert asked == ["什么是 RAG？", "能举个例子吗？"]


def test_an_answer_kept_for_one_language_is_not_given_in_another(store: MemoryStore) -> None:
    replies = iter(["one", "two"])
    memory = UnifiedMemory(store, AnswerCache(store))
    memory.save_user_preference("bob", "language", "de")
    agent = ConversationalAgent(memory, lambda messages: next(replies))
    assert agent.chat("ann", "What is RAG?") == "one"
    assert agent.chat("bob", "What is RAG?") == "two"
