"""Choose the folders that get their own page, by the size of the code.

A folder that holds more than a page's share of the code is split: its large enough folders get a page, and
the rest stays on the page of the folder itself. The share is the size of the repository over the number of
pages that suits it, one per 1,500 lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rag.code.symbols import File

LINES_PER_PAGE = 1500
_MIN_SHARE = 150
_FEW_PAGES = 4
_SPLIT_RATIO = 3
"""A folder with a third of the share gets a page where its parent is split."""


@dataclass(slots=True)
class PageGroup:
    """The files of one page, and the groups below it. `folder` is "" for the top of the repository."""

    folder: str
    files: list[File] = field(default_factory=list)
    inner: list[PageGroup] = field(default_factory=list)


@dataclass(slots=True)
class _Folder:
    path: str
    files: list[File] = field(default_factory=list)
    folders: dict[str, _Folder] = field(default_factory=dict)
    lines: int = 0

    def all_files(self) -> list[File]:
        return [*self.files, *(file for inner in self.folders.values() for file in inner.all_files())]


def groups(files: Sequence[File], max_pages: int) -> list[PageGroup]:
    """Return the groups of code files, outer before inner; at most `max_pages`. [] for no files.

    At the top of the repository the folder with most code comes first; below it they are in order of path.

    Args:
        files: the files to distribute over pages.
        max_pages: at least 1.
    """
    top = _tree(files)
    if not top.lines:
        return []
    wanted = min(max(top.lines // LINES_PER_PAGE, _FEW_PAGES), max_pages)
    share = max(_MIN_SHARE, top.lines / wanted)
    while True:
        found = _split(top, share)
        flat = list(flattened(found))
        if len(flat) <= max_pages:
            return flat
        share *= 1.2


def flattened(found: Iterable[PageGroup]) -> Iterable[PageGroup]:
    """Return all groups, outer before inner."""
    for group in found:
        yield group
        yield from flattened(group.inner)


def _tree(files: Sequence[File]) -> _Folder:
    top = _Folder("")
    for file in files:
        lines = len(file.lines)
        here = top
        here.lines += lines
        for depth, part in enumerate(parts := file.path.split("/")[:-1], start=1):
            if part not in here.folders:
                here.folders[part] = _Folder("/".join(parts[:depth]))
            here = here.folders[part]
            here.lines += lines
        here.files.append(file)
    return top


def _split(folder: _Folder, share: float) -> list[PageGroup]:
    """Return the group of a folder with its inner groups; only those if it has no files of its own left."""
    if folder.lines <= share and folder.path:
        while len(folder.folders) == 1 and not folder.files:
            folder = next(iter(folder.folders.values()))
        return [PageGroup(folder.path, folder.all_files())]
    group = PageGroup(folder.path, list(folder.files))
    for name in sorted(
        folder.folders, key=lambda name: (0 if folder.path else -folder.folders[name].lines, name)
    ):
        inner = folder.folders[name]
        if inner.lines * _SPLIT_RATIO >= share:
            group.inner += _split(inner, share)
        else:
            group.files += inner.all_files()
    if not folder.path:
        # The top of a repository is not a package: its folders are siblings of its other files.
        return [*group.inner, *([PageGroup("", group.files)] if group.files else [])]
    return [group] if group.files else group.inner
