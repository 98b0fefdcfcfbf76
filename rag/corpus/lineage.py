"""Read from git which files were renamed or deleted between two commits, along the first parents.

Each commit is compared with its first parent, so that a file is followed through every rename, however much
of it was edited in between: two trees far apart show neither. A merge counts as one commit. Git is limited in
time and in commits, and the result is cached in a folder, since commits never change.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rag.corpus.git import GitError, run_git
from rag.errors import SourceError
from rag.parsing import decompressed, parse_json
from rag.resources import make_private

MAX_SECONDS = 20.0
MAX_COMMITS = 20_000
"""Renames further back are not read."""
_LEAST_COMMITS = 256
_MAX_CACHED = 64
"""The number of cached ranges; the oldest is removed first."""
_RENAMES = ("-M", "-l400", "--diff-filter=RD")
_VERSION = 1

Event = tuple[str, str]
"""The old path of a file, and its new one; "" if it was deleted."""


@dataclass(slots=True)
class _Range:
    """The last commits of a branch, newest first, along the first parents, with the events of each.

    Events are known for the first commits only. `side_commits` has the position of commits that are
    ancestors but not first parents: the number of commits of the branch since them.
    """

    commits: list[str]
    events: list[list[Event]]
    side_commits: dict[str, int] = field(default_factory=dict)


class Lineage:
    """What became of the files of earlier commits, up to one commit.

    Args:
        root: a folder in a work tree or a clone.
        commit: the commit to follow files to.
        cache: a folder for what was read; None keeps it in memory only.
    """

    def __init__(self, root: Path, commit: str, cache: Path | None = None) -> None:
        self._root, self._commit, self._folder = root, commit, cache
        self._range: _Range | None = None
        self._failed = False
        self._followed: dict[str, Mapping[str, str] | None] = {}

    def since(self, commit: str, files: Mapping[str, str]) -> Mapping[str, str] | None:
        """Return the later path of each file that was renamed or deleted since a commit; "" if deleted.

        Args:
            commit: the earlier commit.
            files: its files by path.

        Returns:
            None if it is not known: the commit is not an ancestor (a rewritten branch), the clone is shallow
            or incomplete, or git took too long.
        """
        if commit not in self._followed:
            position = self._position(commit)
            events = self._events(position) if position is not None else None
            self._followed[commit] = None if events is None else _followed(events, files)
        return self._followed[commit]

    def _events(self, position: int) -> Iterator[list[Event]] | None:
        """Return the events of the last `position` commits, oldest first; None if git cannot read them."""
        known = self._range
        if known is None or self._failed:
            return None
        if len(known.events) < position:
            wanted = min(max(_LEAST_COMMITS, 1 << (position - 1).bit_length()), len(known.commits))
            try:
                known.events = _read_events(self._root, self._commit, known.commits[:wanted])
            except (GitError, SourceError):
                self._failed = True
                return None
            self._write()
        return reversed(known.events[:position])

    def _position(self, commit: str) -> int | None:
        """Return the number of commits since that one; None if it is not an ancestor."""
        try:
            known = self._range = self._range or self._cached() or self._listed()
            if commit in known.commits:
                return known.commits.index(commit)
            if commit not in known.side_commits:
                known.side_commits[commit] = self._count(commit)
                self._write()
        except (GitError, SourceError):
            return None
        return known.side_commits[commit] if 0 <= known.side_commits[commit] <= len(known.commits) else None

    def _count(self, commit: str) -> int:
        """Return the number of commits since one that is no first parent, -1 if it is no ancestor."""
        base = _git(self._root, "merge-base", "--end-of-options", commit, self._commit, ok_codes=(0, 1))
        if base.strip().decode() != commit:
            return -1
        return int(
            _git(self._root, "rev-list", "--first-parent", "--count", f"^{commit}", self._commit, "--")
        )

    def _listed(self) -> _Range:
        if _git(self._root, "rev-parse", "--is-shallow-repository").strip() == b"true":
            raise SourceError("it is a shallow clone")
        command = ["rev-list", "--first-parent", f"--max-count={MAX_COMMITS}", self._commit, "--"]
        return _Range(_git(self._root, *command).decode("ascii").split(), [])

    def _file(self) -> Path | None:
        if self._folder is None:
            return None
        name = hashlib.sha256(f"{self._root}\0{self._commit}".encode("utf-8", "surrogateescape")).hexdigest()
        return self._folder / f"{name[:32]}.lineage"

    def _cached(self) -> _Range | None:
        """Return what was written before; None if there is nothing, or nothing readable."""
        if (path := self._file()) is None:
            return None
        with suppress(OSError, ValueError, KeyError, TypeError, zlib.error):
            value: Any = parse_json(decompressed(path.read_bytes()))
            if value["version"] == _VERSION:
                events = [[(old, new) for old, new in each] for each in value["events"]]
                return _Range(value["commits"], events, value["side_commits"])
        return None

    def _write(self) -> None:
        """Write what is known, and remove the oldest of too many files. Failures only cost time later."""
        path, known = self._file(), self._range
        if path is None or known is None:
            return
        value = {
            "version": _VERSION,
            "commits": known.commits,
            "events": known.events,
            "side_commits": known.side_commits,
        }
        with suppress(OSError):
            make_private(path.parent)
            part = path.with_suffix(f".{os.getpid()}")
            part.write_bytes(zlib.compress(json.dumps(value).encode("utf-8"), 1))
            part.replace(path)
            files = sorted(path.parent.iterdir(), key=lambda one: one.stat().st_mtime)
            for old in files[:-_MAX_CACHED]:
                old.unlink(missing_ok=True)


def _git(root: Path, *arguments: str, ok_codes: Sequence[int] = (0,)) -> bytes:
    return run_git(arguments, cwd=root, timeout_s=MAX_SECONDS, ok_codes=ok_codes)


def _read_events(root: Path, commit: str, commits: Sequence[str]) -> list[list[Event]]:
    """Return the events of each of these commits: the last ones of a branch, newest first."""
    # A commit id follows the last path of the commit before it; a raw entry begins with a colon.
    shown = ["--format=%x00%H", "--raw", "-z", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--relative"]
    command = ["log", "-m", "--first-parent", *_RENAMES, *shown, f"--max-count={len(commits)}", commit, "--"]
    fields = _git(root, *command).decode("utf-8", "surrogateescape").split("\0")
    found: dict[str, list[Event]] = {}
    events: list[Event] = []
    at = 0
    while at < len(fields):
        word = fields[at].strip("\n")
        at += 1
        if word.startswith(":"):
            kind = word.rpartition(" ")[2]
            events.append((fields[at], fields[at + 1] if kind.startswith("R") else ""))
            at += 2 if kind.startswith("R") else 1
        elif word:
            events = found[word] = []
    return [found.get(one, []) for one in commits]


def _followed(events: Iterator[list[Event]], files: Mapping[str, str]) -> dict[str, str]:
    """Return where files are after events, oldest first; only those that are not at their path any more."""
    origin: dict[str, str] = {}  # of a present path, if it is not the same
    lost: set[str] = set()  # original paths that have another file, or none
    found: dict[str, str] = {}
    for commit in events:
        arriving = []
        for old, new in commit:
            first = origin.pop(old, "" if old in lost or old not in files else old)
            if first:
                lost.add(old)
                arriving.append((first, new))
        for first, new in arriving:
            found[first] = new
            if new:
                origin[new] = first
                if new in files:
                    lost.add(new)
    return found
