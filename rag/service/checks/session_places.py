"""Finds the lines that recorded sessions read and edited, in the history of a repository.

A file that was read is cited as it was in the newest commit before that time. What an edit wrote is searched
for in the commits after it, in their order, then in the folder, and cited where it is found; only lines that
the edit changed count. If it is found nowhere, the lines that it replaced are cited, as of before.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import NamedTuple

from rag.corpus.git import GitError
from rag.corpus.history import first_parents, present, read_blobs
from rag.corpus.named_history import changes
from rag.corpus.read import file_bytes
from rag.corpus.secrets import find_secret
from rag.corpus.skip import SECRET, reason_by_name
from rag.errors import SourceError
from rag.lines import lines_of
from rag.memory.anchor import LEAST_MOVED, align, letters
from rag.ports import SessionEvent
from rag.service.checks.snapshots import FolderState
from rag.types import Checkout, Citation, Span, blob_id

_MAX_COMMITS = 500_000
_LATER_VERSIONS = 4
"""In how many versions after an edit it is searched for."""
_MAX_OCCURRENCES = 50
_MAX_CITATIONS = 300
_MAX_EDIT_CHARS = 1 << 20

Ranges = list[tuple[int, int]]


class _Version(NamedTuple):
    """A version of a file. `is_committed` is False for that in the folder."""

    commit: str
    blob: str
    is_committed: bool = True


class _Found(NamedTuple):
    path: str
    version: _Version
    ranges: Ranges
    is_edit: bool


class SessionPlaces:
    """The places of one repository.

    Args:
        state: the folder in its current state.
    """

    def __init__(self, state: FolderState) -> None:
        self._state = state
        commits = first_parents(state.root, _MAX_COMMITS)[::-1] if state.commit else []
        self._commits = [commit for commit, _, _ in commits]
        newest_first = (made.timestamp() for _, made, _ in reversed(commits))
        self._times = list(accumulate(newest_first, min))[::-1]
        self._versions: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._contents: dict[str, bytes] = {}
        self._texts: dict[str, str] = {}
        self._folder: dict[str, str] = {}
        self._paths: dict[str, set[str]] = defaultdict(set)
        self._read_versions()
        self._present = present(Checkout(state.source, state.root, state.commit or None)).files

    def _read_versions(self) -> None:
        number = {commit: n for n, commit in enumerate(self._commits)}
        with suppress(GitError, SourceError):  # without them, the folder is what is compared
            for commit, path, _, blob in changes(self._state.root, "HEAD", ["."]) if number else ():
                self._versions[path].append((number.get(commit, -1), blob if blob.strip("0") else ""))
        for versions in self._versions.values():
            versions.reverse()

    def position(self, event: SessionEvent) -> int:
        """Return how many commits there were when something was read or edited."""
        if len(event.commit) >= 7:
            for n in range(len(self._commits) - 1, -1, -1):
                if self._commits[n].startswith(event.commit):
                    return n
        if event.time is None:
            return len(self._commits)
        return bisect_right(self._times, event.time.timestamp())

    def expect(self, events: Iterable[tuple[SessionEvent, str]]) -> None:
        """Read all versions in which events, given with their paths, may be found; forget those before."""
        for known in (self._contents, self._texts, self._folder):
            known.clear()
        wanted = {
            one.blob
            for event, path in events
            for one in (*self._later(event, path), self._before(event, path))
            if one and one.is_committed
        }
        self._contents |= read_blobs(self._state.root, wanted)

    def cited(self, events: Sequence[tuple[SessionEvent, str]]) -> tuple[tuple[Citation, ...], list[int]]:
        """Return the places that one turn read and edited, and the numbers of those that it edited.

        A file that was read as a whole is only counted as used if nothing was edited.
        """
        edits = [one for event, path in events if event.kind == "edit" for one in self._edited(event, path)]
        changed = {one.path for one in edits if one.is_edit}
        reads = [self._read(event, path) for event, path in events if event.kind == "read"]
        found = [*edits, *(one for one in reads if one and one.path not in changed)]
        found.sort(key=lambda one: not one.is_edit)
        merged: dict[tuple[str, _Version, bool], Ranges] = {}
        for one in found:
            merged.setdefault((one.path, one.version, one.is_edit), []).extend(one.ranges)
        places = [
            (path, version, lines, is_edit)
            for (path, version, is_edit), ranges in merged.items()
            for lines in _union(ranges)
        ][:_MAX_CITATIONS]
        citations = tuple(
            self._citation(
                n, path, version, lines, is_used=not changed or is_edit or not self._is_whole(version, lines)
            )
            for n, (path, version, lines, is_edit) in enumerate(places, start=1)
        )
        return citations, [n for n, one in enumerate(places, start=1) if one[3]]

    def contents(self, blobs: Collection[str]) -> dict[str, bytes]:
        """Return the bytes of versions that were cited, without those that hold a likely secret."""
        return {
            blob: content
            for blob, content in self._contents.items()
            if blob in blobs and not any(self._is_secret(blob, path) for path in self._paths[blob])
        }

    # ------------------------------------------------------------ versions

    def _later(self, event: SessionEvent, path: str) -> Iterator[_Version]:
        """Yield the versions after an edit, oldest first, then the one in the folder."""
        if event.kind != "edit":
            return
        versions = self._versions.get(path, [])
        first = bisect_left(versions, (self.position(event), ""))
        for number, blob in versions[first : first + _LATER_VERSIONS]:
            if blob:
                yield _Version(self._commits[number], blob)
        blob = self._in_folder(path)
        if blob and (not versions or versions[-1][1] != blob):
            yield _Version(self._state.commit, blob, is_committed=False)

    def _in_folder(self, path: str) -> str:
        """Return the blob id of a file that git does not ignore, which is then read; "" if there is none."""
        if path not in self._folder:
            content = file_bytes(self._state.root, path) if path in self._present else None
            self._folder[path] = "" if content is None else blob_id(content)
            if content is not None:
                self._contents[self._folder[path]] = content
        return self._folder[path]

    def _before(self, event: SessionEvent, path: str) -> _Version | None:
        """Return the version of a file in the newest commit before something was read or edited."""
        position, versions = self.position(event), self._versions.get(path, [])
        last = bisect_left(versions, (position, ""))
        if not last or not versions[last - 1][1]:
            return None
        return _Version(self._commits[position - 1], versions[last - 1][1])

    def _text(self, blob: str) -> str:
        if blob not in self._texts:
            content = self._contents.get(blob, b"")
            self._texts[blob] = "" if b"\0" in content else _plain(content.decode("utf-8", "replace"))
        return self._texts[blob]

    def _is_secret(self, blob: str, path: str) -> bool:
        return reason_by_name(path) == SECRET or find_secret(self._text(blob), path) is not None

    # ------------------------------------------------------------ lines

    def _read(self, event: SessionEvent, path: str) -> _Found | None:
        version = self._before(event, path)
        if version is None and path not in self._versions and (blob := self._in_folder(path)):
            version = _Version(self._state.commit, blob, is_committed=False)
        count = len(lines_of(self._text(version.blob))) if version else 0
        last = min(event.last or count, count)
        first = max(event.first, 1)
        return _Found(path, version, [(first, last)], False) if version and first <= last else None

    def _edited(self, event: SessionEvent, path: str) -> Iterator[_Found]:
        if len(event.text) > _MAX_EDIT_CHARS:
            return
        before = self._before(event, path)
        base = self._text(before.blob) if before else ""
        old, new = base if event.old is None else _plain(event.old), _plain(event.text)
        written = _written(old, new)
        expected = base.count("\n", 0, base.index(old)) if old and old in base else None
        versions = [*self._later(event, path), *([before] if before else [])]
        for version in versions if written else ():
            text = self._text(version.blob)
            at = _line_of(text, new.removesuffix("\n"), expected)
            if at is not None:
                yield _Found(path, version, [(at + first, at + last) for first, last in written], True)
                return
        ranges = _parts_in(self._text(versions[0].blob), new, written) if versions and written else []
        if ranges and versions[0] != before:
            yield _Found(path, versions[0], ranges, True)
            return
        if before and expected is not None and event.old is not None:
            yield _Found(path, before, [(expected + 1, expected + len(lines_of(old)))], False)

    def _is_whole(self, version: _Version, lines: tuple[int, int]) -> bool:
        return lines == (1, len(lines_of(self._text(version.blob))))

    def _citation(
        self, n: int, path: str, version: _Version, lines: tuple[int, int], *, is_used: bool
    ) -> Citation:
        source, (start, end) = self._state.source, lines
        self._paths[version.blob].add(path)
        text = "\n".join(lines_of(self._text(version.blob))[start - 1 : end])
        return Citation(
            n,
            Span(source.name, path, start, end, version.blob, version.commit or None),
            span_hash=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
            dirty=bool(version.commit) and not version.is_committed,
            used=is_used,
            location=source.location,
        )


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")


def _written(old: str, new: str) -> Ranges:
    """Return the lines of a new text, from 1, that were not in the old one; without blank ones."""
    lines = _bytes(new)
    kept = {row for row in align(_bytes(old), lines) if row >= 0}
    rows = [row for row, line in enumerate(lines, start=1) if row - 1 not in kept and line.strip()]
    joined = _union((row, row) for row in rows)
    gaps = [(last, first) for (_, last), (first, _) in pairwise(joined)]
    blank = [gap for gap in gaps if not any(map(bytes.strip, lines[gap[0] : gap[1] - 1]))]
    return _union([*joined, *blank])


def _line_of(text: str, part: str, expected: int | None) -> int | None:
    """Return how many lines are before a part of a text: of several places the nearest to an expected one.

    None if it is not there, or if a short part is there several times and nothing is expected.
    """
    found: list[int] = []
    at = text.find(part) if part.strip() else -1
    row = counted = 0
    while at >= 0 and len(found) < _MAX_OCCURRENCES:
        row += text.count("\n", counted, at)
        counted = at
        found.append(row)
        at = text.find(part, at + 1)
    if len(found) > 1 and expected is None and letters([part.encode("utf-8", "replace")]) < LEAST_MOVED:
        return None
    return min(found, key=lambda one: abs(one - (expected or 0)), default=None)


def _parts_in(text: str, new: str, written: Ranges) -> Ranges:
    """Return where those of the written lines are that are left in a text; [] for too few to be sure."""
    lines = _bytes(new)
    mapped = align(lines, _bytes(text))
    rows = [row for first, last in written for row in range(first - 1, last) if mapped[row] >= 0]
    if letters([lines[row] for row in rows]) < LEAST_MOVED:
        return []
    return _union([(mapped[row] + 1, mapped[row] + 1) for row in rows])


def _bytes(text: str) -> list[bytes]:
    return [line.encode("utf-8", "surrogatepass") for line in lines_of(text)]


def _union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return ranges of lines in ascending order, with those joined that overlap or adjoin."""
    found: Ranges = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found
