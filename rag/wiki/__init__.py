"""Generate a wiki of a repository from its code, with prose by a model if one is configured.

    wiki_structure      the list of pages            structure_outline, structure_xml   the same as text
    page_markdown       one page, from the code      wiki_contents                      all of them
    write_wiki          writes them to a folder      check_wiki                         which are outdated

For a program that shows pages itself: `with_page` adds a page about a title, `ProseWriter` lets a model write
its prose, `page_with_prose` joins both, and `ForgeLinks` are the addresses of lines.

    facts    what the pages say, read from the code        pages    the list of pages, and their text
    prose    text by a model, and what it must not claim   site     the folder, its state, MkDocs' settings

A name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag.wiki.models import PageKind, Prose, WikiPage, WikiSection, WikiStructure
    from rag.wiki.pages.links import ForgeLinks
    from rag.wiki.pages.outline import structure_outline, structure_xml
    from rag.wiki.pages.structure import wiki_structure, with_page
    from rag.wiki.pages.text import page_markdown, wiki_contents
    from rag.wiki.prose.prose_writer import ProseWriter
    from rag.wiki.prose.rendered_page import page_with_prose
    from rag.wiki.site.check import PageCheck, WikiCheck, check_wiki
    from rag.wiki.site.report import PageResult, WikiOptions, WikiReport
    from rag.wiki.site.writer import write_wiki

_HOMES = {
    "ForgeLinks": "pages.links",
    "PageCheck": "site.check",
    "PageKind": "models",
    "PageResult": "site.report",
    "Prose": "models",
    "ProseWriter": "prose.prose_writer",
    "WikiCheck": "site.check",
    "WikiOptions": "site.report",
    "WikiPage": "models",
    "WikiReport": "site.report",
    "WikiSection": "models",
    "WikiStructure": "models",
    "check_wiki": "site.check",
    "page_markdown": "pages.text",
    "page_with_prose": "prose.rendered_page",
    "structure_outline": "pages.outline",
    "structure_xml": "pages.outline",
    "wiki_contents": "pages.text",
    "wiki_structure": "pages.structure",
    "with_page": "pages.structure",
    "write_wiki": "site.writer",
}
__all__ = [
    "ForgeLinks",
    "PageCheck",
    "PageKind",
    "PageResult",
    "Prose",
    "ProseWriter",
    "WikiCheck",
    "WikiOptions",
    "WikiPage",
    "WikiReport",
    "WikiSection",
    "WikiStructure",
    "check_wiki",
    "page_markdown",
    "page_with_prose",
    "structure_outline",
    "structure_xml",
    "wiki_contents",
    "wiki_structure",
    "with_page",
    "write_wiki",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rag.wiki' has no attribute {name!r}")
    value = getattr(import_module(f"rag.wiki.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
