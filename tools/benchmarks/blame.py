"""The judge of the stale-memory benchmark: `git blame` traces each line of a commit to its old place.

Of two commits a third is made, with the files of the later one and the earlier one as its only parent, so
that blame compares the two directly and every line it does not trace back is new.

Blame takes one of several equal lines ("return None", a blank one) for another, also within a block that it
traces as a whole. So a line that stands more than once in its old file need only have its old text, where
the lines around it are traced; every other line must be traced to exactly its old place.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

Place = tuple[str, int]
"""A path, and a line from 1."""


_DATE = "2026-01-01T12:00:00+00:00"


def git(folder: Path, *arguments: str) -> bytes:
    """What git prints; what it commits has the same id in every run."""
    identity = ["-c", "user.name=benchmark", "-c", "user.email=benchmark@example.org"]
    return subprocess.run(
        ["git", *identity, *arguments],
        cwd=folder,
        env={**os.environ, "GIT_AUTHOR_DATE": _DATE, "GIT_COMMITTER_DATE": _DATE},
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ).stdout


@dataclass
class Traced:
    """Where the lines of the old commit's files stand in the new one, as blame sees it."""

    old: Mapping[str, list[bytes]]
    new: Mapping[str, list[bytes]]
    origin: dict[Place, Place] = field(default_factory=dict)
    places: dict[Place, list[Place]] = field(default_factory=lambda: defaultdict(list))

    def intact(self, path: str, start: int, end: int) -> set[Place]:
        """The places at which the whole span stands now, line behind line; empty when it was changed."""
        rows = range(end - start + 1)
        begins = {(now, at - row) for row in rows for now, at in self.places.get((path, start + row), ())}
        return {begin for begin in begins if all(self._is(path, start + row, begin, row) for row in rows)}

    def _is(self, path: str, line: int, begin: Place, row: int) -> bool:
        now, at = begin[0], begin[1] + row
        if self.origin.get((now, at)) == (path, line):
            return True
        text, lines = self.old[path][line - 1], self.new[now]
        return 1 <= at <= len(lines) and lines[at - 1] == text and self.old[path].count(text) > 1


def trace(
    clone: Path, old: str, new: str, before: Mapping[str, list[bytes]], after: Mapping[str, list[bytes]]
) -> Traced:
    """Trace every line of the files in `after`, which differ in the new commit, back to the old one.

    `before` and `after` are the lines of the files that differ, by path.
    """
    child = git(clone, "commit-tree", f"{new}^{{tree}}", "-p", old, "-m", "new").decode().strip()
    traced = Traced(before, after)
    for path in after:
        blame = git(clone, "blame", "--porcelain", "-M", "-C", f"{old}..{child}", "--", path)
        for now, origin in _lines(path, blame, old):
            traced.origin[now] = origin
            traced.places[origin].append(now)
    return traced


def _lines(path: str, blame: bytes, old: str) -> list[tuple[Place, Place]]:
    found = []
    named: dict[str, str] = {}
    commit, old_row, new_row = "", 0, 0
    for line in blame.split(b"\n"):
        if line.startswith(b"\t"):
            if commit == old:
                found.append(((path, new_row), (named[commit], old_row)))
        elif line.startswith(b"filename "):
            named[commit] = line[9:].decode("utf-8", "surrogateescape")
        elif len(parts := line.split(b" ")) >= 3 and len(parts[0]) == 40 and parts[1].isdigit():
            commit, old_row, new_row = parts[0].decode(), int(parts[1]), int(parts[2])
    return found
