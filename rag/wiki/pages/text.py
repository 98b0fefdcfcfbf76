"""Return pages as text, without a folder."""

from __future__ import annotations

from rag.markdown import title
from rag.wiki.models import WikiStructure
from rag.wiki.pages.links import ForgeLinks, Links, PlainLinks
from rag.wiki.pages.page_writer import PageWriter


def links_for(structure: WikiStructure) -> Links:
    """Return permanent addresses at the forge where they are known, else plain ones."""
    survey = structure.survey
    if survey.checkout is not None:
        forge = ForgeLinks(
            survey.checkout, {path: file.blob for path, file in survey.files.items()}, pinned=True
        )
        if forge.forge is not None and forge.commit:
            return forge
    return PlainLinks()


def page_markdown(
    structure: WikiStructure, page_id: str, *, links: Links | None = None, every_link: bool = False
) -> str:
    """Return one page as Markdown, written from the code without a model.

    Args:
        structure: from `wiki_structure`.
        page_id: the id of one of its pages.
        links: creates the targets of citations; by default the forge at the commit, else `path#L1-L2`.
        every_link: link every place, not only the first of each file; for pages that are not stored.

    Raises:
        KeyError: there is no such page.
    """
    return _writer(structure, links, every_link=every_link).render(structure.page(page_id)).text


def _writer(structure: WikiStructure, links: Links | None, *, every_link: bool = False) -> PageWriter:
    found = links or links_for(structure)
    return PageWriter(structure, found, by_reference=isinstance(found, ForgeLinks), every_link=every_link)


def wiki_contents(structure: WikiStructure, *, links: Links | None = None) -> str:
    """Return all pages as one text, each after `# Page: TITLE`, as in DeepWiki's `read_wiki_contents`."""
    writer = _writer(structure, links)
    parts = []
    for page in structure.pages:
        parts.append(f"# Page: {title(page.title)}\n\n{writer.render(page).text}")
    return "\n".join(parts)
