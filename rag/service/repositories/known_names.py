"""The names that a person may type: conversations, marks and indexed repositories of this machine."""

from __future__ import annotations

from pathlib import Path

from rag.errors import StoreError
from rag.resources import user_path
from rag.settings import Settings

_SQLITE = "sqlite:///"


def conversation_names(settings: Settings) -> list[str]:
    """Return the names of conversations; none if turns are stored on a server, which is not asked.

    Raises:
        sqlite3.Error: the file of turns does not exist or cannot be read now.
    """
    from rag.backends.sqlite import names

    file = _file(settings)
    return names.conversation_names(file, settings.namespace) if file else []


def mark_names(settings: Settings) -> list[str]:
    """Return the marks of turns, as `conversation_names` does."""
    from rag.backends.sqlite import names

    file = _file(settings)
    return names.mark_names(file, settings.namespace) if file else []


def asked_locations(settings: Settings) -> list[str]:
    """Return the folders and URLs that conversations are about, as `conversation_names` does."""
    from rag.backends.sqlite import names

    file = _file(settings)
    return names.source_locations(file, settings.namespace) if file else []


def indexed_locations(settings: Settings) -> list[str]:
    """Return the folders and URLs of the indexed repositories, each once."""
    from rag.database.locate import stores

    headers = [header for _, header in stores(settings.home) if not isinstance(header, StoreError)]
    return list(dict.fromkeys(str(header["location"]) for header in headers))


def _file(settings: Settings) -> Path | None:
    url = settings.memory or f"{_SQLITE}{settings.home / 'turns.db'}"
    return user_path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None
