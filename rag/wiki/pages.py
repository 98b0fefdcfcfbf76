"""Pages as other doors give them out: as text, without a folder."""

from __future__ import annotations

from rag.wiki.links import ForgeLinks, Links, PlainLinks
from rag.wiki.markdown import title
from rag.wiki.models import WikiStructure
from rag.wiki.page_writer import PageWriter


def links_for(structure: WikiStructure) -> Links:
    """Permanent addresses at the forge where they are known, else plain ones."""
    survey = structure.survey
    if survey.checkout is not None:
        forge = ForgeLinks(survey.checkout, {path: file.blob for path, file in survey.files.items()})
        if forge.forge is not None and forge.commit:
            return forge
    return PlainLinks()


def page_markdown(structure: WikiStructure, page_id: str, *, links: Links | None = None) -> str:
    """One page as Markdown, written from the code; no model is asked.

    Args:
        structure: as `wiki_structure` gives it.
        page_id: the id of one of its pages.
        links: where citations lead; by default to the forge at the commit, else `path#L1-L2`.

    Raises:
        KeyError: there is no such page.
    """
    return PageWriter(structure, links or links_for(structure)).render(structure.page(page_id)).text


def wiki_contents(structure: WikiStructure, *, links: Links | None = None) -> str:
    """All pages as one text, each after `# Page: TITLE`, as DeepWiki's `read_wiki_contents` gives them."""
    writer = PageWriter(structure, links or links_for(structure))
    parts = []
    for page in structure.pages:
        parts.append(f"# Page: {title(page.title)}\n\n{writer.render(page).text}")
    return "\n".join(parts)
