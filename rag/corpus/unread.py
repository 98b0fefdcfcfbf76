"""Look up names in the files of a repository that are not indexed, before it is said that they occur nowhere.

These are the files that were skipped, those that git ignores, those that are not checked out (their blobs are
read from git), and for a folder within a git repository the files around it. They are read as bytes, whatever
their encoding, and only the places of names are returned. Time and bytes are bounded: what was not read is
named.
"""

from __future__ import annotations

import os
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice, product
from pathlib import Path
from typing import AnyStr, TypeVar

from rag.corpus import skip
from rag.corpus.git import GitError, run_git
from rag.corpus.history import blob_sizes, read_blobs
from rag.corpus.ignore import Patterns, excluded_unlike_git, read_patterns
from rag.corpus.read import file_bytes
from rag.corpus.secrets import find_secret
from rag.corpus.walk import Walk
from rag.corpus.worktree import work_tree
from rag.decoding import decode
from rag.errors import SourceError
from rag.types import LOCAL, SUBMODULE, Reach

Spans = Callable[[bytes], Iterable[tuple[int, int]]]
"""Yields where a text in UTF-8 matches, without empty matches."""
MAX_BYTES = 64 << 20
MAX_SECONDS = 1.0
_MAX_PLACES, _MAX_PLACES_IN_FILE = 200, 5
_MAX_BLOBS = 20_000
_BLOBS_AT_ONCE = 4 << 20
_CACHES = frozenset({"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".parcel-cache"})
"""Folders of tools, which repeat names of the code and are no code."""
_NARROW = ("cp1252", "koi8-r", "gb18030")
_WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
WITHHELD = frozenset({skip.SECRET, skip.RAGIGNORED, skip.FILTERED})
_MAX_EXAMINED_BYTES = 4 << 20
_Form = TypeVar("_Form", str, bytes)
_WORD = re.compile(r"[\w$\x80-\xff]")
_WORD_BYTE, _WORD_BYTES = re.compile(rb"[\w$\x80-\xff]"), re.compile(rb"[\w$\x80-\xff]+")
_PUBLISHED = frozenset({skip.VENDORED, skip.LONG_LINE})
"""Reasons of files whose content is not examined for secrets: that of others, and of indexed ones, was."""
_LINKS = frozenset({skip.SYMLINK, skip.SYMLINK_BROKEN, skip.SYMLINK_LOOP})
"""They lead to files that are searched themselves."""


@dataclass(frozen=True, slots=True)
class UnreadPlace:
    """A line that is not indexed and has one of the names; `path` is relative to the source's folder."""

    path: str
    line: int
    reason: str

    @property
    def place(self) -> str:
        """`path:line`."""
        return f"{self.path}:{self.line}"


@dataclass(slots=True)
class Unread:
    """What was found of some names outside the index.

    `searched` counts the files that were searched, and `left_out` those that were not, by reason; `limit`
    says which limit ended the search.
    """

    places: list[UnreadPlace] = field(default_factory=list)
    searched: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    limit: str = ""


def find_unread(
    root: Path,
    names: Sequence[str] | Spans,
    walked: Walk,
    *,
    indexed: Collection[str],
    skipped: Mapping[str, str],
    ignore_case: bool = False,
    whole: bool = True,
    left_out: Iterable[tuple[str, bytes]] = (),
    reach: Reach = LOCAL,
    max_seconds: float = MAX_SECONDS,
) -> Unread:
    """Look up names in what is not indexed.

    Args:
        root: the source's folder.
        names: at least one; or where a text matches an expression.
        walked: its files, as they are now.
        indexed: the paths of the indexed files.
        skipped: why other files were not indexed when they were read, by path.
        ignore_case: whether upper and lower case are alike.
        whole: whether the names must be whole words.
        left_out: what of indexed files is not indexed, by path.
        reach: what may be read.
        max_seconds: the search ends after this time.
    """
    reasons = {one.path: one.reason for one in walked.skipped} | dict(skipped)
    words = _Expression(names) if callable(names) else _Words(names, ignore_case, whole)
    search = _Search(root, words, reasons, indexed, time.monotonic() + max_seconds, reach)
    try:
        search.run([one.path for one in walked.files], left_out)
    except _Ended as limit:
        search.found.limit = str(limit)
    return search.found


def find_in_files(
    root: Path,
    names: Sequence[str] | Spans,
    paths: Mapping[str, str],
    *,
    left_out: Iterable[tuple[str, bytes]] = (),
    max_bytes: int,
    max_seconds: float = MAX_SECONDS,
    ignore_case: bool = False,
    whole: bool = True,
    reach: Reach,
) -> Unread:
    """Look up names, or an expression, in files of a folder, given with their reasons, and in what is not
    indexed of others.
    """
    words = _Expression(names) if callable(names) else _Words(names, ignore_case, whole)
    search = _Search(root, words, paths, (), time.monotonic() + max_seconds, reach)
    search.bytes_left = max_bytes
    try:
        search.left_out(left_out)
        for path, reason in sorted(paths.items()):
            search.file(path, reason)
    except _Ended as limit:
        search.found.limit = str(limit)
    return search.found


def smallest_files(root: Path, paths: Iterable[str], *, max_bytes: int) -> list[str]:
    """Return the files of a folder that are there, the smallest first, up to a sum of bytes."""
    sizes = list[tuple[int, str]]()
    for path in paths:
        with suppress(OSError):  # it is gone
            sizes.append((os.lstat(f"{root}/{path}").st_size, path))
    sizes.sort()
    totals = accumulate(size for size, _ in sizes)
    return [path for (_, path), total in zip(sizes, totals, strict=True) if total <= max_bytes]


def only_spans(content: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """Return a text with the same lines and only some of its bytes, up to the ends of words."""
    parts, at = list[bytes](), 0
    for start, end in spans:
        while start > at and _WORD_BYTE.match(content, start - 1):
            start -= 1
        rest = _WORD_BYTES.match(content, end)
        end = rest.end() if rest else end
        parts += (b"\n" * content.count(b"\n", at, start), b" ", content[max(at, start) : end])
        at = max(at, end)
    return b"".join(parts)


def ignored_by_git(root: Path) -> list[str] | None:
    """Return the files that git ignores in a folder, without binary ones; "build/" is a whole folder.

    None where git does not list them.
    """
    if work_tree(root) is None:
        return []
    untracked = ["ls-files", "--others", "--exclude-standard", "-z"]
    try:
        listings = [
            run_git(command, cwd=root, timeout_s=MAX_SECONDS).decode("utf-8", "surrogateescape").split("\0")
            for command in ([*untracked, "--ignored", "--directory"], untracked)
        ]
    except (GitError, SourceError):
        return None
    ignored, others = (list(filter(None, listing)) for listing in listings)
    return [
        path
        for path in (*ignored, *sorted(excluded_unlike_git(root, others)))
        if skip.reason_by_name(path) != skip.BINARY and not _CACHES.intersection(path.split("/"))
    ]


class _Ended(Exception):
    """A limit of the search was met."""


class _Words:
    """Finds names in bytes of any encoding."""

    def __init__(self, names: Sequence[str], ignore_case: bool = False, whole: bool = True) -> None:
        self.ignore_case = ignore_case
        folded = [name.lower() if ignore_case else name for name in names if name]
        forms = {unicodedata.normalize(form, name) for name in folded for form in ("NFC", "NFD")}
        self._plain = {form.encode(errors="surrogatepass") for form in forms}
        for form, encoding in product(forms, _NARROW):
            with suppress(UnicodeEncodeError):
                self._plain.add(form.encode(encoding))
        self._wide = [
            (form.encode(encoding, "surrogatepass"), encoding) for form in sorted(forms) for encoding in _WIDE
        ]
        self._text = re.compile("|".join(_word(form, whole) for form in _longest_first(forms)))
        plain = (_word(form.decode("latin-1"), whole) for form in _longest_first(self._plain))
        self._bytes = re.compile("|".join(plain).encode("latin-1"))

    def lines(self, content: bytes) -> list[int]:
        """Return the first lines that have one of the names, from 1."""
        content = content.lower() if self.ignore_case else content
        if any(form in content for form in self._plain):
            found = _lines(self._bytes.finditer(content), content, b"\n" if b"\n" in content else b"\r")
            if found:
                return found
        if b"\0" not in content:
            return []
        for form, encoding in self._wide:
            if (at := content.find(form)) >= 0:
                width = 2 if "16" in encoding else 4
                text = content[at % width :].decode(encoding, "replace")
                if found := _lines(self._text.finditer(text), text, "\n" if "\n" in text else "\r"):
                    return found
        return []


def _longest_first(forms: Iterable[_Form]) -> list[_Form]:
    return sorted(forms, key=len, reverse=True)


def _word(form: str, whole: bool) -> str:
    """Return an expression of a name, if it must be `whole` without letters of a word next to its own.

    It begins with the name itself, which is found much faster than what precedes it.
    """
    name = re.escape(form)
    before = rf"(?<![\w$]{name})" if whole and _WORD.match(form[0]) else ""
    return name + before + (r"(?![\w$])" if whole and _WORD.match(form[-1]) else "")


class _Expression:
    """Finds an expression in bytes, as UTF-8."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans

    def lines(self, content: bytes) -> list[int]:
        """Return the first lines on which a match begins, from 1."""
        if b"\0" in content or not content.isascii():
            content = decode(content).text.encode("utf-8", "surrogatepass")
        found: dict[int, None] = {}
        line, at = 1, 0
        for start, _ in self._spans(content):
            line, at = line + content.count(b"\n", at, start), start
            found[line] = None
            if len(found) == _MAX_PLACES_IN_FILE:
                break
        return list(found)


def _lines(matches: Iterator[re.Match[AnyStr]], text: AnyStr, end: AnyStr) -> list[int]:
    """Return the lines of the first matches, each once."""
    found: list[int] = []
    line, at = 1, 0
    for match in matches:
        line += text.count(end, at, match.start())
        at = match.start()
        if not found or found[-1] != line:
            found.append(line)
        if len(found) == _MAX_PLACES_IN_FILE:
            break
    return found


class _Search:
    """One search: our own files first, then those around them, those that git ignores, vendored ones."""

    def __init__(
        self,
        root: Path,
        words: _Words | _Expression,
        reasons: Mapping[str, str],
        indexed: Collection[str],
        until: float,
        reach: Reach,
    ) -> None:
        self.root, self.words, self.reasons, self.indexed = root, words, reasons, indexed
        self.reach, self.found = reach, Unread()
        self._until, self.bytes_left = until, MAX_BYTES
        self._seen: set[str] = set()
        self._vendored: list[str] = []
        self._folders = tuple(
            (path if path.endswith("/") else f"{path}/", reason)
            for path, reason in reasons.items()
            if path.endswith("/") or reason == SUBMODULE
        )

    def run(self, listed: Sequence[str], left_out: Iterable[tuple[str, bytes]]) -> None:
        """Search everything, the most likely places first. Raises _Ended."""
        for path, reason in sorted(self.reasons.items()):
            if not path.endswith("/") and reason not in (SUBMODULE, skip.NOT_CHECKED_OUT, skip.ODD_NAME):
                self.file(path, reason)
        for path in sorted(set(listed).difference(self.indexed)):
            self.file(path, skip.NOT_YET)
        top, around = work_tree(self.root), self.reach.around
        inner = "" if top is None or top == self.root else f"{self.root.relative_to(top).as_posix()}/"
        self._blobs(self.root if inner and not around else top, inner if around else "")
        if inner and around and top is not None:
            self._tree(top, "", skip.AROUND, without=inner)
        elif inner:
            self.found.left_out[skip.AROUND] += 1
        self.left_out(left_out)
        self._tree(self.root, "", skip.GIT_IGNORED)
        while self._vendored:
            folder = self._vendored.pop()
            self._tree(self.root, folder, skip.VENDORED)

    # ------------------------------------------------------------ files

    def file(self, path: str, reason: str, *, base: Path | None = None) -> None:
        """Search a file of a folder, by default of the source's."""
        if base is None:
            if path in self._seen:
                return
            self._seen.add(path)
        if reason in _LINKS:
            return
        if self._is_withheld(path, reason):
            self.found.left_out[reason if reason in WITHHELD else skip.SECRET] += 1
            return
        if skip.reason_by_name(path) == skip.BINARY:
            self.found.left_out[skip.BINARY] += 1
            return
        reason = skip.UNDECODED if reason == skip.BINARY else reason
        self._check_time()
        try:
            size = os.lstat(f"{base or self.root}/{path}").st_size
        except OSError:
            return  # it is gone
        if size > self.bytes_left or (size > _MAX_EXAMINED_BYTES and not self.reach.secrets):
            self.found.left_out[skip.BEYOND] += 1
            return
        content = file_bytes(base or self.root, path)
        if content is None:
            self.found.left_out[reason] += 1
            return
        self.bytes_left -= len(content)
        self._content(path if base is None else os.path.relpath(f"{base}/{path}", self.root), content, reason)

    def _is_withheld(self, path: str, reason: str, content: bytes = b"") -> bool:
        """Return whether a file must not be searched for who asks, by its name or by its content."""
        if self.reach.secrets:
            return False
        is_ignored = self._ignored is not None and self._ignored.match(path)
        if reason in WITHHELD or skip.reason_by_name(path) == skip.SECRET or is_ignored:
            return True
        examined = content and reason not in _PUBLISHED
        return bool(examined and find_secret(decode(content).text, path))

    @cached_property
    def _ignored(self) -> Patterns | None:
        return read_patterns(self.root / ".ragignore", strict=False)

    def _content(self, path: str, content: bytes, reason: str) -> None:
        if self._is_withheld(path, reason, content):
            self.found.left_out[skip.SECRET] += 1
            return
        self.found.searched[reason] += 1
        for line in self.words.lines(content):
            printable = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            self.found.places.append(UnreadPlace(printable, line, reason))
        if len(self.found.places) >= _MAX_PLACES:
            raise _Ended(f"it ended after {_MAX_PLACES} places")

    def left_out(self, parts: Iterable[tuple[str, bytes]]) -> None:
        """Search what is not indexed of indexed files, given by path. Raises _Ended."""
        for path, content in parts:
            self._check_time()
            self._content(path, content, skip.LONG_LINE)

    def _check_time(self) -> None:
        if time.monotonic() > self._until:
            raise _Ended("it ended at its time limit")

    # ------------------------------------------------------------ folders

    def _tree(self, base: Path, folder: str, reason: str, *, without: str = "") -> None:
        """Search the files of a folder, and below it, that are not indexed; vendored folders come later."""
        is_own = base == self.root
        pending = [folder]
        while pending:
            inside = pending.pop()
            self._check_time()
            try:
                with os.scandir(f"{base}/{inside}") as found:
                    entries = sorted(found, key=lambda entry: entry.name)
            except OSError:
                self.found.left_out[skip.UNREADABLE] += 1
                continue
            for entry in entries:
                path, name = inside + entry.name, entry.name.lower()
                if entry.is_file(follow_symlinks=False):
                    if not is_own:
                        self.file(path, reason, base=base)
                    elif path not in self.indexed:
                        self.file(path, self._reason(path, reason))
                elif not entry.is_dir(follow_symlinks=False):
                    continue
                elif name in _CACHES:
                    self.found.left_out[skip.CACHE] += 1
                elif is_own and reason != skip.VENDORED and name in skip.VENDORED_FOLDERS:
                    self._vendored.append(f"{path}/")
                elif name not in skip.VERSION_CONTROL_FOLDERS and f"{path}/" != without:
                    pending.append(f"{path}/")

    def _reason(self, path: str, default: str) -> str:
        if found := self.reasons.get(path):
            return found
        try:
            path.encode()
        except UnicodeEncodeError:
            return skip.ODD_NAME
        return next((why for folder, why in self._folders if path.startswith(folder)), default)

    # ------------------------------------------------------------ what is not checked out

    def _blobs(self, top: Path | None, inner: str) -> None:
        """Search the files of the last commit that are not checked out."""
        if top is None:
            return
        try:
            listing = run_git(["ls-tree", "-r", "-z", "HEAD"], cwd=top, timeout_s=self._left_s)
        except (GitError, SourceError):
            return
        blobs: dict[str, str] = {}
        for entry in listing.decode("utf-8", "surrogateescape").split("\0"):
            head, _, path = entry.partition("\t")
            if head.startswith("100") and not os.path.lexists(f"{top}/{path}"):  # a regular file
                blobs[path] = head.split(" ")[2]
        kept = dict(islice(blobs.items(), _MAX_BLOBS))
        self.found.left_out[skip.NOT_CHECKED_OUT] += len(blobs) - len(kept)
        sizes = blob_sizes(top, set(kept.values()))
        group, group_size = dict[str, str](), 0
        for path, blob in kept.items():
            size = sizes.get(blob)
            if size is None or size > self.bytes_left or skip.reason_by_name(path) == skip.BINARY:
                self.found.left_out[skip.NOT_FETCHED if size is None else skip.NOT_CHECKED_OUT] += 1
                continue
            self.bytes_left -= size
            group[path], group_size = blob, group_size + size
            if group_size > _BLOBS_AT_ONCE:
                self._group(top, inner, group)
                group, group_size = {}, 0
        self._group(top, inner, group)

    def _group(self, top: Path, inner: str, group: Mapping[str, str]) -> None:
        self._check_time()
        contents = read_blobs(top, set(group.values()))
        for path, blob in group.items():
            if blob in contents:
                shown = os.path.relpath(path, inner) if inner else path
                self._content(shown, contents[blob], skip.NOT_CHECKED_OUT)

    @property
    def _left_s(self) -> float:
        return max(self._until - time.monotonic(), 0.01)
