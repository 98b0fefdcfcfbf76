"""Find the folders of a repository that hold the code of another project, as a copied library does.

There is no list of names of folders; the evidence is in this repository. The files of another project begin
with its copyright notice and do not mention this project, and neither does its README, licence or package
metadata. A fork that is developed here, a package of a monorepo and a plugin by somebody else mention it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Set
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from rag.analysis import is_stop_word, terms
from rag.ports import ChunkIndex
from rag.retrieval.mentions import project_names

_CODE, _TEST = 0, 1
_FOREIGN_SHARE, _OWN_SHARE = 0.5, 0.1
"""Of the code files of such a folder at least the first share is foreign, and at most the second is own."""
_INSIDE_SHARE = 0.6
"""A folder with this share of its code in such folders is one itself."""
_KNOWN_SHARE = 0.2
"""The share of the other code files that mention the project; with less its name says nothing."""
_NAME_SHARE = 0.1
_LEAST_CHARS, _LEAST_FILES, _MAX_FILES = 3, 3, 10_000
_DOCUMENT = re.compile(
    r"(?:(?:un)?licen[cs]es?|copying|copyright|readme|authors|notice)(?:[._-][\w.-]*)?|[\w-]+\.license(?:\.\w+)?"
    r"|package\.json|composer\.json|pyproject\.toml|setup\.py|cargo\.toml|.*\.(?:gemspec|rockspec)|pom\.xml"
    r"|configure\.ac",
    re.IGNORECASE,
)
"""The name of a file that says whose code a folder holds."""
_FOLDERS: WeakKeyDictionary[ChunkIndex, tuple[str, ...]] = WeakKeyDictionary()


def copied_folders(index: ChunkIndex) -> tuple[str, ...]:
    """Return the outermost folders with the code of other projects, each with a slash at its end.

    Repositories of more than 10,000 files of code are not examined.
    """
    if index not in _FOLDERS:
        _FOLDERS[index] = tuple(sorted(_copied(index))) if len(index) else ()
    return _FOLDERS[index]


def _copied(index: ChunkIndex) -> Set[str]:
    files = index.file
    first = np.flatnonzero(np.diff(files, prepend=-1))
    if index.dead is not None:
        first = first[~index.dead[first]]
    code = files[first[index.kind[first] == _CODE]]
    if not _LEAST_FILES < len(code) <= _MAX_FILES:
        return frozenset()
    begins = np.zeros(len(index), np.bool_)
    begins[first] = True
    headed = _holding(index, "copyright", begins)
    if headed[code].sum() < _LEAST_FILES:
        return frozenset()
    own = np.zeros(index.total_files, np.bool_)
    for name in project_names(index):
        if len(name) >= _LEAST_CHARS and name.isalnum() and not is_stop_word(name):
            named = _holding(index, name)
            own |= named if named[code].sum() >= _NAME_SHARE * len(code) else False
    foreign = headed & ~own
    if foreign[code].sum() < _LEAST_FILES or not own[code].any():
        return frozenset()
    counted = _counted(index, code, own, foreign)
    found = _outermost(counted)
    documents = {one: [0, 0] for one in found}
    for file in files[first[index.kind[first] > _TEST]].tolist():
        path = index.file_path(file)
        if _DOCUMENT.fullmatch(path.rpartition("/")[2]):
            for folder in found.intersection(_above(path)):
                if path.count("/") <= folder.count("/") + 1:
                    documents[folder][bool(own[file])] += 1
    return {one for one, (without, naming) in documents.items() if naming <= _OWN_SHARE * without > 0}


def _holding(
    index: ChunkIndex, word: str, among: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[np.bool_]:
    """Return which files have a word in their text; with `among`, in one of these chunks."""
    found = index.postings(terms(word)[-1])
    chunks = found.chunks[found.body > 0]
    holding = np.zeros(index.total_files, np.bool_)
    holding[index.file[chunks if among is None else chunks[among[chunks]]]] = True
    return holding


def _counted(
    index: ChunkIndex, code: npt.NDArray[np.int32], own: npt.NDArray[np.bool_], foreign: npt.NDArray[np.bool_]
) -> dict[str, list[int]]:
    """Return how many code files each folder has: all, own and foreign ones; "" is the repository."""
    parents: dict[str, list[int]] = {}
    for file, is_own, is_foreign in zip(
        code.tolist(), own[code].tolist(), foreign[code].tolist(), strict=True
    ):
        path = index.file_path(file)
        count = parents.setdefault(path[: path.rfind("/") + 1], [0, 0, 0])
        count[0] += 1
        count[1] += is_own
        count[2] += is_foreign
    counted: dict[str, list[int]] = {}
    for parent, count in parents.items():
        for folder in ("", *_above(parent)):
            whole = counted.get(folder, (0, 0, 0))
            counted[folder] = [n + more for n, more in zip(whole, count, strict=True)]
    return counted


def _outermost(counted: dict[str, list[int]]) -> set[str]:
    """Return the outermost folders whose code is foreign."""
    total, total_own, _ = counted[""]

    def may_be(folder: str) -> bool:
        count, own, _ = counted[folder]
        return (
            folder != "" and own <= _OWN_SHARE * count and total_own - own >= _KNOWN_SHARE * (total - count)
        )

    def outer(folders: Set[str]) -> set[str]:
        return {one for one in folders if folders.isdisjoint(_above(one[:-1]))}

    found = {
        folder
        for folder, (count, _, foreign) in counted.items()
        if foreign >= max(_LEAST_FILES, _FOREIGN_SHARE * count) and may_be(folder)
    }
    inside = Counter[str]()
    for folder in outer(found):
        for above in _above(folder[:-1]):
            inside[above] += counted[folder][0]
    return outer(
        found | {one for one, n in inside.items() if n >= _INSIDE_SHARE * counted[one][0] and may_be(one)}
    )


def _above(path: str) -> Iterator[str]:
    """Yield the folders that a path is in, the outermost first."""
    return (path[: slash.end()] for slash in re.finditer("/", path))
