"""Cheap checks, from the file system, of whether git manages a folder."""

from __future__ import annotations

from pathlib import Path

from rag.corpus.git import GitError, run_git


def is_bare(folder: Path) -> bool:
    """Return whether the folder is itself a bare repository, which has no files to read."""
    return (
        all((folder / part).exists() for part in ("HEAD", "objects", "refs"))
        and not (folder / ".git").exists()
    )


def work_tree(folder: Path) -> Path | None:
    """Return the top of the git work tree that the folder belongs to; None when it belongs to none.

    A folder that the enclosing repository ignores (a build folder, an environment) belongs to none: that
    repository does not describe it.
    """
    for top in (folder, *folder.parents):
        if (top / ".git").exists():
            return top if top == folder or not _is_ignored(folder) else None
    return None


def git_folder(folder: Path) -> str:
    """Return the folder of a work tree's repository, which all its work trees share; "" if there is none."""
    try:
        found = run_git(["rev-parse", "--path-format=absolute", "--git-common-dir"], cwd=folder)
    except GitError:
        return ""
    return found.decode("utf-8", "surrogateescape").rstrip("\n")


def current_branch(folder: Path) -> str:
    """Return the branch that is checked out in a work tree; "" if it is none."""
    try:
        found = run_git(["symbolic-ref", "--quiet", "--short", "HEAD"], cwd=folder, ok_codes=(0, 1))
    except GitError:
        return ""
    return found.decode("utf-8", "surrogateescape").rstrip("\n")


def _is_ignored(folder: Path) -> bool:
    try:
        return bool(run_git(["check-ignore", "."], cwd=folder, ok_codes=(0, 1)))
    except GitError:
        return False
