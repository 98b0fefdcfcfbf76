"""Caches what the check of texts has read from the history of a repository, which never changes."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rag.memory.syntax import NamedLines
from rag.parsing import decompressed, parse_json
from rag.resources import make_private, replace_file

_VERSION = 3
_MAX_FILES = 2_000
_MAX_NAMES = 50_000
_MAX_HOLDERS = 300_000
_MAX_SEARCHED_AGAIN = 1_000
Place = tuple[str, NamedLines]
Search = Callable[[Collection[str], Collection[str]], Mapping[str, Collection[str]]]
"""Returns the files with each of these names, of these files; without files of all."""


class ClaimsCache:
    """What is known of when texts were written, and of names at commits. Failures cost only time.

    Texts and the files with a name are those at one commit. At another one they are known of the files that
    did not change since both have branched.

    Args:
        folder: the folder of the cache.
        root: the repository.
        commit: its commit.
        changed: returns the paths that differ between it and another one; None if that is not known.
    """

    def __init__(
        self, folder: Path, root: Path, commit: str, changed: Callable[[str], Collection[str] | None]
    ) -> None:
        self._root, self._commit = os.fsencode(root), commit
        self._file = folder / f"{hashlib.sha256(self._root).hexdigest()[:32]}.claims"
        self._written: dict[str, list[Any]] = {}
        self._places: dict[str, list[list[Any]]] = {}
        self._holders: dict[str, list[str]] = {}
        self._unsearched: set[str] = set()
        with suppress(OSError, ValueError, KeyError, TypeError, IndexError, zlib.error):
            value = parse_json(decompressed(self._file.read_bytes()))
            if value["version"] == _VERSION and value["root"] == self._root.hex():
                self._places = value["places"]
                paths = () if value["commit"] == commit else changed(value["commit"])
                if paths is not None:
                    self._take(value, paths)

    def _take(self, value: Mapping[str, Any], changed: Collection[str]) -> None:
        """Take what is known at a commit, apart from paths that have changed since."""
        paths = value["paths"]
        holders = {name: [paths[n] for n in held] for name, held in value["holders"].items()}
        unsearched = {*value["unsearched"], *changed}
        written = {path: known for path, known in dict(value["written"]).items() if path not in changed}
        self._holders, self._unsearched, self._written = holders, unsearched, written

    def holders(
        self, names: Collection[str], differing: Collection[str], search: Search, too_common: Collection[str]
    ) -> dict[str, Collection[str]]:
        """Return the files with each name: those that are known, and those that a search finds.

        Args:
            names: the names.
            differing: the paths that may not be as committed.
            search: looks for names that are not known, and in files that are not.
            too_common: the names that the search gave up; they are not kept.
        """
        again = self._unsearched.union(differing)
        if len(again) > _MAX_SEARCHED_AGAIN:
            self._holders, again = {}, set()
        known = self._holders
        found = search(known.keys(), again) if known and again else {}
        every: dict[str, Collection[str]] = {
            name: {*found.get(name, ()), *(path for path in paths if path not in again)}
            for name, paths in known.items()
        }
        if new := set(names) - known.keys():
            every |= dict.fromkeys(new, ()) | dict(search(new, ()))
        self._holders = {
            name: [path for path in paths if path not in differing]
            for name, paths in every.items()
            if name not in too_common
        }
        self._unsearched = set(differing)
        return every

    def written(self, path: str, blob: str) -> dict[str, str]:
        """Return the known commits of what a version of a file says, by the place in it."""
        known = self._written.get(path)
        return dict(known[1]) if known and known[0] == blob else {}

    def add_written(self, path: str, blob: str, commits: Mapping[str, str]) -> None:
        """Add the commits of what the present version of a file says."""
        known = self.written(path, blob)
        self._written.pop(path, None)  # the newest is the last
        self._written[path] = [blob, known | dict(commits)]

    def places(self, commit: str, claim: str) -> list[Place] | None:
        """Return what a claim named at a commit; None if that is not known."""
        known = self._places.get(f"{commit}\0{claim}")
        return None if known is None else [(path, NamedLines(*lines)) for path, *lines in known]

    def add_places(self, commit: str, claim: str, places: Iterable[Place]) -> None:
        """Add what a claim named at a commit."""
        rows = [[path, one.start, one.end, one.symbol, one.scope] for path, one in places]
        self._places[f"{commit}\0{claim}"] = rows

    def save(self) -> None:
        """Write what is known, without the oldest of too many entries."""
        value = {
            "version": _VERSION,
            "root": self._root.hex(),
            "commit": self._commit,
            "written": _newest(self._written, _MAX_FILES),
            "places": _newest(self._places, _MAX_NAMES),
            **self._searched(),
        }
        with suppress(OSError):
            make_private(self._file.parent)
            replace_file(self._file, zlib.compress(json.dumps(value).encode(), 1), mode=0o600)

    def _searched(self) -> dict[str, Any]:
        """Return the files with each name as numbers of paths, without the names that most files have."""
        numbers: dict[str, int] = {}
        holders: dict[str, list[int]] = {}
        room = _MAX_HOLDERS
        for name, paths in sorted(self._holders.items(), key=lambda item: len(item[1]))[:_MAX_NAMES]:
            room -= len(paths)
            if room >= 0:
                holders[name] = [numbers.setdefault(path, len(numbers)) for path in paths]
        return {"paths": [*numbers], "holders": holders, "unsearched": sorted(self._unsearched)}


def _newest(entries: Mapping[str, Any], most: int) -> dict[str, Any]:
    return dict([*entries.items()][-most:])
