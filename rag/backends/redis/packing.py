"""Arguments of scripts in MessagePack, which scripts can read."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

Part = str | bytes | int | bool | Sequence["Part"]
"""Text, bytes, a whole number of at most 53 bits, a truth value, or a list of such parts."""


def packed(value: Part) -> bytes:
    """Return a value as MessagePack; texts may have lone surrogates."""
    parts: list[bytes] = []
    _pack(value, parts)
    return b"".join(parts)


def _pack(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, (str, bytes)):
        data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        size = len(data)
        parts.append(bytes((0xA0 | size,)) if size < 32 else struct.pack(">BI", 0xDB, size))
        parts.append(data)
    elif isinstance(value, bool):
        parts.append(b"\xc3" if value else b"\xc2")
    elif isinstance(value, int):
        parts.append(bytes((value,)) if 0 <= value < 128 else struct.pack(">Bq", 0xD3, value))
    else:
        size = len(value)
        parts.append(bytes((0x90 | size,)) if size < 16 else struct.pack(">BI", 0xDD, size))
        for each in value:
            _pack(each, parts)
