"""The graph of a file as a store holds it: the references apart from the rest, which is all that names need.

Definitions, imports, variables, values and bases are compressed JSON; references are compressed columns.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Set
from functools import partial
from typing import Any, NamedTuple

from rag.code.file_graph import (
    NUMBERS,
    Defined,
    FileGraph,
    Reference,
    ReferenceColumns,
    References,
    graph_of,
    graph_values,
)
from rag.parsing import decompressed, parse_json

_LEVEL = 1
"""A higher one takes three times as long to save a tenth."""
_HEAD = struct.Struct("<II")
"""The bytes of the texts as JSON, and the number of references."""
_WIDTH = array(NUMBERS).itemsize
_COLUMNS = 4
_DECODER = json.JSONDecoder()


class PackedGraph(NamedTuple):
    """A file's graph as two byte strings, both empty if it has none."""

    graph: bytes = b""
    references: bytes = b""


def packed(graph: FileGraph) -> PackedGraph:
    """Return the form of a graph in a store. Raises ValueError, TypeError if its references are none."""
    if graph == FileGraph():
        return PackedGraph()
    found = graph.references
    references = found if isinstance(found, References) else References(found)
    columns, bases = references.columns, list(references.bases)
    definitions, imports, _, variables, values = graph_values(graph)
    rest = _json([definitions, imports, bases, variables, values, len(references)])
    return PackedGraph(zlib.compress(rest, _LEVEL), _packed_columns(columns))


def unpacked(graph: bytes, references: Callable[[int], ReferenceColumns]) -> FileGraph:
    """Return the graph of which `packed` made this.

    `references` is called with their number when they are first needed.

    Raises:
        ValueError, TypeError, zlib.error: it is damaged.
    """
    definitions, imports, bases, variables, values, count = parse_json(decompressed(graph))
    rest = graph_of([definitions, imports, (), variables, values])
    if not isinstance(count, int) or count < 0:
        raise ValueError("the number of references is none")
    stored = References.stored(partial(references, count), list(map(Reference._make, bases)), count)
    return FileGraph(rest.definitions, rest.imports, stored, rest.variables, rest.values)


def unpacked_definitions(graph: bytes, names: Set[str]) -> list[Defined]:
    """Return the definitions of some names in a graph. The rest is not read.

    Raises:
        ValueError, TypeError, zlib.error: it is damaged.
    """
    first, _ = _DECODER.raw_decode(decompressed(graph).decode(), 1)
    return [Defined._make(row) for row in first if row[0] in names]


def unpacked_references(data: bytes, count: int) -> ReferenceColumns:
    """Return the columns of `count` references.

    Raises:
        ValueError, TypeError, zlib.error: they are damaged.
    """
    content = decompressed(data)
    if len(content) < _HEAD.size:
        raise ValueError("the references are cut")
    size, found = _HEAD.unpack_from(content)
    begin = _HEAD.size + size
    if found != count or len(content) != begin + count * (_COLUMNS * _WIDTH + 1):
        raise ValueError("the references have another number")
    texts = parse_json(content[_HEAD.size : begin])
    columns = []
    for _ in range(_COLUMNS):
        column = array(NUMBERS, content[begin : begin + count * _WIDTH])
        begin += count * _WIDTH
        columns.append(_little_endian(column))
    names, receivers, lines, within = columns
    if count and not 0 <= min(*names, *receivers) <= max(*names, *receivers) < len(texts):
        raise ValueError("a reference has no name")
    return ReferenceColumns(
        list(map(sys.intern, texts)), names, receivers, lines, within, content[begin:].decode("ascii")
    )


def _packed_columns(columns: ReferenceColumns) -> bytes:
    texts = _json(columns.texts)
    numbers = (columns.names, columns.receivers, columns.lines, columns.within)
    content = [_HEAD.pack(len(texts), len(columns.names)), texts]
    content += [_little_endian(column).tobytes() for column in numbers]
    return zlib.compress(b"".join([*content, columns.roles.encode("ascii")]), _LEVEL)


def _little_endian(column: array[int]) -> array[int]:
    if sys.byteorder == "little":
        return column
    swapped = column[:]
    swapped.byteswap()
    return swapped


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
