"""Read a repository's history from git: the files at a commit, and their bytes.

Paths are relative to the given folder, which may be inside the repository.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rag.corpus.git import GitError, run_git
from rag.corpus.ignore import excluded_unlike_git
from rag.corpus.walk import walk
from rag.errors import SourceError
from rag.types import Checkout

_REF = "refs/rag/cited/"
_LINK, _SUBMODULE = "a symbolic link", "a submodule"
_NO_LIMIT_BYTES = 1 << 62
_MAX_LISTING_BYTES = 128 << 20
"""A listing of about a million files."""
_MAX_BLOB_BYTES = 64 << 20
_MAX_BLOBS_BYTES = 512 << 20
"""What is read of blobs at once; `rag.corpus.read` does not read larger files either."""
_LAST_SECOND = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())
_BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(slots=True)
class Listing:
    """The files of a repository: blob ids of regular files by path, and the kind of every other entry.

    `differing` are the paths in a folder that may not be as committed.
    """

    files: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    differing: set[str] = field(default_factory=set)


def files_at(root: Path, commit: str) -> Listing | None:
    """Return the files of the folder at a commit; None when git does not have that commit (any more).

    Raises:
        SourceError: there are too many, or git takes too long.
    """
    try:
        command = ["ls-tree", "-r", "-z", "--end-of-options", commit]
        listing = run_git(command, cwd=root, max_bytes=_MAX_LISTING_BYTES)
    except GitError:
        return None
    found = Listing()
    for line in listing.decode("utf-8", "surrogateescape").split("\0"):
        head, tab, path = line.partition("\t")
        if not tab:
            continue
        mode, _, blob = head.split(" ")
        if mode in ("120000", "160000"):
            found.others[path] = _LINK if mode == "120000" else _SUBMODULE
        else:
            found.files[path] = blob
    return found


def differing(root: Path, commit: str) -> set[str]:
    """Return the paths in the folder that may differ from a commit: changed, deleted, or untracked."""
    changed = ["diff", "--name-only", "-z", "--relative", "--no-renames", "--no-ext-diff", "--no-textconv"]
    unknown = ["ls-files", "-z", "--others", "--exclude-standard"]
    listings = (
        run_git([*changed, "--ignore-submodules=all", commit, "--"], cwd=root),
        run_git(unknown, cwd=root),
    )
    paths, untracked = (
        set(listing.decode("utf-8", "surrogateescape").split("\0")) - {""} for listing in listings
    )
    return paths | untracked - excluded_unlike_git(root, untracked)


def present(checkout: Checkout) -> Listing:
    """Return the files in a folder now; the ids of those that git would have to read are "".

    Raises:
        SourceError: the folder cannot be read.
    """
    then = files_at(checkout.root, checkout.commit) if checkout.commit else None
    if then is None or checkout.commit is None:
        files = walk(checkout.root, checkout.source.filters, max_file_bytes=_NO_LIMIT_BYTES).files
        return Listing(dict.fromkeys((entry.path for entry in files), ""))
    try:
        paths = differing(checkout.root, checkout.commit)
    except GitError:
        paths = set(then.files)
    then.differing = paths
    for path in paths:
        then.files.pop(path, None)
        then.others.pop(path, None)
        if (what := path_kind(checkout.root, path)) == "":
            then.files[path] = ""
        elif what is not None:
            then.others[path] = what
    return then


def path_kind(root: Path, path: str) -> str | None:
    """Return the kind of entry at a path inside the folder: "" for a regular file, None for nothing."""
    if path.startswith("/") or ".." in path.split("/"):
        return None
    try:
        mode = os.lstat(root / path).st_mode
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(mode):
        return ""
    return _LINK if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "not a regular file"


def read_blobs(root: Path, blobs: Collection[str]) -> dict[str, bytes]:
    """Return the bytes of blobs by id, from one git call; missing and too large blobs are left out.

    Raises:
        SourceError: git takes too long.
    """
    wanted = sorted(filter(_BLOB.fullmatch, blobs))
    if not wanted:
        return {}
    command, ids = ["cat-file", "--batch"], "\n".join([*wanted, ""]).encode()
    try:
        output = run_git(command, cwd=root, stdin=ids, max_bytes=_MAX_BLOBS_BYTES + len(ids) * 3)
    except GitError:
        there = stored(root, wanted)
        return read_blobs(root, there) if len(there) < len(wanted) else {}
    except SourceError:
        fitting = _fitting(blob_sizes(root, wanted))
        if len(fitting) == len(wanted):
            raise
        return read_blobs(root, fitting)
    found, at = {}, 0
    for blob in wanted:
        head_end = output.index(b"\n", at)
        head = output[at:head_end].split(b" ")
        at = head_end + 1
        if head[-1] == b"missing":
            continue
        size = int(head[2])
        if head[1] == b"blob":
            found[blob] = output[at : at + size]
        at += size + 1
    return found


def stored(root: Path, blobs: Collection[str]) -> list[str]:
    """Return those of the blobs that are here: git fails on what a partial clone would have to fetch."""
    command = ["cat-file", "--batch-check=%(objectname)", "--batch-all-objects", "--unordered"]
    try:
        every = run_git(command, cwd=root, max_bytes=_MAX_LISTING_BYTES).decode("ascii").split()
    except (GitError, SourceError):
        return []
    return sorted(set(every).intersection(blobs))


def _fitting(sizes: dict[str, int]) -> list[str]:
    """Return the blobs, the smallest first, that may be read at once."""
    fitting, room = [], _MAX_BLOBS_BYTES
    for blob, size in sorted(sizes.items(), key=lambda item: (item[1], item[0])):
        room -= size
        if size > _MAX_BLOB_BYTES or room < 0:
            break
        fitting.append(blob)
    return fitting


def blob_sizes(root: Path, blobs: Collection[str]) -> dict[str, int]:
    """Return the size of blobs in bytes, by id, from one git call; missing blobs are left out."""
    wanted = sorted(filter(_BLOB.fullmatch, blobs))
    if not wanted:
        return {}
    try:
        output = run_git(["cat-file", "--batch-check"], cwd=root, stdin="\n".join([*wanted, ""]).encode())
    except GitError:
        return {}
    rows = (line.split(" ") for line in output.decode("ascii", "replace").splitlines())
    return {row[0]: int(row[2]) for row in rows if len(row) == 3 and row[1] == "blob"}


def merge_base(root: Path, one: str, other: str) -> str | None:
    """Return the last common commit of two commits; None if git knows none, as in a shallow clone."""
    found = run_git(["merge-base", one, other], cwd=root, ok_codes=(0, 1, 128))
    return found.decode("ascii", "replace").strip() or None


def is_shallow(root: Path) -> bool:
    """Return whether the history of a repository is cut off."""
    found = run_git(["rev-parse", "--is-shallow-repository"], cwd=root, ok_codes=(0, 128))
    return found.strip() == b"true"


def named_commit(root: Path, ref: str) -> str | None:
    """Return the full id of the commit that a name means; None when there is no such commit."""
    arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"]
    try:
        return run_git(arguments, cwd=root).decode("ascii").strip()
    except GitError:
        return None


def is_ancestor(root: Path, commit: str, of: str) -> bool | None:
    """Return whether a commit is another one or an ancestor of it; None when git does not have it."""
    try:
        base = run_git(["merge-base", "--end-of-options", commit, of], cwd=root, ok_codes=(0, 1))
        return base.decode("ascii").strip() == named_commit(root, commit)
    except GitError:
        return None


def first_parents(root: Path, limit: int) -> list[tuple[str, datetime, str]]:
    """Return id, date and title of the last commits along the first parents, newest first; [] without git."""
    command = ["log", "--first-parent", f"--max-count={limit}", "-z", "--format=%H%x01%ct%x01%s"]
    try:
        output = run_git(command, cwd=root)
    except GitError:
        return []
    records = [one.split("\x01", 2) for one in output.decode("utf-8", "replace").split("\0") if one]
    return [(commit, _moment(made), title) for commit, made, title in records]


def commit_time(root: Path, commit: str) -> datetime:
    """Return when a commit was made. Raises GitError if git does not have it."""
    seconds = run_git(["log", "-1", "--format=%ct", "--end-of-options", commit, "--"], cwd=root)
    return _moment(seconds.decode("ascii", "replace"))


def _moment(seconds: str) -> datetime:
    """Return the date of a commit, which anyone can set to anything: 1970 if it is none, at most 9999."""
    given = seconds.strip()
    return datetime.fromtimestamp(min(int(given), _LAST_SECOND) if given.isdecimal() else 0, UTC)


def keep_commits(root: Path, commits: Iterable[str]) -> None:
    """Protect these commits in our clone from garbage collection, even when its branches move.

    Raises:
        GitError: it does not have one of them.
    """
    for commit in commits:
        if not (root / ".git" / _REF / commit).exists():
            run_git(["update-ref", _REF + commit, commit], cwd=root)
