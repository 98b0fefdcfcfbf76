"""Limits on the JSON of a request, checked on its bytes before they are parsed.

A parser creates an object for each value and a validator an error for each unknown key, both in the event
loop. Their cost is limited by the number of values, the keys per object, and the depth, which are counted
here in a few passes over the bytes.
"""

from __future__ import annotations

import json

from rag.serve.errors import BadRequest, TooLarge

MAX_DEPTH = 64
MAX_KEYS = 1_000
"""Per object."""

_STRUCTURE = b"[]{},"
_NOT_STRUCTURE = bytes(set(range(256)) - set(_STRUCTURE))


def check_json(body: bytes, *, max_values: int) -> None:
    """Refuse JSON with too many values, too many keys in one object, or too many levels.

    Does not check that the JSON is valid.

    Raises:
        TooLarge: too many values or keys.
        BadRequest: too deeply nested, or not UTF-8, which JSON exchanged between programs must be.
    """
    if not json.detect_encoding(body).startswith("utf-8"):
        raise BadRequest("the body is JSON in an encoding other than UTF-8; send it in UTF-8")
    if _values(body) <= min(MAX_DEPTH, MAX_KEYS, max_values):
        return
    # Remove pairs of backslashes first: a backslash that remains before a quote escapes it.
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > 4 * (max_values + 1):  # at most one key and one string per value, two quotes each
        raise _too_many("values", max_values)
    structure = b"".join(plain.split(b'"')[::2]).translate(None, _NOT_STRUCTURE)
    if _values(structure) > max_values:
        raise _too_many("values", max_values)
    _check_nesting(structure)


def _values(text: bytes) -> int:
    """Return an upper bound of the number of values, if no string contains these characters."""
    return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")


def _check_nesting(structure: bytes) -> None:
    """Check the number of levels, and of keys in each object."""
    open_ones: list[tuple[str, int]] = []
    kind, keys = "", 0
    for character in structure.decode("ascii"):
        if character == ",":
            keys += 1
            if keys >= MAX_KEYS and kind == "{":
                raise _too_many("keys in one object", MAX_KEYS)
        elif character in "[{":
            open_ones.append((kind, keys))
            kind, keys = character, 0
            if len(open_ones) > MAX_DEPTH:
                raise BadRequest(f"the JSON has more than {MAX_DEPTH} levels; send it less nested")
        elif open_ones:
            kind, keys = open_ones.pop()


def _too_many(what: str, limit: int) -> TooLarge:
    return TooLarge(f"the JSON has more than {limit:,} {what}; send less per request")
