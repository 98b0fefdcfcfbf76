"""The web address of a repository, and links to lines of a file at a commit on its forge."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, urlsplit

from rag.markdown import url_path
from rag.types import Checkout, Citation, CodeFact, Hit

_Anchor = Callable[[int, int], str]


def _anchor(template: str, one: str) -> _Anchor:
    return lambda start, end: (template if end > start else one).format(start, end)


_FORGES: Mapping[str, tuple[str, _Anchor]] = {
    "github": ("/blob/", _anchor("#L{}-L{}", "#L{}")),
    "gitlab": ("/-/blob/", _anchor("#L{}-{}", "#L{}")),
    "bitbucket": ("/src/", _anchor("#lines-{}:{}", "#lines-{}")),
    "codeberg": ("/src/commit/", _anchor("#L{}-L{}", "#L{}")),
    "gitea": ("/src/commit/", _anchor("#L{}-L{}", "#L{}")),
    "forgejo": ("/src/commit/", _anchor("#L{}-L{}", "#L{}")),
}
_DEFAULT_KIND = "github"
_SCP = re.compile(r"(?:[\w.+-]+@)?([\w.-]+):(?!//)(.+)")
_PATH = re.compile(r"(?!.*(?:^|/)\.\.?(?:/|$))[\w.~-]+(?:/[\w.~-]+)*")


@dataclass(frozen=True, slots=True)
class Forge:
    """A repository on its forge. `kind` is "" if the host name does not reveal it."""

    page: str
    kind: str

    def lines(self, commit: str, path: str, start: int, end: int) -> str:
        """Return the permanent address of lines; an unknown kind of forge gets the most common form."""
        where, anchor = _FORGES[self.kind or _DEFAULT_KIND]
        return f"{self.page}{where}{commit}/{url_path(path)}{anchor(start, end)}"


@lru_cache(maxsize=256)
def forge_of(remote: str | None) -> Forge | None:
    """Return the forge of a git remote; None for a folder, and for a remote without a web address."""
    page = web_address(remote) if remote else None
    if page is None:
        return None
    labels = (urlsplit(page).hostname or "").split(".")
    return Forge(page, next((name for name in _FORGES if any(name in label for label in labels)), ""))


def permalink(of: Citation | CodeFact | Hit, checkout: Checkout | None) -> str:
    """Return the address of cited lines at the forge that has their commit.

    It is "" if the commit is not known, the file has changed since, or the remote is no known forge.
    """
    forge = forge_of(checkout.remote) if checkout else None
    if forge is None or not of.commit or of.dirty:
        return ""
    return forge.lines(of.commit, of.path, of.start, of.end)


def web_address(remote: str) -> str | None:
    """Return the web page of a remote: https for ssh and scp-like remotes; None for a folder, another
    protocol, or an address that is invalid or unsafe on a page.
    """
    scp = None if "://" in remote else _SCP.fullmatch(remote)
    if scp:
        return _address("https", scp[1], scp[2])
    try:
        parts = urlsplit(remote)
        number = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("https", "http", "ssh", "git") or not parts.hostname:
        return None
    port = f":{number}" if number and parts.scheme in ("https", "http") else ""
    return _address("http" if parts.scheme == "http" else "https", f"{parts.hostname}{port}", parts.path)


def _address(scheme: str, host: str, path: str) -> str | None:
    path = path.strip("/").removesuffix(".git")
    if not _PATH.fullmatch(path):
        return None
    return f"{scheme}://{host.lower()}/{quote(path, safe='/-._~')}"
