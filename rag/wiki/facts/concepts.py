"""The parts of a program: its folders, and where they are flat its files, a C source with its header."""

from __future__ import annotations

import math
import posixpath
import re
from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from rag.code.parts import main_parts
from rag.code.symbols import File

_MAX_CONCEPTS, _MIN_LINES, _MIN_SHARE = 20, 300, 0.05
_LARGE_LINES = 3_000
"""With fewer lines, the folders are few concepts enough."""
OTHER_CODE = "Other code"
_PLAIN_STEMS = frozenset("init index main mod lib util utils common test types doc setup".split())


@dataclass(slots=True)
class Concept:
    """Code files that belong together, the largest first. `title` is "" where their names give one."""

    files: list[File] = field(default_factory=list)
    title: str = ""

    @property
    def lines(self) -> int:
        """The number of lines."""
        return sum(len(file.lines) for file in self.files)


def concepts(files: Sequence[File], max_concepts: int, packages: Set[str] = frozenset()) -> list[Concept]:
    """Return the concepts of these files, those with most code first; the small ones
    are together the last, or if they have little code, with the first.

    Every file is in one concept. `packages` are folders that are not divided. [] for no files.
    """
    by_path = {file.path: file for file in files}
    lines = {file.path: len(file.lines) for file in files}
    most = min(max_concepts, _MAX_CONCEPTS) - 1
    modules: dict[str, list[File]] = defaultdict(list)
    is_large = sum(lines.values()) >= _LARGE_LINES
    for part, paths in main_parts(lines, 2 * most, with_files=is_large, whole=packages).items():
        modules[posixpath.splitext(part)[0] if part in by_path else part] += [by_path[path] for path in paths]
    least = min(_MIN_LINES, _MIN_SHARE * sum(lines.values()))
    found = [Concept(sorted(inside, key=_largest_first)) for inside in modules.values()]
    found = sorted((one for one in found if one.lines >= least), key=lambda one: -one.lines)[:most]
    taken = {file.path for concept in found for file in concept.files}
    rest = sorted((file for file in files if file.path not in taken), key=_largest_first)
    if found and Concept(rest).lines < least:
        found[0].files += rest
        return found
    return [*found, *([Concept(rest, OTHER_CODE if found else "")] if rest else [])]


def _largest_first(file: File) -> tuple[int, str]:
    """Return a key that a few more lines do not change."""
    return -round(4 * math.log2(len(file.lines) + 1)), file.path


def stem_words(path: str) -> list[str]:
    """Return the words of a file's name, in lower case, without those that any file may have."""
    stem = posixpath.basename(path).partition(".")[0]
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", stem)
    return [word.lower() for word in words if word.lower() not in _PLAIN_STEMS]
