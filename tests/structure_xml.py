"""Reads the XML in which deepwiki-open's frontend gets the pages of a wiki."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import NamedTuple


class XmlPage(NamedTuple):
    """A page of the XML."""

    id: str
    title: str
    description: str
    importance: str
    file_paths: tuple[str, ...]
    related_pages: tuple[str, ...]


def pages_of(text: str) -> list[XmlPage]:
    """Return the pages."""
    return [
        XmlPage(
            page.get("id") or "",
            page.findtext("title") or "",
            page.findtext("description") or "",
            page.findtext("importance") or "",
            tuple(one.text or "" for one in page.iter("file_path")),
            tuple(one.text or "" for one in page.iter("related")),
        )
        for page in ElementTree.fromstring(text).iter("page")
    ]
