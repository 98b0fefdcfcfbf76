"""The description of a generation as a JSON document: the pointer of a key, which is read back strictly.

    {"format": 1, "id": …, "key": …, "published": …, "about": {…},
     "files": [{"name": …, "sha256": …, "size_bytes": …}]}

The document is not trusted: what it names is used for paths and sizes, so every value is checked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rag.errors import SettingsError
from rag.store_shelf import ShelfFile, ShelfGeneration

MAX_DOCUMENT_BYTES = 1 << 20
_FORMAT = 1
_MAX_FILES = 5_000
_MAX_FILE_BYTES = 1 << 40
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def is_key(text: str) -> bool:
    """Return whether a text can be a key."""
    return _NAME.fullmatch(text) is not None


def checked_key(key: str) -> str:
    """Return the key. Raises SettingsError if it is invalid."""
    if not is_key(key):
        raise SettingsError(
            f"{key!r} cannot be the key of a shared index: use 1 to 200 letters, digits, dots, dashes and "
            "underscores, beginning with a letter or digit"
        )
    return key


def described(
    key: str, files: Sequence[ShelfFile], about: Mapping[str, str], published: datetime
) -> ShelfGeneration:
    """Return the generation with these files; its id is derived from all but the time."""
    content = [_FORMAT, key, [list(file) for file in sorted(files)], sorted(about.items())]
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]
    return ShelfGeneration(digest, key, tuple(sorted(files)), dict(about), published)


def to_document(generation: ShelfGeneration) -> bytes:
    """Return the document of a generation."""
    value = {
        "format": _FORMAT,
        "id": generation.id,
        "key": generation.key,
        "published": generation.published.isoformat(),
        "about": dict(generation.about),
        "files": [file._asdict() for file in generation.files],
    }
    return json.dumps(value, indent=1).encode()


def from_document(document: bytes) -> ShelfGeneration:
    """Return the generation that a document describes.

    Raises:
        ValueError: it is invalid; the message says why.
    """
    if len(document) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"its description has more than {MAX_DOCUMENT_BYTES:,} bytes")
    try:
        value: Any = json.loads(document)
        found = value["format"]
        if found != _FORMAT:
            raise ValueError(f"its description has format {found!r}, this version of rag reads {_FORMAT}")
        if len(value["files"]) > _MAX_FILES:
            raise ValueError(f"it has {len(value['files']):,} files")
        files = [_file(entry) for entry in value["files"]]
        about = {str(name): str(text) for name, text in dict(value["about"]).items()}
        generation = described(
            checked_key(value["key"]), files, about, datetime.fromisoformat(value["published"])
        )
    except (LookupError, TypeError, AttributeError, RecursionError, SettingsError) as error:
        raise ValueError(f"its description is incomplete or invalid ({error!r})") from error
    if generation.id != value["id"] or len({file.name for file in files}) != len(files):
        raise ValueError("its description was changed")
    return generation


def _file(entry: Mapping[str, Any]) -> ShelfFile:
    name, sha256, size = entry["name"], entry["sha256"], entry["size_bytes"]
    if not (_NAME.fullmatch(name) and _SHA256.fullmatch(sha256) and type(size) is int):
        raise ValueError("the description of a file is invalid")
    if not 0 <= size <= _MAX_FILE_BYTES:
        raise ValueError(f"a file has {size:,} bytes")
    return ShelfFile(name, sha256, size)
