"""The static files of the page: a fixed table that is built once, with hashes.

The URL of every file contains the hash of all files, so that files can be cached forever and the modules of a
page always have the same version. The path of a request is looked up in the table; no file is opened.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
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
_ROOT = b"{{root}}"
_MAX_INDEXES = 16


@dataclass(frozen=True, eq=False)
class PageFile:
    """A file: its bytes and its media type."""

    data: bytes
    media_type: str

    @cached_property
    def etag(self) -> str:
        """The ETag: a hash of the bytes, in quotes."""
        return f'"{hashlib.sha256(self.data).hexdigest()[: 2 * _DIGITS]}"'

    @cached_property
    def zipped(self) -> bytes:
        """The bytes as gzip. Computed on first use: the largest file takes a tenth of a second."""
        return gzip.compress(self.data, 6, mtime=0)


@dataclass(frozen=True)
class PageFiles:
    """All files of the page by path, and their common version."""

    version: str
    files: Mapping[str, PageFile]
    _indexes: dict[str, PageFile] = field(default_factory=dict)

    def index(self, root: str) -> PageFile:
        """Return the page under a path prefix; "" for none."""
        if root not in self._indexes:
            plain = self.files["index.html"]
            if len(self._indexes) >= _MAX_INDEXES:
                self._indexes.clear()
            self._indexes[root] = PageFile(plain.data.replace(_ROOT, root.encode()), plain.media_type)
        return self._indexes[root]

    @classmethod
    def read(cls, folder: Path) -> PageFiles:
        """Read a folder. In HTML files `{{version}}` is replaced by the version, the hash of all files.

        Other files than those of a page (licences, download scripts) are left out.
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
