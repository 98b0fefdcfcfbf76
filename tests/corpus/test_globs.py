"""Patterns of strangers: matched as git does, and in time."""

from __future__ import annotations

import os
import random
import re
import subprocess
import time
import warnings
from pathlib import Path

import pytest

from rag.corpus import globs
from rag.corpus.globs import Glob
from rag.corpus.ignore import Patterns, read_patterns
from rag.errors import SourceError

SLOW = (
    ("*a" * 100 + "b", "a" * 4_000),
    ("*" * 200 + "b", "a" * 4_000),
    ("**/a/" * 40 + "b", "a/" * 2_000),
    ("a/**/" + "*a*/" * 20 + "b", "a/" * 2_000),
    ("*[!b]*" * 30 + "c", "a" * 4_000),
)


@pytest.mark.parametrize(("pattern", "path"), SLOW, ids=lambda text: text[:12])
def test_no_pattern_takes_more_than_time_in_proportion(pattern: str, path: str) -> None:
    patterns = Patterns.of([pattern], where="--include")
    began = time.process_time()
    assert not patterns.match(path)
    assert time.process_time() - began < 0.5


def test_patterns_match_what_git_ignores(tmp_path: Path) -> None:
    chance = random.Random(7)
    made = {_some(chance, ("*", "**", "a", "b", "/", "?", "[ab]", "[!a]", "*a", "b*")) for _ in range(120)}
    paths = {_some(chance, ("a", "b", "/", "ab", "ba", "c")).strip("/") for _ in range(60)}
    paths = {re.sub("/+", "/", path) for path in paths} - {""}
    subprocess.run(["git", "init", "-q", "--template="], cwd=tmp_path, check=True)
    matched = 0
    for pattern in sorted(made):
        (tmp_path / ".gitignore").write_text(pattern + "\n")
        patterns = Patterns.of([pattern], where="--include")
        ours = {path for path in paths if patterns.match(path)}
        assert ours == _ignored_by_git(tmp_path, paths), pattern
        matched += len(ours)
    assert matched > 100


def _some(chance: random.Random, pieces: tuple[str, ...]) -> str:
    return "".join(chance.choice(pieces) for _ in range(chance.randint(1, 6)))


def _ignored_by_git(folder: Path, paths: set[str]) -> set[str]:
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=folder,
        input="\0".join(sorted(paths)).encode(),
        capture_output=True,
        check=False,
    )
    return set(done.stdout.decode().split("\0")) - {""}


@pytest.mark.parametrize("pattern", ["[z-a]", "[a--b]", "a\\"])
def test_what_is_no_pattern_is_named(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(SourceError, match="--include contains an invalid pattern"):
        Patterns.of([pattern], where="--include")
    (tmp_path / ".gitignore").write_text(f"{pattern}\n*.log\n")
    found = read_patterns(tmp_path / ".gitignore", strict=False)
    assert found is not None and found.match("a.log") and not found.match("a.py")


@pytest.mark.parametrize("pattern", ["[[a]", "[a&&b]", "[a||b]", "[a~~b]"])
def test_sets_warn_of_nothing(pattern: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Patterns.of([pattern], where="--include").match("a")


def test_a_line_repeated_is_compiled_once_and_its_last_place_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def counted(line: str) -> Glob:
        compiled.append(line)
        return Glob(line)

    monkeypatch.setattr(globs, "Glob", counted)
    patterns = Patterns.of(["*.py", "!a.py", "*.py", *["|"] * 100_000, "!b.py"], where="--include")
    assert compiled == ["!a.py", "*.py", "|", "!b.py"]
    assert patterns.match("a.py") and not patterns.match("b.py")


@pytest.mark.parametrize("name", [".ragignore", ".gitignore"])
@pytest.mark.parametrize(
    "text", ["a" * 2_000_000, f"{'a' * 5_000}\n", "".join(f"x/**/y*z{n}\n" for n in range(6_000))], ids=len
)
def test_a_file_of_patterns_is_bounded(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    began = time.process_time()
    if name == ".ragignore":
        with pytest.raises(SourceError, match=r"larger than|more than"):
            read_patterns(path)
    else:
        patterns = read_patterns(path, strict=False)
        assert patterns is None or not patterns.match("b.py")
    assert time.process_time() - began < 3


def test_a_file_of_patterns_is_not_read_through_a_link_out_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("*.py\n")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / ".ragignore").symlink_to(tmp_path / "outside")
    with pytest.raises(SourceError, match="a link to a file outside"):
        read_patterns(tmp_path / "root" / ".ragignore")
    os.mkfifo(tmp_path / "root" / ".gitignore")
    assert read_patterns(tmp_path / "root" / ".gitignore", strict=False) is None
