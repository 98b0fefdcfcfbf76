"""Links to cited lines: at the forge that has the commit, or in our own viewer."""

from __future__ import annotations

from urllib.parse import quote

from rag.forges import permalink
from rag.markdown import url_path
from rag.types import Checkout, Citation, CodeFact, Hit


def citation_url(citation: Citation | CodeFact | Hit, checkout: Checkout | None, name: str, base: str) -> str:
    """Return the URL of the cited lines.

    Args:
        citation: the citation or hit.
        checkout: of its repository; None when unknown.
        name: the repository's name on this server.
        base: the server's own URL.

    Returns:
        The permalink at the forge if the commit is known, the file is unchanged since, and the remote is a
        known forge; else our viewer at the lines.
    """
    at_forge = permalink(citation, checkout)
    return at_forge or viewer_link(base, name, citation.path, citation.start, citation.end)


def viewer_link(base: str, name: str, path: str, start: int, end: int) -> str:
    """Return the URL of our viewer at lines of a file."""
    viewer = f"{base.rstrip('/')}/repos/{quote(name, safe='/@')}/view?path={url_path(path)}"
    return f"{viewer}#L{start}-L{end}"


def wiki_link(name: str, page: str) -> str:
    """Return the path of a wiki page on our page."""
    return f"/repos/{quote(name, safe='/@')}/wiki?page={quote(page, safe='')}"
