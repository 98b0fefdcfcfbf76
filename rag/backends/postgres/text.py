"""Arbitrary text in Postgres, whose text type allows neither NUL nor lone surrogates.

What is compared, sorted and indexed is a *slot*: the bytes of the text in UTF-8 (including lone surrogates),
which sort by code points; for a text too long for an index, its start and a hash. What is returned is JSON in
ASCII, with such characters escaped; so are records.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

LONGEST_SLOT = 240
"""The maximum length of a text that is its own slot. Three slots and two numbers fit an index entry."""

_PREFIX_BYTES = 200
_CUT = b"\xff"


def as_bytes(text: str) -> bytes:
    """Return the bytes of a text, the inverse of `from_bytes`."""
    return text.encode("utf-8", "surrogatepass")


def from_bytes(raw: bytes) -> str:
    """Return the text of these bytes."""
    return raw.decode("utf-8", "surrogatepass")


def slot(text: str) -> bytes:
    """Return the index key of a text; two texts have equal keys only if they are equal.

    A long text is cut and marked by 0xff, which does not occur in the bytes of text.
    """
    raw = as_bytes(text)
    return raw if len(raw) <= LONGEST_SLOT else raw[:_PREFIX_BYTES] + _CUT + sha256(raw).digest()


def is_cut(slot: bytes) -> bool:
    """Whether a slot is not the text itself."""
    return len(slot) > _PREFIX_BYTES and _CUT in slot


def slots_of_prefix(prefix: str) -> tuple[bytes, bytes]:
    """Return two slots that enclose all texts that start with `prefix`, and possibly others."""
    first = as_bytes(prefix)[:_PREFIX_BYTES]
    return first, first + _CUT * 64


def array(values: Iterable[bytes]) -> str:
    """Return an array of bytes as a literal, for arrays of several lengths in one parameter."""
    return "{" + ",".join(f'"\\\\x{value.hex()}"' for value in values) + "}"
