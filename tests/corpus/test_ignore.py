"""Files of patterns as programs save them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.corpus.history import differing
from rag.corpus.ignore import Patterns, declared_encoding, read_patterns
from rag.corpus.walk import walk
from rag.errors import SourceError
from rag.types import Filters
from tests.conftest import git

LINES = "secrets/\ngeheim-ü/\n*.令\n"
ENCODINGS = "utf-8 utf-8-sig utf-16 utf-16-le utf-16-be utf-32".split()


PATHS = ("open/a.py", "secrets/a.py", "geheim-ü/a.py", "open/a.令")
UNSEEN = ("\ufeff", "\ufeff\ufeff", "\u200b", "\u2060", "\u200e")


def repository(folder: Path, name: str, content: bytes) -> Path:
    """A folder with a file of patterns; with `info/exclude` that of a git work tree."""
    for path in PATHS:
        (folder / path).parent.mkdir(exist_ok=True, parents=True)
        (folder / path).write_text("x = 1\n")
    if name != "info/exclude":
        (folder / name).write_bytes(content)
    else:
        git(folder, "init", "-q")
        (folder / ".git" / name).write_bytes(content)
    return folder


def indexed(folder: Path) -> list[str]:
    found = walk(folder, Filters(), max_file_bytes=1_000).files
    return [entry.path for entry in found if not entry.path.endswith("ignore")]


@pytest.mark.parametrize("name", [".ragignore", ".gitignore", "info/exclude"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_pattern_counts_in_every_encoding(tmp_path: Path, encoding: str, end: str, name: str) -> None:
    assert indexed(repository(tmp_path, name, LINES.replace("\n", end).encode(encoding))) == ["open/a.py"]


@pytest.mark.parametrize("name", [".ragignore", ".gitignore", "info/exclude"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("unseen", UNSEEN)
def test_a_pattern_counts_without_the_characters_that_nobody_sees(
    tmp_path: Path, unseen: str, encoding: str, name: str
) -> None:
    lines = f"{unseen}secrets/\n{unseen}# open/\nge{unseen}heim-ü/{unseen}\n*.令\n"
    assert indexed(repository(tmp_path, name, lines.encode(encoding))) == ["open/a.py"]


def test_a_pattern_also_counts_with_the_characters_that_nobody_sees(tmp_path: Path) -> None:
    patterns = Patterns.of(["می\u200cخواهم/", "*.md", "\ufeff!a.md"], where="--exclude")
    assert patterns.match("می\u200cخواهم/a.py")
    assert patterns.opinion("a.md") is False


def test_a_work_tree_applies_the_patterns_that_git_cannot_read_to_untracked_files(tmp_path: Path) -> None:
    repository(tmp_path, "info/exclude", b"")
    git(tmp_path, "add", "secrets")
    (tmp_path / "secrets/b.py").write_text("x = 1\n")
    (tmp_path / "open/.gitignore").write_bytes("*.py\n".encode("utf-16"))
    (tmp_path / ".gitignore").write_bytes("secrets/\n/geheim-ü\n".encode("utf-16"))
    assert indexed(tmp_path) == ["open/a.令", "secrets/a.py"]
    assert indexed(tmp_path / "open") == ["a.令"]
    git(tmp_path, "commit", "-q", "-m", "x")
    commit = git(tmp_path, "rev-parse", "HEAD").strip()
    assert differing(tmp_path, commit) == {".gitignore", "open/.gitignore", "open/a.令"}


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
