"""Finds the git repositories in a folder."""

from __future__ import annotations

from pathlib import Path

from rag.corpus.worktree import is_bare
from rag.errors import SourceError, SourceNotFound
from rag.service.repositories.named_sources import locate
from rag.types import Source


def repositories_in(folder: Path) -> list[tuple[str, Source]]:
    """Return the git repositories directly in a folder, by name; or the folder itself if it is one.

    The name is that of the subfolder; for a bare repository, without `.git`.

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
            "folders without git history with --repo"
        )
    return found


def _is_repository(folder: Path) -> bool:
    return (folder / ".git").exists() or is_bare(folder)
