"""The values of a wiki that the interfaces pass on. The names of the fields follow DeepWiki's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rag.code.survey import Survey

Importance = Literal["high", "medium", "low"]
PageKind = Literal[
    "overview",
    "architecture",
    "flow",
    "package",
    "api",
    "extending",
    "configuration",
    "testing",
    "glossary",
    "documentation",
    "carried",
    "asked",
]
"""A "package" is a concept: code that belongs together. "carried" is code that is listed on one page."""


@dataclass(frozen=True, slots=True)
class WikiPage:
    """One page, before it is written.

    `file_paths` are the files it is about, the most relevant first. `parent` is the id of its parent page, ""
    at the top; `related_pages` are ids. `notes` are the instructions of the repository's steering file to the
    writer of the page. `kind` decides its content; an "asked" page is one that the steering file or a model
    named.
    """

    id: str
    title: str
    description: str
    importance: Importance = "medium"
    file_paths: tuple[str, ...] = ()
    related_pages: tuple[str, ...] = ()
    parent: str = ""
    notes: tuple[str, ...] = ()
    kind: PageKind = "asked"


@dataclass(frozen=True, slots=True)
class WikiSection:
    """A group of pages, by their ids, in order."""

    id: str
    title: str
    pages: tuple[str, ...]
    subsections: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WikiStructure:
    """All pages of a wiki in reading order, parents before their children.

    `notes` are the steering file's notes on the repository. `survey` is the analysis that the pages are
    written from.
    """

    id: str
    title: str
    description: str
    pages: tuple[WikiPage, ...]
    sections: tuple[WikiSection, ...]
    survey: Survey = field(repr=False, compare=False)
    notes: tuple[str, ...] = ()

    def page(self, page_id: str) -> WikiPage:
        """Return the page of this id. Raises KeyError."""
        for page in self.pages:
            if page.id == page_id:
                return page
        raise KeyError(page_id)

    def children(self, page_id: str) -> tuple[WikiPage, ...]:
        """Return the pages under a page ("" for the top), in order."""
        return tuple(page for page in self.pages if page.parent == page_id)
