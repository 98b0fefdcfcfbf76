"""Generate a wiki of a repository from its code, with prose by a model if one is configured.

    wiki_structure      the list of pages            structure_outline, structure_xml   the same as text
    page_markdown       one page, from the code      wiki_contents                      all of them
    WikiBuilder         writes them to a folder      write_wiki                         the same as a function
    check_wiki          which pages are outdated

A name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag.wiki.check import PageCheck, WikiCheck, check_wiki
    from rag.wiki.models import WikiPage, WikiSection, WikiStructure
    from rag.wiki.outline import structure_outline, structure_xml
    from rag.wiki.pages import page_markdown, wiki_contents
    from rag.wiki.report import PageResult, WikiOptions, WikiReport
    from rag.wiki.structure import wiki_structure
    from rag.wiki.writer import WikiBuilder, write_wiki

__all__ = [
    "PageCheck",
    "PageResult",
    "WikiBuilder",
    "WikiCheck",
    "WikiOptions",
    "WikiPage",
    "WikiReport",
    "WikiSection",
    "WikiStructure",
    "check_wiki",
    "page_markdown",
    "structure_outline",
    "structure_xml",
    "wiki_contents",
    "wiki_structure",
    "write_wiki",
]

_HOMES = {
    "PageCheck": "check",
    "WikiCheck": "check",
    "check_wiki": "check",
    "PageResult": "report",
    "WikiOptions": "report",
    "WikiReport": "report",
    "page_markdown": "pages",
    "structure_outline": "outline",
    "structure_xml": "outline",
    "wiki_contents": "pages",
    "wiki_structure": "structure",
    "WikiPage": "models",
    "WikiSection": "models",
    "WikiStructure": "models",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rag.wiki' has no attribute {name!r}")
    value = getattr(import_module(f"rag.wiki.{_HOMES.get(name, 'writer')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
