"""Sources as a user names them: found, read, and forgotten."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from rag import backends
from rag.corpus.acquire import acquire, clone_folder, resolve
from rag.corpus.read import read
from rag.corpus.walk import walk
from rag.database.locate import remove, stores
from rag.database.store import Store
from rag.database.update import Options, write_texts
from rag.errors import SourceError, StoreError
from rag.resources import user_path
from rag.settings import Settings
from rag.types import Checkout, Source, SourceFile


def forget(text: str, settings: Settings, *, ref: str | None = None) -> tuple[int, int]:
    """Remove all stores of a source (at one ref, or at every ref) and its clones.

    `text` may also be a deleted folder, or a store file that cannot be read. Conversations are kept.

    Returns:
        The number of stores removed, and the bytes freed.
    """
    given = user_path(text)
    try:
        location = resolve(text, ref).location
    except SourceError:
        location = str(given)
    removed = freed = 0
    for path, header in list(stores(settings.home)):
        found = None
        if not isinstance(header, StoreError):
            found = Source(str(header["location"]), None if header["ref"] is None else str(header["ref"]))
        named = path == given
        if found is not None and not named:
            named = found.location == location and ref in (None, found.ref)
        if named:
            freed += remove(path) + (
                0 if found is None else _remove_clone(clone_folder(found, settings.home))
            )
            removed += 1
    return removed, freed


def _remove_clone(folder: Path) -> int:
    size = sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())
    if folder.is_dir():
        shutil.rmtree(folder)
    return size


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
