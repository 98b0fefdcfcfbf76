"""The targets of citations: lines at the forge, or a copy of the file in the wiki."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol
from urllib.parse import quote

from rag.corpus.acquire import committed
from rag.corpus.last_changes import last_changes
from rag.forges import forge_of
from rag.markdown import code, link, plain, url_path
from rag.types import Checkout
from rag.wiki.models import WikiPage, WikiStructure

_DRAWN_PER_FILE = 1


class Links(Protocol):
    """Creates the addresses on a page."""

    def lines(self, path: str, start: int, end: int) -> str:
        """Return the address of these lines; "" for none."""
        ...

    def page(self, page: WikiPage) -> str:
        """Return the address of another page."""
        ...


class ForgeLinks:
    """Permanent addresses at a forge of a known kind, for files whose bytes are those of the commit.

    Args:
        checkout: where the files come from.
        blobs: the blob id of each file, by path.
        pinned: link each file at the commit that last changed it, so that other commits change no address;
            else at the commit of the checkout.
    """

    def __init__(self, checkout: Checkout, blobs: Mapping[str, str], *, pinned: bool = False) -> None:
        forge = forge_of(checkout.remote or checkout.source.location)
        self.forge = forge if forge is not None and forge.kind else None
        self.commit = checkout.commit or ""
        self._valid: Mapping[str, str] | None = None
        self._pins: Mapping[str, str] = {}
        if pinned and self.forge is not None and self.commit:
            self._pins = last_changes(checkout.root, self.commit, blobs)
        if self.forge is not None and self.commit and checkout.dirty:
            # One command line with all of them could exceed the system's limit.
            paths = sorted(blobs)
            parts = [paths[n : n + 500] for n in range(0, len(paths), 500)]
            there: dict[str, str] = {}
            for part in parts:
                there |= committed(checkout, part)
            self._valid = {path: blob for path, blob in there.items() if blobs.get(path) == blob}

    def lines(self, path: str, start: int, end: int) -> str:
        """Return the address at the forge; "" where there is none for these bytes."""
        if self.forge is None or not self.commit or (self._valid is not None and path not in self._valid):
            return ""
        return self.forge.lines(self._pins.get(path, self.commit), path, start, end)

    def page(self, page: WikiPage) -> str:
        """Return an anchor, as in DeepWiki's pages."""
        return f"#{page.id}"


class PlainLinks:
    """Lines as `path#L1-L2`, relative to the repository; pages as `#id`."""

    def lines(self, path: str, start: int, end: int) -> str:
        """Return the path with its lines."""
        return f"{url_path(path)}#L{start}-L{end}"

    def page(self, page: WikiPage) -> str:
        """Return the page's id as an anchor."""
        return f"#{page.id}"


class FileLinks:
    """Addresses within a folder of Markdown: pages as files of one folder, lines as `lines_at` returns them.

    Without such an address, lines link to a copy of the file below `source/`; `copied` names these files.
    """

    def __init__(
        self, structure: WikiStructure, lines_at: Callable[[str, int, int], str] | None = None
    ) -> None:
        self._structure, self._lines_at = structure, lines_at
        self.copied: set[str] = set()

    def lines(self, path: str, start: int, end: int) -> str:
        """Return the forge's address, else that of the copy."""
        address = self._lines_at(path, start, end) if self._lines_at is not None else ""
        if not address:
            self.copied.add(path)
            address = f"source/{quote(copy_name(path), safe='/-._~')}#L{start}"
        return address

    def page(self, page: WikiPage) -> str:
        """Return the page's file."""
        return page_file(self._structure, page)


def page_file(structure: WikiStructure, page: WikiPage) -> str:
    """Return the name of a page's file; the first page is the index."""
    return "index.md" if page.id == structure.pages[0].id else f"{page.id}.md"


def copy_name(path: str) -> str:
    """Return the name of a file's copy below `source/`: portable characters, nothing hidden.

    No folder has the name of a copy on any file system: it is in lower case, without `.html` at its end.
    """
    parts = [re.sub(r"[^A-Za-z0-9._-]|^\.|\.$", "_", part)[:100] or "_" for part in path.split("/")]
    parts = [*(re.sub(r"\.html$", "_html", part.lower()) for part in parts[:-1]), parts[-1]]
    name = posixpath.join(*parts)
    if name != path or name.lower() != name:
        # Two paths may differ only in replaced characters, or in case, which some systems ignore.
        name += f"-{hashlib.sha256(path.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    return f"{name}.html"


class CitationWriter:
    """Writes citations, and records which files were cited.

    Args:
        links: creates the addresses.
        by_reference: write addresses once, at the end of the page (`references`), and not inside the text.
        per_file: the number of different places of a file that are linked; names of others stay words. A
            change of a file changes the addresses of all its places.
    """

    def __init__(self, links: Links, *, by_reference: bool = False, per_file: int | None = None) -> None:
        self.links, self.by_reference, self.per_file = links, by_reference, per_file
        self.paths: set[str] = set()
        self._labels: dict[str, str] = {}
        self._places: dict[str, dict[tuple[int, int], str]] = {}
        self._names: dict[str, str] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._drawn: dict[str, set[tuple[int, int]]] = {}

    def linked(self, label: str, path: str, start: int, end: int, name: str = "") -> str:
        """Return Markdown as a link to lines; unchanged if they have no address, or the file has its number
        of links. The reference is called after the `name`, so that other references do not change with it.
        """
        self.paths.add(path)
        places = self._places.setdefault(path, {})
        if (start, end) not in places:
            if self.per_file is not None and len(places) >= self.per_file:
                return label
            places[start, end] = self.links.lines(path, start, end)
        address = places[start, end]
        if not self.by_reference or not address:
            return link(label, address)
        if address not in self._labels:
            self._labels[address] = self._label(path, name)
        return f"[{label}][{self._labels[address]}]"

    def _label(self, path: str, name: str) -> str:
        base = self._name(path)
        number = self._numbers[base, name] = self._numbers.get((base, name), 0) + 1
        called = re.sub(r"[^A-Za-z0-9._$-]", "_", name)[:60]
        return f"{base}{f':{called}' if called else ''}{f'-{number}' if number > 1 or not called else ''}"

    def _name(self, path: str) -> str:
        """Return the label of a file's references: its name, with a number for another file of that name."""
        base = re.sub(r"[^A-Za-z0-9._/-]", "_", "/".join(path.split("/")[-2:])).strip("-")[:60]
        name, number = base, 2
        while self._names.setdefault(name.lower(), path) != path:
            name, number = f"{base}~{number}", number + 1
        return name

    def references(self, text: str) -> str:
        """Return the addresses of the links in a text, one a line; "" if it has none."""
        used = [(label, address) for address, label in self._labels.items() if f"][{label}]" in text]
        return "\n".join(f"[{label}]: {address}" for label, address in sorted(used))

    def address(self, path: str, start: int, end: int, fallback: str = "") -> str:
        """Return the address of lines for a node of a diagram; `fallback` where there is none, or where the
        diagrams of the page link enough places of the file.
        """
        self.paths.add(path)
        drawn = self._drawn.setdefault(path, set())
        if (start, end) not in drawn and self.per_file is not None and len(drawn) >= _DRAWN_PER_FILE:
            return fallback
        drawn.add((start, end))
        return self.links.lines(path, start, end) or fallback

    def place(self, path: str, start: int, end: int, *, short: bool = False) -> str:
        """Return a link to lines, shown as `path:start-end` or `path:line`; with `short` without the path."""
        span = f"{start}-{end}" if end > start else str(start)
        return self.linked(code(span if short else f"{path}:{span}"), path, start, end)

    def source(self, path: str, start: int, end: int) -> str:
        """Return a link to lines, shown as the path alone: it stays the same when the lines move."""
        return self.linked(code(path), path, start, end)

    def file(self, path: str, lines: int) -> str:
        """Return a link to a whole file, shown as its path."""
        return self.linked(code(path), path, 1, max(1, lines))

    def named(self, name: str, path: str, start: int, end: int) -> str:
        """Return a link to a definition, shown as its name."""
        return self.linked(code(name), path, start, end, name)

    def page(self, page: WikiPage, label: str = "") -> str:
        """Return a link to another page, shown as its title or as this Markdown."""
        return link(label or plain(page.title), self.links.page(page))

    def places(self, places: Iterable[tuple[str, int, int]], limit: int) -> str:
        """Return several places, at most `limit`, and the number of the others."""
        every = list(dict.fromkeys(places))
        shown = [self.source(*place) for place in every[:limit]]
        rest = len(every) - len(shown)
        return ", ".join(shown) + (f" and {rest:,} more" if rest else "")
