"""Where a repository lives on the web, and how its forge links to lines of a file at a commit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, urlsplit

from rag.wiki.markdown import url_path

_Anchor = Callable[[int, int], str]


def _hashed(template: str, one: str) -> _Anchor:
    return lambda start, end: (template if end > start else one).format(start, end)


_FORGES: Mapping[str, tuple[str, _Anchor]] = {
    "github": ("/blob/", _hashed("#L{}-L{}", "#L{}")),
    "gitlab": ("/-/blob/", _hashed("#L{}-{}", "#L{}")),
    "bitbucket": ("/src/", _hashed("#lines-{}:{}", "#lines-{}")),
    "codeberg": ("/src/commit/", _hashed("#L{}-L{}", "#L{}")),
    "gitea": ("/src/commit/", _hashed("#L{}-L{}", "#L{}")),
    "forgejo": ("/src/commit/", _hashed("#L{}-L{}", "#L{}")),
}
_LIKE_MOST = "github"
_SCP = re.compile(r"(?:[\w.+-]+@)?([\w.-]+):(?!//)(.+)")
_PATH = re.compile(r"(?!.*(?:^|/)\.\.?(?:/|$))[\w.~-]+(?:/[\w.~-]+)*")


@dataclass(frozen=True, slots=True)
class Forge:
    """A repository at its forge. `kind` is "" for a host that its name does not give away."""

    page: str
    kind: str

    def lines(self, commit: str, path: str, start: int, end: int) -> str:
        """The permanent address of lines; a forge of no known kind is taken to link as most do."""
        where, anchor = _FORGES[self.kind or _LIKE_MOST]
        return f"{self.page}{where}{commit}/{url_path(path)}{anchor(start, end)}"


@lru_cache(maxsize=256)
def forge_of(remote: str | None) -> Forge | None:
    """The forge of a git remote; None for a folder, and for what has no address on the web."""
    page = web_address(remote) if remote else None
    if page is None:
        return None
    labels = (urlsplit(page).hostname or "").split(".")
    return Forge(page, next((name for name in _FORGES if any(name in label for label in labels)), ""))


def web_address(remote: str) -> str | None:
    """The page of a remote: https for ssh and scp-like remotes; None for a folder or another protocol, and
    for an address that cannot be read or would mean something else on a page."""
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
