"""Restrict a store to some of its files, so that a search ranks only these."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

import numpy as np
import numpy.typing as npt

from rag.code.languages import LANGUAGES, kind_of_path, language_of_path, languages_named
from rag.corpus.ignore import Patterns
from rag.database.column_codes import KINDS
from rag.database.store import Store
from rag.errors import SearchInvalid
from rag.types import SearchFilter


def filtered(store: Store, only: SearchFilter) -> Store:
    """Return the store with only the files that a filter allows; the others count as deleted.

    Raises:
        SearchInvalid: a language or kind is unknown, or a value is empty.
        SourceError: a glob is invalid.
    """
    if not only:
        return store
    if not all(value.strip() for value in (*only.paths, *only.languages, *only.kinds)):
        raise SearchInvalid("a filter is empty; omit it, or name a glob, a language or a kind")
    allowed = np.ones(store.total_files, np.bool_)
    if only.paths:
        paths = [store.file_path(file) for file in range(store.total_files)]
        patterns = Patterns.of(only.paths, where="the path filter", paths=paths)
        allowed &= np.fromiter((patterns.match(path) for path in paths), np.bool_, store.total_files)
    if only.languages:
        wanted = _languages(only.languages, store.languages)
        allowed &= np.fromiter((name in wanted for name in store.languages), np.bool_, store.total_files)
    if only.kinds:
        allowed &= _of_kinds(store, only.kinds)
    return store.without(~allowed)


def paths_allowed(paths: Sequence[str], only: SearchFilter) -> tuple[str, ...]:
    """Return those of some files, indexed or not, that a filter allows which `filtered` accepts."""
    patterns = Patterns.of(only.paths, where="the path filter", paths=paths)
    wanted = _languages(only.languages, only.languages)
    return tuple(
        path
        for path in paths
        if (not only.paths or patterns.match(path))
        and (not only.languages or language_of_path(path) in wanted)
        and (not only.kinds or kind_of_path(path) in only.kinds)
    )


def _languages(names: Sequence[str], indexed: Sequence[str]) -> set[str]:
    known = set(indexed)
    wanted: set[str] = set()
    for name in names:
        found = languages_named(name) or ((name,) if name in known else ())
        if not found:
            raise SearchInvalid(f"unknown language {name!r}; {_known(name, known or LANGUAGES)}")
        wanted.update(found)
    return wanted


def _known(name: str, languages: Collection[str]) -> str:
    """Return what to use instead of an unknown name: the most similar ones, else all."""
    alike = get_close_matches(name.lower(), languages, n=3)
    return f"did you mean {' or '.join(alike)}?" if alike else f"use {', '.join(sorted(languages))}"


def _of_kinds(store: Store, kinds: Sequence[str]) -> npt.NDArray[np.bool_]:
    for kind in kinds:
        if kind not in KINDS:
            raise SearchInvalid(f"unknown kind {kind!r}; use {', '.join(KINDS)}")
    numbers = [KINDS.index(kind) for kind in KINDS if kind in kinds]
    files = np.zeros(store.total_files, np.bool_)
    files[store.file[np.isin(store.kind, numbers)]] = True
    return files
