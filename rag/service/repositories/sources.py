"""Sources as a user names them: found and read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rag import backends
from rag.corpus.acquire import acquire
from rag.corpus.read import read
from rag.corpus.walk import walk
from rag.database.store import Store
from rag.database.update import Options, write_texts
from rag.settings import Settings
from rag.types import Checkout, Source, SourceFile


def read_sources(source: Source, settings: Settings) -> Iterator[SourceFile]:
    """Yield the files of a local source that would be indexed, sorted by path."""
    checkout = acquire(source, home=settings.home)
    for entry in walk(checkout.root, source.filters, max_file_bytes=settings.max_file_bytes).files:
        file = read(checkout.root, entry)
        if isinstance(file, SourceFile):
            yield file


def index_texts(files: Sequence[SourceFile], path: Path, settings: Settings) -> Store:
    """Build a store at `path` from texts, and open it."""
    checkout = Checkout(Source(str(path.with_suffix(""))), path.parent)
    embedder = backends.open_embedder(settings)
    options = Options(max_file_bytes=settings.max_file_bytes, shorten=backends.shorten_rows)
    return write_texts(files, checkout, path, embedder, options)
