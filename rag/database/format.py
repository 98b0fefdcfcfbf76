"""The file format of a store: one pickle that opens in constant time.

A store file is a pickle (protocol 5) of a small header, a plain dict, followed by the columns: raw
little-endian arrays, each at a multiple of 64 bytes, to be memory-mapped.

    [pickled header][zeros up to a multiple of 4096 = data start][column][padding][column] …

`header["columns"]` maps a column's name to (dtype, shape, offset from data start). Opening reads the header
and maps the rest; nothing is copied. `pickle.load` on the file returns the header.

Store files are not trusted. Before the header is unpickled, its opcodes are checked against a closed list
that can only create None, bool, int, float, str, bytes, tuple, list and dict, so no code can run and no
opcode can request more memory than the file has bytes. Then every column is checked against the file's size.
The content of the columns is not checked then: `header["crc32"]` holds the checksum of each from when it was
written, and `verify` compares them, which takes about as long as reading the file.
"""

from __future__ import annotations

import errno
import io
import math
import mmap
import os
import pickle
import pickletools
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.errors import (
    StoreCorrupt,
    StoreTooNew,
    StoreUnreadable,
    StoreUnwritable,
    TooManyOpenFiles,
)
from rag.resources import make_private, sync_to_disk

FORMAT = 6
"""6: the files of each name, references apart from the rest of a graph;
5: archived parts, which an older rag would remove; 4: a list of parts; 3: the graph of each file;
2: vectors in 8 bits. An older store is rebuilt."""
MAGIC = "rag-store"

Array = npt.NDArray[Any]

_PAGE = 4096
_ALIGN = 64
_MAX_HEADER_BYTES = 1 << 20
_DTYPES = frozenset({"|i1", "|u1", "<u2", "<u4", "<u8", "<i4", "<i8", "<f4", "<f8"})
_OPCODES = frozenset(
    """PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT
    SHORT_BINUNICODE BINUNICODE SHORT_BINBYTES BINBYTES EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST
    APPEND APPENDS EMPTY_DICT SETITEM SETITEMS MEMOIZE BINGET LONG_BINGET""".split()
)


DAMAGE_ERRORS = (LookupError, ValueError, OverflowError, MemoryError, TypeError, zlib.error)
"""The errors that reading a damaged store can cause: its columns are mapped without a check."""


class _PlainUnpickler(pickle.Unpickler):
    """Supports no class at all; the opcode check has already rejected every way to name one."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"the header names {module}.{name}")


def write(path: Path, header: Mapping[str, Any], columns: Mapping[str, Array]) -> None:
    """Write a store file: to a temporary file in its folder, fsynced, then renamed over `path`.

    Raises:
        StoreUnwritable: no permission or no space; the old file is unchanged and no temporary file remains.
    """
    table, offset = {}, 0
    for name, column in columns.items():
        dtype = column.dtype.newbyteorder("<").str
        if dtype not in _DTYPES:
            raise TypeError(f"column {name} has the type {dtype}, which the format does not support")
        table[name] = (dtype, tuple(int(n) for n in column.shape), offset)
        offset += -(-column.nbytes // _ALIGN) * _ALIGN
    full = {"magic": MAGIC, "format": FORMAT, **header, "columns": table, "data_bytes": offset}
    full["crc32"] = {name: _checksum(column) for name, column in columns.items()}
    head = pickle.dumps(full, protocol=5)
    temporary: str | None = None
    try:
        make_private(path.parent)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(head)
            file.write(bytes(_data_start(len(head)) - len(head)))
            for column in columns.values():
                file.write(_bytes_of(column))
                file.write(bytes(-column.nbytes % _ALIGN))
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        temporary = None
        sync_to_disk(path.parent)
    except OSError as error:
        raise StoreUnwritable.of(path, error) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Open a store file: its header, and its columns as read-only arrays over the mapped file.

    Raises:
        FileNotFoundError: there is no such file.
        StoreUnreadable, TooManyOpenFiles: the system cannot open it.
        StoreTooNew: a newer version of rag wrote it.
        StoreCorrupt: it is truncated, not a store, or invalid.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise StoreCorrupt(path=str(path), why="the file is empty")
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise
    except ValueError as error:
        raise StoreCorrupt(path=str(path), why=str(error)) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    header, head_bytes = _read_header(path, data)
    return header, _map_columns(path, header, data, _data_start(head_bytes))


def verify(path: Path, header: Mapping[str, Any], columns: Mapping[str, Array]) -> None:
    """Compare the columns of a file with their checksums.

    Raises:
        StoreCorrupt: one has changed.
    """
    written = header.get("crc32")
    known = written if isinstance(written, dict) else {}
    for name, column in columns.items():
        if name in known and known[name] != _checksum(column):
            raise StoreCorrupt(path=str(path), why=f"its column {name} does not match its checksum")


def _checksum(column: Array) -> int:
    return zlib.crc32(_bytes_of(column))


def _bytes_of(column: Array) -> memoryview | bytes:
    return np.ascontiguousarray(column).view(np.uint8).data if column.size else b""


def read_header(path: Path) -> dict[str, Any]:
    """Return the header alone, checked as in `read`. Raises what `read` raises."""
    return read(path)[0]


def _read_header(path: Path, data: mmap.mmap) -> tuple[dict[str, Any], int]:
    head = data[:_MAX_HEADER_BYTES]
    try:
        length = _checked_length(head)
        header = _PlainUnpickler(io.BytesIO(head[:length])).load()
    except (pickle.UnpicklingError, ValueError, LookupError, AttributeError, TypeError, EOFError) as error:
        raise StoreCorrupt(path=str(path), why=f"its header is not plain data ({error})") from error
    if not isinstance(header, dict) or header.get("magic") != MAGIC:
        raise StoreCorrupt(path=str(path), why="it was not written by rag")
    found = header.get("format")
    if not isinstance(found, int):
        raise StoreCorrupt(path=str(path), why="it states no format")
    if found > FORMAT:
        raise StoreTooNew(path=str(path), found=found, supported=FORMAT)
    return header, length


def _checked_length(head: bytes) -> int:
    """Return the size of the pickle at the start of `head`; ValueError for an opcode that is not allowed."""
    for opcode, argument, position in pickletools.genops(head):
        if opcode.name not in _OPCODES:
            raise ValueError(f"opcode {opcode.name} at byte {position}")
        if opcode.name == "FRAME" and argument is not None and argument > len(head):
            raise ValueError("a frame longer than the file")
        if opcode.name == "STOP":
            return int(position or 0) + 1
    raise ValueError("it has no end")


def _map_columns(path: Path, header: dict[str, Any], data: mmap.mmap, start: int) -> dict[str, Array]:
    table, data_bytes = header.get("columns"), header.get("data_bytes")
    if not isinstance(table, dict) or not isinstance(data_bytes, int):
        raise StoreCorrupt(path=str(path), why="it has no table of columns")
    if start + data_bytes != len(data):
        raise StoreCorrupt(path=str(path), why=f"it has {len(data)} bytes instead of {start + data_bytes}")
    columns = {}
    for name, entry in table.items():
        try:
            dtype, shape, offset = entry
            count = math.prod(shape)
            ok = dtype in _DTYPES and isinstance(offset, int) and offset >= 0 and offset % _ALIGN == 0
            ok = ok and all(isinstance(n, int) and n >= 0 for n in shape)
            if not ok or offset + count * np.dtype(dtype).itemsize > data_bytes:
                raise ValueError(f"column {name!r} is outside the file")
            flat = np.frombuffer(data, dtype=dtype, count=count, offset=start + offset)
            columns[name] = flat.reshape(shape)
        except (TypeError, ValueError) as error:
            raise StoreCorrupt(path=str(path), why=str(error)) from error
    return columns


def _data_start(head_bytes: int) -> int:
    return -(-head_bytes // _PAGE) * _PAGE


def _unreadable(path: Path, error: OSError) -> StoreUnreadable:
    """Return the error for a file that the system cannot open or map."""
    why = error.strerror or str(error)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return TooManyOpenFiles(path=str(path), why=why)
    if error.errno in (errno.EACCES, errno.EPERM):
        return StoreUnreadable(path=str(path), why=why, fix=f"let this user read it (`ls -l {path}`)")
    if error.errno == errno.ENOMEM:
        return StoreUnreadable(path=str(path), why=why, fix="free some memory, or raise vm.max_map_count")
    return StoreUnreadable(path=str(path), why=why)
