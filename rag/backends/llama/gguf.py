"""The beginning of a GGUF file: what kind of model it holds, and how much memory that needs.

Only the description is read, in plain Python, and every length is compared with the file's size before it is
believed. Of the description, at most 64 MiB and a million values are read, and only numbers and short texts
are kept. The weights are read by the child process alone.
"""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rag.errors import SettingsError

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_FORMATS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_MAX_ENTRIES = 10_000
_MAX_TEXT = 65_536
_MAX_KEPT_TEXT = 200
_MAX_DEPTH = 4
_MAX_BYTES = 64 << 20
_MAX_VALUES = 1_000_000
"""A description is smaller: the large vocabulary of a tokenizer comes after what is read."""
_BASE_BYTES = 400 << 20
"""What the library, its buffers for a batch of 512 tokens and a large vocabulary take."""
_BYTES_PER_NUMBER = 2


@dataclass(frozen=True, slots=True)
class ModelFile:
    """What a GGUF file says of its model; 0 where it says nothing."""

    path: Path
    size_bytes: int
    architecture: str = ""
    context_length: int = 0
    layers: int = 0
    numbers_per_token: int = 0
    """Keys and values of one layer for one token."""

    def needed_bytes(self, context_tokens: int) -> int:
        """Return about how much memory the model takes with a context of this size."""
        cache = context_tokens * self.layers * self.numbers_per_token * _BYTES_PER_NUMBER
        return self.size_bytes + cache + _BASE_BYTES


def read_model_file(path: Path) -> ModelFile:
    """Return what a GGUF file says of its model.

    Raises:
        SettingsError: there is no such file, it cannot be read, or it is not a whole GGUF file.
    """
    try:
        with open(path, "rb", opener=_opened_at_once) as file:
            return _Header(file, path).read()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise SettingsError(
            f"there is no model file {path}; docs/models.md says where to get one, or name a model of a "
            "server with --base-url"
        ) from None
    except OSError as error:
        raise SettingsError(f"the model file {path} cannot be read: {error.strerror}") from error
    except (_Damaged, UnicodeDecodeError, struct.error) as error:
        raise SettingsError(
            f"{path} is not a usable GGUF file: {error}; download it again and compare its sha256"
        ) from error


def _opened_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


class _Damaged(ValueError):
    """The file is not what it should be. The message is a short reason."""


class _Header:
    """Reads the description at the beginning of a file."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise _Damaged("it is no regular file")
        self._size = status.st_size
        self._left, self._values_left = min(self._size, _MAX_BYTES), _MAX_VALUES

    def read(self) -> ModelFile:
        """Read up to the tokenizer, which comes after what is needed."""
        if self._bytes(4) != _MAGIC:
            raise _Damaged("it does not begin with GGUF")
        version = self._number("<I")
        if version not in _VERSIONS:
            raise _Damaged(f"its version is {version}, not {_VERSIONS[0]} or {_VERSIONS[-1]}")
        tensors, entries = self._number("<Q"), self._number("<Q")
        if not 0 < tensors <= self._size or not 0 < entries <= _MAX_ENTRIES:
            raise _Damaged(f"it names {tensors} tensors and {entries} entries")
        found: dict[str, Any] = {}
        for _ in range(entries):
            key = self._text()
            if key.startswith("tokenizer."):
                break
            value = self._value(self._number("<I"))
            if not isinstance(value, str) or len(value) <= _MAX_KEPT_TEXT:
                found[key] = value
        return self._model(found)

    def _model(self, found: dict[str, Any]) -> ModelFile:
        kind = str(found.get("general.architecture", ""))

        def whole(name: str) -> int:
            value = found.get(f"{kind}.{name}")
            return value if isinstance(value, int) and 0 < value < 1 << 32 else 0

        heads = whole("attention.head_count")
        width = whole("attention.key_length") or (whole("embedding_length") // heads if heads else 0)
        return ModelFile(
            path=self._path,
            size_bytes=self._size,
            architecture=kind,
            context_length=whole("context_length"),
            layers=whole("block_count"),
            numbers_per_token=2 * (whole("attention.head_count_kv") or heads) * width,
        )

    def _value(self, kind: int, depth: int = 0) -> Any:
        """Return a value; None for an array, which is skipped."""
        self._values_left -= 1
        if self._values_left < 0:
            raise _Damaged(f"its description has more than {_MAX_VALUES:,} values")
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            if kind not in _FORMATS:
                raise _Damaged(f"it has a value of the unknown type {kind}")
            return self._number(_FORMATS[kind])
        inner, count = self._number("<I"), self._number("<Q")
        if count > self._size or depth == _MAX_DEPTH:
            raise _Damaged("an array is larger than the file")
        if inner in _FORMATS:
            self._skip(count * struct.calcsize(_FORMATS[inner]))
            return None
        for _ in range(count):
            self._value(inner, depth + 1)
        return None

    def _text(self) -> str:
        length = self._number("<Q")
        if length > _MAX_TEXT:
            self._skip(length)  # a chat template may be long; it is not needed
            return ""
        return self._bytes(length).decode()

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._bytes(struct.calcsize(form)))[0]

    def _bytes(self, count: int) -> bytes:
        self._take(count)
        return self._file.read(count)

    def _skip(self, count: int) -> None:
        self._take(count)
        self._file.seek(count, os.SEEK_CUR)

    def _take(self, count: int) -> None:
        if count > self._left:
            if self._size > _MAX_BYTES:
                raise _Damaged(f"its description is longer than {_MAX_BYTES:,} bytes")
            raise _Damaged(f"it ends after {self._size:,} bytes, in the middle of its description")
        self._left -= count
