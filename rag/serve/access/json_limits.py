"""Bounds on JSON that a request sends, checked on its bytes before anything parses it.

A parser and a validator make an object of each value and an error of each unknown key, in the event loop.
What they cost is bounded by the number of values, the keys of one object, and the depth, which are counted
here with a few passes over the bytes.
"""

from __future__ import annotations

import json

from rag.serve.errors import BadRequest, TooLarge

MAX_DEPTH = 64
MAX_KEYS = 1_000
"""Of one object."""

_STRUCTURE = b"[]{},"
_NOT_STRUCTURE = bytes(set(range(256)) - set(_STRUCTURE))


def check_json(body: bytes, *, max_values: int) -> None:
    """Refuse JSON with too many values, too many keys in one object, or too many levels.

    Whether it is valid is for the parser to find out.

    Raises:
        TooLarge: too many values or keys.
        BadRequest: too deep, or not in UTF-8, in which programs exchange JSON.
    """
    if not json.detect_encoding(body).startswith("utf-8"):
        raise BadRequest("the body is JSON in another encoding than UTF-8; send it in UTF-8")
    if _values(body) <= min(MAX_DEPTH, MAX_KEYS, max_values):
        return
    # Pairs of backslashes go first, so that what is left before a quote is what escapes it.
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > 4 * (max_values + 1):  # a value has at most one key, and each two quotes
        raise _too_many("values", max_values)
    structure = b"".join(plain.split(b'"')[::2]).translate(None, _NOT_STRUCTURE)
    if _values(structure) > max_values:
        raise _too_many("values", max_values)
    _check_nesting(structure)


def _values(text: bytes) -> int:
    """At least as many as there are values, if no string has such characters."""
    return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")


def _check_nesting(structure: bytes) -> None:
    """Count the levels, and the keys of each object."""
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
                raise BadRequest(f"the JSON has more than {MAX_DEPTH} levels; send it flatter")
        elif open_ones:
            kind, keys = open_ones.pop()


def _too_many(what: str, most: int) -> TooLarge:
    return TooLarge(f"the JSON has more than {most:,} {what}; send less at once")
