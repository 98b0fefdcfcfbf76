"""Takes a published index as it is, so that a machine answers about a git URL without cloning it.

This is for servers, which share their work with others that do clone and publish. A published index is taken
only if it was made of the same URL and ref, and if it is of the commit that is wanted; else the source is
cloned, and the index is where an update begins (`shared_stores`). A machine that has a clone updates that.
"""

from __future__ import annotations

from contextlib import nullcontext

from rag.corpus.acquire import fetched_folder
from rag.corpus.git import pinned_connection
from rag.errors import ShelfError, SourceError, StoreError
from rag.service.repositories.engine import Engine
from rag.service.repositories.remotes import remote_commit
from rag.service.repositories.repository import Repository
from rag.types import Source

_ASK_S = 30.0
"""How long the git server may take to name the commit of a ref."""


def take(
    engine: Engine, source: Source, *, is_checked: bool, published_as: str | None = None
) -> tuple[Repository, bool] | None:
    """Take the published index of a git URL that has no clone here, and open it; nothing is cloned.

    Args:
        engine: opens it.
        source: what is to be answered about.
        is_checked: whether the index must be of the commit that the git server has now. If that server does
            not say it, the current index is the best that there is.
        published_as: the key under which a worker has just published, so that nothing is to be checked; a
            worker of another version uses another key.

    Returns:
        The repository, and whether its commit is known to be the current one. None if there is no index that
        can be used; a notice says why where that is worth one.

    Raises:
        StoreCorrupt: the store was damaged after it was taken.
    """
    # Which refs a request may read is only known from a clone.
    if not source.is_url or engine.refs is not None:
        return None
    if fetched_folder(source, engine.settings.home) is not None or engine.shared is None:
        return None
    is_of_another_version = published_as not in (None, engine.shared.key_of(source))
    is_asked = is_checked or is_of_another_version
    commit = _commit_at_server(engine, source) if is_asked else None
    try:
        is_there = engine.shared.take(source, engine.store_file(source), commit)
    except (ShelfError, StoreError) as error:
        engine.notice(f"the published index of {source.name} cannot be used: {error}")
        return None
    is_current = commit is not None or (published_as is not None and not is_asked)
    return (engine.stored(source), is_current) if is_there else None


def _commit_at_server(engine: Engine, source: Source) -> str | None:
    settings = engine.settings
    timeout_s = min(_ASK_S, settings.git_timeout_s)
    try:
        with pinned_connection(engine.place) if engine.place else nullcontext():
            return remote_commit(source, timeout_s=timeout_s, token=settings.git_token)
    except SourceError as error:
        engine.notice(f"could not ask for the commit of {source}: {error}")
        return None
