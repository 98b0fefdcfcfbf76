"""Find the commit that last changed each file, in one walk over the history."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from rag.corpus.git import GitError, run_git
from rag.errors import SourceError

_MAX_COMMITS = 20_000
_MAX_SECONDS = 20.0
_CHANGE = re.compile(r":\d+ \d+ [0-9a-f]+ ([0-9a-f]+) [A-Z]\d*")


def last_changes(root: Path, commit: str, blobs: Mapping[str, str]) -> dict[str, str]:
    """Return the last commit, on the first parents of a commit, that gave each file its content, by path.

    Files whose change is further back than 20,000 commits, whose blob id differs there, or that are read from
    a folder without git, are left out. What a merge brings is a change by the merge.
    """
    try:
        changes = _changes(root, commit)
    except (GitError, SourceError):
        return {}
    return {
        path: found[0] for path, blob in blobs.items() if (found := changes.get(path)) and found[1] == blob
    }


@lru_cache(maxsize=4)
def _changes(root: Path, commit: str) -> Mapping[str, tuple[str, str]]:
    """Return commit and blob id of the last change of each path."""
    shown = ["--format=%x01%H", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff", "--relative"]
    walked = ["--first-parent", "-m", f"--max-count={_MAX_COMMITS}", commit, "--", "."]
    output = run_git(["log", *shown, *walked], cwd=root, timeout_s=_MAX_SECONDS)
    found: dict[str, tuple[str, str]] = {}
    current, blob = "", ""
    for part in output.decode("utf-8", "surrogateescape").split("\0"):
        text = part.lstrip("\n")
        if text.startswith("\x01"):
            current, _, text = text[1:].partition("\n")
            text = text.lstrip("\n")
        if match := _CHANGE.fullmatch(text):
            blob = match[1]
        elif text and blob:
            found.setdefault(text, (current, blob))
            blob = ""
    return found
