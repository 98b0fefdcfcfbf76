"""List the files of a folder that are indexed, and the reasons for skipping the others.

In a git work tree git lists the files; elsewhere the folders are scanned and their `.gitignore` files
applied. Then `.ragignore`, the filters and the rules of `rag.corpus.skip` are applied. All patterns are
relative to the root, so the folder's own name never matters. No file is opened here: `rag.corpus.read` checks
the content.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from rag.code.languages import OTHER, kind_of, language_of_path
from rag.corpus import skip
from rag.corpus.git import GitError, run_git
from rag.corpus.ignore import Patterns, excluded, excluded_unlike_git, read_patterns
from rag.corpus.worktree import work_tree
from rag.errors import SourceError
from rag.types import SUBMODULE, FileEntry, Filters, Kind, Skipped

_CODE_FACTOR = 2
"""A program in one large file is written by hand; documents and data of that size are generated."""

_WIKI_STATE_END = f"/{skip.WIKI_STATE_FILE}"
_UNOPENED = re.compile(rb"could not open directory '(.*)/': Permission denied")


@dataclass(slots=True)
class Walk:
    """The result of a walk. `files` and `skipped` are ordered by path.

    `seen` counts files, also those in a vendored folder, but not those excluded by `.gitignore`. Nor does it
    count those that are not checked out: `skipped` has one entry for these of each folder at the top.
    """

    files: list[FileEntry] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    seen: int = 0


def walk(root: Path, filters: Filters, *, max_file_bytes: int) -> Walk:
    """List the files to be indexed.

    Args:
        root: an existing folder, real path.
        filters: globs in gitignore syntax, relative to the root. With `include`, only files that match; files
            that match `exclude` never; neither re-includes what another rule excludes.
        max_file_bytes: larger files are skipped; source code may be twice as large. Notebooks are measured
            when they are read, without their outputs.

    Raises:
        SourceError: the folder cannot be read, or a pattern is invalid.
    """
    return _Walker(root, filters, max_file_bytes).walk()


class _Walker:
    def __init__(self, root: Path, filters: Filters, max_file_bytes: int) -> None:
        self.root, self.max_file_bytes = root, max_file_bytes
        self.include = Patterns.of(filters.include, where="--include")
        self.exclude = Patterns.of(filters.exclude, where="--exclude")
        self.ragignore = read_patterns(root / ".ragignore")
        self.has_patterns = bool(self.include or self.exclude or self.ragignore)
        self.result = Walk()
        self.vendored: Counter[str] = Counter()
        self.not_checked_out: Counter[str] = Counter()

    def walk(self) -> Walk:
        prefix = f"{self.root}/".replace("//", "/")
        wikis = []
        for path in self._paths():
            self.result.seen += 1
            if path.endswith(_WIKI_STATE_END):
                wikis.append(path.removesuffix(skip.WIKI_STATE_FILE))
            entry = self._consider(path, prefix)
            if isinstance(entry, FileEntry):
                self.result.files.append(entry)
            elif entry is not None:
                self.result.skipped.append(entry)
        for folder, count in self.vendored.items():
            self.result.skipped.append(
                Skipped(f"{folder}/", skip.VENDORED, f"{count} files" if count > 1 else "")
            )
        for folder, count in self.not_checked_out.items():
            self.result.skipped.append(
                Skipped(folder, skip.NOT_CHECKED_OUT, f"{count} files" if folder.endswith("/") else "")
            )
        for wiki in wikis:
            self._leave_out(wiki)
        self.result.files.sort(key=lambda entry: entry.path)
        self.result.skipped.sort(key=lambda skipped: skipped.path)
        return self.result

    def _leave_out(self, folder: str) -> None:
        """Report only the folder instead of its files."""
        files = [entry for entry in self.result.files if not entry.path.startswith(folder)]
        others = [skipped for skipped in self.result.skipped if not skipped.path.startswith(folder)]
        count = len(self.result.files) + len(self.result.skipped) - len(files) - len(others)
        if count:
            self.result.files = files
            self.result.skipped = [*others, Skipped(folder, skip.GENERATED, f"a wiki, {count} files")]

    def _consider(self, path: str, prefix: str) -> FileEntry | Skipped | None:
        """Return the file as an entry or as skipped; None when its folder, or nothing, is to be reported."""
        folder = skip.vendored_folder(path.rpartition("/")[0])
        if folder is not None:
            self.vendored[folder] += 1
            return None
        if reason := self._path_reason(path):
            return Skipped(path, reason)
        try:
            status = os.lstat(prefix + path)
        except FileNotFoundError:
            self.result.seen -= 1  # git also lists deleted files until the deletion is committed
            return None
        except OSError as error:
            return Skipped(path, skip.UNREADABLE, error.strerror or "")
        return self._by_status(path, prefix, status)

    def _path_reason(self, path: str) -> str | None:
        if not self.has_patterns:
            return skip.reason_by_name(path)
        if self.ragignore and self.ragignore.match(path):
            return skip.RAGIGNORED
        if (self.include and not self.include.match(path)) or (self.exclude and self.exclude.match(path)):
            return skip.FILTERED
        return skip.reason_by_name(path)

    def _by_status(self, path: str, prefix: str, status: os.stat_result) -> FileEntry | Skipped:
        mode, size = status.st_mode, status.st_size
        if stat.S_ISLNK(mode):
            return Skipped(path, *_symlink_reason(prefix + path, prefix))
        if stat.S_ISDIR(mode):
            return Skipped(path, SUBMODULE)
        if not stat.S_ISREG(mode):
            return Skipped(path, skip.SPECIAL)
        try:
            path.encode()
        except UnicodeEncodeError:
            return Skipped(
                path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"), skip.ODD_NAME
            )
        language, kind = _described(path)
        is_program = kind == "code" and language != OTHER
        if size > self.max_file_bytes * (_CODE_FACTOR if is_program else 1) and not path.endswith(".ipynb"):
            return Skipped(path, skip.TOO_LARGE, f"{size} bytes")
        changed_ns = 0 if os.name == "nt" else status.st_ctime_ns  # on Windows it is the creation time
        return FileEntry(path, size, status.st_mtime_ns, language, kind, changed_ns)

    def _paths(self) -> Iterator[str]:
        if work_tree(self.root) is not None:
            try:
                yield from self._listed_by_git()
                return
            except GitError:
                pass  # git refuses (foreign owner, damaged repository); scan the folders instead
        yield from self._scanned()

    def _listed_by_git(self) -> Iterable[str]:
        listing = run_git(
            ["ls-files", "-t", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=self.root,
            on_stderr=self._report_unreadable,
        )
        tagged = listing.decode("utf-8", "surrogateescape").split("\0")
        names = dict.fromkeys(entry[2:].rstrip("/") for entry in tagged if entry)
        for entry in tagged:
            if entry.startswith("S ") and not os.path.lexists(self.root / (path := entry[2:])):
                names.pop(path, None)
                folder, slash, _ = path.partition("/")
                self.not_checked_out[folder + slash] += 1
        for path in excluded_unlike_git(self.root, (entry[2:] for entry in tagged if entry[:2] == "? ")):
            names.pop(path, None)
        return names

    def _report_unreadable(self, stderr: bytes) -> None:
        for name in _UNOPENED.findall(stderr):
            path = name.decode("utf-8", "backslashreplace")
            self.result.skipped.append(Skipped(f"{path}/", skip.UNREADABLE, "Permission denied"))

    def _scanned(self) -> Iterator[str]:
        """Yield the files of all folders that no `.gitignore` excludes."""
        # str, not Path: a large tree has thousands of folders, and every search gets here.
        top = f"{self.root}/".replace("//", "/")
        pending: list[tuple[str, tuple[tuple[str, Patterns], ...]]] = [("", ())]
        while pending:
            prefix, ignores = pending.pop()
            try:
                with os.scandir(top + prefix) as found:
                    entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
            except OSError as error:
                if not prefix:
                    raise SourceError(f"cannot read the folder {self.root}: {error.strerror}") from error
                self.result.skipped.append(Skipped(prefix, skip.UNREADABLE, error.strerror or ""))
                continue
            if (".gitignore", False) in entries:
                own = read_patterns(self.root / prefix / ".gitignore", strict=False)
                ignores = (*ignores, (prefix, own)) if own else ignores
            for name, is_folder in entries:
                path = prefix + name
                if ignores and excluded(path + "/" * is_folder, ignores):
                    continue
                if not is_folder:
                    yield path
                elif (known := name.lower()) in skip.VENDORED_FOLDERS:
                    self.vendored[path] += 0
                elif known not in skip.VERSION_CONTROL_FOLDERS:
                    pending.append((path + "/", ignores))


@lru_cache(maxsize=65536)
def _described(path: str) -> tuple[str, Kind]:
    language = language_of_path(path)
    return language, kind_of(path, language)


def _symlink_reason(path: str, prefix: str) -> tuple[str, str]:
    """Return why a link is skipped: links are never followed, and targets in the repository are indexed."""
    try:
        target = os.path.realpath(path, strict=True)
    except FileNotFoundError:
        return skip.SYMLINK_BROKEN, ""
    except OSError:
        return skip.SYMLINK_LOOP, ""
    if target + "/" == prefix or (path + "/").startswith(target + "/"):
        return skip.SYMLINK_LOOP, ""
    if not target.startswith(prefix):
        return skip.SYMLINK_OUTSIDE, ""
    return skip.SYMLINK, f"to {target[len(prefix) :]}"
