"""The repositories in a folder, each with its own history."""

from __future__ import annotations

from pathlib import Path

from rag.corpus.worktree import is_bare
from rag.errors import SourceError, SourceNotFound
from rag.service.engine import locate
from rag.types import Source


def repositories_in(folder: Path) -> list[tuple[str, Source]]:
    """Return the git repositories directly in a folder, by name; the folder itself where it is one.

    A name is that of the subfolder, of a bare repository without `.git`.

    Raises:
        SourceNotFound: there is no such folder, or no repository in it.
        SourceError: the folder cannot be read.
    """
    if not folder.is_dir():
        raise SourceNotFound(f"there is no folder {folder}")
    if _is_repository(folder):
        source = locate(str(folder))
        return [(source.name, source)]
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError as error:
        raise SourceError(f"{folder} cannot be read: {error.strerror}") from error
    found = [(path.name.removesuffix(".git"), locate(str(path))) for path in inside if _is_repository(path)]
    if not found:
        raise SourceNotFound(
            f"none of the {len(inside)} folders in {folder} is a git repository; clone one into it, or name "
            "folders without history with --repo"
        )
    return found


def _is_repository(folder: Path) -> bool:
    return (folder / ".git").exists() or is_bare(folder)
