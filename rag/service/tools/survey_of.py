"""The graph of an open repository, read from its store. The last few are cached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag.code.languages import OTHER, kind_of, language_of_path
from rag.code.survey import Survey
from rag.code.symbols import File
from rag.lines import lines_of
from rag.service.repositories.last_used import LastUsed

if TYPE_CHECKING:
    from rag.database.store import Store
    from rag.service.repositories.repository import Repository


_MAX_CACHED = 2


def read_files(store: Store) -> dict[str, File]:
    """Return all files of a store, by path; an empty one has no lines."""
    files = {}
    for path, (_, size, blob) in store.known_files().items():
        language = language_of_path(path)
        if blob and not size and language != OTHER:
            files[path] = File(path, "", blob, language, kind_of(path, language), ())
    for path, (language, kind) in store.files().items():
        text, blob = store.file_text(path) or ("", "")
        if text or language != OTHER:
            files[path] = File(
                path, text, blob, language, kind, tuple(lines_of(text)), store.unparsed.get(path, "")
            )
    return dict(sorted(files.items()))


_surveys = LastUsed[Survey](_MAX_CACHED)


def survey(repository: Repository) -> Survey:
    """Return the survey of an open repository. The last few are cached."""
    checkout, store, name = repository.checkout, repository.store, repository.source.name
    # Work trees share their store, and each has a name and a folder of its own.
    key = (repository.source, store.header["id"], checkout.commit, checkout.dirty)
    return _surveys.get(key, lambda: Survey(name, read_files(store), checkout, store.code_graph))
