"""A structure in the formats of other tools: DeepWiki's list of pages, and deepwiki-open's XML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from rag.quoting import one_line
from rag.wiki.models import WikiPage, WikiStructure

MAX_XML_FILES = 40
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def numbered(structure: WikiStructure) -> Iterator[tuple[str, int, WikiPage]]:
    """Yield each page with its number, such as `3.1`, and its depth, from 0."""

    def below(parent: str, prefix: str, depth: int) -> Iterator[tuple[str, int, WikiPage]]:
        for number, page in enumerate(structure.children(parent), start=1):
            yield f"{prefix}{number}", depth, page
            yield from below(page.id, f"{prefix}{number}.", depth + 1)

    return below("", "", 0)


def structure_outline(structure: WikiStructure, name: str | None = None) -> str:
    """Return the pages as DeepWiki's `read_wiki_structure` lists them; `name` is the requested name."""
    lines = [
        f"{'  ' * depth}- {number} {one_line(page.title)}" for number, depth, page in numbered(structure)
    ]
    return "\n".join([f"Available pages for {name or structure.title}:", "", *lines])


def structure_xml(structure: WikiStructure) -> str:
    """Return the structure as deepwiki-open's frontend reads it: bare `<wiki_structure>` XML.

    A page names at most 40 of its files, the most relevant first.
    """
    lines = [
        "<wiki_structure>",
        f"  <title>{_text(structure.title)}</title>",
        f"  <description>{_text(structure.description)}</description>",
        "  <sections>",
    ]
    for section in structure.sections:
        lines += [
            f"    <section id={_attribute(section.id)}>",
            f"      <title>{_text(section.title)}</title>",
            "      <pages>",
            *(f"        <page_ref>{_text(page)}</page_ref>" for page in section.pages),
            "      </pages>",
        ]
        if section.subsections:
            lines += [
                "      <subsections>",
                *(f"        <section_ref>{_text(name)}</section_ref>" for name in section.subsections),
                "      </subsections>",
            ]
        lines.append("    </section>")
    lines += ["  </sections>", "  <pages>"]
    home = {page: section.id for section in structure.sections for page in section.pages}
    for page in structure.pages:
        lines += _page_xml(page, home.get(page.id, ""))
    return "\n".join([*lines, "  </pages>", "</wiki_structure>"])


def _page_xml(page: WikiPage, section: str) -> list[str]:
    return [
        f"    <page id={_attribute(page.id)}>",
        f"      <title>{_text(page.title)}</title>",
        f"      <description>{_text(page.description)}</description>",
        f"      <importance>{page.importance}</importance>",
        "      <relevant_files>",
        *(f"        <file_path>{_text(path)}</file_path>" for path in page.file_paths[:MAX_XML_FILES]),
        "      </relevant_files>",
        "      <related_pages>",
        *(f"        <related>{_text(name)}</related>" for name in page.related_pages),
        "      </related_pages>",
        f"      <parent_section>{_text(section)}</parent_section>",
        "    </page>",
    ]


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))
