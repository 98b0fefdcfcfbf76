"""What a step found: places that become sources, and text; and in words what of it is not shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rag.agent.budget import MAX_RESULT
from rag.prompt.views import plain
from rag.quoting import visible
from rag.types import Hit

NEAR_LINES = 10
"""Nothing is cut so few lines before its end."""
_NAMED_FILES, _NAMED_FOLDERS = 5, 4
"""How many files with places that are not shown are named, and how many folders of the other files."""


@dataclass(frozen=True, slots=True)
class FoundPart:
    """A part of a result: a place that becomes a source, or text alone.

    Of a place, `lines` are shown, as (number, text), or `text`, which is its outline; or all of its text if
    there are neither. `head` is a sentence, or what is said of the place; `text` is that of the repository if
    there is no place.
    """

    head: str = ""
    hit: Hit | None = None
    lines: tuple[tuple[int, str], ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a tool: what the model is shown, best first.

    `summary` is one line for people. `error` is "" unless the tool could not be used. `rest` returns in words
    what is left out if only the first parts are shown, "" for nothing. `max_tokens` limits what
    is shown.
    """

    parts: tuple[FoundPart, ...]
    summary: str = ""
    error: str = ""
    rest: Callable[[int], str] | None = None
    max_tokens: int = MAX_RESULT

    @property
    def hits(self) -> list[Hit]:
        """The places."""
        return [part.hit for part in self.parts if part.hit]


def failed(error: str) -> Found:
    """Return the result of a step that could not be run."""
    return Found((FoundPart(visible(plain(error))),), error=visible(error))


def rest_of_lines(parts: tuple[FoundPart, ...], lines_by_path: Mapping[str, int]) -> Callable[[int], str]:
    """Return the `rest` of a result with a line in each place, of files with more lines."""

    def rest(count: int) -> str:
        shown = Counter(part.hit.path for part in parts[:count] if part.hit)
        left = Counter(dict(lines_by_path))
        left.subtract(shown)
        return _by_file(+left)

    return rest


def _by_file(lines: Counter[str]) -> str:
    """Return in words how many lines there are in files, those of most files by folder; "" for none."""
    if not lines:
        return ""
    named = lines.most_common(_NAMED_FILES + (len(lines) == _NAMED_FILES + 1))
    folders: Counter[str] = Counter()
    for path, count in (lines - Counter(dict(named))).items():
        folders[f"{path.partition('/')[0]}/" if "/" in path else "./"] += count
    named += folders.most_common(_NAMED_FOLDERS)
    others = lines.total() - sum(count for _, count in named)
    listed = [f"{visible(plain(path))} {count:,}" for path, count in named]
    return ", ".join([*listed, *([f"elsewhere {others:,}"] if others else [])])
