"""Sources and their files, as found on disk."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rag.notebook_text import Notebook

Kind = Literal["code", "test", "doc", "config"]
Unit = Literal["function", "class", "section", "block"]


def blob_id(content: bytes) -> str:
    """Return Git's id of these bytes (SHA-1 of `blob <size>\\0` and the bytes), 40 hexadecimal digits."""
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Filters:
    """Globs relative to the root, in gitignore syntax. An empty `include` means everything."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A repository at a ref.

    `location` is canonical: the real absolute path of a folder, or a git URL without credentials.
    `ref` is a branch, tag or commit; None means the work tree of a folder, or the default branch of a URL.
    `filters` select its files.
    """

    location: str
    ref: str | None = None
    filters: Filters = Filters()

    @property
    def is_url(self) -> bool:
        """Whether the source is fetched by git, not read in place."""
        return "://" in self.location or (":" in self.location and not Path(self.location).is_absolute())

    @property
    def name(self) -> str:
        """The last part of the location, without `.git`."""
        tail = self.location.rstrip("/").replace(":", "/").rsplit("/", 1)[-1]
        return tail.removesuffix(".git") or self.location

    def __str__(self) -> str:
        return f"{self.location}@{self.ref}" if self.ref else self.location


@dataclass(frozen=True, slots=True)
class Checkout:
    """A source on disk, ready to read. `commit` is None if there is no git history.

    Without `has_files` there is nothing at `root`: only the index of the commit is on this machine.
    """

    source: Source
    root: Path
    commit: str | None = None
    dirty: bool = False
    remote: str | None = None
    has_files: bool = True


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file to index, as found by the walk.

    `changed_ns` is the time of the last change of the inode, which programs cannot set; 0 means unknown.
    """

    path: str
    size_bytes: int
    mtime_ns: int
    language: str
    kind: Kind
    changed_ns: int = 0


PARSER_GAVE_UP = "parser gave up"
ENCODING_GUESSED = "encoding guessed"
OWN_LINES = "notebook with lines of its own"
INDEXED = frozenset({PARSER_GAVE_UP, ENCODING_GUESSED, OWN_LINES})
"""Reasons to report a file that is indexed."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file (or a whole folder) that is not indexed, and why. `reason` is one of a few fixed phrases.

    With a reason of INDEXED the file is indexed. PARSER_GAVE_UP: it is split by lines, because parsing it
    exceeded the limit of time or memory. ENCODING_GUESSED: nothing says which encoding it is in; `detail`
    names the one that is used. OWN_LINES: a notebook that is saved with several lines of a cell on one, so
    lines count through its cells and not in the file.
    """

    path: str
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file's text. `blob` is Git's id of its bytes, whether or not Git tracks the file.

    `guessed` is the encoding that was guessed, "" if it is known. `notebook` has the cells of which it is the
    text.
    """

    path: str
    text: str
    blob: str
    language: str
    kind: Kind
    guessed: str = ""
    notebook: Notebook | None = None
