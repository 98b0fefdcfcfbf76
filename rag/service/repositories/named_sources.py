"""Sources as a user names them, and the names under which they are offered to clients."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import replace

from rag.corpus.acquire import resolve
from rag.resources import is_folder
from rag.types import Filters, Source

MAX_NAME = 120
"""The longest name of an offered repository, in characters."""
_MAX_NAME_KEPT = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*")


def locate(text: str | None, ref: str | None = None, filters: Filters | None = None) -> Source:
    """Return the source of a path or git URL (None: the current folder) with these filters."""
    return replace(resolve(text, ref), filters=filters or Filters())


def named_source(text: str | None) -> tuple[str, Source]:
    """Parse `NAME=SOURCE`, or a source without a name. A folder with `=` in its path is a source.

    None is the current folder.
    """
    name, equals, place = (text or "").partition("=")
    is_name = equals and "://" not in name and not name.startswith((".", "/", "~"))
    if is_name and not is_folder(text or ""):
        return name, locate(place)
    source = locate(text)
    return source.name, source


def is_valid_name(name: str) -> bool:
    """Return whether a name is unambiguous in a URL and in a model id."""
    return _NAME.fullmatch(name) is not None and len(name) <= MAX_NAME


def safe_name(name: str, taken: Collection[str] = ()) -> str:
    """Return the name under which a folder is served: its own if it is valid, else a similar one.

    A name that needs it gets a hash of the folder's name, which does not depend on the order of folders.
    """
    if is_valid_name(name):
        return name
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = re.sub(r"[^A-Za-z0-9._]+", "-", plain).strip("-._")[:_MAX_NAME_KEPT].strip("-._")
    lost_letters = sum(map(str.isalnum, plain)) < sum(map(str.isalnum, name))
    if words and not lost_letters and len(name) <= MAX_NAME and words not in taken:
        return words
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:6]
    return f"{words or 'repository'}-{digest}"


def with_safe_names(found: Sequence[tuple[str, Source]]) -> tuple[tuple[str, Source], ...]:
    """Return repositories under valid names: those of folders that have other characters are changed."""
    taken = {name for name, _ in found}
    named = []
    for name, source in found:
        named.append((safe_name(name, taken) if name == source.name else name, source))
        taken.add(named[-1][0])
    return tuple(named)
