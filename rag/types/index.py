"""What an index contains, and what it lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rag.types.source import ENCODING_GUESSED, OWN_LINES, Filters, Skipped, Source

SUBMODULE = "submodule"
"""The `reason` of a skipped submodule."""
_NAMED = 3
Progress = Callable[[str, int, int], None]
"""Receives what is done, how much of it is finished, and the total, 0 if that is not known."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The result of indexing a source. `action` says what was done, `reason` why a store was rebuilt.

    `recall_at_10` is the share of the ten nearest vectors that a search of a large store finds, measured
    when it was built; None where a search scans every vector.
    """

    source: Source
    action: Literal["built", "rebuilt", "updated", "fresh"]
    reason: str
    path: Path
    seen: int
    files: int
    chunks: int
    changed: int
    removed: int
    skipped: tuple[Skipped, ...]
    size_bytes: int
    commit: str | None
    seconds: float
    recall_at_10: float | None = None

    @property
    def submodules(self) -> tuple[str, ...]:
        """The paths of submodules, which are not indexed."""
        return tuple(skip.path for skip in self.skipped if skip.reason == SUBMODULE)

    @property
    def remarks(self) -> list[str]:
        """Remarks for the user on what is not in the index, as sentences."""
        remarks = []
        if self.submodules:
            remarks.append(not_indexed(self.submodules))
        guessed = [f"{one.path} ({one.detail})" for one in self.skipped if one.reason == ENCODING_GUESSED]
        compact = [one.path for one in self.skipped if one.reason == OWN_LINES]
        if compact:
            named = ", ".join(compact[:_NAMED]) + (", …" if len(compact) > _NAMED else "")
            remarks.append(
                f"lines count through the cells, not in the file, of the compact notebooks {named}"
            )
        if guessed:
            files = f"{len(guessed):,} files" if len(guessed) > 1 else "1 file"
            named = ", ".join(guessed[:_NAMED]) + (", …" if len(guessed) > _NAMED else "")
            remarks.append(
                f"the encoding of {files} was guessed: {named}; `working-tree-encoding` in .gitattributes "
                "declares it"
            )
        if self.source.filters != Filters() and self.action == "built":
            remarks.append(
                f"--include and --exclude make an index of their own ({self.path}); "
                "a question without them is answered from another one"
            )
        return remarks

    @property
    def record(self) -> dict[str, Any]:
        """The report as JSON values; skipped files are counted by reason."""
        names = ("action", "reason", "seen", "files", "chunks", "changed", "removed", "size_bytes", "commit")
        return {name: getattr(self, name) for name in names} | {
            "seconds": round(self.seconds, 3),
            "skipped": dict(Counter(skip.reason for skip in self.skipped)),
        }


def not_indexed(submodules: Sequence[str]) -> str:
    """Return a sentence that names submodules that are not indexed."""
    names = ", ".join(submodules[:_NAMED]) + (", …" if len(submodules) > _NAMED else "")
    several = f"{len(submodules)} submodules are" if len(submodules) > 1 else "1 submodule is"
    return f"{several} not indexed ({names}); index each by its own path"


MAX_NAMED = 20
"""The maximum number of non-indexed files that are named; the others are only counted."""


class Reach(NamedTuple):
    """What may be looked up for who asks: by default everything that a person at this machine can read.

    `around`: the git repository around the source's folder. `secrets`: files that are likely to hold secrets,
    and those that the owner excludes; without them, also no parts of words, or a caller could guess what is
    in the other files, one letter after the other.
    """

    around: bool = True
    secrets: bool = True


LOCAL = Reach()
"""What a person at this machine may look up."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What part of a repository an answer is based on, and what is missing from it.

    `skipped` counts the files that are never indexed, by reason. `not_indexed` names files whose change or
    deletion is not in the index yet, sorted by path, at most `MAX_NAMED`; `not_indexed_count` counts all of
    them. `checked_ago_s` is the time between the comparison of files and index (for a URL: the fetch) and the
    answer; None if there was none. Without `has_files` the answer is based on a published index alone: the
    files and their history are not on this machine.
    """

    repository: str = ""
    commit: str | None = None
    dirty: bool = False
    skipped: Mapping[str, int] = field(default_factory=dict)
    not_indexed: tuple[str, ...] = ()
    not_indexed_count: int = 0
    checked_ago_s: float | None = None
    has_files: bool = True

    @property
    def note(self) -> str:
        """A warning that names changed files that are not indexed; "" if everything is."""
        if not self.not_indexed_count:
            return ""
        more = self.not_indexed_count - len(self.not_indexed)
        names = ", ".join(self.not_indexed) + (f" and {more:,} more" if more else "")
        files = (
            "1 changed file is"
            if self.not_indexed_count == 1
            else f"{self.not_indexed_count:,} changed files are"
        )
        return f"{self.repository}: {files} not in the index yet: {names}"

    @property
    def summary(self) -> str:
        """One line on what was searched and what was not."""
        parts = [f"commit {self.commit[:10]}" if self.commit else "no commit"]
        parts += ["with uncommitted changes"] if self.dirty else []
        parts += [] if self.has_files else ["a published index, without the files and their history"]
        skipped = sorted(self.skipped.items(), key=lambda pair: (-pair[1], pair[0]))
        parts += ["not indexed: " + ", ".join(f"{n} {why}" for why, n in skipped)] if skipped else []
        parts += [self.note] if self.note else []
        return "; ".join(parts)
