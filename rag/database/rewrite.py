"""Rewrite parts of a store: merged without their dead files, or split into what is live and what is dead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from rag.database.columns import Columns, Stats, apply_touched, paths_of, skip_columns
from rag.database.compact import PartUse
from rag.database.merge import Mask, merge
from rag.database.segment import Segment
from rag.types import Skipped


@dataclass(slots=True, eq=False)
class StorePart:
    """A part of the store to be: its segment, which of its files are dead, and when it was used."""

    segment: Segment
    dead: Mask
    used_ns: int

    @classmethod
    def whole(cls, segment: Segment, used_ns: int) -> Self:
        """Return a segment without dead files as a part."""
        return cls(segment, np.zeros(segment.file_count, np.bool_), used_ns)

    @property
    def use(self) -> PartUse:
        """The part as `compact` sees it."""
        dead = np.count_nonzero(self.dead[self.segment.columns["chunk_file"]])
        return PartUse(self.segment.chunk_count, int(dead), self.used_ns)


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """What is known of live files: new times, and which are unusable or cut by lines, with their stats."""

    touched: Stats
    skips: Sequence[Skipped]
    stats: Stats


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Changes a list of parts; `write` writes columns as a part that was used now."""

    parts: list[StorePart]
    write: Callable[[Columns], Segment]
    now_ns: int

    def merge(self, chosen: Sequence[StorePart], files: LiveFiles) -> None:
        """Put one part with the live files of some in their place."""
        at = self.parts.index(chosen[0])
        self.parts[:] = [part for part in self.parts if part not in chosen]
        self.parts[at:at] = self._written(chosen, [~part.dead for part in chosen], files)

    def split(self, chosen: Sequence[StorePart], files: LiveFiles) -> None:
        """Put a part with the live files of some in their place, and one in which their dead files are dead.

        Parts that are mostly dead are not written again: they stay, with all of their files dead.
        """
        live = self._written(chosen, [~part.dead for part in chosen], files)
        mixed, kept, skips, seen = list[StorePart](), list[Mask](), list[Skipped](), set[str]()
        for part in reversed(chosen):
            if not part.use.mostly_dead:
                paths = part.segment.paths
                # A segment has one file of a path: the last contents.
                kept.append(part.dead & np.fromiter((path not in seen for path in paths), np.bool_))
                own = {paths[file] for file in np.flatnonzero(kept[-1])}
                skips += (skip for skip in part.segment.content_skips() if skip.path in own)
                mixed.append(part)
                seen |= own
        stats = dict.fromkeys((skip.path for skip in skips), (0, 0))
        archived = self._written(mixed, kept, LiveFiles({}, skips, stats))
        for part in (*chosen, *archived):
            part.dead[:] = True
        self.parts[:] = [*(part for part in self.parts if part not in mixed), *live, *archived]

    def _written(self, parts: Sequence[StorePart], kept: Sequence[Mask], files: LiveFiles) -> list[StorePart]:
        """Write a part with the kept files of some; return it, or nothing if there are no files."""
        if not any(keep.any() for keep in kept):
            return []
        columns = merge([(part.segment.columns, keep) for part, keep in zip(parts, kept, strict=True)])
        apply_touched(columns, files.touched)
        paths = set(paths_of(columns))
        columns |= skip_columns([skip for skip in files.skips if skip.path in paths], files.stats)
        return [StorePart.whole(self.write(columns), self.now_ns)]
