"""Lists of patterns in gitignore syntax, and the encodings that git's attributes declare."""

from __future__ import annotations

import codecs
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from rag.corpus.worktree import git_folder, work_tree
from rag.decoding import decode
from rag.errors import SourceError
from rag.identifiers import composed
from rag.lines import lines_of
from rag.resources import read_regular

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_MAX_BYTES, _MAX_LINES, _MAX_LINE_CHARS = 1 << 20, 5_000, 4_096
"""Limits for a file of patterns: each is compiled, and compared with every path; no path is longer."""
_ENCODING = re.compile(
    r"(?:\"([^\"]+)\"|(\S+))[ \t](?:.*[ \t])?"
    r"(?:(?:working-tree-)?encoding=(\S+)|[-!](?:working-tree-)?encoding(?!\S))"
)


_SPECIAL = re.compile(r"[*?\[\\]|^[!#]|\s$")
"""What has a meaning in a pattern."""


class Patterns:
    """Patterns, of which the last match decides; False when there are none."""

    def __init__(self, spec: GitIgnoreSpec | None) -> None:
        self._spec = spec

    @classmethod
    def of(cls, lines: Iterable[str], *, where: str, paths: Iterable[str] = ()) -> Patterns:
        """Compile patterns from lines; blank lines and comments are ignored.

        A line that is one of the `paths`, or a folder of one, means that, though it is a pattern, too:
        `app/[id]/page.js`.

        Raises:
            SourceError: a pattern is invalid; `where` names its origin.
        """
        return cls(_compiled(_as_paths(list(lines), paths), where))

    def __bool__(self) -> bool:
        return self._spec is not None

    def match(self, path: str) -> bool:
        """Return whether a pattern matches the path or one of its parent folders."""
        return self._spec is not None and self._spec.match_file(composed(path))

    def opinion(self, path: str) -> bool | None:
        """Return True for a match, False for a path re-included by `!`, None when no pattern matches."""
        return self._spec.check_file(composed(path)).include if self._spec is not None else None


def _as_paths(lines: list[str], paths: Iterable[str]) -> list[str]:
    """Return patterns; of those that are paths, also after a `!`, the special characters are escaped."""
    if not any(_SPECIAL.search(line) for line in lines):
        return lines
    known = [f"/{composed(path)}/" for path in paths]

    def as_path(line: str) -> str | None:
        part = composed(line).removeprefix("./").strip("/")
        anchor = "/" if "/" in part else ""
        if any(path.startswith(f"/{part}/") if anchor else f"/{part}/" in path for path in known):
            return anchor + _SPECIAL.sub(r"\\\g<0>", part)
        return None

    found = []
    for line in lines:
        escaped = as_path(line) if _SPECIAL.search(line) else None
        if escaped is None and line.startswith("!") and (kept := as_path(line[1:])):
            escaped = f"!{kept}"
        found.append(escaped or line)
    return found


def read_patterns(path: Path, *, strict: bool = True) -> Patterns | None:
    """Return the patterns in a file, None when there is none.

    Raises:
        SourceError: with `strict`, the file cannot be read, is no text, has too many or too long lines, is a
            link out of its folder, or contains an invalid pattern. Without, such lines, and files that are
            links or too large, are ignored, much as git does.
    """
    try:
        if not path.is_file() or (path.is_symlink() and not strict):
            return None
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(path.parent)):
            raise SourceError(f"{path} is a link to a file outside of its folder; replace it by a copy")
        content = read_regular(path, max_bytes=_MAX_BYTES)
    except OSError as error:
        if not strict:
            return None
        raise SourceError(f"cannot read {path}: {error.strerror}") from error
    lines = _lines(content)
    if strict and any("\0" in line for line in lines):
        raise SourceError(f"{path} is no text; save it in UTF-8")
    kept = [line for line in lines if len(line) <= _MAX_LINE_CHARS][:_MAX_LINES]
    if strict and len(kept) < len(lines):
        raise SourceError(
            f"{path} has more than {_MAX_LINES:,} lines, or one of more than {_MAX_LINE_CHARS:,} characters"
        )
    return Patterns(_compiled(kept, str(path) if strict else ""))


def excluded(path: str, files: Sequence[tuple[str, Patterns]]) -> bool:
    """Return whether the innermost file of patterns with a match excludes a path.

    Args:
        path: a folder ends with "/".
        files: the folder of each, "" or with a "/" at its end, and its patterns; the innermost is the last.
    """
    for folder, patterns in reversed(files):
        opinion = patterns.opinion(path[len(folder) :])
        if opinion is not None:
            return opinion
    return False


def excluded_unlike_git(root: Path, untracked: Iterable[str]) -> set[str]:
    """Return those of the untracked files that a `.gitignore` or `info/exclude` excludes that git reads as
    other text: in UTF-16 or UTF-32, with CR line ends, with characters that nobody sees.
    """
    top = work_tree(root)
    if top is None or not (paths := list(untracked)):
        return set()
    within = f"{root.relative_to(top).as_posix()}/".removeprefix("./")
    common = git_folder(root)
    everywhere = _read_unlike_git(Path(common, "info", "exclude")) if common else None
    known: dict[str, list[tuple[str, Patterns]]] = {}

    def files_of(folder: str) -> list[tuple[str, Patterns]]:
        if folder not in known:
            above = [("", everywhere)] if everywhere else []
            above = files_of(folder[: folder.rfind("/", 0, -1) + 1]) if folder else above
            own = _read_unlike_git(top / folder / ".gitignore")
            known[folder] = [*above, (folder, own)] if own else above
        return known[folder]

    return {path for path in paths if excluded(full := within + path, files_of(full[: full.rfind("/") + 1]))}


def _read_unlike_git(path: Path) -> Patterns | None:
    try:
        content = read_regular(path, max_bytes=_MAX_BYTES)
        text = content.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError:
        return read_patterns(path, strict=False)
    except OSError:
        return None
    is_plain = text.replace("\r\n", "\n").translate(dict.fromkeys(map(ord, "\n\t"))).isprintable()
    return None if is_plain else read_patterns(path, strict=False)


def _lines(content: bytes) -> list[str]:
    """Return the lines of a file of patterns. In a guessed encoding each is there twice, as names on disk may
    have its bytes or its characters.
    """
    text, _, guessed = decode(content)
    lines = [line.removesuffix("\r") for line in lines_of(text)]
    if guessed and b"\0" not in content:
        exact = content.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
        lines = [line for pair in zip(lines, lines_of(exact), strict=False) for line in dict.fromkeys(pair)]
    return lines


def declared_encoding(attributes: bytes, path: str) -> str:
    """Return the encoding that the text of a `.gitattributes` declares for a path; "" for none."""
    found = ""
    for patterns, encoding in _encodings(attributes):
        if patterns.match(path):
            found = encoding
    return found


@lru_cache(maxsize=32)
def _encodings(attributes: bytes) -> list[tuple[Patterns, str]]:
    lines = decode(attributes[:_MAX_BYTES]).text.splitlines()[:_MAX_LINES]
    found = [_ENCODING.match(line) for line in lines if len(line) <= _MAX_LINE_CHARS and "encoding" in line]
    return [(Patterns(_compiled([one[1] or one[2]], "")), one[3] or "") for one in found if one]


def _visible(line: str) -> str:
    return line if line.isprintable() else "".join(one for one in line if unicodedata.category(one) != "Cf")


def _compiled(lines: Iterable[str], where: str) -> GitIgnoreSpec | None:
    """Compile each distinct line once, in the order of last occurrences: only the last one can decide. One
    with characters that nobody sees, such as byte order marks, also counts without them.

    None when no line is a pattern. An invalid line is an error, or left out when `where` is empty.
    """
    forms = (form for line in lines for form in dict.fromkeys((line, _visible(line))))
    written = [form for form in forms if form.strip() and not form.startswith("#")]
    if not written:
        return None
    from pathspec import (
        GitIgnoreSpec,
    )  # late: most repositories need none

    from rag.corpus.globs import Glob

    patterns: list[Glob] = []
    distinct = dict.fromkeys(map(composed, reversed(written)))
    for line in reversed(distinct):
        try:
            patterns.append(Glob(line))
        except (ValueError, re.error, OverflowError, RecursionError) as error:
            if where:
                raise SourceError(f"{where} contains an invalid pattern: {error}") from error
    # The same engine everywhere: other installed ones parse sets differently.
    return GitIgnoreSpec(patterns, backend="simple") if patterns else None
