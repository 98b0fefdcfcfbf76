"""Decide which parts of a store are merged, so that it has few parts and not too much that is dead.

Dead files are kept for a while: a branch that is taken again finds them. They are dropped when a part is
merged with others of about its size (O'Neil, Cheng, Gawlick, O'Neil: The log-structured merge-tree, 1996;
here four of a size make one of the next), or when the store holds too many of them; then those parts lose
them first that were not used longest.

A search reads a dead chunk too, so a part with many is split: its live files into a part of their own, its
dead files into one that is archived, which no search reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SMALL = 4_000
"""A newest segment of up to this many chunks is rewritten by an update; a larger one becomes a part."""
_OF_A_SIZE = 4
_MOST_CHUNKS = 150_000
"""Merging more than this would take much memory and time."""
_MOST_DEAD = 2.0
"""Dead chunks for each live one."""
_MOST_DEAD_PARTS = 8
_SPLIT_DEAD, _LEAST_SPLIT = 8, 400
"""A part is split if at least every eighth chunk is dead, and at least 400 are."""


@dataclass(frozen=True, slots=True)
class PartUse:
    """Chunks of a part, how many of them are dead, and when it was made or a dead file of it was taken."""

    chunks: int
    dead: int
    used_ns: int

    @property
    def live(self) -> int:
        """How many chunks are not dead."""
        return self.chunks - self.dead

    @property
    def mostly_dead(self) -> bool:
        """Whether more than half of the chunks are dead."""
        return 2 * self.dead > self.chunks

    @property
    def size(self) -> int:
        """The class of parts of about the same size, each four times as large as the one before."""
        return (self.chunks // SMALL).bit_length() // 2


def to_merge(parts: Sequence[PartUse], newest_chunks: int) -> list[int]:
    """Return the numbers of the parts to merge into one without their dead files, ascending; none if none."""
    chosen = _too_dead(parts, newest_chunks) or _of_a_size(parts)
    return sorted(chosen)


def _too_dead(parts: Sequence[PartUse], newest_chunks: int) -> list[int]:
    dead = sum(part.dead for part in parts)
    live = sum(part.chunks for part in parts) - dead + newest_chunks
    oldest = sorted(
        (n for n, part in enumerate(parts) if part.mostly_dead), key=lambda n: (parts[n].used_ns, n)
    )
    left, chosen, merged = len(oldest), list[int](), 0
    for number in oldest:
        if dead <= _MOST_DEAD * max(live, SMALL) and left <= _MOST_DEAD_PARTS:
            break
        merged += parts[number].live
        if merged > _MOST_CHUNKS:
            break
        chosen.append(number)
        dead -= parts[number].dead
        left -= 1
    return chosen


def _of_a_size(parts: Sequence[PartUse]) -> list[int]:
    by_size: dict[int, list[int]] = {}
    for number, part in enumerate(parts):
        if not part.mostly_dead:
            by_size.setdefault(part.size, []).append(number)
    for numbers in by_size.values():
        chosen, live = list[int](), 0
        for number in sorted(numbers, key=lambda n: parts[n].chunks):
            live += parts[number].live
            if live > _MOST_CHUNKS:
                break
            chosen.append(number)
        if len(chosen) >= _OF_A_SIZE:
            return chosen
    return []


def to_split(parts: Sequence[PartUse]) -> list[list[int]]:
    """Return the numbers of the parts to split, ascending, in groups that are merged meanwhile."""
    groups, live = list[list[int]](), 0
    for number, part in enumerate(parts):
        if part.dead < max(part.chunks / _SPLIT_DEAD, _LEAST_SPLIT):
            continue
        live += part.live
        if not groups or live > _MOST_CHUNKS:
            groups.append([])
            live = part.live
        groups[-1].append(number)
    return groups
