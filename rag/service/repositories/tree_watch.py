"""Asks the kernel whether anything in a folder has changed, which takes microseconds.

Linux queues an inotify event before the call that changes a file returns, so an empty queue means that
nothing has changed, and a question need not compare thousands of files. `watchfiles` cannot be used for this:
its events arrive later, from its own thread.

An event only means that a folder must be compared again; what changed is never taken from it. Changes that
the kernel does not report are left to the periodic comparison: writes through a hard link outside the folder,
and git rules outside the repository. A folder is not watched at all if it is on a file system that other
machines can write to (NFS, VM shares), or has more folders below it than the limit.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import struct
import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from weakref import finalize

from rag.corpus import skip
from rag.corpus.git import GitError, run_git
from rag.corpus.worktree import work_tree
from rag.errors import SourceError
from rag.lines import lines_of
from rag.resources import file_identity

_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 16
_ATTRIB, _MODIFY, _CLOSE_WRITE = 0x4, 0x2, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _ONLY_FOLDERS = 0x400, 0x800, 0x01000000
_UNMOUNT, _OVERFLOW, _IGNORED, _IS_DIR = 0x2000, 0x4000, 0x8000, 0x40000000
_CHANGES = (
    _ATTRIB | _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
)
_LOCAL_FILE_SYSTEMS = frozenset(
    "ext2 ext3 ext4 xfs btrfs zfs f2fs bcachefs jfs reiserfs tmpfs ramfs overlay rootfs".split()
)
_ESCAPED = re.compile(rb"\\([0-7]{3})")
_RULE_FILES = frozenset({".gitignore", ".ragignore", "exclude"})
_MAX_FOLDERS = 50_000
_SHARE_OF_LIMIT = 0.25
"""The share of the user's limit of watched folders that is used, as editors need some too."""


@dataclass(slots=True, eq=False)
class _Watched:
    """A watched folder. `state` is a new number after each change."""

    identity: tuple[int, int]
    state: int
    rebuild: bool = True
    """Whether folders were added or rules changed, so that the set of watched folders changes."""
    watches: set[int] = field(default_factory=set)
    building: Lock = field(default_factory=Lock)


class TreeWatch:
    """The most recently used watched folders; thread-safe.

    Raises:
        OSError: the system has no inotify, or its limit is reached.
    """

    def __init__(self) -> None:
        if not sys.platform.startswith("linux"):
            raise OSError(errno.ENOSYS, "only Linux reports changes immediately")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._queue = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._queue < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._close, self._process = finalize(self, os.close, self._queue), os.getpid()
        self._lock = Lock()
        self._known: OrderedDict[Path, _Watched] = OrderedDict()
        self._owners: dict[int, set[Path]] = {}
        self._states = 0
        self._max_watches = min(_MAX_FOLDERS, int(_limit() * _SHARE_OF_LIMIT))

    def close(self) -> None:
        """Stop watching. Closing twice is allowed."""
        with self._lock:
            self._close()
            self._queue = -1
            self._known.clear()
            self._owners.clear()

    def begin(self, root: Path) -> int | None:
        """Start a comparison of the folder; return the number of the state that it sees at least.

        Blocks while the folders below are listed, if necessary. None for a folder that cannot be watched.
        """
        identity = file_identity(root)
        with self._lock:
            self._read()
            watched = self._known.get(root)
            if watched is None or watched.identity != identity:
                self._forget(root)
                if self._queue < 0 or identity is None or not _is_local(root):
                    return None
                watched = self._known[root] = _Watched(identity, self._next_state())
            self._known.move_to_end(root)
        with watched.building:
            with self._lock:
                self._read()
                rebuild, watched.rebuild = watched.rebuild, False
            if rebuild and not self._watch_below(root, watched):
                with self._lock:
                    self._forget(root)
                return None
        with self._lock:
            self._read()
            return watched.state

    def is_unchanged(self, root: Path, state: int) -> bool:
        """Whether nothing in a folder has changed since the `begin` that returned this number."""
        with self._lock:
            self._read()
            watched = self._known.get(root)
            # A parent folder may have been moved and replaced by another one.
            return watched is not None and watched.state == state and watched.identity == file_identity(root)

    def _next_state(self) -> int:
        self._states += 1
        return self._states

    def _watch_below(self, root: Path, watched: _Watched) -> bool:
        """Watch all folders that may contain files to index; return False if there are too many."""
        for folder in _folders(root):
            with self._lock:
                if self._queue < 0 or self._known.get(root) is not watched:
                    return False
                if not self._add(folder, root, watched):
                    return False
        return True

    def _add(self, folder: str, root: Path, watched: _Watched) -> bool:
        while len(self._owners) >= self._max_watches:
            oldest = next(iter(self._known))
            if oldest == root:
                return False
            self._forget(oldest)
        number = self._libc.inotify_add_watch(self._queue, os.fsencode(folder), _CHANGES | _ONLY_FOLDERS)
        if number < 0:
            # Deleted, which is an event of the parent folder; without permission nothing in it is read.
            return ctypes.get_errno() in (errno.ENOENT, errno.ENOTDIR, errno.EACCES)
        self._owners.setdefault(number, set()).add(root)
        watched.watches.add(number)
        return True

    def _forget(self, root: Path) -> None:
        watched = self._known.pop(root, None)
        for number in watched.watches if watched else ():
            owners = self._owners.get(number, set())
            owners.discard(root)
            if not owners and self._owners.pop(number, None) is not None:
                self._libc.inotify_rm_watch(self._queue, number)

    def _read(self) -> None:
        """Process the events that the kernel has queued."""
        if self._process != os.getpid():  # a fork would take the events of its parent
            self._queue = -1
            self._known.clear()
            self._owners.clear()
        if self._queue < 0:
            return
        with suppress(BlockingIOError):
            while events := os.read(self._queue, _READ_BYTES):
                self._take(events)

    def _take(self, events: bytes) -> None:
        offset = 0
        while offset < len(events):
            number, mask, _, length = _EVENT.unpack_from(events, offset)
            name = events[offset + _EVENT.size : offset + _EVENT.size + length].rstrip(b"\0")
            offset += _EVENT.size + length
            concerned = self._known if mask & _OVERFLOW else self._owners.get(number, ())
            others = mask & (_IS_DIR | _OVERFLOW | _UNMOUNT | _DELETE_SELF | _MOVE_SELF)
            for root in concerned:
                watched = self._known[root]
                watched.state = self._next_state()
                watched.rebuild |= bool(others) or os.fsdecode(name) in _RULE_FILES
            if mask & _IGNORED:  # the kernel has removed the watch
                for root in self._owners.pop(number, set()):
                    self._known[root].watches.discard(number)


def _limit() -> int:
    try:
        return int(Path("/proc/sys/fs/inotify/max_user_watches").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 8_192


def _is_local(root: Path) -> bool:
    """Whether a folder is on a local file system, with no other file system mounted below it."""
    try:
        mounts = Path("/proc/self/mountinfo").read_bytes()
    except OSError:
        return False
    kind, longest, inside = "", -1, f"{root}/".replace("//", "/")
    for line in mounts.splitlines():
        head, _, tail = line.partition(b" - ")
        point = _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), head.split(b" ")[4])
        prefix = f"{os.fsdecode(point)}/".replace("//", "/")
        if inside.startswith(prefix) and len(prefix) >= longest:
            kind, longest = os.fsdecode(tail.split(b" ")[0]), len(prefix)
        elif prefix.startswith(inside):
            return False
    return kind in _LOCAL_FILE_SYSTEMS


def _folders(root: Path) -> Iterator[str]:
    """Yield the folders whose files decide what is indexed; each before it is listed, so none is missed."""
    top = work_tree(root)
    ignored: frozenset[str] = frozenset()
    if top is not None:
        yield from _git_folders(root)
        parent = root
        while parent != top:  # their `.gitignore` applies below
            parent = parent.parent
            yield str(parent)
        ignored = _ignored(root)
    pending = [str(root)]
    while pending:
        folder = pending.pop()
        yield folder
        try:
            with os.scandir(folder) as entries:
                below = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        for entry in below:
            name = entry.name.lower()
            if (
                name not in skip.VENDORED_FOLDERS
                and name not in skip.VERSION_CONTROL_FOLDERS
                and entry.path not in ignored
            ):
                pending.append(entry.path)


def _git_folders(root: Path) -> Iterator[str]:
    """Yield the folders with the index, the refs and the excludes of a work tree."""
    try:
        places = run_git(["rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir"], cwd=root)
    except (GitError, SourceError):
        return
    for place in dict.fromkeys(lines_of(places.decode("utf-8", "surrogateescape"))):
        yield place
        yield f"{place}/info"
        yield f"{place}/reftable"
        for folder, _, _ in os.walk(f"{place}/refs"):
            yield folder


def _ignored(root: Path) -> frozenset[str]:
    """Return the folders that git ignores as a whole."""
    listing = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"]
    try:
        names = run_git(listing, cwd=root).decode("utf-8", "surrogateescape").split("\0")
    except (GitError, SourceError):
        return frozenset()
    return frozenset(f"{root}/{name}".rstrip("/") for name in names if name.endswith("/"))
