"""Caches what the check of texts has read from the history of a repository, which never changes."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rag.memory.syntax import NamedLines
from rag.parsing import decompressed, parse_json
from rag.resources import make_private, replace_file

_VERSION = 1
_MAX_FILES = 2_000
_MAX_NAMES = 50_000
Place = tuple[str, NamedLines]


class ClaimsCache:
    """What is known of the lines of texts, and of names at commits. Failures to read or write cost only time.

    Args:
        folder: the folder of the cache.
        root: the repository.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        self._root = os.fsencode(root)
        self._file = folder / f"{hashlib.sha256(self._root).hexdigest()[:32]}.claims"
        self._lines: dict[str, list[Any]] = {}
        self._places: dict[str, list[list[Any]]] = {}
        with suppress(OSError, ValueError, KeyError, TypeError, zlib.error):
            value = parse_json(decompressed(self._file.read_bytes()))
            if value["version"] == _VERSION and value["root"] == self._root.hex():
                self._lines, self._places = value["lines"], value["places"]

    def lines(self, path: str, blob: str) -> dict[int, str]:
        """Return the known commits of lines of a version of a file."""
        known = self._lines.get(path)
        return {int(line): commit for line, commit in known[1].items()} if known and known[0] == blob else {}

    def add_lines(self, path: str, blob: str, commits: Mapping[int, str]) -> None:
        """Add the commits of lines of the present version of a file."""
        known = self._lines.pop(path, None)
        before = known[1] if known and known[0] == blob else {}
        self._lines[path] = [blob, before | {str(line): commit for line, commit in commits.items()}]

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
            "lines": _newest(self._lines, _MAX_FILES),
            "places": _newest(self._places, _MAX_NAMES),
        }
        with suppress(OSError):
            make_private(self._file.parent)
            replace_file(self._file, zlib.compress(json.dumps(value).encode(), 1), mode=0o600)


def _newest(entries: Mapping[str, Any], most: int) -> dict[str, Any]:
    return dict([*entries.items()][-most:])
