"""Where the files that ship with us lie: templates, sample data, model tables, encodings.

An installed wheel carries them in `rag/_shipped/`; a checkout and an editable install have them
beside the package, at the top of the repository. What we write lies in folders of the user's own.
"""

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


@cache
def shipped(name: str) -> Path:
    """Return the folder or file `name` (for example "templates" or "data/encodings") that ships with us.

    Raises:
        FileNotFoundError: the installation is incomplete; reinstalling mends it.
    """
    for base in (_PACKAGE / "_shipped", _PACKAGE.parent):
        candidate = base / name
        if candidate.exists():
            return candidate
    raise FileNotFoundError(
        f"{name!r} is missing from this installation of rag (looked in and beside {_PACKAGE}); reinstall it"
    )


def packaged(name: str) -> Path:
    """Return the folder or file `name` of the package itself (for example "serve/page/static")."""
    return _PACKAGE / name


def is_file(path: Path | str) -> bool:
    """Whether there is such a file, whatever the path is: one that no file can have is that of none."""
    try:
        return Path(path).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):
        return False


def is_folder(path: Path | str) -> bool:
    """Whether there is such a folder, whatever the path is; a question is none, however long it is."""
    try:
        return Path(path).expanduser().is_dir()
    except (OSError, RuntimeError, ValueError):
        return False


def make_private(folder: Path) -> None:
    """Make a folder and its missing parents, for this user only, whatever the umask. Raises OSError."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
