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
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rag.corpus.git import GitError, run_git
from rag.corpus.history import is_shallow
from rag.errors import SourceError
from rag.parsing import decompressed, parse_json
from rag.resources import make_private

MAX_SECONDS = 60.0
MAX_COMMITS = 20_000
"""Renames further back are not read."""
_LEAST_COMMITS = 256
_MAX_REUSED = 4
"""How many cached ranges are looked at for one that ends a little earlier."""
_MAX_CACHED = 64
"""The number of cached ranges; the oldest is removed first."""
_RENAMES = ("-l400", "--diff-filter=RD")
_MAX_SPLITS = 256
_MAX_ANCESTORS = 400_000
"""Of how many commits the parents are read to find where others branched off."""
_VERSION = 2

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

    What cannot be read is not known; `problem` then says why it could not.
    """

    def __init__(self, root: Path, commit: str, cache: Path | None = None) -> None:
        self._root, self._commit, self._folder = root, commit, cache
        self._range: _Range | None = None
        self._failed = False
        self.problem = ""
        self._followed: dict[str, Mapping[str, str] | None] = {}
        self._ended: dict[str, list[tuple[int, str]]] | None = None

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
            position = self.positions([commit]).get(commit)
            events = self._events(position) if position is not None else None
            self._followed[commit] = None if events is None else _followed(events, files)
        return self._followed[commit]

    def ended(self) -> Mapping[str, list[tuple[int, str]]]:
        """Return when each path was renamed or deleted, newest first, and its new path then, "" if deleted.

        The number is that of the commits since then, 0 for the last one (`commit_of`). Empty if git does not
        say.
        """
        if self._ended is None:
            self._ended = {}
            commits = self._known_commits()
            known = self._events(len(commits)) or iter(())
            for number, events in enumerate(reversed([*known])):
                for old, new in events:
                    self._ended.setdefault(old, []).append((number, new))
        return self._ended

    def names_of(self, path: str) -> set[str]:
        """Return a path and all earlier names of the files that were there."""
        former: dict[str, list[str]] = {}
        for old, events in self.ended().items():
            for _, new in events:
                former.setdefault(new, []).append(old)
        names, waiting = {path}, [path]
        while waiting:
            more = set(former.get(waiting.pop(), ())) - names
            names |= more
            waiting += more
        return names

    def became(self, path: str, number: int) -> tuple[str, int]:
        """Return the last path of a file after the event with this number, and the number of its last event.

        The path is "" if it was deleted.
        """
        last = path, number
        for at, _, new in self.moves(path, number):
            last = new, at - 1 if new else at
        return last

    def moves(self, path: str, number: int) -> Iterator[tuple[int, str, str]]:
        """Yield the event of a file with this number and those after it, as number, old path, new path."""
        ended, limit = self.ended(), number
        while path:
            events = ended.get(path, [])
            at = bisect_right(events, limit, key=lambda event: event[0]) - 1
            if at < 0:
                return
            number, new = events[at]
            yield number, path, new
            path, limit = new, number - 1

    def commit_of(self, number: int) -> str:
        """Return the commit along the first parents with this many after it; "" if there is none."""
        commits = self._known_commits()
        return commits[number] if 0 <= number < len(commits) else ""

    def positions(self, commits: Collection[str]) -> dict[str, int]:
        """Return the number of commits along the first parents since each of these; unknown ones are left
        out.
        """
        known = {commit: number for number, commit in enumerate(self._known_commits())}
        found = self._range.side_commits if self._range else {}
        if self._range and any(one not in known and one not in found for one in commits):
            branched = self._branched(known, set(commits))
            if branched is not None:
                found |= dict.fromkeys(set(commits) - known.keys(), -1) | branched
                self._write()
        numbers = {one: known.get(one, found.get(one, -1)) for one in commits}
        return {one: number for one, number in numbers.items() if number >= 0}

    def _branched(self, known: Mapping[str, int], wanted: set[str]) -> dict[str, int] | None:
        """Return the positions of commits of side branches, from one list of all; None if git fails."""
        command = ["rev-list", "--topo-order", "--parents", f"--max-count={_MAX_ANCESTORS}", self._commit]
        try:
            rows = _git(self._root, *command, "--").decode("ascii").splitlines()
        except (GitError, SourceError) as error:
            self.problem = str(error)
            return None
        numbers: dict[str, int] = dict(known)
        for row in reversed(rows):
            commit, *parents = row.split(" ")
            if commit not in numbers:
                numbers[commit] = min((numbers.get(one, len(known)) for one in parents), default=len(known))
        return {one: numbers[one] for one in wanted if one in numbers and one not in known}

    def _known_commits(self) -> list[str]:
        try:
            self._range = self._range or self._cached() or self._listed()
        except (GitError, SourceError) as error:
            self.problem = str(error)
            return []
        return self._range.commits

    def _events(self, position: int) -> Iterator[list[Event]] | None:
        """Return the events of the last `position` commits, oldest first; None if git cannot read them."""
        known = self._range
        if known is None or self._failed:
            return None
        if len(known.events) < position:
            wanted = min(max(_LEAST_COMMITS, 1 << (position - 1).bit_length()), len(known.commits))
            try:
                known.events = self._read(known.commits[:wanted])
            except (GitError, SourceError) as error:
                self._failed, self.problem = True, str(error)
                return None
            self._write()
        return reversed(known.events[:position])

    def _read(self, commits: list[str]) -> list[list[Event]]:
        """Return the events of the last commits, from git only those that no cached file has."""
        for path in self._recent():
            if (before := _of_file(path, self._root)) and before.commits[0] in commits:
                new = commits.index(before.commits[0])
                if new + len(before.events) >= len(commits):
                    return [*_read_events(self._root, commits[:new]), *before.events][: len(commits)]
        return _read_events(self._root, commits)

    def _recent(self) -> list[Path]:
        """Return the cached files that were last written, newest first."""
        if self._folder is None:
            return []
        with suppress(OSError):
            files = sorted(self._folder.glob("*.lineage"), key=lambda one: -one.stat().st_mtime)
            return files[:_MAX_REUSED]
        return []

    def _listed(self) -> _Range:
        if is_shallow(self._root):
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
        path = self._file()
        return None if path is None else _of_file(path, self._root)

    def _write(self) -> None:
        """Write what is known, and remove the oldest of too many files. Failures only cost time later."""
        path, known = self._file(), self._range
        if path is None or known is None:
            return
        value = {
            "version": _VERSION,
            "root": os.fsencode(self._root).hex(),
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


def _of_file(path: Path, root: Path) -> _Range | None:
    """Return what a file has about a folder; None if it cannot be read, or is about another one."""
    with suppress(OSError, ValueError, KeyError, TypeError, zlib.error):
        value: Any = parse_json(decompressed(path.read_bytes()))
        if value["version"] == _VERSION and value["root"] == os.fsencode(root).hex() and value["commits"]:
            events = [[(old, new) for old, new in each] for each in value["events"]]
            return _Range(value["commits"], events, value["side_commits"])
    return None


def _git(root: Path, *arguments: str, ok_codes: Sequence[int] = (0,)) -> bytes:
    return run_git(arguments, cwd=root, timeout_s=MAX_SECONDS, ok_codes=ok_codes)


def _read_events(root: Path, commits: Sequence[str]) -> list[list[Event]]:
    """Return the events of each of these commits: they follow each other along a branch, newest first.

    Git fails on files that a partial clone does not have. Of commits with such files, or with too many to
    find them, only renames of equal bytes are known.
    """
    found: list[list[Event]] = []
    parts = [commits] if commits else []
    splits = _MAX_SPLITS
    while parts:
        part = parts.pop()
        try:
            found += _compared(root, part, "-M")
        except GitError:
            half = len(part) // 2
            if half and splits:
                parts += [part[half:], part[:half]]
                splits -= 1
            else:
                found += _compared(root, part, "-M100%")
    return found


def _compared(root: Path, commits: Sequence[str], similar: str) -> list[list[Event]]:
    # A commit id follows the last path of the commit before it; a raw entry begins with a colon.
    shown = ["--format=%x00%H", "--raw", "-z", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--relative"]
    command = [
        "log",
        "-m",
        "--first-parent",
        similar,
        *_RENAMES,
        *shown,
        f"--max-count={len(commits)}",
        commits[0],
        "--",
    ]
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
