"""Finds the repository that deepwiki-open's frontend means by a path, a URL, or a name.

A path is only compared with those of the listed repositories. It is never opened.
"""

from __future__ import annotations

import os.path
from asyncio import to_thread
from pathlib import Path
from urllib.parse import urlsplit

from rag.forges import web_address
from rag.serve.access.keys import Caller
from rag.serve.errors import Forbidden, ServeError, StillIndexing
from rag.serve.repositories.entry import ServedRepository
from rag.serve.repositories.registry import RepositoryRegistry
from rag.service import Repository

_NO_HOST = "example"
"""The frontend sends http://example/OWNER/REPO if it does not know the URL."""
_MAX_CHARS = 4_096


async def entry_named(registry: RepositoryRegistry, repo_url: str, caller: Caller) -> ServedRepository:
    """Return the entry of the repository that is meant.

    Raises:
        Forbidden: as `name_of`.
        TooMany: as `RepositoryRegistry.entry`.
    """
    return registry.entry(await name_of(registry, repo_url), caller=caller)


async def name_of(registry: RepositoryRegistry, repo_url: str) -> str:
    """Return the served name of the repository that is meant, without adding an entry for an allowed URL.

    Raises:
        Forbidden: it is neither listed nor an allowed URL.
    """
    asked = repo_url.strip()
    if not asked or len(asked) > _MAX_CHARS or "\0" in asked:
        raise Forbidden("no repository of that name is served")
    if "://" in asked:
        return _by_url(registry, asked)
    entries = [entry for entry in registry.entries() if entry.is_listed]
    by_name = next((entry for entry in entries if entry.name == asked), None)
    if by_name is not None:
        return by_name.name
    meant = await to_thread(_real_path, asked)
    for entry in entries:
        if not entry.source.is_url and entry.source.location == meant:
            return entry.name
    raise Forbidden("this path is not served; the operator can add it with --repo NAME=PATH")


async def ready(registry: RepositoryRegistry, entry: ServedRepository) -> Repository:
    """Wait until a repository can answer, and return it.

    Raises:
        IndexingFailed: it could not be indexed.
    """
    while True:
        try:
            return await registry.opened(entry)
        except StillIndexing:
            async for _ in registry.events(entry):
                pass


def _real_path(path: str) -> str:
    try:
        return os.path.realpath(path) if Path(path).is_absolute() else ""
    except (OSError, ValueError):
        return ""


def is_served(registry: RepositoryRegistry, name: str) -> bool:
    """Whether a name that `name_of` returned earlier is still served."""
    try:
        return bool(registry.named(name))
    except ServeError:
        return False


def _by_url(registry: RepositoryRegistry, asked: str) -> str:
    try:
        parts = urlsplit(asked)
        host = parts.hostname
    except ValueError:
        raise Forbidden("that URL is malformed") from None
    entries = [entry for entry in registry.entries() if entry.is_listed]
    names = {entry.name: entry for entry in entries}
    if host == _NO_HOST and parts.scheme == "http":
        path = parts.path.strip("/")
        found = names.get(path) or names.get(path.rpartition("/")[2])
        if found is None:
            raise Forbidden("no repository of that name is served")
        return found.name
    page = web_address(asked)
    for entry in entries:
        remote = entry.source.location if entry.source.is_url else None
        if remote is None and entry.checkout is not None:
            remote = entry.checkout.remote
        if page and remote and web_address(remote) == page:
            return entry.name
    return registry.named(asked)
