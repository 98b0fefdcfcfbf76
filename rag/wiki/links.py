"""Where a citation leads: to the lines at the forge, or to a copy of the file beside the wiki."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol
from urllib.parse import quote

from rag.corpus.acquire import committed
from rag.types import Checkout
from rag.wiki.forges import forge_of
from rag.wiki.markdown import code, link, plain, url_path
from rag.wiki.models import WikiPage, WikiStructure


class Links(Protocol):
    """Makes the addresses on a page."""

    def lines(self, path: str, start: int, end: int) -> str:
        """The address of these lines; "" for none."""
        ...

    def page(self, page: WikiPage) -> str:
        """The address of another page."""
        ...


class ForgeLinks:
    """Permanent addresses at a forge of a known kind, for files whose bytes are those of the commit.

    Args:
        checkout: where the files come from.
        blobs: the blob id of each file, by path.
    """

    def __init__(self, checkout: Checkout, blobs: Mapping[str, str]) -> None:
        forge = forge_of(checkout.remote or checkout.source.location)
        self.forge = forge if forge is not None and forge.kind else None
        self.commit = checkout.commit or ""
        self._there: Mapping[str, str] | None = None
        if self.forge is not None and self.commit and checkout.dirty:
            # All at once on one command line could be too long for the system.
            paths = sorted(blobs)
            parts = [paths[n : n + 500] for n in range(0, len(paths), 500)]
            there: dict[str, str] = {}
            for part in parts:
                there |= committed(checkout, part)
            self._there = {path: blob for path, blob in there.items() if blobs.get(path) == blob}

    def lines(self, path: str, start: int, end: int) -> str:
        """The address at the forge; "" where there is none for these bytes."""
        if self.forge is None or not self.commit or (self._there is not None and path not in self._there):
            return ""
        return self.forge.lines(self.commit, path, start, end)

    def page(self, page: WikiPage) -> str:
        """Pages are reached as DeepWiki's are, by an anchor."""
        return f"#{page.id}"


class PlainLinks:
    """Lines as `path#L1-L2`, relative to the repository; pages as `#id`."""

    def lines(self, path: str, start: int, end: int) -> str:
        """The path with its lines."""
        return f"{url_path(path)}#L{start}-L{end}"

    def page(self, page: WikiPage) -> str:
        """The page's id as an anchor."""
        return f"#{page.id}"


class FileLinks:
    """Addresses within a folder of Markdown: pages as files beside each other, lines as `lines_at` says.

    Where that gives no address, lines lead to a copy of the file below `source/`; `copied` names those.
    """

    def __init__(
        self, structure: WikiStructure, lines_at: Callable[[str, int, int], str] | None = None
    ) -> None:
        self._structure, self._lines_at = structure, lines_at
        self.copied: set[str] = set()

    def lines(self, path: str, start: int, end: int) -> str:
        """The forge's address, else that of the copy."""
        address = self._lines_at(path, start, end) if self._lines_at is not None else ""
        if not address:
            self.copied.add(path)
            address = f"source/{quote(copy_name(path), safe='/-._~')}#L{start}"
        return address

    def page(self, page: WikiPage) -> str:
        """The page's file."""
        return page_file(self._structure, page)


def page_file(structure: WikiStructure, page: WikiPage) -> str:
    """The name of a page's file; the first page is the one a reader begins with."""
    return "index.md" if page.id == structure.pages[0].id else f"{page.id}.md"


def copy_name(path: str) -> str:
    """The name of a file's copy below `source/`: letters that every system takes, nothing hidden."""
    parts = [re.sub(r"[^A-Za-z0-9._-]|^\.|\.$", "_", part)[:100] or "_" for part in path.split("/")]
    name = posixpath.join(*parts)
    if name != path or name.lower() != name:
        # Two paths may differ only in what was replaced, or in case, which some systems do not tell apart.
        name += f"-{hashlib.sha256(path.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    return f"{name}.html"


class CitationWriter:
    """Writes citations, and remembers which files were cited."""

    def __init__(self, links: Links) -> None:
        self.links = links
        self.paths: set[str] = set()

    def place(self, path: str, start: int, end: int, *, short: bool = False) -> str:
        """A link to lines, shown as `path:start-end`, `path:line` for one; with `short` without the path."""
        self.paths.add(path)
        span = f"{start}-{end}" if end > start else str(start)
        return link(code(span if short else f"{path}:{span}"), self.links.lines(path, start, end))

    def file(self, path: str, lines: int) -> str:
        """A link to a whole file, shown as its path with all its lines."""
        return self.place(path, 1, max(1, lines))

    def named(self, name: str, path: str, start: int, end: int) -> str:
        """A link to a definition, shown as its name."""
        self.paths.add(path)
        return link(code(name), self.links.lines(path, start, end))

    def page(self, page: WikiPage) -> str:
        """A link to another page."""
        return link(plain(page.title), self.links.page(page))

    def places(self, places: Iterable[tuple[str, int, int]], limit: int) -> str:
        """Several places, at most `limit`; how many more there are is said."""
        every = list(dict.fromkeys(places))
        shown = [self.place(*place) for place in every[:limit]]
        rest = len(every) - len(shown)
        return ", ".join(shown) + (f" and {rest:,} more" if rest else "")
