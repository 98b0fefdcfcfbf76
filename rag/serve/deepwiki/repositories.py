"""Which repository of the allow-list deepwiki-open's frontend means by a path, an address, or a name.

A path is only ever compared with those of the list. Nothing that it leads to is looked at.
"""

from __future__ import annotations

import os.path
from asyncio import to_thread
from pathlib import Path
from urllib.parse import urlsplit

from rag.serve.access.keys import Caller
from rag.serve.errors import Forbidden, ServeError, StillIndexing
from rag.serve.registry import RepositoryRegistry, ServedRepository
from rag.service import Repository
from rag.wiki.forges import web_address

_NO_HOST = "example"
"""The frontend writes http://example/OWNER/REPO where it knows no address."""
_LONGEST = 4_096


async def shelf_of(library: RepositoryRegistry, repo_url: str, caller: Caller) -> ServedRepository:
    """The repository that is meant.

    Raises:
        Forbidden: as `name_of`.
        TooMany: as `RepositoryRegistry.shelf`.
    """
    return library.shelf(await name_of(library, repo_url), caller=caller)


async def name_of(library: RepositoryRegistry, repo_url: str) -> str:
    """What the repository that is meant is called here; an allowed URL is not taken up by it.

    Raises:
        Forbidden: it is none of the list, and no URL that is allowed.
    """
    asked = repo_url.strip()
    if not asked or len(asked) > _LONGEST or "\0" in asked:
        raise Forbidden("no repository is served by that name")
    if "://" in asked:
        return _by_address(library, asked)
    shelves = [shelf for shelf in library.shelves() if shelf.is_listed]
    by_name = next((shelf for shelf in shelves if shelf.name == asked), None)
    if by_name is not None:
        return by_name.name
    meant = await to_thread(_real_path, asked)
    for shelf in shelves:
        if not shelf.source.is_url and shelf.source.location == meant:
            return shelf.name
    raise Forbidden("this path is not served here; whoever runs the server lists it with --repo NAME=PATH")


async def ready(library: RepositoryRegistry, shelf: ServedRepository) -> Repository:
    """The repository, once it can be asked.

    Raises:
        IndexingFailed: it could not be indexed.
    """
    while True:
        try:
            return await library.opened(shelf)
        except StillIndexing:
            async for _ in library.events(shelf):
                pass


def _real_path(path: str) -> str:
    try:
        return os.path.realpath(path) if Path(path).is_absolute() else ""
    except (OSError, ValueError):
        return ""


def is_served(library: RepositoryRegistry, name: str) -> bool:
    """Whether a name that `name_of` gave once is served still."""
    try:
        return bool(library.named(name))
    except ServeError:
        return False


def _by_address(library: RepositoryRegistry, asked: str) -> str:
    try:
        parts = urlsplit(asked)
        host = parts.hostname
    except ValueError:
        raise Forbidden("that address cannot be read") from None
    shelves = [shelf for shelf in library.shelves() if shelf.is_listed]
    names = {shelf.name: shelf for shelf in shelves}
    if host == _NO_HOST and parts.scheme == "http":
        path = parts.path.strip("/")
        found = names.get(path) or names.get(path.rpartition("/")[2])
        if found is None:
            raise Forbidden("no repository is served by that name")
        return found.name
    page = web_address(asked)
    for shelf in shelves:
        remote = shelf.source.location if shelf.source.is_url else None
        if remote is None and shelf.checkout is not None:
            remote = shelf.checkout.remote
        if page and remote and web_address(remote) == page:
            return shelf.name
    return library.named(asked)
