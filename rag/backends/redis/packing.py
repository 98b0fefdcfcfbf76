"""Arguments of scripts in MessagePack, which scripts can read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

Part = str | bytes | int | bool | Sequence["Part"]
"""Text, bytes, a whole number of at most 53 bits, a truth value, or a list of such parts."""
_SHORT = [bytes((0xA0 | size,)) for size in range(32)]
"""What comes before a short text, by its length."""


def packed(value: Sequence[Part]) -> bytes:
    """Return a list as MessagePack; texts may have lone surrogates."""
    parts: list[bytes] = []
    _pack([value], parts.append)
    return b"".join(parts)


def _pack(values: Sequence[Any], add: Callable[[bytes], None]) -> None:
    # Called for every list in every argument: types are compared, as that is faster than isinstance.
    for value in values:
        kind = type(value)
        if kind is str:
            value = value.encode("utf-8", "surrogatepass")
        elif kind is bool:
            add(b"\xc3" if value else b"\xc2")
            continue
        elif kind is int:
            add(struct.pack(">Bq", 0xD3, value))
            continue
        elif kind is not bytes:
            size = len(value)
            add(bytes((0x90 | size,)) if size < 16 else struct.pack(">BI", 0xDD, size))
            _pack(value, add)
            continue
        size = len(value)
        add(_SHORT[size] if size < 32 else struct.pack(">BI", 0xDB, size))
        add(value)
