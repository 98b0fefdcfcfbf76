"""Stores that several machines share: what they are called on a shelf, and how they get there and back.

A key does not depend on where a repository is on disk. It is made of the repository's URL or a given name, the
ref, the filters, and everything that makes a store usable here: the format, the embedder, the chunker. So two
versions of rag, or machines with different embedders, use different keys and never replace each other's stores.
"""

from __future__ import annotations

import hashlib
import json
import re

from rag.database.format import FORMAT
from rag.database.update import Options, fingerprint
from rag.errors import ConfigError
from rag.ports import Embedder
from rag.types import Source

_MAX_NAME = 60


def shelf_key(
    source: Source, embedder: Embedder, options: Options, *, name: str | None = None, ref: str | None = None
) -> str:
    """Return the key of a source's store.

    Args:
        source: a URL; or any source, if a name is given.
        embedder: makes the vectors.
        options: how the source is indexed.
        name: identifies the repository on all machines; None for the URL of the source.
        ref: what is at that name; None for the ref of the source.

    Raises:
        ConfigError: the source is a folder and has no name.
    """
    if name is None and not source.is_url:
        raise ConfigError(
            f"{source} is a folder, which other machines do not know; give it a name with --publish-as NAME"
        )
    identity = f"name:{name}" if name is not None else f"url:{source.location}"
    wanted = fingerprint(source, embedder, options)
    parts = [identity, ref if ref is not None else source.ref, FORMAT, wanted]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", name or source.name).strip(".-")[:_MAX_NAME] or "store"
    return f"{readable}-{digest[:32]}"
