"""Read a file's text, or return the reason to skip it.

Only a regular file inside the root is opened, whatever may have replaced it since the walk: every parent
folder is opened without following links, and opening never blocks on a pipe or device. Data files are
recognised by their first bytes, without reading the rest.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from rag.code.languages import OTHER, TEXT, language_of_text, languages_named
from rag.corpus import skip
from rag.corpus.ignore import declared_encoding
from rag.corpus.secrets import find_secret
from rag.decoding import decode, is_wide
from rag.lines import LONG_VALUE
from rag.notebook_text import Notebook, is_notebook, notebook_of
from rag.types import FileEntry, Skipped, SourceFile, blob_id

__all__ = ["file_blob", "file_bytes", "find_secret", "parsed_as", "read"]

_LIMIT_BYTES = 64 << 20
"""No handwritten text file is this large, whatever the settings allow."""

_MAX_NOTEBOOK_CHARS = 1_000_000
"""The limit for the text of a notebook's cells; outputs do not count."""
_NOTEBOOK = ".ipynb"
_HEAD_BYTES = 1 << 16
_HEADER_CHARS = 4_000
_HEADER_LINES = 25
_MINIFIED_CHARS = 4_000
_MINIFIED_LINE = 400
_DATA_LINE = 2_000
_MOST_LONG, _MOST_MINIFIED = 0.5, 0.3
"""The share of long lines from which a text is data, or minified. Comments and blank lines do not count."""
_LEAST_AROUND = 8
"""A line with fewer characters around its long value has nothing else."""
_REMARK = ("//", "/*", "*", "<!--")
_TABLE_CHARS, _TABLE_LETTERS = 20_000, 0.6
"""A text of an unknown type needs this share of letters and spaces at its beginning."""

_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b"))

_GENERATED = re.compile(
    r"(?m)^[ \t]*(#|//|/?\*|--|;|<!--|%|\"\"\"|REM\b|dnl\b|@rem\b).{0,80}?"
    r"(?:@generated\b|(?P<request>\bDO NOT (?:EDIT|MODIFY|CHANGE)\b"
    r"|\bDo not (?:edit|modify) (?:this file|by hand|manually|directly))|\bGENERATED (?:CODE|FILE|BY)\b"
    r"|(?i:\b(?:code|file|automatically|auto|machine)[ -]?(?:is |was |has been )?(?:automatically |auto)?"
    r"[ -]?generated (?:by|from|with|using|file|code|do not)\b))"
)
_MADE = re.compile(
    r"(?i)generat|autogen|\b(?:made|created|produced|derived|compiled|built|written) (?:by|from|with)\b"
)
"""What a header must say too that asks not to edit a file: a file of defaults that is written by hand may ask
for it as well."""
_HASH_COMMENTED = frozenset({"python", "ruby", "bash", "yaml", "toml", "make", "perl", "r"})
_MINIFIABLE = frozenset({"javascript", "css", "html", "typescript", "json", "scss", "xml", "php"})


class _Unusable(Exception):
    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


def read(root: Path, entry: FileEntry) -> SourceFile | Skipped:
    """Read one file.

    Its encoding is found by `rag.decoding`; invalid bytes never fail. The text has no byte order mark and
    keeps its line ends; that of a notebook is `rag.notebook_text`. `blob` is the id of the bytes.

    Returns:
        The file, or Skipped for a file that is binary, in Git LFS, generated, a likely secret, vanished, or
        unreadable.
    """
    try:
        content = _content(root, entry.path)
        text, encoding, guessed = decode(content, lambda: _declared_encoding(root, entry.path))
        if "\0" in text:
            raise _Unusable(skip.BINARY)
        language = language_of_text(entry.language, entry.path, text)
        notebook = notebook_of(text) if is_notebook(content) else None
        if notebook:
            text, language = notebook.text, _kernel_language(notebook)
        size = len(text) - text.count("\n")  # the lines of outputs are empty
        if size > _MAX_NOTEBOOK_CHARS and entry.path.endswith(_NOTEBOOK):
            raise _Unusable(skip.TOO_LARGE, f"notebook of {size} characters")
        _refuse_generated(text, language)
        if language == OTHER:
            _refuse_tables(text)
        if secret := find_secret(text, entry.path):
            return Skipped(entry.path, skip.SECRET, secret)
    except _Unusable as why:
        return Skipped(entry.path, why.reason, why.detail)
    return SourceFile(
        entry.path, text, blob_id(content), language, entry.kind, encoding if guessed else "", notebook
    )


def parsed_as(content: bytes, language: str) -> tuple[str, str]:
    """Return what is parsed of the bytes of a file, and its language: of a notebook, the cells of code."""
    text = decode(content).text
    found = notebook_of(text) if is_notebook(content) else None
    return (found.code, _kernel_language(found)) if found else (text, language)


def _kernel_language(notebook: Notebook) -> str:
    return next(iter(languages_named(notebook.language)), TEXT)


def _declared_encoding(root: Path, path: str) -> str:
    """Return the encoding that git's attributes declare for a file; the nearest folder decides."""
    found = ""
    folders = path.split("/")[:-1]
    for depth in range(len(folders) + 1):
        above = "".join(f"{folder}/" for folder in folders[:depth])
        if attributes := file_bytes(root, f"{above}.gitattributes"):
            found = declared_encoding(attributes, path[len(above) :]) or found
    return found


def file_bytes(root: Path, path: str) -> bytes | None:
    """Return the current bytes of a file, text or not; None when it cannot be read whole."""
    try:
        with _opened(root, path) as file:
            return file.read()
    except (_Unusable, OSError):
        return None


def file_blob(root: Path, path: str) -> str | None:
    """Return git's id of the current bytes; None when the file cannot be read whole."""
    content = file_bytes(root, path)
    return None if content is None else blob_id(content)


def _content(root: Path, path: str) -> bytes:
    try:
        with _opened(root, path) as file:
            head = file.read(_HEAD_BYTES)
            _refuse_data(head, whole=len(head) < _HEAD_BYTES)
            return head + file.read(_LIMIT_BYTES) if len(head) == _HEAD_BYTES else head
    except FileNotFoundError as error:
        raise _Unusable(skip.VANISHED) from error
    except OSError as error:
        raise _Unusable(skip.UNREADABLE, error.strerror or "") from error


def _opened(root: Path, path: str) -> BinaryIO:
    """Open a regular file for reading that is reached from the root without a link."""
    *parents, name = path.split("/")
    if not {"", ".", ".."}.isdisjoint((*parents, name)):
        raise _Unusable(skip.SYMLINK_OUTSIDE)
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for parent in parents:
            inner = os.open(
                parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder
            )
            os.close(folder)
            folder = inner
        # Without O_NONBLOCK, opening a pipe that replaced the file would block.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _Unusable(skip.SYMLINK) from error
        raise
    finally:
        os.close(folder)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size <= _LIMIT_BYTES:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISREG(status.st_mode):
        raise _Unusable(skip.TOO_LARGE, f"{status.st_size} bytes")
    raise _Unusable(skip.SPECIAL)


def _refuse_data(head: bytes, *, whole: bool) -> None:
    """Raise if the first bytes show that the file is not text."""
    if is_wide(head):
        return
    if whole and head.startswith(_LFS_POINTER):
        raise _Unusable(skip.DATA, "a Git LFS pointer")
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if b"\0" in head or controls * 50 > len(head):
        raise _Unusable(skip.BINARY)


def _refuse_tables(text: str) -> None:
    """Raise if a text of an unknown type holds numbers or codes rather than words."""
    head = text[:_TABLE_CHARS]
    letters = sum(map(str.isalpha, head)) + head.count(" ") + head.count("\n")
    if letters < _TABLE_LETTERS * len(head) or _long_share(head, _DATA_LINE) > _MOST_LONG:
        raise _Unusable(skip.DATA)


def _refuse_generated(text: str, language: str) -> None:
    header = "\n".join(text[:_HEADER_CHARS].split("\n", _HEADER_LINES)[:_HEADER_LINES])
    for match in _GENERATED.finditer(header):
        if match["request"] and not _MADE.search(header):
            continue
        if language not in _HASH_COMMENTED or match[1] in ("#", '"""'):  # else a generator's template
            line = header.count("\n", 0, match.start()) + 1
            raise _Unusable(skip.GENERATED, f"marked on line {line}")
    if len(text) >= _MINIFIED_CHARS:
        line = len(text) // (text.count("\n") + text.count("\r") + 1)
        limit, most = (
            (_MINIFIED_LINE, _MOST_MINIFIED) if language in _MINIFIABLE else (_DATA_LINE, _MOST_LONG)
        )
        if line > limit and _long_share(text, limit) > most:
            raise _Unusable(skip.GENERATED, f"lines of {line} characters on average")


def _long_share(text: str, limit: int) -> float:
    """Return the share of lines with more than `limit` characters, without those of one long value."""
    long = others = 0
    for line in map(str.strip, text.split("\n")):
        if len(line) > limit and not _LEAST_AROUND < len(LONG_VALUE.sub("", line)) <= limit:
            long += 1
        elif line and not line.startswith(_REMARK):
            others += 1
    return long / max(long + others, 1)
