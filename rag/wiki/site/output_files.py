"""The files of a wiki's folder, which may have come with the repository: nothing outside of it is touched.

A name is a path below the folder. Links are never followed, pipes and devices never opened, large files never
read: each is an error that names it, because what is written there could not be trusted afterwards.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rag.errors import WikiUnwritable
from rag.resources import read_regular, replace_file

MAX_BYTES = 16_000_000
"""The size of the largest file that is read, such as a page that was edited by hand."""


class OutputFiles:
    """Reads, writes and removes the files below one folder. All methods raise WikiUnwritable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def exists(self, name: str) -> bool:
        """Return whether there is such a file. A link, a folder or a pipe in its place is an error."""
        return self._status(self.folder / _checked(name), stat.S_ISREG, "a file") is not None

    def read(self, name: str, *, max_bytes: int = MAX_BYTES) -> str | None:
        """Return the text of a file, in any encoding, with line ends of Unix; None if there is none."""
        content = self.read_bytes(name, max_bytes=max_bytes)
        if content is None:
            return None
        return content.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")

    def read_bytes(self, name: str, *, max_bytes: int = MAX_BYTES) -> bytes | None:
        """Return the content of a file; None if there is none."""
        if not self.exists(name):
            return None
        try:
            return read_regular(self.folder / name, max_bytes=max_bytes)
        except OSError as error:
            raise WikiUnwritable(
                f"{self.folder / name} cannot be read: {error.strerror or error}; remove it"
            ) from error

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file atomically, and create its folder if it is missing."""
        self.exists(name)
        path = self.folder / name
        try:
            replace_file(path, content)
        except OSError as error:
            raise WikiUnwritable(f"cannot write {path}: {error}; choose another folder with -o") from error

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        if self.exists(name):
            try:
                (self.folder / name).unlink(missing_ok=True)
            except OSError as error:
                raise WikiUnwritable(f"cannot remove {self.folder / name}: {error.strerror}") from error

    def is_empty(self, name: str) -> bool:
        """Return whether a folder is missing or empty."""
        path = self.folder / _checked(name)
        try:
            return self._status(path, stat.S_ISDIR, "a folder") is None or not any(path.iterdir())
        except OSError as error:
            raise WikiUnwritable(f"{path} cannot be read: {error.strerror}") from error

    def _status(self, path: Path, is_wanted: object, wanted: str) -> os.stat_result | None:
        """Return the status of a path below the folder, None if it is missing."""
        found = None
        below = path.relative_to(self.folder).parents
        for part in [*(self.folder / parent for parent in reversed(below) if parent.name), path]:
            try:
                found = part.lstat()
            except FileNotFoundError:
                return None
            except OSError as error:
                raise WikiUnwritable(f"{part} cannot be read: {error.strerror}") from error
            if stat.S_ISLNK(found.st_mode):
                raise WikiUnwritable(
                    f"{part} is a symbolic link, which could lead out of the wiki's folder; remove it, or "
                    "choose another folder with -o"
                )
            is_right = is_wanted if part is path else stat.S_ISDIR
            if not is_right(found.st_mode):  # type: ignore[operator]
                raise WikiUnwritable(
                    f"{part} is not {wanted if part is path else 'a folder'}; remove it, or choose another "
                    "folder with -o"
                )
        return found


def is_below(name: object) -> bool:
    """Return whether a value is a path below a folder, in the form in which the names are recorded."""
    return (
        isinstance(name, str)
        and not any(part in ("", ".", "..") for part in name.split("/"))
        and not any(sign in name for sign in "\\\0:")
    )


def _checked(name: str) -> str:
    if not is_below(name):
        raise WikiUnwritable(f"{name!r} is not the name of a file of a wiki")
    return name
