"""Checks whether cited lines are unchanged.

    cited lines   the blob id of their file, and its bytes stored by that id
    a State       the current files of the repository (a commit, a work tree, a plain folder), by path → blob
    id

A file with the same blob id is fresh without being read. Else the lines are searched for in this order, and
the first place that contains all of them, byte for byte, is theirs:

1. at the same lines of the file (fresh), or elsewhere in it (moved), see `rag.memory.anchor`;
2. if the file was removed: in a new file with the same bytes, then in the new file with most of its lines, at
   least half (a rename);
3. in files that are new or changed since, where they did not occur before; only if less than half of the
   lines are still in their old place, since lines that were edited there and copied elsewhere have changed.
   Fewer than 40 letters and digits are not enough for this (as in `git blame -C`).

If they are not found, they are changed if something replaced them, else gone. Without a history that shows
what is new, every other file is searched, and a place found by 3 is marked as a guess. Apart from line ends,
nothing is reported as fresh or as certainly moved without a comparison byte for byte.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from rag.memory.anchor import Pair, TextLines, letters
from rag.types import Citation, DialogTurn, Freshness, FreshnessState

LEAST_COPIED = 40
"""The minimum of letters and digits to recognize lines in another file: git's default for `blame -C`."""

_RENAMED_SHARE = 0.5
_IN_PLACE_SHARE = 0.5
_COMMON_LINE = 20
"""A line in more new files than this is not used to find the successor of a file."""


_ONE_BEHIND = 1
"""Citations of earlier versions may end one line after the file, as its last newline counted as a line."""


class State(Protocol):
    """The state of a repository, now or at a commit, for comparison with citations."""

    @property
    def files(self) -> Mapping[str, str]:
        """The blob id of every regular file, by path."""
        ...

    def instead(self, path: str) -> str | None:
        """Return what else is at a path: "a symbolic link", "a submodule"; None for nothing."""
        ...

    def contents(self, blobs: Collection[str]) -> Mapping[str, bytes]:
        """Return the bytes of these blobs, current or cited; those that are not available are left out."""
        ...

    def files_at(self, commit: str | None) -> Mapping[str, str] | None:
        """Return the blob ids of the files at a commit, by path; None if it is not available."""
        ...


Against = Mapping[str, State | str]
"""The state of each repository by its location, or the reason why there is none."""


def check(citations: Sequence[Citation], against: Against) -> tuple[Freshness, ...]:
    """Return the freshness of each citation, in their order.

    Equal citations are checked once, every file is read at most once, and files with the same blob id are
    not read. Citations of a repository that is not in `against` are unknown.
    """
    spans = [_Span(c.location, c.commit, c.path, c.blob, c.start, c.end) for c in citations]
    found: dict[_Span, Freshness] = {}
    by_location: dict[str, list[_Span]] = defaultdict(list)
    for span in dict.fromkeys(spans):
        by_location[span.location].append(span)
    for location, some in by_location.items():
        state = against.get(location, "its repository is not among those compared")
        if isinstance(state, str):
            found |= dict.fromkeys(some, Freshness("unknown", state))
        else:
            found |= _Check(state).run(some)
    return tuple(found[span] for span in spans)


def check_turns(turns: Sequence[DialogTurn], against: Against) -> list[DialogTurn]:
    """Return the turns with `checks` filled in, in one pass like `check`."""
    found = iter(check([c for turn in turns for c in turn.citations], against))
    return [replace(turn, checks=tuple(next(found) for _ in turn.citations)) for turn in turns]


class _Span(NamedTuple):
    location: str
    commit: str | None
    path: str
    blob: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Lost:
    """A span that is not in its own file any more: its lines, and the result if they are not found."""

    span: _Span
    lines: list[bytes]
    fallback: Freshness


class _Check:
    """A check of the spans of one repository against one state of it."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._texts: dict[str, TextLines | None] = {}
        self._pairs: dict[tuple[str, str], Pair] = {}

    def run(self, spans: Sequence[_Span]) -> dict[_Span, Freshness]:
        """Return the freshness of each span."""
        now = self.state.files
        found: dict[_Span, Freshness] = {}
        rest: list[_Span] = []
        for span in spans:
            if span.blob and now.get(span.path) == span.blob:
                found[span] = Freshness("fresh", "", span.path, span.start, span.end)
            else:
                rest.append(span)
        self._read({span.blob for span in rest} | {now[span.path] for span in rest if span.path in now})
        lost: dict[str | None, list[_Lost]] = defaultdict(list)
        missing: dict[str | None, list[_Span]] = defaultdict(list)
        for span in rest:
            if (unknown := self._unknown(span)) is not None:
                found[span] = unknown
            elif span.path not in now:
                missing[span.commit].append(span)
            else:
                self._settle(span, self._in_file(span, span.path), found, lost)
        for commit in {**missing, **lost}:
            arrived = _Arrived.since(commit, self.state)
            self._read(now[path] for path in arrived.files)
            for span in missing[commit]:
                self._settle(span, self._in_successor(span, arrived), found, lost)
            found |= self._elsewhere(lost[commit], arrived)
        return found

    def _settle(
        self,
        span: _Span,
        result: Freshness | _Lost,
        found: dict[_Span, Freshness],
        lost: dict[str | None, list[_Lost]],
    ) -> None:
        if isinstance(result, _Lost):
            lost[span.commit].append(result)
        else:
            found[span] = result

    def _read(self, blobs: Iterable[str]) -> None:
        wanted = {blob for blob in blobs if blob and blob not in self._texts}
        self._texts |= {blob: TextLines.of(content) for blob, content in self.state.contents(wanted).items()}

    def _pair(self, old: str, new: str) -> Pair:
        if (old, new) not in self._pairs:
            before, now = self._texts[old], self._texts[new]
            assert before is not None and now is not None, "only texts are paired"
            self._pairs[old, new] = Pair(before, now)
        return self._pairs[old, new]

    def _unknown(self, span: _Span) -> Freshness | None:
        """Return why the span cannot be checked; None if it can."""
        if not span.blob:
            return Freshness("unknown", "the cited version of the file was not recorded")
        old = self._texts.get(span.blob)
        if old is None:
            why = "was not text" if span.blob in self._texts else "is not stored any more"
            return Freshness("unknown", f"the cited version ({span.blob[:10]}) {why}")
        count = len(old.lines)
        if not 1 <= span.start <= min(span.end, count) or span.end > count + _ONE_BEHIND:
            return Freshness("unknown", f"the cited version has {count} lines")
        return None

    def _in_file(self, span: _Span, path: str) -> Freshness | _Lost:
        """Check the span in the file that it was cited from, or in the successor of that file."""
        blob = self.state.files[path]
        if blob not in self._texts:
            return Freshness("unknown", f"{path} cannot be read", path)
        old = self._texts[span.blob]
        assert old is not None, "checked by _unknown"
        lines = old.span(span.start, span.end)
        if self._texts[blob] is None:
            return _Lost(span, lines, Freshness("changed", "the file is not text any more", path))
        pair = self._pair(span.blob, blob)
        end = min(span.end, len(old.lines))
        if anchor := pair.anchor(span.start, end):
            state: FreshnessState = "fresh" if (path, anchor.start) == (span.path, span.start) else "moved"
            reason = _guess(anchor.rivals + 1) if anchor.rivals else ""
            return Freshness(state, reason, path, anchor.start, anchor.start + len(lines) - 1)
        kept = pair.kept(span.start, end)
        if (there := pair.now_there(span.start, end)) is None:
            return _Lost(span, lines, Freshness("gone", "the lines were deleted", path))
        what = (
            f"{min(kept, 0.99):.0%} of the lines are unchanged"
            if kept < 1
            else "lines were inserted between them"
        )
        changed = Freshness("changed", what, path, *there)
        return changed if kept >= _IN_PLACE_SHARE else _Lost(span, lines, changed)

    def _in_successor(self, span: _Span, arrived: _Arrived) -> Freshness | _Lost:
        """Check the span in the successor of its file, which was removed."""
        same = arrived.same(span.blob, span.path)
        if same:
            reason = _guess(len(same)) if len(same) > 1 else ""
            return Freshness("moved", reason, same[0], span.start, span.end)
        old = self._texts[span.blob]
        assert old is not None, "checked by _unknown"
        if (path := arrived.successor(span.blob, old, self._texts)) is not None:
            return self._in_file(span, path)
        what = self.state.instead(span.path)
        reason = f"replaced by {what}" if what else "the file was removed"
        return _Lost(span, old.span(span.start, span.end), Freshness("gone", reason))

    def _elsewhere(self, lost: Sequence[_Lost], arrived: _Arrived) -> dict[_Span, Freshness]:
        """Search each span in new or changed files, else return its fallback."""
        found = {one.span: one.fallback for one in lost}
        sought = [one for one in lost if letters(one.lines) >= LEAST_COPIED]
        if not sought:
            return found
        holders = arrived.holding({max(one.lines, key=len) for one in sought}, self._texts)
        if any(holders.values()):
            self._read(arrived.departed.values())
        self._read(
            arrived.before[path] for paths in holders.values() for path in paths & arrived.before.keys()
        )
        for one in sought:
            places = [
                (path, start)
                for path in sorted(holders[max(one.lines, key=len)] - {one.span.path})
                for start in self._arrivals(path, one.lines, arrived, one.span.path)
            ]
            if places:
                found[one.span] = _placed(one, places, sure=arrived.known)
        return found

    def _arrivals(self, path: str, lines: Sequence[bytes], arrived: _Arrived, origin: str) -> list[int]:
        """Return where the lines occur in a file and did not before.

        A new file may be a renamed one: lines that were in another removed file are attributed to that one.
        """
        blob, before = self.state.files[path], arrived.before.get(path, "")
        new, old = self._texts[blob], self._texts.get(before)
        if new is None:
            return []
        if old is not None:
            return self._pair(before, blob).arrivals(lines)
        departed = (self._texts.get(gone) for other, gone in arrived.departed.items() if other != origin)
        taken = any(text.find(lines) for text in departed if text is not None and lines[0] in text.distinct)
        return [] if taken else new.find(lines)


def _placed(one: _Lost, places: Sequence[tuple[str, int]], *, sure: bool) -> Freshness:
    """Return the best of the places in other files, preferring a file of the same name."""
    name = one.span.path.rpartition("/")[2]
    path, start = min(places, key=lambda place: (place[0].rpartition("/")[2] != name, place))
    reason = _guess(len(places)) if len(places) > 1 else ""
    if not sure:
        reason = reason or "found without history"
    return Freshness("moved", reason, path, start, start + len(one.lines) - 1)


def _guess(places: int) -> str:
    return f"one of {places} places with these lines"


@dataclass(slots=True)
class _Arrived:
    """Files that are new or changed since a commit.

    `before` are the old blobs of changed files and `departed` those of removed files, by path. `known` is
    False if there is no history: then every file counts as new.
    """

    files: dict[str, str]
    before: dict[str, str]
    departed: dict[str, str]
    known: bool
    _by_blob: dict[str, list[str]]
    _by_line: dict[bytes, set[str]] | None = None

    @classmethod
    def since(cls, commit: str | None, state: State) -> _Arrived:
        """Return the files that are new or changed in `state` since the commit."""
        then = state.files_at(commit)
        now = state.files
        if then is None:
            files, before, departed = dict(now), {}, {}
        else:
            files = {path: blob for path, blob in now.items() if then.get(path) != blob}
            before = {path: then[path] for path in files if path in then}
            departed = {path: blob for path, blob in then.items() if path not in now}
        by_blob = defaultdict(list)
        for path, blob in files.items():
            if path not in before:
                by_blob[blob].append(path)
        return cls(files, before, departed, then is not None, by_blob)

    def same(self, blob: str, path: str) -> list[str]:
        """Return new files with the same bytes, those of the same name first."""
        name = path.rpartition("/")[2]
        return sorted(self._by_blob.get(blob, ()), key=lambda p: (p.rpartition("/")[2] != name, p))

    def successor(self, blob: str, old: TextLines, texts: Mapping[str, TextLines | None]) -> str | None:
        """Return the new file with most lines of the old one, if it has at least half of them."""
        if self._by_line is None:
            self._by_line = self._index(texts)
        lines = {line for line in old.lines if letters((line,)) >= 3}
        shared: Counter[str] = Counter()
        for line in lines:
            if len(holders := self._by_line.get(line, ())) <= _COMMON_LINE:
                shared.update(holders)
        if not shared:
            return None
        path, count = max(shared.items(), key=lambda item: (item[1], item[0]))
        return path if count >= _RENAMED_SHARE * len(lines) else None

    def holding(
        self, lines: set[bytes], texts: Mapping[str, TextLines | None]
    ) -> defaultdict[bytes, set[str]]:
        """Return the files that contain each of these lines."""
        found: defaultdict[bytes, set[str]] = defaultdict(set)
        for path, blob in self.files.items():
            if (text := texts.get(blob)) is not None:
                for line in text.distinct & lines:
                    found[line].add(path)
        return found

    def _index(self, texts: Mapping[str, TextLines | None]) -> dict[bytes, set[str]]:
        by_line: defaultdict[bytes, set[str]] = defaultdict(set)
        for path in self.files.keys() - self.before.keys():
            if (text := texts.get(self.files[path])) is not None:
                for line in text.distinct:
                    by_line[line].add(path)
        return by_line
