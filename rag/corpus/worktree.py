"""Whether git speaks for a folder: the cheap questions, answered from the file system."""

from __future__ import annotations

from pathlib import Path

from rag.corpus.git import GitError, run_git


def is_bare(folder: Path) -> bool:
    """Whether the folder is itself a bare repository, which holds no files to read."""
    return (
        all((folder / part).exists() for part in ("HEAD", "objects", "refs"))
        and not (folder / ".git").exists()
    )


def work_tree(folder: Path) -> Path | None:
    """The top of the git work tree the folder belongs to; None when it belongs to none.

    A folder that the enclosing repository ignores (a build folder, an environment) belongs to none: what
    that repository knows says nothing about it.
    """
    for top in (folder, *folder.parents):
        if (top / ".git").exists():
            return top if top == folder or not _is_ignored(folder) else None
    return None


def _is_ignored(folder: Path) -> bool:
    try:
        return bool(run_git(["check-ignore", "."], cwd=folder, answer=(0, 1)))
    except GitError:
        return False
