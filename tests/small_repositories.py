"""An engine for each module, and searchers of small repositories that a module writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rag.retrieval.search import Searcher
    from rag.service import Engine


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    from rag.service import Engine
    from rag.settings import Settings

    with closing(Engine(Settings(home=tmp_path_factory.mktemp("home"), memory="memory:"))) as engine:
        yield engine


@pytest.fixture(scope="module")
def searcher_of(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Mapping[str, str]], Searcher]:
    """Return a function that writes files into a new folder and indexes them."""

    def searcher_of(files: Mapping[str, str]) -> Searcher:
        root = tmp_path_factory.mktemp("repository")
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        return engine.repository(str(root)).searcher

    return searcher_of
