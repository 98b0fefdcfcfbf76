"""The files of the page as they are served: a closed table, made once, with hashes.

The address of every file holds the hash of all of them, so that one which has arrived is never asked for
again, and the modules of one page are always of one version. A request's path is looked up in the table;
nothing is opened for it.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_DIGITS = 16
_VERSION = b"{{version}}"


@dataclass(frozen=True, eq=False)
class PageFile:
    """One file: its bytes as sent, and what they are."""

    data: bytes
    media_type: str

    @cached_property
    def etag(self) -> str:
        """The name of these bytes, in quotes as HTTP wants it."""
        return f'"{hashlib.sha256(self.data).hexdigest()[: 2 * _DIGITS]}"'

    @cached_property
    def zipped(self) -> bytes:
        """The same as gzip. Made when it is first wanted: the largest takes a tenth of a second."""
        return gzip.compress(self.data, 6, mtime=0)


@dataclass(frozen=True)
class PageFiles:
    """All files of the page by path, and the version that they are together."""

    version: str
    files: Mapping[str, PageFile]

    @classmethod
    def read(cls, folder: Path) -> PageFiles:
        """Read a folder. In HTML files `{{version}}` becomes the version, the hash of all the files.

        Files of other kinds than a page is made of (licences, scripts that obtain files) are left out.
        """
        found = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.suffix in MEDIA_TYPES and path.is_file()
        }
        together = hashlib.sha256()
        for name, data in found.items():
            together.update(f"{name}\0{len(data)}\0".encode() + data)
        version = together.hexdigest()[:_DIGITS]
        files = {
            name: PageFile(
                data.replace(_VERSION, version.encode()) if name.endswith(".html") else data,
                MEDIA_TYPES[Path(name).suffix],
            )
            for name, data in found.items()
        }
        return cls(version, files)
