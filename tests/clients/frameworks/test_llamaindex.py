"""Our retrieval as a retriever of LlamaIndex."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import QUESTION, check_chunks
from docstring_examples import run_example
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms.mock import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode

import rag.adapters.llamaindex
from rag.adapters.llamaindex import RepositoryRetriever


async def test_a_retriever_finds_chunks_with_their_places_and_calls_back():
    heard = LlamaDebugHandler(print_trace_on_end=False)
    retriever = RepositoryRetriever("data/sample_repo", k=3, callback_manager=CallbackManager([heard]))
    found = retriever.retrieve(QUESTION)
    assert len(found) == 3
    check_chunks([(one.node.text, one.metadata) for one in found])
    assert [one.score for one in found] == [one.metadata["score"] for one in found]
    assert len({one.node.node_id for one in found}) == 3
    again = await retriever.aretrieve(QUESTION)
    assert [one.node.node_id for one in again] == [one.node.node_id for one in found]
    assert len(heard.get_event_pairs(CBEventType.RETRIEVE)) == 2
    assert retriever.retrieve("") == []


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="top_k"):
        RepositoryRetriever("data/sample_repo", top_k=2)
    with pytest.raises(AttributeError, match="top_k"):
        RepositoryRetriever(Path("data/sample_repo")).top_k = 2


def test_a_query_engine_tells_its_model_the_text_and_its_place():
    engine = RetrieverQueryEngine.from_args(RepositoryRetriever("data/sample_repo", k=2), llm=MockLLM())
    reply = engine.query(QUESTION)
    best = reply.source_nodes[0]
    told = best.node.get_content(MetadataMode.LLM)
    assert f"source: {best.metadata['source']}" in told
    assert "blob" not in told
    assert best.metadata["source"] in str(reply)


async def test_the_example_runs(capsys):
    await run_example(rag.adapters.llamaindex)
    assert "snip/auth.py" in capsys.readouterr().out
