"""Where a citation can be read: at the forge that has the commit, else in our own viewer."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

from rag.service import Repository
from rag.types import Citation

_SCP = re.compile(r"(?:[^@/]+@)?([^:/]+):(?!//)(.+)")


def citation_url(citation: Citation, repository: Repository | None, name: str, base: str) -> str:
    """The address of the cited lines.

    Args:
        citation: what is cited.
        repository: the one it is of; None when it is not open.
        name: what the repository is called here.
        base: the server's own address.

    Returns:
        The permalink at the forge when the commit is known, the lines are those of the commit, and the
        remote is one on the web; else our viewer at the lines.
    """
    remote = repository.checkout.remote if repository else None
    if remote and citation.commit and not citation.dirty:
        link = forge_link(remote, citation.commit, citation.path, citation.start, citation.end)
        if link:
            return link
    return viewer_link(base, name, citation.path, citation.start, citation.end)


def viewer_link(base: str, name: str, path: str, start: int, end: int) -> str:
    """Our viewer at lines of a file."""
    where = f"{base.rstrip('/')}/repos/{quote(name, safe='/@')}/view?path={_quoted(path)}"
    return f"{where}#L{start}-L{end}"


def forge_link(remote: str, commit: str, path: str, start: int, end: int) -> str | None:
    """The permalink of lines at a commit, in the way of the remote's forge; None for no web address.

    A host that is not known by name is taken for one that links as GitHub does, as most do.
    """
    home = web_address(remote)
    if home is None:
        return None
    host = urlsplit(home).hostname or ""
    file = _quoted(path)
    if "gitlab" in host:
        return f"{home}/-/blob/{commit}/{file}#L{start}-{end}"
    if "bitbucket" in host:
        return f"{home}/src/{commit}/{file}#lines-{start}:{end}"
    if any(name in host for name in ("gitea", "forgejo", "codeberg")):
        return f"{home}/src/commit/{commit}/{file}#L{start}-L{end}"
    return f"{home}/blob/{commit}/{file}#L{start}-L{end}"


def _quoted(path: str) -> str:
    return quote(path.encode("utf-8", "surrogateescape"), safe="/")


def web_address(remote: str) -> str | None:
    """The page of a remote: https for ssh and scp-like remotes; None for a folder or another protocol, and
    for an address that cannot be read."""
    scp = None if "://" in remote else _SCP.fullmatch(remote)
    if scp:
        return f"https://{scp[1]}/{scp[2].strip('/').removesuffix('.git')}"
    try:
        parts = urlsplit(remote)
        number = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("https", "http", "ssh", "git") or not parts.hostname:
        return None
    port = f":{number}" if number and parts.scheme in ("https", "http") else ""
    scheme = parts.scheme if parts.scheme == "http" else "https"
    return f"{scheme}://{parts.hostname}{port}/{parts.path.strip('/').removesuffix('.git')}"
