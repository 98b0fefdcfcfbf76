"""Finds likely secrets in a memory store: in turns, messages, cached answers, prompts and retained files.

Files with a likely secret are not indexed, but a user may paste one into a question, a model may repeat it,
and a store may be older than the rule that detects it.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rag.answer_cache.cache import SHELF as ANSWERS
from rag.corpus.secrets import find_secret
from rag.ports import MemoryStore
from rag.service.upkeep.retention import PROMPTS
from rag.service.upkeep.retention import SHELF as FILES

_MAX_BYTES = 64 << 20
_RECORD_NAMES = {ANSWERS: "a cached answer", PROMPTS: "the prompt of a turn", FILES: "a cited file"}


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """A place with a likely secret. `kind` is the result of `find_secret` without the line."""

    namespace: str
    place: str
    kind: str


def stored_secrets(store: MemoryStore) -> Iterator[StoredSecret]:
    """Yield each turn, message or record of all namespaces with a likely secret, in the order of a dump.

    Raises:
        StoreError: the store cannot be read.
    """
    for namespace in store.namespaces():
        names: dict[str, str] = {}
        for line in store.dump(namespace=namespace):
            if about := line.get("conversation"):
                names[about["id"]] = about.get("name") or about["id"]
                continue
            place, text = _place_and_text(line, names)
            if found := find_secret(text):
                yield StoredSecret(namespace, place, found.rpartition(" on line ")[0])


def _place_and_text(line: Mapping[str, Any], names: Mapping[str, str]) -> tuple[str, str]:
    if record := line.get("record"):
        return _RECORD_NAMES.get(record["shelf"], f"a record ({record['shelf']})"), _record_text(record)
    item = line.get("turn") or line["message"]
    kind = "turn" if "turn" in line else "message"
    where = names.get(item["conversation"], item["conversation"])
    texts = [text for version in (item, *line.get("versions", ())) for text in _texts(version)]
    return f"{kind} {item['id']} of conversation {where}", "\n".join(texts)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _record_text(record: Mapping[str, Any]) -> str:
    """Return the text of a record, which may be plain, compressed or JSON."""
    content = b64decode(record["value"])
    with suppress(zlib.error):  # not every record is compressed
        content = zlib.decompressobj().decompress(content, _MAX_BYTES)
    text = content.decode("utf-8", "replace")
    try:
        return "\n".join(_texts(json.loads(text)))
    except (ValueError, RecursionError):
        return text
