"""The graph of an open repository, read from its store. The last few are cached."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING

from rag.code.languages import OTHER, kind_of, language_of_path
from rag.code.survey import Survey
from rag.code.symbols import File
from rag.lines import lines_of
from rag.types import PARSER_GAVE_UP, Kind

if TYPE_CHECKING:
    from rag.database.store import Store
    from rag.service import Repository


_MAX_CACHED = 2


def read_files(store: Store) -> dict[str, File]:
    """Return all files of a store, by path: a file is its chunks in order; an empty one has none."""
    parts: dict[int, list[str]] = defaultdict(list)
    about: dict[int, tuple[str, str, str, Kind]] = {}
    dead, numbers, gave_up = store.dead, store.file.tolist(), given_up(store)
    for chunk, number in enumerate(numbers):
        if dead is None or not dead[chunk]:
            hit = store.hit(chunk, 0.0, {})
            parts[number].append(hit.text + hit.blank_end)
            about.setdefault(number, (hit.path, hit.blob, hit.language, hit.kind))
    files = {}
    for path, (_, size, blob) in store.known_files().items():
        language = language_of_path(path)
        if blob and not size and language != OTHER:
            files[path] = File(path, "", blob, language, kind_of(path, language), ())
    for number, (path, blob, language, kind) in about.items():
        text = "".join(parts[number])
        lines = tuple(lines_of(text))
        files[path] = File(path, text, blob, language, kind, lines, gave_up.get(path, ""))
    return dict(sorted(files.items()))


def given_up(store: Store) -> dict[str, str]:
    """Return why the parser failed on files when they were indexed, by path."""
    skips = store.content_skips()
    return {skip.path: skip.detail or skip.reason for skip in skips if skip.reason == PARSER_GAVE_UP}


_surveys: OrderedDict[tuple[object, ...], Survey] = OrderedDict()
_surveys_lock = threading.Lock()


def survey(repository: Repository) -> Survey:
    """Return the survey of an open repository. The last few are cached."""
    checkout = repository.checkout
    # Work trees share their store, and each has a name and a folder of its own.
    key = (repository.source, repository.store.header["id"], checkout.commit, checkout.dirty)
    with _surveys_lock:
        found = _surveys.pop(key, None)
        if found is None:
            store = repository.store
            found = Survey(repository.source.name, read_files(store), checkout, store.code_graph)
        _surveys[key] = found
        while len(_surveys) > _MAX_CACHED:
            _surveys.popitem(last=False)
    return found
