"""Render a page with the prose of a model, and hash what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag.markdown import url_path
from rag.wiki.models import Prose, WikiPage, WikiStructure, sha256
from rag.wiki.pages.links import CitationWriter, Links
from rag.wiki.pages.page_writer import PageWriter, Rendered
from rag.wiki.prose.prose_writer import as_markdown
from rag.wiki.prose.unsupported_claims import doubts, marked


def render_page(writer: PageWriter, page: WikiPage, prose: Prose | None, warnings: Sequence[str]) -> Rendered:
    """Render a page with its prose, if it has some; `warnings` say what in it is unreliable."""
    note, text, more = "", "", frozenset[str]()
    if prose is not None:
        cited = CitationWriter(writer.links)
        text = as_markdown(prose, cited)
        more = frozenset(cited.paths)
        note = marked(warnings, prose.model)
    rendered = writer.render(page, text, note=note)
    return replace(rendered, sources=rendered.sources | more)


def page_with_prose(structure: WikiStructure, page: WikiPage, prose: Prose | None, links: Links) -> Rendered:
    """Render one page of a structure, with warnings on its prose, for those who store it themselves."""
    warnings = doubts(prose, structure.survey) if prose is not None else []
    return render_page(PageWriter(structure, links), page, prose, warnings)


class _NoLines:
    """Addresses that do not change while the same files are linked."""

    def lines(self, path: str, start: int, end: int) -> str:
        """Return the path."""
        return url_path(path)

    def page(self, page: WikiPage) -> str:
        """Return the page's id as an anchor."""
        return f"#{page.id}"


class ContentHasher:
    """Hashes what pages say, whatever their links lead to: which commit, lines, forge or copy.

    A wiki that is committed together with the code it describes has links to the commit before, or to copies.
    """

    def __init__(self, structure: WikiStructure) -> None:
        self._writer = PageWriter(structure, _NoLines())

    def hash(self, page: WikiPage, prose: Prose | None, warnings: Sequence[str]) -> str:
        """Return the hash of a page with its prose."""
        return sha256(render_page(self._writer, page, prose, warnings).text)
