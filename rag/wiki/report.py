"""How a wiki is to be written, and what a run of the writer came to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rag.errors import RagError
from rag.types import Usage
from rag.wiki.models import WikiPage, WikiStructure
from rag.wiki.structure import MAX_PAGES

Action = Literal["written", "unchanged", "kept", "waiting"]
WITH_PROSE = frozenset({"overview", "architecture", "package", "asked"})
"""The kinds of pages for which a model writes."""


@dataclass(frozen=True, slots=True)
class PageResult:
    """What became of a page.

    `action` is "written", "unchanged" (nothing it is made of changed), "kept" (it was edited by hand, and is
    left alone) or "waiting" (the run was stopped before it, and it is as it was). `error` says why
    prose that was asked for is not there. `usage` is what this run spent on it. `doubts` say, in sentences,
    what of the prose a reader should not rely on; `unknown` are the names in it that are nowhere in the
    repository, each with the sentence that names it.
    """

    page: WikiPage
    file: str
    action: Action
    has_prose: bool = False
    error: str = ""
    invented: int = 0
    uncited: bool = False
    usage: Usage | None = None
    doubts: tuple[str, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    cut: bool = False


@dataclass(frozen=True, slots=True)
class WikiReport:
    """What a run came to. `notes` are sentences the user ought to know.

    `planned` gives the structure, which is made when it is asked for where nothing had to be written.
    `given_up` is why the model was asked no more: an error that every other page would have met, too.
    `not_parsed` are the files that the parser gave up on: the wiki lacks their imports and calls.
    """

    folder: Path
    planned: Callable[[], WikiStructure] = field(repr=False, compare=False)
    pages: tuple[PageResult, ...]
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    cancelled: bool = False
    given_up: RagError | None = None
    not_parsed: tuple[str, ...] = ()

    @property
    def structure(self) -> WikiStructure:
        """All pages of the wiki."""
        return self.planned()

    @property
    def failed(self) -> tuple[PageResult, ...]:
        """The pages that lack the prose they were to have."""
        return tuple(page for page in self.pages if page.error)

    def count(self, action: Action) -> int:
        """How many pages this became of."""
        return sum(page.action == action for page in self.pages)

    @property
    def tokens(self) -> int:
        """Tokens this run spent."""
        return sum(page.usage.total_tokens for page in self.pages if page.usage is not None)


Progress = Callable[[PageResult, int, int], None]


@dataclass(frozen=True, slots=True)
class WikiOptions:
    """How a wiki is written.

    `max_pages` bounds the pages that follow the code. With `prose` the engine's model writes prose where one
    is configured; `plan` also lets it say which pages there are. `concurrency` pages are asked for at once;
    by default one of a model on this machine, which often answers one prompt at a time, and four of others.
    No page is begun when `budget_tokens` or `budget_usd` is spent. `copies` are made of all cited files,
    also where a forge shows them. `force` asks anew for all prose, and `overwrite` also writes over what was
    edited by hand. `mermaid` is a mermaid.min.js that is laid
    beside the pages, so that MkDocs' pages draw their diagrams.
    """

    max_pages: int = MAX_PAGES
    prose: bool = True
    plan: bool = False
    concurrency: int | None = None
    budget_tokens: int | None = None
    budget_usd: float | None = None
    copies: bool = False
    force: bool = False
    overwrite: bool = False
    mermaid: Path | None = None
