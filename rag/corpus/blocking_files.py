"""Find the file for which git waits without end: a pipe in the place of `.gitignore`, a link to a device.

Git opens its own files, and those that a repository's settings name (`include.path`, `core.excludesFile`),
whatever they are, and reads them whole. No commit has a pipe, but an archive or a shared folder can.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from rag.resources import read_regular

_OPENED = frozenset({".gitignore", ".gitattributes", ".gitmodules", ".mailmap"})
"""Files of a work tree that git reads, in any folder; it follows no link there."""
_SETTINGS = ("config", "config.worktree")
_SETTING = re.compile(r"^[ \t]*(?:\[[^\n]*\][ \t]*)?([a-zA-Z][\w-]*)[ \t]*=[ \t]*(\S[^\n]*)", re.MULTILINE)
_READ_WHOLE = re.compile(
    r"HEAD|commondir|config(\.worktree)?|shallow|info/\w[\w-]*|objects/info/alternates|refs/.*"
)
"""Files of a repository that are never large, by their paths in it."""
_READ_SETTINGS = frozenset({"path", "excludesfile", "attributesfile", "ignorerevsfile"})
"""Names of settings whose values are files that git reads whole."""
_OBJECTS = ("info", "pack", *(f"{number:02x}" for number in range(256)))
"""The folders of a store of objects that git reads."""
_MAX_STORES = 100
_MAX_ALTERNATES_BYTES = 1 << 20
_MAX_READ_BYTES = 64 << 20
_MAX_SECONDS = 3.0
_MAX_BYTES = 4096
_MAX_SETTINGS_BYTES = 1 << 20


def blocking_file(folder: Path) -> Path | None:
    """Return a file that blocks git in a folder of a repository; None if none is found within 3 seconds.

    It is no file (a pipe, a device), or has more than 64 MB.
    """
    until = time.monotonic() + _MAX_SECONDS
    top = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)
    repositories = [folder] if top is None else list(_repository_folders(top / ".git"))
    for named, is_read in _files_of_settings(repositories, top or folder, until):
        if not _is_plain(named) or (is_read and _is_large(named)):
            return named
    for repository in repositories:
        for entry in _entries(repository, until):
            path = Path(entry.path)
            is_whole = _READ_WHOLE.fullmatch(path.relative_to(repository).as_posix()) is not None
            if not _is_plain(path) or (is_whole and _is_large(path)):
                return path
    for store in _alternate_stores(repositories):
        for name in _OBJECTS:
            for entry in _entries(store / name, until):
                path = Path(entry.path)
                if not _is_plain(path) or (entry.name == "alternates" and _is_large(path)):
                    return path
    for entry in _entries(top or folder, until):
        path = Path(entry.path)
        if entry.name in _OPENED and not entry.is_symlink() and (not _is_plain(path) or _is_large(path)):
            return path
    return None


def _repository_folders(place: Path) -> Iterator[Path]:
    """Yield `.git` itself, or the folders that it names: of a work tree, and what all work trees share."""
    named = place if place.is_dir() else _named(place, "gitdir: ")
    if named is not None:
        yield named
        shared = _named(named / "commondir", "")
        if shared is not None:
            yield shared


def _alternate_stores(repositories: Sequence[Path]) -> Iterator[Path]:
    """Yield the stores of objects that repositories borrow from, and those that these borrow from."""
    own = [repository / "objects" for repository in repositories]
    stores = list(own)
    for store in stores:
        try:
            text = read_regular(store / "info/alternates", max_bytes=_MAX_ALTERNATES_BYTES)
        except (OSError, ValueError):
            continue
        for line in text.split(b"\n"):
            named = store / os.fsdecode(line.strip(b'"'))
            if line and not line.startswith(b"#") and named not in stores and len(stores) < _MAX_STORES:
                stores.append(named)
    yield from stores[len(own) :]


def _files_of_settings(repositories: Sequence[Path], top: Path, until: float) -> Iterator[tuple[Path, bool]]:
    """Yield what the values of settings, and of the settings that they include, name if they are paths.

    With each, whether git reads it whole.
    """
    files = [repository / name for repository in repositories for name in _SETTINGS]
    seen = set(files)
    for file in files:
        try:
            text = read_regular(file, max_bytes=_MAX_SETTINGS_BYTES).decode("utf-8", "replace")
        except (OSError, ValueError):
            continue
        for name, value in _SETTING.findall(text):
            if time.monotonic() > until:
                return
            path = Path(value.strip().strip('"'))
            with suppress(RuntimeError):  # there is no such user
                path = path.expanduser()
            for base in (top, file.parent):
                yield base / path, name.lower() in _READ_SETTINGS
            if name.lower() == "path" and (included := file.parent / path) not in seen:
                seen.add(included)
                files.append(included)


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
    """Return whether a path, or what it is a link to, is a file, a folder, nothing, or /dev/null."""
    try:
        mode = path.stat().st_mode
        return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISSOCK(mode) or path.samefile(os.devnull)
    except (OSError, ValueError):  # a value with NUL is no path
        return True


def _is_large(path: Path) -> bool:
    try:
        return path.stat().st_size > _MAX_READ_BYTES
    except (OSError, ValueError):
        return False
