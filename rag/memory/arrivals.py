"""Searches files that are new or changed since a commit for lines of other files.

A line that a file had before did not arrive there, nor did one of the file that it was renamed from. Lines
that several other files had before, like a licence, are no evidence of where one of them went.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from rag.memory.anchor import Pair, TextLines, letters

LEAST_COPIED = 40
"""The minimum of letters and digits to recognize lines in another file: git's default for `blame -C`."""
_RENAMED_SHARE = 0.5
_COMMON_LINE = 20
"""A line in more new files than this is not used to find the successor of a file."""
_DISTINCT_LETTERS = 6
"""The minimum of letters and digits of a line that can be recognized in another file on its own."""
_LEAST_SHARE = 0.3
_MAX_OWNERS = 2
"""Lines that more other old files had are boilerplate."""
_HEIRS = 12
"""The maximum number of new files in which a definition is searched for by its name."""
_SAMPLE = 200
"""How many old files are read to find out what is boilerplate."""


class _State(Protocol):
    @property
    def files(self) -> Mapping[str, str]: ...

    def files_at(self, commit: str | None) -> Mapping[str, str] | None: ...

    def renamed(self, commit: str | None) -> Mapping[str, str] | None: ...


@dataclass(frozen=True, slots=True)
class Arrival:
    """The place in another file that has most of some lines, and their share of these lines."""

    path: str
    start: int
    end: int
    share: float


def guess(places: int) -> str:
    """Return the reason for one of several places."""
    return f"one of {places} places with these lines"


class Arrived:
    """The files that are new or changed since a commit; without a history every file counts as new.

    Args:
        commit: the commit of the cited lines.
        state: the present files.
        texts: the texts by blob id, as far as they were read; None for binary data.
        read: adds the texts of blobs.
    """

    def __init__(
        self,
        commit: str | None,
        state: _State,
        texts: Mapping[str, TextLines | None],
        read: Callable[[Iterable[str]], None],
    ) -> None:
        then = state.files_at(commit)
        self._state, self._commit, self._texts, self._read = state, commit, texts, read
        self._then: Mapping[str, str] = then or {}
        self.known = then is not None
        self._holders: dict[bytes, set[str]] = {}
        self._successors: dict[str, str | None] = {}
        self._heirs: dict[str, list[str]] = {}
        self._owners: Counter[bytes] = Counter()  # the old files that have a line
        self._left: Counter[bytes] = Counter()  # the removed files that have it

    @cached_property
    def files(self) -> Mapping[str, str]:
        """The new or changed files: blob ids by path."""
        return {path: blob for path, blob in self._state.files.items() if self._then.get(path) != blob}

    @cached_property
    def _new(self) -> dict[str, str]:
        return {path: blob for path, blob in self.files.items() if path not in self._then}

    @cached_property
    def _departed(self) -> dict[str, str]:
        return {path: blob for path, blob in self._then.items() if path not in self._state.files}

    @cached_property
    def _by_blob(self) -> Mapping[str, list[str]]:
        found = defaultdict(list)
        for path, blob in self._new.items():
            found[blob].append(path)
        return found

    @cached_property
    def _renamed(self) -> Mapping[str, str] | None:
        return self._state.renamed(self._commit) if self.known else None

    @cached_property
    def _origins(self) -> Mapping[str, str]:
        """The old blob of each file that the history says was renamed, by its new path."""
        renamed = self._renamed or {}
        return {new: self._then[old] for old, new in renamed.items() if new and old in self._then}

    def renamed_to(self, path: str) -> str | None:
        """Return the present path of a renamed file; None if it was not renamed, or is not there any more."""
        new = (self._renamed or {}).get(path)
        return new if new and new in self._state.files else None

    def same(self, blob: str, path: str) -> list[str]:
        """Return new files with the same bytes, those of the same name first."""
        name = path.rpartition("/")[2]
        return sorted(self._by_blob.get(blob, ()), key=lambda p: (p.rpartition("/")[2] != name, p))

    def twins(self, path: str) -> list[str]:
        """Return the other new files with the same bytes as this one."""
        return [other for other in self._by_blob.get(self._state.files[path], ()) if other != path]

    def successor(self, blob: str) -> str | None:
        """Return the new file with most lines of a removed one, if it has at least half of them.

        One that the history says was renamed from another file is considered last: the two were merged.
        """
        if blob not in self._successors:
            self._successors[blob] = self._found_successor(blob)
        return self._successors[blob]

    def _found_successor(self, blob: str) -> str | None:
        old = self._texts[blob]
        assert old is not None, "only texts have a successor"
        lines = self._own({line for line in old.lines if letters((line,)) >= 3})
        shared: defaultdict[str, list[bytes]] = defaultdict(list)
        for line in lines:
            if len(holders := self._by_line.get(line, ())) <= _COMMON_LINE:
                for path in holders:
                    shared[path].append(line)
        likely = [
            (path not in self._origins, len(some), path)
            for path, some in shared.items()
            if len(some) >= _RENAMED_SHARE * len(lines) and letters(some) >= LEAST_COPIED
        ]
        return max(likely)[-1] if likely else None

    def heirs(self, blob: str) -> list[str]:
        """Return the new files with at least two lines of an old one, most first."""
        if blob not in self._heirs:
            old = self._texts[blob]
            assert old is not None, "only texts have heirs"
            held = Counter(
                path
                for line in self._own({line for line in old.lines if letters((line,)) >= _DISTINCT_LETTERS})
                if len(holders := self._by_line.get(line, ())) <= _COMMON_LINE
                for path in holders
            )
            most = sorted(held, key=lambda path: (-held[path], path))[:_HEIRS]
            self._heirs[blob] = [path for path in most if held[path] >= 2]
        return self._heirs[blob]

    def has_left_too(self, line: bytes, origin: str) -> bool:
        """Whether another removed file had this line, so that it may have come from there."""
        departed = [blob for path, blob in self._departed.items() if path != origin]
        self._read(departed)
        texts = (self._texts.get(blob) for blob in departed)
        return any(line in text.distinct for text in texts if text is not None)

    def _own(self, lines: set[bytes]) -> set[bytes]:
        """Return the lines without those that several old files had."""
        owners: Counter[bytes] = Counter()
        self._read(self._sampled)
        for blob in self._sampled:
            if (text := self._texts.get(blob)) is not None:
                owners.update(text.distinct & lines)
        return {line for line in lines if owners[line] <= 1 + _MAX_OWNERS}

    @cached_property
    def _by_line(self) -> Mapping[bytes, set[str]]:
        """The new files that have a line."""
        self._read(self._new.values())
        by_line = defaultdict(set)
        for path, blob in self._new.items():
            if (text := self._texts.get(blob)) is not None:
                for line in text.distinct:
                    by_line[line].add(path)
        return by_line

    def expect(self, spans: Sequence[Sequence[bytes]]) -> None:
        """Find the files with distinctive lines of these spans. `places` and `best` are only for them."""
        wanted = {bare for span in spans if letters(span) >= LEAST_COPIED for bare in _distinctive(span)}
        if not wanted:
            return
        self._read(self.files.values())
        holders: defaultdict[bytes, set[str]] = defaultdict(set)
        for path, blob in self.files.items():
            if (text := self._texts.get(blob)) is not None:
                for line in text.bare & wanted:
                    holders[line].add(path)
        self._holders = holders
        if not holders:
            return
        departed = list(self._departed.values())
        others = {self._then[path] for path in self.files if path in self._then} | set(self._sampled)
        others -= set(departed)
        self._read([*departed, *others])
        for blobs, counts in ((departed, self._left), (others, self._owners)):
            for blob in blobs:
                if (text := self._texts.get(blob)) is not None:
                    counts.update(text.bare & wanted)
        self._owners += self._left

    @cached_property
    def _sampled(self) -> list[str]:
        """The blobs of old files, at even distances."""
        blobs = [blob for _, blob in sorted(self._then.items())]
        return blobs[:: max(1, len(blobs) // _SAMPLE)]

    def places(self, lines: Sequence[bytes], origin: str) -> list[tuple[str, int]]:
        """Return where all of the lines occur and did not before, by path, without their own file."""
        if (
            letters(lines) < LEAST_COPIED
            or not (distinctive := _distinctive(lines))
            or self._is_common(distinctive)
        ):
            return []
        rarest = min(distinctive, key=lambda line: (len(self._holders.get(line, ())), line))
        return [
            (path, start)
            for path in sorted(self._holders.get(rarest, set()) - {origin})
            for start in self._arrivals(path, lines, origin)
        ]

    def _is_common(self, distinctive: Sequence[bytes]) -> bool:
        """Whether several other old files had each of these lines."""
        return min(self._owners[line] for line in distinctive) > 1 + _MAX_OWNERS

    def _arrivals(self, path: str, lines: Sequence[bytes], origin: str) -> list[int]:
        """Return where the lines occur in a file and did not before."""
        new, old = self._texts[self.files[path]], self._old(path)
        if new is None or not (there := new.find(lines)):
            return []
        if old is not None:
            return Pair(old, new).arrivals(lines)
        if not all(self._is_taken(line, origin) for line in _distinctive(lines)):
            return there
        departed = (self._texts.get(blob) for gone, blob in self._departed.items() if gone != origin)
        taken = any(text.find(lines) for text in departed if text is not None and lines[0] in text.distinct)
        return [] if taken else there

    def _is_taken(self, line: bytes, origin: str) -> bool:
        """Whether another removed file had this line: it may have taken it with it."""
        return self._left[line] > (origin in self._departed)

    def _old(self, path: str) -> TextLines | None:
        """Return the text that a file had before, if need be under another path."""
        return self._texts.get(self._then.get(path) or self._origins.get(path, ""))

    def best(self, lines: Sequence[bytes], origin: str) -> Arrival | None:
        """Return the place in another file with most of the lines, whatever their indentation.

        It has at least three tenths of the distinctive ones, and they are enough to recognize them. None if
        there is no such place. Of equal ones the first path.
        """
        distinctive = [line for line in _distinctive(lines) if self._owners[line] <= 1 + _MAX_OWNERS]
        shared: defaultdict[str, list[bytes]] = defaultdict(list)
        for line in distinctive:
            if len(holders := self._holders.get(line, ())) <= _COMMON_LINE:
                for path in holders:
                    shared[path].append(line)
        shared.pop(origin, None)
        found: list[Arrival] = []
        count = len(_distinctive(lines))
        for path in sorted(shared, key=lambda path: (-len(shared[path]), path))[:3]:
            old = self._old(path)
            arrived = [
                line
                for line in shared[path]
                if (line not in old.bare if old is not None else not self._is_taken(line, origin))
            ]
            if len(arrived) >= max(2, _LEAST_SHARE * count) and letters(arrived) >= LEAST_COPIED:
                found.append(self._window(path, frozenset(arrived), len(lines), count))
        return max(found, key=lambda one: one.share, default=None)

    def _window(self, path: str, arrived: frozenset[bytes], length: int, count: int) -> Arrival:
        """Return the lines of a file, at most twice as many as `length`, that have most of some lines."""
        text = self._texts[self.files[path]]
        assert text is not None, "only texts have lines"
        rows = [row for row, line in enumerate(text.lines) if line.strip() in arrived]
        best: tuple[int, int, int] = (0, 0, 0)
        for at, row in enumerate(rows):
            behind = bisect_right(rows, row + 2 * length)
            kept = len({text.lines[each].strip() for each in rows[at:behind]})
            best = max(best, (kept, -row, -rows[behind - 1]))
        kept, start, end = best
        return Arrival(path, 1 - start, 1 - end, kept / count)


def _distinctive(lines: Sequence[bytes]) -> list[bytes]:
    """Return the lines with enough letters, without indentation, once each."""
    return [
        bare
        for bare in dict.fromkeys(line.strip() for line in lines)
        if letters((bare,)) >= _DISTINCT_LETTERS
    ]
