"""Write the pages of a wiki without a model: the contents of the code, with citations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rag.code.project_summary import package_quote
from rag.markdown import documented, sentence, title, words
from rag.wiki.models import MAX_DESCRIPTION, PageKind, WikiPage, WikiStructure
from rag.wiki.pages.concept_page import concept_parts
from rag.wiki.pages.guide_pages import architecture_parts, flow_parts, overview_parts
from rag.wiki.pages.links import CitationWriter, Links
from rag.wiki.pages.page_context import PageContext, Part, fitted
from rag.wiki.pages.reference_pages import (
    api_parts,
    carried_parts,
    configuration_parts,
    documentation_parts,
    extending_parts,
    glossary_parts,
    testing_parts,
)
from rag.wiki.pages.subject_page import subject_parts

Body = Callable[[PageContext, WikiPage, CitationWriter], Iterator[Part]]
_BODIES: Mapping[PageKind, tuple[Body, int]] = {
    "overview": (overview_parts, 2),
    "architecture": (architecture_parts, 1),
    "flow": (flow_parts, 3),
    "subject": (subject_parts, 4),
    "package": (concept_parts, 8),
    "asked": (concept_parts, 8),
    "api": (api_parts, 1),
    "extending": (extending_parts, 1),
    "configuration": (configuration_parts, 1),
    "testing": (testing_parts, 1),
    "glossary": (glossary_parts, 1),
    "documentation": (documentation_parts, 1),
    "carried": (carried_parts, 1),
}
"""What writes each kind of page, and how many places of a file it links. In all a file has few links, so that
a change of one file changes few lines of the wiki.
"""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A page's Markdown, and the files it cites."""

    text: str
    sources: frozenset[str]


class PageWriter:
    """Writes the pages of one structure.

    Args:
        structure: the list of pages.
        links: creates the targets of citations.
        by_reference: write addresses at the end of a page, see `CitationWriter`.
        every_link: link every place, where a page is not stored, so that changed addresses matter to nobody.
    """

    def __init__(
        self, structure: WikiStructure, links: Links, *, by_reference: bool = False, every_link: bool = False
    ) -> None:
        self.structure, self.links = structure, links
        self.by_reference, self._every_link = by_reference, every_link
        self._context = PageContext(structure, links)

    def render(self, page: WikiPage, prose: str = "", *, note: str = "") -> Rendered:
        """Render a page. `prose` is Markdown put before the sections from the code, `note` a sentence before
        it.
        """
        body, per_file = _BODIES[page.kind]
        limit = None if self._every_link else per_file
        cited = CitationWriter(self._context.links, by_reference=self.by_reference, per_file=limit)
        head = [f"# {title(page.title)}", note]
        head += [prose, "## From the code"] if prose else [self._introduction(page, cited)]
        parts = [Part("\n\n".join(part for part in head if part)), *body(self._context, page, cited)]
        return Rendered(fitted(parts, cited), frozenset(cited.paths))

    def _introduction(self, page: WikiPage, cited: CitationWriter) -> str:
        """Return a concept's own description, else the description of the page."""
        quote = package_quote(self.structure.survey, page.file_paths) if page.kind == "package" else None
        if quote and sentence(documented(quote.text), MAX_DESCRIPTION) == page.description:
            return self._context.quoted(cited, [quote])
        end = "" if page.description.endswith((".", "…", "!", "?")) or not page.description else "."
        return words(page.description) + end
