"""The conversation that a command means if none is named."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rag.database.locate import stores
from rag.errors import NotFound, StoreError
from rag.service.repositories.engine import Engine
from rag.types import Conversation, Source

_Identity = tuple[str, str | None]


def current_conversation(engine: Engine, folder: Path) -> Conversation:
    """Return the most recently written conversation about the repository that contains a folder.

    Outside of any indexed repository, that is the most recent conversation of all.

    Raises:
        NotFound: there is none, or none about the indexed repository that contains the folder.
    """
    about: dict[str, Conversation] = {}
    for conversation, sources in _conversations(engine):
        for location, _ in sources:
            about.setdefault(location, conversation)
    indexed = _indexed_folders(engine.settings.home)
    for place in (folder, *folder.parents):
        if (found := about.get(str(place))) is not None:
            return found
        if str(place) in indexed:
            raise NotFound(
                f"there is no conversation about {place} yet; name another one with --conversation NAME "
                "(`rag turns list` shows them), or continue the last one of all with `rag ask --last`"
            )
        if (place / ".git").exists():  # a repository of its own: ignore the folders above
            break
    return engine.last_conversation()


def conversation_about(engine: Engine, sources: Sequence[Source]) -> Conversation:
    """Return the most recently written conversation about exactly these repositories, with any filters.

    Raises:
        NotFound: there is none.
    """
    for conversation, about in _conversations(engine):
        if about == {_identity(source) for source in sources}:
            return conversation
    raise NotFound(
        f"there is no conversation about {', '.join(map(str, sources))} yet; start one without -c, or "
        "continue the last one of all with --last"
    )


def conversation_within(engine: Engine, sources: Sequence[Source]) -> Conversation:
    """Return the most recently written conversation about some of these repositories, and no other.

    Raises:
        NotFound: there is none.
    """
    for conversation, about in _conversations(engine):
        if about and about <= {_identity(source) for source in sources}:
            return conversation
    raise NotFound("there is no conversation about repositories of this group yet; start one without -c")


def _conversations(engine: Engine) -> Iterator[tuple[Conversation, set[_Identity]]]:
    """Yield the conversations with the repositories that they are about, the last written first."""
    for one in engine.turns.conversations(namespace=engine.settings.namespace):
        yield one, {_identity(source) for source in one.sources}


def _identity(source: Source) -> _Identity:
    location = source.location
    return (location if source.is_url else os.path.realpath(location), source.ref)


def _indexed_folders(home: Path) -> set[str]:
    locations = [str(h["location"]) for _, h in stores(home) if not isinstance(h, StoreError)]
    return {os.path.realpath(one) for one in locations if Path(one).is_absolute()}
