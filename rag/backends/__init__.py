"""Opens the backends that the settings name. A backend is only imported when it is opened.

To add a backend, add a file here, a line in this module, and an extra in pyproject.toml if it needs another
package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rag.errors import BackendMissing, SettingsError
from rag.quoting import visible, without_secrets
from rag.resources import user_path
from rag.settings import Settings

if TYPE_CHECKING:  # numpy takes longer to import than some commands run
    import numpy as np
    import numpy.typing as npt

    from rag.backends.adal_generator import AdalGenerator
    from rag.backends.shelf.objects import Objects
    from rag.backends.shelf.shelf import ObjectShelf
    from rag.job_queue import Jobs
    from rag.ports import (
        Embedder,
        MemoryStore,
        Reranker,
        Rows,
        SharedState,
        TokenCounter,
        VectorIndex,
        Vectors,
    )


def open_embedder(settings: Settings) -> Embedder:
    """Return the embedder that `settings.embedder` names: "static", "minilm" or "openai:MODEL"."""
    name, _, model = settings.embedder.partition(":")
    if name == "static":
        from rag.backends.static_embedder import StaticEmbedder

        return StaticEmbedder()
    if name == "minilm":
        from rag.backends.minilm_embedder import MiniLmEmbedder

        return MiniLmEmbedder()
    if name == "openai" and model:
        from rag.backends.openai.embedder import OpenAIEmbedder

        return OpenAIEmbedder.from_settings(settings, model)
    raise SettingsError(
        f"unknown embedder {settings.embedder!r}{settings.source_of('embedder')}; "
        "use static, minilm, or openai:MODEL"
    )


def open_reranker(settings: Settings, *, fused: bool = False) -> Reranker | None:
    """Return the second stage of the search that `settings.reranker` names; None for none.

    `fused` is for what several phrasings of a question find together.
    """
    if settings.reranker == "none" or (settings.reranker == "auto" and not fused):
        return None
    if settings.reranker in ("auto", "student"):
        from rag.backends.student_reranker import StudentReranker

        return StudentReranker()
    cache = settings.home / "hit_vectors.db"
    if settings.reranker == "minilm":
        from rag.backends.minilm_reranker import minilm_reranker

        return minilm_reranker(cache)
    if settings.reranker.startswith("openai:"):
        from rag.backends.embedding_reranker import EmbeddingReranker

        where = settings.embedding_base_url or settings.base_url or "openai"
        fingerprint = f"{settings.reranker}:{settings.embedding_dim}:{without_secrets(where)}"
        served = replace(settings, embedder=settings.reranker)
        return EmbeddingReranker(lambda: open_embedder(served), fingerprint, cache)
    raise SettingsError(
        f"unknown reranker {settings.reranker!r}{settings.source_of('reranker')}; "
        "use auto, none, student, minilm, or openai:MODEL"
    )


def open_turn_store(settings: Settings) -> MemoryStore:
    """Open the store that `settings.memory` names: "" is SQLite in the home folder, else a URL of `MEMORIES`.

    Raises:
        SettingsError: the URL is unknown or incomplete.
    """
    url = settings.memory or f"sqlite:///{settings.home / 'turns.db'}"
    opener = MEMORIES.get(url.partition(":")[0])
    if opener is None:
        shown = f"{without_secrets(url)!r}{settings.source_of('memory')}"
        raise SettingsError(f"unknown memory {shown}; use one of {', '.join(MEMORY_URLS)}")
    return opener(url)


def open_jobs(settings: Settings) -> Jobs:
    """Open the queue of jobs that `settings.shared` names, a Postgres database.

    Raises:
        SettingsError: none is named, or its address is invalid.
        BackendMissing: the extra is not installed.
    """
    url = settings.shared
    if url.partition(":")[0] not in ("postgresql", "postgres"):
        named = f", not {without_secrets(url)!r}" if url else ""
        raise SettingsError(
            "jobs are shared in a Postgres database: name it with --shared or RAG_SHARED, as "
            f"postgresql://[USER:PASSWORD@]HOST[:PORT]/DATABASE{named}"
        )
    try:
        from rag.backends.queue.postgres import PostgresJobs
    except ImportError as error:
        missing = error.name or "psycopg"
        raise BackendMissing(backend="the queue in Postgres", missing=missing, extra="queue") from error
    return PostgresJobs(url)


def open_shared_state(settings: Settings) -> SharedState | None:
    """Open what servers share in the database that `settings.shared` names; None if none is named.

    Raises:
        SettingsError: the address is invalid.
        BackendMissing: the extra is not installed.
    """
    if not settings.shared:
        return None
    try:
        from rag.backends.postgres.shared import PostgresSharedState
    except ImportError as error:
        missing = error.name or "psycopg[binary]"
        raise BackendMissing(backend="what servers share", missing=missing, extra="queue") from error
    return PostgresSharedState(settings.shared)


def _open_memory(url: str) -> MemoryStore:
    from rag.backends.memory.turns import MemoryTurnStore

    if url != "memory:":
        raise SettingsError(f"unknown memory {url!r}; turns in memory are `memory:`")
    return MemoryTurnStore()


def _open_sqlite(url: str) -> MemoryStore:
    from rag.backends.sqlite.turns import SqliteTurnStore

    scheme, _, path = url.partition(":///")
    if scheme != "sqlite" or not path:
        raise SettingsError(f"the memory {url!r} has no path; use sqlite:///PATH")
    return SqliteTurnStore(user_path(path))


def _open_redis(url: str) -> MemoryStore:
    from rag.backends.redis.turns import RedisTurnStore

    return RedisTurnStore(url)


def _open_postgres(url: str) -> MemoryStore:
    try:
        from rag.backends.postgres.turns import PostgresTurnStore
    except ImportError as error:
        missing = error.name or "psycopg[binary]"
        raise BackendMissing(backend="the memory in Postgres", missing=missing, extra="postgres") from error
    return PostgresTurnStore(url)


MEMORIES: dict[str, Callable[[str], MemoryStore]] = {
    "memory": _open_memory,
    "sqlite": _open_sqlite,
    "postgresql": _open_postgres,
    "postgres": _open_postgres,
    "unix": _open_redis,
    **dict.fromkeys(("redis", "rediss", "valkey", "valkeys"), _open_redis),
    **dict.fromkeys(("redis+cluster", "rediss+cluster", "valkey+cluster", "valkeys+cluster"), _open_redis),
}
"""The functions that open a turn store, by the scheme of its URL."""

MEMORY_URLS = (
    "memory:",
    "sqlite:///PATH",
    "postgresql://[USER:PASSWORD@]HOST[:PORT]/DATABASE",
    "redis://HOST:PORT/DB",
)
"""The URL formats of turn stores, for messages."""


FETCHED = "fetched"
"""The folder, in the data folder, of the shared stores that were fetched."""
SHELF_TIMEOUT_S = 30.0
"""How long one request to the shared stores may take."""


def open_shelf(settings: Settings) -> ObjectShelf | None:
    """Open the shared stores that `settings.stores` names; None if none are. Nothing is contacted.

    Raises:
        SettingsError: the address is unknown or incomplete.
        BackendMissing: the extra is not installed.
    """
    if not settings.stores:
        return None
    from rag.backends.shelf.disk_cache import DiskCache
    from rag.backends.shelf.folder import FolderObjects
    from rag.backends.shelf.shelf import ObjectShelf

    scheme, found, _ = settings.stores.partition("://")
    if found and scheme != "s3":
        shown = f"{without_secrets(settings.stores)!r}{settings.source_of('stores')}"
        raise SettingsError(
            f"unknown place for shared indexes {shown}; use the path of a folder or s3://BUCKET/PREFIX"
        )
    objects: Objects
    if found:
        try:
            from rag.backends.shelf.bucket import BucketObjects
        except ImportError as error:
            missing = error.name or "obstore"
            what = "shared indexes in a bucket"
            raise BackendMissing(backend=what, missing=missing, extra="object-store") from error
        objects = BucketObjects(settings.stores, timeout_s=SHELF_TIMEOUT_S)
    else:
        objects = FolderObjects(user_path(settings.stores), timeout_s=SHELF_TIMEOUT_S)
    return ObjectShelf(objects, DiskCache(settings.home / FETCHED, max_bytes=settings.stores_cache_bytes))


def open_token_counter(settings: Settings) -> TokenCounter:
    """Return the counter of the configured model; without a model, a quick estimate on the high side."""
    from rag.backends.learned_counter import ratios_file
    from rag.backends.tiktoken_counter import EstimateCounter, open_counter

    if not settings.has_model:
        return EstimateCounter()
    model = settings.model or ""  # the server's only model
    service = f"{settings.client} {settings.base_url or ''}"
    return open_counter(model, ratios_file(settings.home, service, model))


def open_generator(settings: Settings) -> AdalGenerator:
    """Return the configured language model.

    Raises:
        SettingsError: no model is named, and the server has none or several.
        ProviderError: the server failed to list its models.
    """
    from rag.backends.adal_generator import AdalGenerator
    from rag.backends.openai.endpoint import checked_url

    checked_url(settings.base_url, settings.source_of("base_url"))
    return AdalGenerator.from_settings(settings)


LOCAL_CONTEXT_TOKENS = 4_096
"""The context of a model file if none is set: its memory and the time to read a prompt grow with it."""


def fitted(settings: Settings) -> Settings:
    """Return the settings with a smaller context for a model file, unless one is set.

    The answer gets at most half of it.
    """
    if settings.local_model is None:
        return settings
    is_unset = settings.is_default("context_tokens")
    context = LOCAL_CONTEXT_TOKENS if is_unset else settings.context_tokens
    return replace(settings, context_tokens=context, answer_tokens=min(settings.answer_tokens, context // 2))


def remote_model_host(settings: Settings) -> str | None:
    """Return who receives a configured model's prompts: a host, or a command, whose own host is not known.

    None is this machine, or no model.
    """
    if not settings.has_model or settings.local_model:
        return None
    if settings.command is not None:
        return f"the command `{visible(settings.command)}`"
    return _remote(settings.base_url) if settings.client == "openai" else f"the service of {settings.client}"


def remote_embedder_host(settings: Settings) -> str | None:
    """Return the host that receives texts for embedding; None for this machine."""
    if not settings.embeds_on_a_server:
        return None
    named = "embedding_base_url" if settings.embedding_base_url else "base_url"
    return _remote(getattr(settings, named), settings.source_of(named))


def _remote(base_url: str | None, setting: str = "") -> str | None:
    from rag.backends.openai.endpoint import checked_url, host_of, is_local

    url = checked_url(base_url, setting)
    return None if is_local(url) else host_of(url)


def shorten_rows(
    codes: npt.NDArray[np.int8], scale: npt.NDArray[np.float32], queries: Vectors, k: int
) -> tuple[Vectors, npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Compute short codes with faiss; see `rag.ports.Shorten`."""
    from rag.backends.faiss_index import shorten

    return shorten(codes, scale, queries, k)


def open_vector_index(blocks: Sequence[Rows]) -> VectorIndex:
    """Return a cosine index over the blocks of a store."""
    from rag.backends.faiss_index import FaissIndex

    return FaissIndex(blocks)
