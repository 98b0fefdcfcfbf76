"""The options and the result of a wiki run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rag.errors import RagError
from rag.types import Usage
from rag.wiki.models import WikiPage, WikiStructure
from rag.wiki.pages.structure import MAX_PAGES

Action = Literal["written", "unchanged", "kept", "waiting"]


@dataclass(frozen=True, slots=True)
class PageResult:
    """The result for one page.

    `action` is "written", "unchanged" (none of its inputs changed), "kept" (it was edited by hand, and is not
    overwritten) or "waiting" (the run was cancelled before it, and it is unchanged). `error` is the reason
    for missing prose. `usage` is what this run spent on it. `doubts` are sentences on what in the prose is
    unreliable; `unknown` are the names in it that do not occur in the repository, each with its sentence.
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
    """The result of a run. `notes` are sentences for the user.

    `planned` returns the structure, which is computed on demand where nothing had to be written. `given_up`
    is the error after which the model was not used any more, since every other page would fail too.
    `not_parsed` are the files on which the parser failed: the wiki lacks their imports and calls.
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
        """Return the pages without the prose that was requested."""
        return tuple(page for page in self.pages if page.error)

    def count(self, action: Action) -> int:
        """Return the number of pages with this action."""
        return sum(page.action == action for page in self.pages)

    @property
    def tokens(self) -> int:
        """Tokens this run spent."""
        return sum(page.usage.total_tokens for page in self.pages if page.usage is not None)


OnPage = Callable[[PageResult, int, int], None]


@dataclass(frozen=True, slots=True)
class WikiOptions:
    """How a wiki is written.

    `max_pages` limits the pages that follow the code. With `prose` the engine's model writes prose where one
    is configured. `concurrency` pages are requested at once; the
    default is one for a model on this machine, which often answers one prompt at a time, and four for others.
    No page is begun when `budget_tokens` are spent. With `copies` all cited files are copied,
    also where a forge shows them. `force` requests all prose again, and `overwrite` also overwrites files
    that were edited by hand. `mermaid` is a mermaid.min.js that is copied into the wiki, so that MkDocs'
    pages draw their diagrams.
    """

    max_pages: int = MAX_PAGES
    prose: bool = True
    concurrency: int | None = None
    budget_tokens: int | None = None
    copies: bool = False
    force: bool = False
    overwrite: bool = False
    mermaid: Path | None = None
