"""Find the commit that last changed each file, in one walk over the history."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from rag.corpus.git import GitError
from rag.corpus.named_history import changes
from rag.errors import SourceError


def last_changes(root: Path, commit: str, blobs: Mapping[str, str]) -> dict[str, str]:
    """Return the last commit, on the first parents of a commit, that gave each file its content, by path.

    Files whose change is further back than 20,000 commits, whose blob id differs there, or that are read from
    a folder without git, are left out. What a merge brings is a change by the merge.
    """
    try:
        found_at = _changes(root, commit)
    except (GitError, SourceError):
        return {}
    return {
        path: found[0] for path, blob in blobs.items() if (found := found_at.get(path)) and found[1] == blob
    }


@lru_cache(maxsize=4)
def _changes(root: Path, commit: str) -> Mapping[str, tuple[str, str]]:
    """Return commit and blob id of the last change of each path."""
    found: dict[str, tuple[str, str]] = {}
    for current, path, _, blob in changes(root, commit, ["."]):
        found.setdefault(path, (current, blob))
    return found
