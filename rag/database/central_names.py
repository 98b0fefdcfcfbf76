"""Find the names that most of a repository's code refers to."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import numpy.typing as npt

from rag.code.roles import is_carried, is_tool
from rag.database.column_codes import KINDS, UNITS, term_hash
from rag.database.store import Store
from rag.top_k import distinct

_MAX_DEFINED = 10
"""A name that more files define is a common word."""
_MAX_FILES = 200
"""At most this many files are looked at."""


def central_names(store: Store, most: int) -> list[str]:
    """Return the names of the classes and top-level functions that the most code files refer to, best first.

    The uses of a name are divided by the files that define it. A plain lower-case word is left out, since it
    may mean anything, and so is a name of one letter. The order is the same in every process.
    """
    defined, defining = _live_in_code(store, "defined")
    referred, _ = _live_in_code(store, "referred")
    names = distinct(defined)
    first, definitions = _counted(names, defined)
    _, users = _counted(names, referred)
    weights = np.where(definitions <= _MAX_DEFINED, users / np.maximum(definitions, 1), 0)
    found: dict[str, None] = {}
    read: dict[int, dict[int, str]] = {}
    for at in np.lexsort((names, -weights)).tolist():
        file = int(defining[first[at]])
        if len(found) == most or not weights[at] or (file not in read and len(read) == _MAX_FILES):
            break
        if file not in read:
            read[file] = {term_hash(name): name for name in _named_in(store, file)}
        if name := read[file].get(int(names[at])):
            found[name] = None
    return list(found)


def _named_in(store: Store, file: int) -> list[str]:
    """Return the classes of a file and its functions outside of classes; none of vendored code and tools."""
    path = store.file_path(file)
    if is_carried(path) or is_tool(path):
        return []
    chunks = np.asarray(store.chunks_of(path), np.int64)
    is_class = (store.unit[chunks] == UNITS.index("class")).tolist()
    named = zip(store.names(chunks), is_class, strict=True)
    found = (name for (name, scope), outer in named if outer or not scope)
    return [name for name in found if len(name) > 1 and not (name.islower() and name.isalpha())]


def _counted(
    names: npt.NDArray[np.uint64], column: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where each name begins in an ascending column, and how often it is there."""
    first = np.searchsorted(column, names)
    return first, np.searchsorted(column, names, "right") - first


def _live_in_code(store: Store, column: str) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return the hashes of the names in a column of live code files, ascending, and the file of each."""
    hashes, files = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    firsts = accumulate((segment.file_count for segment in store.segments), initial=0)
    for first, segment in zip(firsts, store.segments, strict=False):
        file = segment.columns[f"{column}_file"].astype(np.int64)
        live = ~store.dead_files[first : first + segment.file_count]
        live &= segment.columns["file_kind"] == KINDS.index("code")
        hashes.append(segment.columns[f"{column}_hash"][live[file]])
        files.append(file[live[file]] + first)
    every, file = np.concatenate(hashes), np.concatenate(files)
    order = np.lexsort((file, every))
    return every[order], file[order]
