"""A repository that is open for search, at a checkout."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from rag.corpus.acquire import clone_folder
from rag.corpus.read import file_bytes
from rag.database.store import Store
from rag.database.update import Comparison
from rag.retrieval.search import Searcher
from rag.types import MAX_NAMED, Checkout, Coverage, IndexReport, Source

_SHOWN_LANGUAGES = 4


@dataclass(frozen=True, slots=True)
class Repository:
    """A source that is open for search."""

    source: Source
    checkout: Checkout
    store: Store
    searcher: Searcher
    report: IndexReport | None
    coverage: Coverage = field(default_factory=Coverage)
    compared: Comparison = field(default_factory=Comparison)
    """What differs from the index; the files that it lacks are searched as text."""

    def _repr_html_(self) -> str:
        """Render what is indexed for a notebook."""
        from rag.display.html import bytes_of, framed, pairs

        languages = Counter(language for language, _ in self.store.files().values())
        shown = ", ".join(f"{n:,} {language}" for language, n in languages.most_common(_SHOWN_LANGUAGES))
        rows = [
            ("repository", str(self.source)),
            ("files", f"{self.store.file_count:,} ({shown})"),
            ("chunks", f"{self.store.live_count:,}, {bytes_of(self.store.size_bytes)}"),
            ("searched", self.coverage.summary),
        ]
        return framed(pairs(rows))


def without_files(source: Source, home: Path, commit: str | None) -> Checkout:
    """Return the checkout of a URL of which only an index is here; its root is where the clone would be."""
    return Checkout(source, clone_folder(source, home), commit, remote=source.location, has_files=False)


def covered(repository: Repository, checkout: Checkout, found: Comparison) -> Repository:
    """Return a repository at a checkout that was just compared with its store."""
    coverage = Coverage(
        repository=repository.source.name,
        commit=checkout.commit,
        dirty=checkout.dirty,
        skipped=found.skipped,
        not_indexed=found.behind[:MAX_NAMED],
        not_indexed_count=len(found.behind),
        checked_ago_s=0.0,
    )
    return replace(at_checkout(repository, checkout), coverage=coverage, compared=found)


def current_bytes(repository: Repository, path: str) -> bytes | None:
    """Return the current bytes of a file: on disk, or of a repository without files, as indexed.

    None if it cannot be read.
    """
    if repository.checkout.has_files:
        return file_bytes(repository.checkout.root, path)
    return repository.store.bytes_of(path)


def at_checkout(repository: Repository, checkout: Checkout) -> Repository:
    """Return the repository and its store at another checkout; hits then have its commit and dirty state."""
    if checkout == repository.checkout:
        return repository
    store = repository.store.at(checkout)
    coverage = replace(
        repository.coverage, commit=checkout.commit, dirty=checkout.dirty, has_files=checkout.has_files
    )
    searcher = replace(repository.searcher, index=store)
    return replace(repository, checkout=checkout, store=store, searcher=searcher, coverage=coverage)
