"""Lists of patterns in gitignore syntax."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rag.errors import SourceError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class Patterns:
    """Patterns, the last one that matches deciding; false when there are none."""

    def __init__(self, spec: GitIgnoreSpec | None) -> None:
        self._spec = spec

    @classmethod
    def of(cls, lines: Iterable[str], *, where: str) -> Patterns:
        """Patterns from lines; blank ones and comments mean nothing.

        Raises:
            SourceError: one of them is no pattern; `where` says whose it is.
        """
        telling = [line for line in lines if line.strip() and not line.startswith("#")]
        try:
            return cls(_spec(telling) if telling else None)
        except ValueError as error:
            raise SourceError(f"{where} holds a pattern that cannot be read: {error}") from error

    def __bool__(self) -> bool:
        return self._spec is not None

    def match(self, path: str) -> bool:
        """Whether the path, or a folder on the way to it, is matched."""
        return self._spec is not None and self._spec.match_file(path)

    def opinion(self, path: str) -> bool | None:
        """True for matched, False for brought back by `!`, None when no pattern speaks of the path."""
        return self._spec.check_file(path).include if self._spec is not None else None


def read_patterns(path: Path, *, strict: bool = True) -> Patterns | None:
    """The patterns in a file, None when there is none.

    Raises:
        SourceError: with `strict`, the file cannot be read or holds something that is no pattern; without,
            such lines are left out, as git does.
    """
    try:
        if not path.is_file() or (path.is_symlink() and not strict):
            return None
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        if not strict:
            return None
        raise SourceError(f"cannot read {path}: {error.strerror}") from error
    if strict:
        return Patterns.of(lines, where=str(path))
    return Patterns.of((line for line in lines if _is_pattern(line)), where=str(path))


def _is_pattern(line: str) -> bool:
    try:
        _spec([line])
    except ValueError:
        return False
    return True


def _spec(lines: list[str]) -> GitIgnoreSpec:
    """The patterns, compiled. Raises ValueError for what is none."""
    from pathspec import GitIgnoreSpec  # most repositories need none, and every command starts here

    from rag.corpus.globs import Glob

    try:
        # The same engine everywhere: others that may be installed read sets differently.
        return GitIgnoreSpec.from_lines(lines, Glob, backend="simple")
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"no pattern of gitignore syntax: {error}") from error
