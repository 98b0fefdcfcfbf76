"""The values of a wiki that the interfaces pass on. The names of the fields follow DeepWiki's."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rag.types import Usage

if TYPE_CHECKING:
    from rag.code.survey import Survey

MAX_DESCRIPTION = 320
"""The most characters of a sentence that describes a page."""
Importance = Literal["high", "medium", "low"]
PageKind = Literal[
    "overview",
    "architecture",
    "flow",
    "subject",
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
"""A "subject" is what the program deals with; a "package" is a concept, code that belongs together.
 "carried" is code that is listed on one page."""


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

    @property
    def takes_prose(self) -> bool:
        """Whether a model writes prose for a page of this kind."""
        return self.kind in ("overview", "architecture", "flow", "subject", "package", "asked")


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


@dataclass(frozen=True, slots=True)
class ProseCitation:
    """A source that prose cites: its number in the text, its lines, and the blob that holds them."""

    n: int
    path: str
    start: int
    end: int
    blob: str


@dataclass(frozen=True, slots=True)
class Prose:
    """The text that a model wrote for a page. `fingerprint` identifies all inputs of the request.

    `cut` is True if it reached its token limit; the text then ends with its last whole sentence.
    `unsupported` says how many statements their sources do not support, and why; "" if none.
    """

    text: str
    fingerprint: str
    model: str
    citations: tuple[ProseCitation, ...] = ()
    invented: int = 0
    conversation: str = ""
    usage: Usage = field(default_factory=Usage)
    cut: bool = False
    unsupported: str = ""


def sha256(text: str) -> str:
    """Return the SHA-256 of a text, hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
