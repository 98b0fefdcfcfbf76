"""An index that is not finished before a test says so, without the work of a large repository."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag.database.lock import building
from rag.service import Engine, locate
from rag.settings import Settings
from rag.types import Source


@contextmanager
def unfinished(home: Path, source: Source | Path) -> Iterator[None]:
    """Until the block ends, whoever indexes `source` waits, as for another process that builds its store.

    Args:
        home: the data folder.
        source: a repository, or the folder of one.
    """
    found = source if isinstance(source, Source) else locate(str(source))
    with building(Engine(Settings(home=home)).store_file(found), wait_s=0):
        yield
