"""Files of patterns as programs save them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.corpus.ignore import declared_encoding, read_patterns
from rag.corpus.walk import walk
from rag.errors import SourceError
from rag.types import Filters

LINES = "secrets/\ngeheim-ü/\n*.令\n"
ENCODINGS = "utf-8 utf-8-sig utf-16 utf-16-le utf-16-be utf-32".split()


@pytest.mark.parametrize("name", [".ragignore", ".gitignore"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_pattern_counts_in_every_encoding(tmp_path: Path, encoding: str, end: str, name: str) -> None:
    (tmp_path / name).write_bytes(LINES.replace("\n", end).encode(encoding))
    for path in ("open/a.py", "secrets/a.py", "geheim-ü/a.py", "open/a.令"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("x = 1\n")
    found = walk(tmp_path, Filters(), max_file_bytes=1_000).files
    assert [entry.path for entry in found if entry.path[0] != "."] == ["open/a.py"]


@pytest.mark.parametrize("line", ["geheim-ü/", "тайна/"])
@pytest.mark.parametrize("encoding", ["latin-1", "cp1251", "koi8-r"])
def test_a_pattern_in_another_encoding_matches_a_name_by_characters_and_by_bytes(
    tmp_path: Path, line: str, encoding: str
) -> None:
    try:
        written = f"{line}\n{line}\n".encode(encoding)
    except UnicodeEncodeError:
        pytest.skip("it has no such letters")
    (tmp_path / ".ragignore").write_bytes(written)
    patterns = read_patterns(tmp_path / ".ragignore")
    assert patterns is not None
    assert patterns.match(f"{line}a.py")
    assert patterns.match(written.split(b"\n")[0].decode("utf-8", "surrogateescape") + "a.py")


@pytest.mark.parametrize("content", [b"secrets/\n\0\x01\n", bytes(range(256))])
def test_a_file_that_is_no_text_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".ragignore").write_bytes(content)
    with pytest.raises(SourceError, match=r"\.ragignore is no text; save it in UTF-8"):
        read_patterns(tmp_path / ".ragignore")


@pytest.mark.parametrize(
    ("attributes", "path", "encoding"),
    [
        ("*.txt working-tree-encoding=GBK\n", "a/b.txt", "GBK"),
        ("*.txt text eol=crlf working-tree-encoding=UTF-16LE-BOM\n", "b.txt", "UTF-16LE-BOM"),
        ("*.txt encoding=koi8-r -text\n", "b.txt", "koi8-r"),
        ('"a b.txt" encoding=koi8-r\n', "a b.txt", "koi8-r"),
        ("*.txt encoding=koi8-r\nb.txt encoding=cp866\n", "b.txt", "cp866"),
        ("*.txt encoding=koi8-r\nb.txt -encoding\n", "b.txt", ""),
        ("/docs/*.txt encoding=koi8-r\n", "b.txt", ""),
        ("# *.txt encoding=koi8-r\n*.md text\n", "b.txt", ""),
        ("*.txt my-encoding=koi8-r\n", "b.txt", ""),
    ],
)
def test_the_encoding_of_a_path_is_that_of_the_last_line_that_matches(
    attributes: str, path: str, encoding: str
) -> None:
    for mark in (b"", b"\xef\xbb\xbf"):
        assert declared_encoding(mark + attributes.encode(), path) == encoding
