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
A citation without lines (0 to 0) is one of the file as such: it is fresh if there is a file at its path.
Apart from line ends, nothing is reported as fresh or as certainly moved without a comparison byte for byte.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from typing import Any, NamedTuple, Protocol

from rag.decoding import text_of
from rag.memory.anchor import Pair, TextLines, letters
from rag.memory.arrivals import LEAST_COPIED, Arrival, Arrived, guess
from rag.memory.syntax import NamedLines, Same, Syntax, squashed
from rag.types import Citation, DialogTurn, Freshness, FreshnessState

_IN_PLACE_SHARE = 0.5
_LEAST_SHARE = 0.2
_NEARLY_EMPTY = "the file is nearly empty, like others"
_ONE_BEHIND = 1
"""Citations of earlier versions may end one line after the file, as its last newline counted as a line."""
_MAX_STARTS = 200
"""Lines where a citation may begin that are compared with it."""


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

    def syntax(self, path: str, content: bytes) -> Sequence[Any] | None:
        """Return the values of `rag.memory.syntax.Syntax` for a text; None if its language has no grammar."""
        ...


Against = Mapping[str, State | str]
"""The state of each repository by its location, or the reason why there is none."""


def check(citations: Sequence[Citation], against: Against) -> tuple[Freshness, ...]:
    """Return the freshness of each citation, in their order.

    Equal citations are checked once, every file is read at most once, and files with the same blob id are
    not read. Citations of a repository that is not in `against` are unknown.
    """
    spans = [_Span(c.location, c.commit, c.path, c.blob, c.start, c.end) for c in citations]
    anchors = [
        span._replace(symbol=one.name, start=one.start, end=one.end) if (one := c.anchor) else None
        for c, span in zip(citations, spans, strict=True)
    ]
    found: dict[_Span, Freshness] = {}
    by_location: dict[str, list[int]] = defaultdict(list)
    for number, span in enumerate(spans):
        by_location[span.location].append(number)
    for location, numbers in by_location.items():
        state = against.get(location, "its repository is not among those compared")
        mine = [spans[number] for number in numbers]
        if isinstance(state, str):
            found |= dict.fromkeys(mine, Freshness("unknown", state))
            continue
        run = _Check(state)
        found |= run.run(list(dict.fromkeys(mine)))
        stale = (anchors[number] for number in numbers if found[spans[number]].is_stale)
        found |= run.run(list(dict.fromkeys(anchor for anchor in stale if anchor is not None)))
    return tuple(_of_anchor(span, anchor, found) for span, anchor in zip(spans, anchors, strict=True))


def _of_anchor(span: _Span, anchor: _Span | None, found: Mapping[_Span, Freshness]) -> Freshness:
    """Return the freshness of cited lines; if they are stale, that of the definition that counts."""
    whole = found[span]
    if anchor is None or not whole.is_stale or found[anchor].state == "unknown":
        return whole
    is_part = (anchor.start, anchor.end) != (span.start, span.end)
    return replace(found[anchor], symbol=anchor.symbol) if is_part else found[anchor]


def line_difference(citation: Citation, found: Freshness, state: State | str) -> list[str]:
    """Return what became of cited lines as a unified diff, without line ends.

    Empty if they are unchanged, or if either version is not available. With `Freshness.symbol` only the lines
    of that definition are compared; nothing is left of lines whose present place is not known.
    """
    if isinstance(state, str) or found.state not in ("reformatted", "changed", "gone") or not citation.blob:
        return []
    part = citation.anchor if found.symbol and citation.anchor else citation
    now = state.files.get(found.path, "") if found.start else ""
    contents = state.contents({citation.blob, now} - {""})
    texts = {blob: TextLines.of(content) for blob, content in contents.items()}
    old, new = texts.get(citation.blob), texts.get(now)
    if old is None or (now and new is None):
        return []
    before = [text_of(line) for line in old.span(part.start, part.end)]
    after = [text_of(line) for line in new.span(found.start, found.end)] if new else []
    named = (f"{citation.path}:{part.start}-{part.end}", found.place or "nothing")
    return list(unified_diff(before, after, *named, lineterm=""))


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
    symbol: str = ""


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
        self._squashed: dict[str, bytes] = {}
        self._syntaxes: dict[tuple[str, str], Syntax | None] = {}

    def run(self, spans: Sequence[_Span]) -> dict[_Span, Freshness]:
        """Return the freshness of each span."""
        now = self.state.files
        found: dict[_Span, Freshness] = {}
        rest: list[_Span] = []
        for span in spans:
            if not span.start:
                found[span] = self._file(span)
            elif span.blob and now.get(span.path) == span.blob:
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
        arrived = {commit: Arrived(commit, self.state, self._texts, self._read) for commit in lost}
        for commit, some in lost.items():
            found |= self._followed(some, arrived[commit])
        for span in rest:
            if span.symbol and found[span].is_stale:
                found[span] = self._whole_definition(span, found[span], arrived.get(span.commit))
            elif found[span].state == "gone" and span.commit in arrived:
                found[span] = self._head_of_definition(span, arrived[span.commit]) or found[span]
        return found

    def _file(self, span: _Span) -> Freshness:
        """Return what became of a file that is cited as such, without lines: its contents do not matter."""
        if span.path in self.state.files:
            return Freshness("fresh", "", span.path)
        arrived = Arrived(span.commit, self.state, self._texts, self._read)
        path = arrived.renamed_to(span.path)
        if path is None and span.blob:
            self._read([span.blob])
            same = arrived.same(span.blob, span.path)
            path = same[0] if same else arrived.successor(span.blob) if self._texts.get(span.blob) else None
        if path is None:
            what = self.state.instead(span.path)
            return Freshness("gone", f"replaced by {what}" if what else "the file was removed")
        return Freshness("moved", "", path)

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
            why = "was not text" if span.blob in self._texts else "is not stored here"
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
        if same := self._reformatted(span, lines, path, pair):
            return same
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
                same = self._reformatted(one.span, one.lines, best.path) if best.share > one.kept else None
                found[one.span] = same or _better(one, best)
        return found

    def _reformatted(
        self, span: _Span, lines: Sequence[bytes], path: str, pair: Pair | None = None
    ) -> Freshness | None:
        """Return where the same code is in a file, if only its layout or comments differ; None if nowhere.

        Of several places the one in the lines that replaced the old ones, else the nearest to them. Without a
        grammar, only white space at the ends of lines is layout.
        """
        blob = self.state.files[path]
        sought = squashed(lines)
        if not sought or sought not in self._squash(blob):
            return None
        old, new = self._syntax(span.path, span.blob), self._syntax(path, blob)
        rows = range(span.start, span.start + len(lines))
        places = old.find(rows[0], rows[-1], new) if old and new else self._without_ends(lines, blob)
        if old and pair and len(old.find(rows[0], rows[-1], old)) > 1:
            places = [one for one in places if not pair.is_foreign(range(one.start, one.end + 1), rows)]
        if not places:
            return None
        there = pair.now_there(rows[0], rows[-1]) if pair else None
        near = there[0] if there and there[0] else span.start
        best: Same = min(places, key=lambda same: (abs(same.start - near), same.start))
        return Freshness("reformatted", best.detail, path, best.start, best.end)

    def _without_ends(self, lines: Sequence[bytes], blob: str) -> list[Same]:
        """Return the places of lines in a text of which only white space at the ends of lines differs."""
        text, bare = self._texts.get(blob), [line.rstrip() for line in lines]
        now = [line.rstrip() for line in text.lines] if text is not None else []
        starts = [at for at, line in enumerate(now) if line == bare[0]][:_MAX_STARTS]
        same = (at for at in starts if now[at : at + len(bare)] == bare)
        return [Same(at + 1, at + len(bare), "layout") for at in same]

    def _squash(self, blob: str) -> bytes:
        if blob not in self._squashed:
            text = self._texts.get(blob)
            self._squashed[blob] = squashed(text.lines) if text is not None else b""
        return self._squashed[blob]

    def _syntax(self, path: str, blob: str) -> Syntax | None:
        if (path, blob) not in self._syntaxes:
            text = self._texts.get(blob)
            content = b"" if text is None else b"\n".join([*text.lines, b""])
            values = self.state.syntax(path, content)
            self._syntaxes[path, blob] = None if values is None else Syntax(values)
        return self._syntaxes[path, blob]

    def _whole_definition(self, span: _Span, found: Freshness, arrived: Arrived | None) -> Freshness:
        """Return the place of the definition that has the span's name and most of its lines, whole.

        If none has at least a fifth of them, the one with its name and scope: in its own file, else the only
        one in the new files that have other lines of that file. Else what was found.
        """
        own = [path for path in dict.fromkeys((found.path, span.path)) if path in self.state.files]
        kept = [
            (share, path == span.path, now)
            for path in own
            for share, now in self._named(span, path)
            if share >= _LEAST_SHARE
        ]
        if kept:
            return max(kept, key=lambda place: place[:2])[-1]
        scope = next((one.scope for one in self._defined_at(span) if one.symbol == span.symbol), None)
        if scope is None:
            return found
        same = self._named(span, span.path, scope) if span.path in own else []
        if not same and arrived:
            same = [one for path in arrived.heirs(span.blob) for one in self._named(span, path, scope)]
        return self._by_name(span, same[0][1]) if len(same) == 1 else found

    def _head_of_definition(self, span: _Span, arrived: Arrived) -> Freshness | None:
        """Return the definition that began with a span of which nothing is left: its first lines, or all.

        It is the only one with its name and scope in the new files that have other lines of its file.
        """
        for one in self._defined_at(span):
            named = span._replace(symbol=one.symbol)
            same = [now for path in arrived.heirs(span.blob) for now in self._named(named, path, one.scope)]
            if one.end < span.end or len(same) != 1:
                continue
            now = self._by_name(span, same[0][1])
            if one.end > span.end:
                return replace(now, end=min(now.end, now.start + span.end - span.start))
            if not arrived.has_left_too(self._lines(span)[0], span.path):
                return now
        return None

    def _by_name(self, span: _Span, there: Freshness) -> Freshness:
        """Return the place of a definition that was found by its name, which may be the same code."""
        is_changed = there.state == "changed"
        same = self._reformatted(span, self._lines(span), there.path) if is_changed else None
        return same or replace(there, reason=f"{there.reason}, found by its name".removeprefix(", "))

    def _defined_at(self, span: _Span) -> list[NamedLines]:
        """Return the definitions that begin with a cited span."""
        syntax = self._syntax(span.path, span.blob)
        return [one for one in syntax.definitions if one.start == span.start] if syntax else []

    def _named(self, span: _Span, path: str, scope: str | None = None) -> list[tuple[float, Freshness]]:
        """Return the definitions in a file with the name of the span, each with its share of the lines."""
        blob = self.state.files[path]
        self._read([blob])
        text, syntax = self._texts.get(blob), self._syntax(path, blob)
        lines = [bare for line in self._lines(span) if letters((bare := line.strip(),)) >= 3]
        found = []
        for one in syntax.definitions if syntax and text else ():
            if text is None or one.symbol != span.symbol or scope not in (None, one.scope):
                continue
            now = text.span(one.start, one.end)
            if now == self._lines(span):
                found.append((1.0, Freshness("moved", "", path, one.start, one.end)))
                continue
            there = {line.strip() for line in now}
            share = sum(line in there for line in lines) / max(len(lines), 1)
            grew = share >= 1 and one.end - one.start > span.end - span.start
            reason = _share_left(share if grew else min(share, 0.99))
            found.append((share, Freshness("changed", reason, path, one.start, one.end)))
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
