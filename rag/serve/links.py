"""Where a citation can be read: at the forge that has the commit, else in our own viewer."""

from __future__ import annotations

from urllib.parse import quote

from rag.types import Checkout, Citation, Hit
from rag.wiki.forges import forge_of
from rag.wiki.markdown import url_path


def citation_url(citation: Citation | Hit, checkout: Checkout | None, name: str, base: str) -> str:
    """The address of the cited lines.

    Args:
        citation: what is cited, or was found.
        checkout: of the repository it is of; None when that is not known.
        name: what the repository is called here.
        base: the server's own address.

    Returns:
        The permalink at the forge when the commit is known, the lines are those of the commit, and the
        remote is one on the web; else our viewer at the lines.
    """
    remote = checkout.remote if checkout else None
    if remote and citation.commit and not citation.dirty and (forge := forge_of(remote)):
        return forge.lines(citation.commit, citation.path, citation.start, citation.end)
    return viewer_link(base, name, citation.path, citation.start, citation.end)


def viewer_link(base: str, name: str, path: str, start: int, end: int) -> str:
    """Our viewer at lines of a file."""
    where = f"{base.rstrip('/')}/repos/{quote(name, safe='/@')}/view?path={url_path(path)}"
    return f"{where}#L{start}-L{end}"
