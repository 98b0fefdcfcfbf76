"""Reads lines of an indexed file, in the state that citations refer to."""

from __future__ import annotations

import os
from dataclasses import dataclass

from rag.errors import NotFound
from rag.lines import whole_lines_of
from rag.service.repositories.repository import Repository

_NEAREST = 3


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A range of lines of a file, both ends included. `total` is the file's line count, `blob` its Git id."""

    path: str
    start: int
    end: int
    total: int
    text: str
    blob: str
    commit: str | None
    dirty: bool


def read_lines(repository: Repository, path: str, start: int = 1, end: int | None = None) -> Excerpt:
    """Read lines of an indexed file; the range is clipped to the file.

    Only indexed files can be read: the path is looked up in the store, never opened.

    Raises:
        NotFound: no file of that path is indexed, or it has no such line.
        ValueError: the range is invalid.
    """
    if start < 1 or (end is not None and end < start):
        raise ValueError(f"lines are numbered from 1 and end after they start, not {start}-{end}")
    store = repository.store
    path = repository_path(repository, path)
    text = store.file_text(path)
    if text is None:
        raise NotFound(f"no file {path!r} is indexed in {repository.source.name}{_similar(repository, path)}")
    content, blob = text
    lines = whole_lines_of(content)
    if start > max(1, len(lines)):
        raise NotFound(f"{path} has {len(lines)} lines; there is no line {start}")
    last = len(lines) if end is None else min(end, len(lines))
    return Excerpt(
        path, start, last, len(lines), "".join(lines[start - 1 : last]), blob, store.commit, store.dirty
    )


def repository_path(repository: Repository, path: str) -> str:
    """Return the indexed path that a path means: it may be absolute inside the root, or begin with `./`.

    A path of no indexed file is returned unchanged. Nothing is opened.
    """
    known = repository.store.known_files()
    if path in known:
        return path
    root = repository.checkout.root
    absolute = os.path.normpath(root / path.removeprefix("file://"))
    for base in (str(root), os.path.realpath(root)):
        inside = os.path.relpath(absolute, base)
        if inside in known:
            return inside
    return path


def _similar(repository: Repository, path: str) -> str:
    name = path.rpartition("/")[2]
    alike = (p for p in repository.store.known_files() if p.rpartition("/")[2] == name and p != path)
    similar = sorted(alike)[:_NEAREST]
    return f"; did you mean {', '.join(similar)}?" if similar else ""
