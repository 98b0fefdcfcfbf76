"""Retrieval for LlamaIndex (llama-index-core 0.14; `pip install '.[llamaindex]'`).

    from rag.adapters.llamaindex import RepositoryRetriever

    retriever = RepositoryRetriever("data/sample_repo", k=4)
    for found in retriever.retrieve("Where is a token checked?"):
        print(found.metadata["source"], found.score)

It can be used wherever a retriever is expected, for example in a `RetrieverQueryEngine`.
"""

from __future__ import annotations

from asyncio import to_thread
from typing import Any

from rag.adapters.attributes import OwnAttributes
from rag.adapters.repository import RepositorySearch, Sources, chunk_id, chunk_metadata
from rag.errors import BackendMissing
from rag.settings import Settings
from rag.types import Hit

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise BackendMissing(backend=__name__, missing="llama-index-core 0.14", extra="llamaindex") from error

_SHOWN_METADATA = {"source", "repo", "symbol"}
"""The metadata that a query engine shows to the model with the text."""


class RepositoryRetriever(OwnAttributes, BaseRetriever):
    """Finds chunks of repositories, best first; their metadata is that of `chunk_metadata`.

    Args:
        sources: a path or git URL, or several, indexed on first use.
        ref: a branch, tag or commit of all of them.
        k: the number of chunks.
        settings: the embedder and home folder; None is the user's settings.
        more: further arguments of LlamaIndex's retrievers: `callback_manager`, `verbose`, …
    """

    callback_manager: Any = None
    object_map: Any = None

    def __init__(
        self,
        sources: Sources,
        *,
        ref: str | None = None,
        k: int = 5,
        settings: Settings | None = None,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self._search = RepositorySearch(sources, ref=ref, k=k, settings=settings)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_node(hit) for hit in self._search.search(query_bundle.query_str)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_node(hit) for hit in await to_thread(self._search.search, query_bundle.query_str)]


def _node(hit: Hit) -> NodeWithScore:
    metadata = chunk_metadata(hit)
    node = TextNode(
        id_=chunk_id(hit),
        text=hit.text,
        metadata=metadata,
        excluded_llm_metadata_keys=[name for name in metadata if name not in _SHOWN_METADATA],
        excluded_embed_metadata_keys=list(metadata),
    )
    return NodeWithScore(node=node, score=metadata["score"])
