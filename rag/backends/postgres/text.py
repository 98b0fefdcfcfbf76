"""Text of any kind in Postgres, whose own text holds neither NUL nor lone surrogates.

What is compared, ordered and indexed is a *slot*: the text's bytes in UTF-8 (lone surrogates as they are),
so that bytes stand in the order of code points; of a text too long for an index its beginning and a hash.
What is given back is JSON in ASCII, where such characters are escapes; that holds for records, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

LONGEST_SLOT = 240
"""Bytes of a text that is its own slot. Three slots and two numbers fit into an index entry."""

_PREFIX_BYTES = 200
_CUT = b"\xff"


def as_bytes(text: str) -> bytes:
    """The text's bytes, from which `from_bytes` makes the text again."""
    return text.encode("utf-8", "surrogatepass")


def from_bytes(raw: bytes) -> str:
    """The text of these bytes."""
    return raw.decode("utf-8", "surrogatepass")


def slot(text: str) -> bytes:
    """The bytes by which a text is found: equal for two texts exactly when they are.

    A long one is cut, and marked so by 0xff, which stands in the bytes of no text.
    """
    raw = as_bytes(text)
    return raw if len(raw) <= LONGEST_SLOT else raw[:_PREFIX_BYTES] + _CUT + sha256(raw).digest()


def slots_of_prefix(prefix: str) -> tuple[bytes, bytes]:
    """Between which two slots all texts lie that begin with `prefix`; others may, too."""
    first = as_bytes(prefix)[:_PREFIX_BYTES]
    return first, first + _CUT * 64


def array(values: Iterable[bytes]) -> str:
    """An array of bytes as a literal, for arrays of several lengths in one parameter."""
    return "{" + ",".join(f'"\\\\x{value.hex()}"' for value in values) + "}"
