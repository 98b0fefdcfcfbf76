"""Render a page with the prose of a model, and hash what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag.wiki.build_state import Prose, sha256
from rag.wiki.links import CitationWriter, Links
from rag.wiki.markdown import url_path
from rag.wiki.models import WikiPage, WikiStructure
from rag.wiki.page_writer import PageWriter, Rendered
from rag.wiki.prose import as_markdown
from rag.wiki.unsupported_claims import marked


def render_page(
    writer: PageWriter, links: Links, page: WikiPage, prose: Prose | None, warnings: Sequence[str]
) -> Rendered:
    """Render a page. `links` are those of the writer; `warnings` say what in its prose is unreliable."""
    note, text, more = "", "", frozenset[str]()
    if prose is not None:
        cited = CitationWriter(links)
        text = as_markdown(prose, cited)
        more = frozenset(cited.paths)
        note = marked(warnings, prose.model)
    rendered = writer.render(page, text, note=note)
    return replace(rendered, sources=rendered.sources | more)


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
        self._links = _NoLines()
        self._writer = PageWriter(structure, self._links)

    def hash(self, page: WikiPage, prose: Prose | None, warnings: Sequence[str]) -> str:
        """Return the hash of a page with its prose."""
        return sha256(render_page(self._writer, self._links, page, prose, warnings).text)
