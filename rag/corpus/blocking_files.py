"""Find the file for which git waits without end: a pipe in the place of `.gitignore`, a link to a device.

Git opens its own files whatever they are. No commit has a pipe, but an archive or a shared folder can.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from rag.resources import read_regular

_OPENED = frozenset({".gitignore", ".gitattributes", ".gitmodules", ".mailmap"})
"""Files of a work tree that git reads, in any folder; it follows no link there."""
_MAX_SECONDS = 3.0
_MAX_BYTES = 4096


def blocking_file(folder: Path) -> Path | None:
    """Return a file that blocks git in a folder of a repository; None if none is found within 3 seconds."""
    until = time.monotonic() + _MAX_SECONDS
    top = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)
    for repository in [folder] if top is None else _repository_folders(top / ".git"):
        for entry in _entries(repository, until):
            if not _is_plain(Path(entry.path)):
                return Path(entry.path)
    for entry in _entries(top or folder, until):
        if entry.name in _OPENED and not entry.is_symlink() and not _is_plain(Path(entry.path)):
            return Path(entry.path)
    return None


def _repository_folders(place: Path) -> Iterator[Path]:
    """Yield `.git` itself, or the folders that it names: of a work tree, and what all work trees share."""
    named = place if place.is_dir() else _named(place, "gitdir: ")
    if named is not None:
        yield named
        shared = _named(named / "commondir", "")
        if shared is not None:
            yield shared


def _named(file: Path, mark: str) -> Path | None:
    try:
        text = read_regular(file, max_bytes=_MAX_BYTES).decode().rstrip("\n")
    except (OSError, ValueError):
        return None
    return file.parent / text.removeprefix(mark) if text.startswith(mark) and "\0" not in text else None


def _entries(folder: Path, until: float) -> Iterator[os.DirEntry[str]]:
    """Yield the files below a folder, upper folders first, without following links to folders."""
    pending = [str(folder)]
    for path in pending:
        try:
            with os.scandir(path) as found:
                entries = list(found)
        except OSError:
            continue
        for entry in entries:
            if time.monotonic() > until:
                return
            if not entry.is_dir(follow_symlinks=False):
                yield entry
            elif entry.name != ".git":
                pending.append(entry.path)


def _is_plain(path: Path) -> bool:
    """Return whether a path, or what it is a link to, is a file, a folder, or nothing."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISSOCK(mode)
