"""Find the files that ship with the package: templates, sample data, model tables, encodings.

An installed wheel has them in `rag/_shipped/`; a checkout and an editable install have them at the top of the
repository. Files that we write go to the user's folders.
"""

import errno
import os
import stat
import tempfile
from functools import cache
from pathlib import Path

from rag.errors import SettingsError

_MAX_SHOWN = 200
_PACKAGE = Path(__file__).resolve().parent


@cache
def shipped(name: str) -> Path:
    """Return the shipped folder or file `name` (for example "templates" or "data/encodings").

    Raises:
        FileNotFoundError: the installation is incomplete; reinstall the package.
    """
    for base in (_PACKAGE / "_shipped", _PACKAGE.parent):
        candidate = base / name
        if candidate.exists():
            return candidate
    raise FileNotFoundError(
        f"{name!r} is missing from this installation of rag (not in {_PACKAGE} or its parent); reinstall it"
    )


def packaged(name: str) -> Path:
    """Return the folder or file `name` of the package itself (for example "serve/page/static")."""
    return _PACKAGE / name


def user_path(path: Path | str, *, base: Path = Path()) -> Path:
    """Return the absolute path that a user wrote, relative to `base`, with `~` replaced by a user's folder.

    Raises:
        SettingsError: it cannot be a path, or there is no such user.
    """
    try:
        if "\0" in str(path):
            raise ValueError("it has a NUL")
        return (base / Path(path).expanduser()).absolute()
    except (OSError, RuntimeError, ValueError) as error:
        raise SettingsError(f"{str(path)[:_MAX_SHOWN]!r} cannot be used as a path: {error}") from error


def is_file(path: Path | str) -> bool:
    """Return whether such a file exists; False for a path that is not possible."""
    try:
        return Path(path).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):
        return False


def is_folder(path: Path | str) -> bool:
    """Return whether such a folder exists; False for any other text, such as a question, of any length."""
    try:
        return Path(path).expanduser().is_dir()
    except (OSError, RuntimeError, ValueError):
        return False


def read_regular(path: Path, *, max_bytes: int) -> bytes:
    """Return the bytes of a file that others may have placed there: opening it never blocks.

    Raises:
        OSError: it cannot be read, is no regular file (a pipe, a device), or is larger than `max_bytes`.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        with os.fdopen(os.dup(descriptor), "rb") as file:
            content = b"" if status.st_size > max_bytes else file.read(status.st_size + 1)
    finally:
        os.close(descriptor)
    if max(status.st_size, len(content)) > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {max_bytes:,} bytes", str(path))
    return content


def template_path(home: Path, name: str) -> Path:
    """Return the user's own template of this name, else the shipped one."""
    own = home / "templates" / f"{name}.j2"
    return own if own.is_file() else shipped("templates") / f"{name}.j2"


def sync_to_disk(path: Path) -> None:
    """Wait until a file's bytes, or a folder's entries, are on the disk. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of the file or folder at a path; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, for this user only, whatever the umask. Raises OSError."""
    if not folder.is_dir():
        make_private(folder.parent)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError as error:  # a file, or a link to nothing
            raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder", str(folder)) from error


def replace_file(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write a file atomically, and create its folder if it is missing. Raises OSError."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
