"""Questions to many repositories: groups (`@all`, `@NAME`), and the few of them that a question is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rag.analysis import terms
from rag.database.locate import stores
from rag.database.store import Store
from rag.errors import NotFound, StoreError
from rag.retrieval.collections import collection_beliefs
from rag.retrieval.question import parse_question
from rag.service.repositories.engine import Engine
from rag.service.repositories.named_sources import locate
from rag.types import Filters, Source

ALL = "@all"
"""The group of all repositories: those that are indexed on this machine, or that a server lists."""
MAX_SELECTED = 10
"""How many repositories of a group are asked, unless a server sets another number."""
_NAMED_BELIEF = 1.0
"""Added where the question names the repository: no words of the others outweigh that."""
_MAX_SHOWN_NAMES = 10


def is_group(name: str) -> bool:
    """Return whether a name is that of a group."""
    return name.startswith("@")


@dataclass(frozen=True, slots=True)
class Selection:
    """The repositories that a question is about, best first; `total` is the number of those to choose from.

    `without_index` are the names of those that could not be considered.
    """

    sources: tuple[Source, ...]
    total: int
    without_index: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """A sentence for the person who asked; "" if nothing was left out."""
        if len(self.sources) == self.total:
            return ""
        names = ", ".join(source.name for source in self.sources[:_MAX_SHOWN_NAMES])
        more = len(self.sources) - _MAX_SHOWN_NAMES
        text = (
            f"asked {len(self.sources)} of {self.total} repositories, chosen by the words of the question: "
        )
        text += names + (f" and {more} more" if more > 0 else "")
        if self.without_index:
            missing = ", ".join(self.without_index[:_MAX_SHOWN_NAMES])
            more = len(self.without_index) - _MAX_SHOWN_NAMES
            text += f"; without an index: {missing}" + (f" and {more} more" if more > 0 else "")
        return text


def select(
    sources: Sequence[Source], question: str, k: int, *, stored: Callable[[Source], Store | None]
) -> Selection:
    """Choose the at most k repositories that a question is most likely about.

    The indexes are read as they are on disk; files are not compared. All are chosen if there are at most k.
    Equal ones are in the order given.

    Args:
        sources: the repositories to choose from.
        question: any text.
        k: at least 1.
        stored: opens the index of a repository; None if there is no usable one.
    """
    distinct = list(dict.fromkeys(sources))
    if len(distinct) <= k:
        return Selection(tuple(distinct), len(distinct))
    weights = parse_question(question).terms
    vocabulary = list(weights)
    frequencies = np.zeros((len(distinct), len(vocabulary)), np.int64)
    sizes = np.zeros(len(distinct), np.int64)
    without: list[int] = []
    for row, source in enumerate(distinct):
        store = stored(source)
        if store is None:
            without.append(row)
            continue
        frequencies[row], sizes[row] = store.document_frequency(vocabulary), store.live_count
    beliefs = collection_beliefs(frequencies, sizes, np.fromiter(weights.values(), np.float64))
    for row, source in enumerate(distinct):
        if (named := set(terms(source.name))) and named <= weights.keys():
            beliefs[row] += _NAMED_BELIEF
    beliefs[without] = -1.0
    best = np.argsort(-beliefs, kind="stable")[:k]
    chosen = tuple(distinct[row] for row in best if beliefs[row] >= 0)
    return Selection(chosen, len(distinct), tuple(distinct[row].name for row in without))


def selected(engine: Engine, sources: Sequence[Source], question: str, k: int = MAX_SELECTED) -> Selection:
    """Choose as `select`, among the indexes of this machine.

    Raises:
        NotFound: none of them is indexed.
    """
    found = select(sources, question, k, stored=engine.stored_index)
    if not found.sources:
        raise NotFound(f"none of the {found.total} repositories is indexed yet; index them with `rag index`")
    return found


def members(engine: Engine, group: str) -> list[Source]:
    """Return the repositories of a group: `@all` that are indexed here, or a `[groups]` of the settings.

    Of a location that is indexed several times, `@all` has the work tree without filters, else the newest
    index. Folders that do not exist any more are left out.

    Raises:
        NotFound: there is no such group, or nothing is indexed.
        SourceError: a path of the group does not exist.
    """
    if group != ALL:
        named = dict(engine.settings.groups)
        if group[1:] not in named:
            known = ", ".join([ALL, *(f"@{name}" for name in named)])
            raise NotFound(
                f"there is no group {group}; the groups are {known}. "
                f"Define groups under [groups] in {engine.settings.config_file}"
            )
        return [locate(text) for text in named[group[1:]]]
    best: dict[str, tuple[tuple[bool, float], Source]] = {}
    for path, header in stores(engine.settings.home):
        if isinstance(header, StoreError) or (source := _source_of(header)) is None:
            continue
        if path != engine.store_file(source):
            continue  # of another embedder
        if not source.is_url and not Path(source.location).exists():
            continue
        rank = source.ref is None and source.filters == Filters(), _number(header.get("built"))
        if source.location not in best or rank > best[source.location][0]:
            best[source.location] = rank, source
    if not best:
        raise NotFound("nothing is indexed yet; index repositories with `rag index SOURCE`")
    return [source for _, source in best.values()]


def _source_of(header: Mapping[str, Any]) -> Source | None:
    """Return the source of a store; None if its header, which is untrusted, does not say it."""
    prints = header.get("fingerprint")
    filters = prints.get("filters") if isinstance(prints, dict) else None
    ref, location = header.get("ref"), header.get("location")
    if not isinstance(location, str) or not (ref is None or isinstance(ref, str)):
        return None
    if not isinstance(filters, list) or len(filters) != 2 or not all(isinstance(f, list) for f in filters):
        return None
    include, exclude = (tuple(str(glob) for glob in globs) for globs in filters)
    return Source(location, ref, Filters(include, exclude))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
