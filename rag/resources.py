"""Find the files that ship with the package: templates, sample data, model tables, encodings.

An installed wheel has them in `rag/_shipped/`; a checkout and an editable install have them at the top of the
repository. Files that we write go to the user's folders.
"""

from functools import cache
from pathlib import Path

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


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, for this user only, whatever the umask. Raises OSError."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
