"""Lines of the searched tree that a report shows: what was expected, and what came instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.corpus.secrets import find_secret
from rag.errors import SettingsError
from rag.evaluation.metrics import LineSpan
from rag.lines import lines_of
from rag.notebook_text import shown_text

MAX_LINES = 12
"""The number of lines of a place that are kept."""
_MAX_WIDTH = 160
_MAX_BYTES = 2_000_000
"""The text of larger files is not read."""


@dataclass(frozen=True, slots=True)
class PlaceLines:
    """A place and its first lines; `start` is 0 for a file as a whole, whose lines are not known."""

    path: str
    start: int
    end: int
    text: str = ""

    @property
    def place(self) -> str:
        """`path:start-end`, the path alone for a whole file."""
        return f"{self.path}:{self.start}-{self.end}" if self.start else self.path


def excerpts(root: Path, places: Iterable[LineSpan | str]) -> tuple[PlaceLines, ...]:
    """Return the first lines of places in a folder; of a file (a path) its first lines.

    The text is "" where the file cannot be read, is outside the folder, or may hold a secret.
    """
    texts: dict[str, list[str]] = {}
    found = []
    for place in places:
        span = LineSpan(place, 0, 0) if isinstance(place, str) else place
        if span.path not in texts:
            texts[span.path] = _lines(root, span.path)
        first = max(span.start, 1)
        last = min(span.end or MAX_LINES, first + MAX_LINES - 1)
        shown = [line[:_MAX_WIDTH] for line in texts[span.path][first - 1 : last]]
        text = "\n".join(shown)
        kept = "" if find_secret(text, span.path) else text
        found.append(PlaceLines(span.path, span.start, span.end, kept))
    return tuple(found)


def _lines(root: Path, path: str) -> list[str]:
    try:
        file = (root / path).resolve()
        if not file.is_relative_to(root.resolve()) or file.stat().st_size > _MAX_BYTES:
            return []
        return lines_of(shown_text(file.read_bytes()))
    except (OSError, ValueError):
        return []  # the place is shown without its lines


def excerpt_json(one: PlaceLines) -> dict[str, Any]:
    """Return an excerpt as JSON values."""
    lines = {"start_line": one.start, "end_line": one.end} if one.start else {}
    return {"path": one.path, **lines, "text": one.text}


def excerpt_from(written: Mapping[str, Any]) -> PlaceLines:
    """Return the excerpt of `excerpt_json`.

    Raises:
        SettingsError: it is not one.
    """
    path, text = written.get("path"), written.get("text", "")
    start, end = written.get("start_line", 0), written.get("end_line", 0)
    if not (
        isinstance(path, str) and isinstance(text, str) and isinstance(start, int) and isinstance(end, int)
    ):
        raise SettingsError(f"{written!r} is not a place: it needs path, start_line, end_line and text")
    return PlaceLines(path, start, end, text)
