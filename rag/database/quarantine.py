"""Remember by blob id, in a file in the stores' folder, the texts on which the parser failed.

Each text then costs its parsing time only once. An entry is valid for the grammar version that failed. The
file may be removed at any time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag.code.grammars import package_of
from rag.isolation import NOT_TRIED, OUR_ERROR
from rag.resources import make_private
from rag.types import PARSER_GAVE_UP

if TYPE_CHECKING:
    from rag.database.digest import Digest

_FILE = "given-up.json"
_MAX_ENTRIES = 10_000
_MAX_BYTES = 4 << 20

Key = tuple[str, str]
"""Blob id and language."""


class Quarantine:
    """The texts on which the parser failed, with the reasons.

    Args:
        folder: the folder of the store, which contains the file.

    Attributes:
        known: reasons, by blob id and language; entries of another version of a grammar are left out.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / _FILE
        self.known = {key: why for key, (why, by) in _read(self._file).items() if by == _grammar(key[1])}

    def add_from(self, digests: Iterable[Digest]) -> None:
        """Remember the texts on which the parser failed now."""
        for part in digests:
            gave_up = {skip.path: skip.detail for skip in part.skipped if skip.reason == PARSER_GAVE_UP}
            self.add({(f.blob, f.language): gave_up[f.path] for f in part.files if f.path in gave_up})

    def add(self, given_up: Mapping[Key, str]) -> None:
        """Remember texts by their keys, but not those that an error in rag has stopped.

        If the file cannot be written, they are tried again next time.
        """
        new = {
            key: why
            for key, why in given_up.items()
            if key[0] and why != NOT_TRIED and not why.startswith(OUR_ERROR) and key not in self.known
        }
        if not new:
            return
        self.known |= new
        entries = _read(self._file)  # another process may have added entries
        entries |= {key: (why, _grammar(key[1])) for key, why in new.items()}
        rows = [[*key, *entry] for key, entry in [*entries.items()][-_MAX_ENTRIES:]]
        temporary = self._file.with_name(f".{_FILE}.{os.getpid()}")
        with suppress(OSError):
            make_private(self._file.parent)
            temporary.touch(mode=0o600)
            temporary.write_text(json.dumps({"version": 1, "texts": rows}), encoding="utf-8")
            temporary.replace(self._file)


def _read(file: Path) -> dict[Key, tuple[str, str]]:
    """Return the entries of the file; none if it is invalid."""
    try:
        if file.stat().st_size > _MAX_BYTES:
            return {}
        value: Any = json.loads(file.read_text(encoding="utf-8"))
        rows = value["texts"] if isinstance(value, Mapping) and value.get("version") == 1 else []
        return {
            (str(blob), str(language)): (str(why), str(by))
            for blob, language, why, by in rows[-_MAX_ENTRIES:]
        }
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return {}


def _grammar(language: str) -> str:
    """Return the versions of parser and grammar; "" where there is none."""
    try:
        return " ".join(version(package) for package in ("tree-sitter", package_of(language)))
    except (PackageNotFoundError, KeyError):
        return ""
