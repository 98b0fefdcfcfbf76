"""Checks whether cited lines are unchanged.

    cited lines   the blob id of their file, and its bytes stored by that id
    a State       the current files of the repository (a commit, a work tree, a plain folder), by path → blob
    id

A file with the same blob id is fresh without being read. Else the lines are searched for in this order, and
the first place that contains all of them, byte for byte, is theirs:

1. at the same lines of the file (fresh), or elsewhere in it (moved), see `rag.memory.anchor`;
2. if less than half of them is left there, in the file that it was renamed to, as the history says (a chain
   of renames is one); without a history that says so, in a new file with the same bytes, then in the new file
   with most of its lines, at least half;
3. in files that are new or changed since, where they did not occur before; only if less than half of the
   lines are still in their old place, since lines that were edited there and copied elsewhere have changed.
   Fewer than 40 letters and digits are not enough for this (as in `git blame -C`), nor are lines that
   several old files had.

If they are not found, they are changed: the place is the one with most of their lines, in their file or in
one of 3. With none of their lines left anywhere they are gone, unless something replaced them. Without a
history that shows what is new, every other file is searched, and a place found by 3 is marked as a guess.
Apart from line ends, nothing is reported as fresh or as certainly moved without a comparison byte for byte.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from rag.memory.anchor import Pair, TextLines, letters
from rag.memory.arrivals import LEAST_COPIED, Arrival, Arrived, guess
from rag.types import Citation, DialogTurn, Freshness, FreshnessState

_IN_PLACE_SHARE = 0.5
_NEARLY_EMPTY = "the file is nearly empty, like others"
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

    def renamed(self, commit: str | None) -> Mapping[str, str] | None:
        """Return the later path of each file that was renamed or deleted since a commit, "" if deleted.

        None if the history does not say: it is rewritten or cut off.
        """
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
    """A span that is not in its own file any more: its lines, and the result if they are not found.

    `kept` is the share of the lines that is left at the place of that result.
    """

    span: _Span
    lines: list[bytes]
    fallback: Freshness
    kept: float = 0.0


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
        for span in rest:
            result = self._unknown(span) or self._at_its_path(span)
            if isinstance(result, _Lost):
                lost[span.commit].append(result)
            else:
                found[span] = result
        for commit, some in lost.items():
            found |= self._followed(some, Arrived(commit, self.state, self._texts, self._read))
        return found

    def _followed(self, lost: Sequence[_Lost], arrived: Arrived) -> dict[_Span, Freshness]:
        """Search the spans of one commit in the successors of their files, then in other files."""
        found: dict[_Span, Freshness] = {}
        still: list[_Lost] = []
        self._read(self.state.files[path] for one in lost if (path := arrived.renamed_to(one.span.path)))
        for one in lost:
            result = self._in_successor(one, arrived)
            if isinstance(result, _Lost):
                still.append(result)
            else:
                found[one.span] = result
        return found | self._elsewhere(still, arrived)

    def _read(self, blobs: Iterable[str]) -> None:
        wanted = {blob for blob in blobs if blob and blob not in self._texts}
        if wanted:
            contents = self.state.contents(wanted)
            self._texts |= {blob: TextLines.of(content) for blob, content in contents.items()}

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

    def _at_its_path(self, span: _Span) -> Freshness | _Lost:
        if span.path in self.state.files:
            return self._in_file(span, span.path)
        what = self.state.instead(span.path)
        reason = f"replaced by {what}" if what else "the file was removed"
        return _Lost(span, self._lines(span), Freshness("gone", reason))

    def _lines(self, span: _Span) -> list[bytes]:
        old = self._texts[span.blob]
        assert old is not None, "checked by _unknown"
        return old.span(span.start, span.end)

    def _in_file(self, span: _Span, path: str) -> Freshness | _Lost:
        """Check the span in the file that it was cited from, or in the successor of that file."""
        blob = self.state.files[path]
        if blob not in self._texts:
            return Freshness("unknown", f"{path} cannot be read", path)
        lines = self._lines(span)
        if self._texts[blob] is None:
            return _Lost(span, lines, Freshness("changed", "the file is not text any more", path))
        pair = self._pair(span.blob, blob)
        end = span.start + len(lines) - 1
        if anchor := pair.anchor(span.start, end):
            state: FreshnessState = "fresh" if (path, anchor.start) == (span.path, span.start) else "moved"
            reason = guess(anchor.rivals + 1) if anchor.rivals else ""
            return Freshness(state, reason, path, anchor.start, anchor.start + len(lines) - 1)
        kept = pair.kept(span.start, end)
        if (there := pair.now_there(span.start, end)) is None:
            return _Lost(span, lines, Freshness("gone", "the lines were deleted", path))
        changed = Freshness("changed", _share_left(kept), path, *there)
        return changed if kept >= _IN_PLACE_SHARE else _Lost(span, lines, changed, kept)

    def _in_successor(self, one: _Lost, arrived: Arrived) -> Freshness | _Lost:
        """Check a span in the file that its file was renamed to, if less than half of it is left."""
        span = one.span
        path = arrived.renamed_to(span.path)
        if path is None and span.path not in self.state.files:
            same = arrived.same(span.blob, span.path)
            if same:
                reason = self._doubt(span, same[0], arrived)
                return Freshness("moved", reason, same[0], span.start, span.end)
            path = arrived.successor(span.blob)
        if path is None:
            return one
        there = self._in_file(span, path)
        if isinstance(there, _Lost):
            return max(there, one, key=lambda each: (each.kept, each.fallback.start > 0))
        if there.state == "moved" and not there.reason:
            return replace(there, reason=self._doubt(span, path, arrived))
        return there

    def _doubt(self, span: _Span, path: str, arrived: Arrived) -> str:
        """Return why a file is only one of the possible successors; "" if it is the one."""
        if twins := arrived.twins(path):
            return guess(len(twins) + 1)
        old = self._texts[span.blob]
        assert old is not None, "checked by _unknown"
        return _NEARLY_EMPTY if letters(old.lines) < LEAST_COPIED else ""

    def _elsewhere(self, lost: Sequence[_Lost], arrived: Arrived) -> dict[_Span, Freshness]:
        """Search each span in new or changed files, else return its fallback."""
        found = {one.span: one.fallback for one in lost}
        arrived.expect([one.lines for one in lost])
        for one in lost:
            if places := arrived.places(one.lines, one.span.path):
                found[one.span] = _placed(one, places, sure=arrived.known)
            elif best := arrived.best(one.lines, one.span.path):
                found[one.span] = _better(one, best)
        return found


def _share_left(kept: float) -> str:
    if kept >= 1:
        return "lines were inserted between them"
    return f"{min(kept, 0.99):.0%} of the lines are unchanged"


def _better(one: _Lost, best: Arrival) -> Freshness:
    """Return the place with more of the lines: that of the fallback, or the one in another file."""
    if best.share <= one.kept:
        return one.fallback
    return Freshness("changed", _share_left(min(best.share, 0.99)), best.path, best.start, best.end)


def _placed(one: _Lost, places: Sequence[tuple[str, int]], *, sure: bool) -> Freshness:
    """Return the best of the places in other files, preferring a file of the same name."""
    name = one.span.path.rpartition("/")[2]
    path, start = min(places, key=lambda place: (place[0].rpartition("/")[2] != name, place))
    reason = guess(len(places)) if len(places) > 1 else ""
    if not sure:
        reason = reason or "found without history"
    return Freshness("moved", reason, path, start, start + len(one.lines) - 1)
