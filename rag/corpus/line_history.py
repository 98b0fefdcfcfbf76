"""Read from git which commits changed some lines of a file: bounded in time and in output.

Nothing that the repository's own settings name is run: no text conversion, no external diff, no filter.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rag.corpus.git import GitError, run_git
from rag.corpus.history import is_shallow
from rag.errors import SourceError

MAX_SECONDS = 2.0
_LOG_SHARE = 0.7
"""The share of the time for all commits of the lines; the rest is for the authors of the present lines."""
_MAX_COMMITS = 200
_FORMAT = "%x00%H%x00%<(80,trunc)%aN%x00%as%x00%<(250,trunc)%s%x00%<(1200,trunc)%b%x00"
_COMMIT = re.compile(r"\0([0-9a-f]{40,64})\0([^\0]*)\0(\d{4}-\d\d-\d\d)\0([^\0]*)\0([^\0]*)\0")
_SAFE = ["--no-textconv", "--no-ext-diff"]
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_CHANGED = re.compile(r"^(?:\+(?!\+\+ )|-(?!-- ))(.*)", re.MULTILINE)
_RENAMED = re.compile(r"^rename from (.*)", re.MULTILINE)
_MAX_BYTES, _MAX_PATCH_CHARS = 32 << 20, 2_000
"""How much is read of what all commits changed, and kept of what one did."""
_ADDRESS = re.compile(r"[^\s<>@]{1,100}@[^\s<>@]{1,255}")
_TRAILER = re.compile(r"[A-Za-z-]+-(?:by|id): |\(?cherry picked from", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Change:
    """A commit that changed the lines. `author` is a name without address, `date` a day.

    `subject` and `body` are one line each, without addresses and trailers; `lines` are those that it added or
    removed, of many the first; `renamed_from` is the path that a file had before, "" if it was not renamed.
    """

    commit: str
    author: str
    date: str
    subject: str
    body: str = ""
    lines: str = ""
    renamed_from: str = ""


@dataclass(frozen=True, slots=True)
class LineHistory:
    """The commits that changed some lines, newest first; the last one introduced them if it is `complete`.

    `note` says why the history is not known, or not to its beginning; "" if it is. `is_edited` is True if the
    lines have changes that are not committed.
    """

    changes: tuple[Change, ...] = ()
    note: str = ""
    is_edited: bool = False

    @property
    def complete(self) -> bool:
        """Whether all commits are known."""
        return bool(self.changes) and not self.note


@dataclass(frozen=True, slots=True)
class Removal:
    """The commit that removed a file: the path it had, and the one it was renamed to, "" for none."""

    change: Change
    path: str
    renamed_to: str = ""


def removal(root: Path, commit: str, path: str) -> Removal | None:
    """Return which commit removed a file that a commit does not have; None if that is not known.

    The path may lack its first folders.
    """
    shown = ["--no-notes", "--no-color", *_SAFE, "--relative", "--name-status", f"--format={_FORMAT}"]
    command = ["log", "--max-count=1", "--diff-filter=AD", "--no-renames", *shown, commit, "--"]
    try:
        output = run_git([*command, f":(glob)**/{path}"], cwd=root, timeout_s=MAX_SECONDS)
        change, (status, _, removed) = _changes(output)[0], _last_line(output).partition("\t")
        if status != "D":
            return None  # it was added again
        command = ["diff-tree", "-r", "-M", "--relative", "--diff-filter=R", "--name-status"]
        output = run_git([*command, change.commit], cwd=root, timeout_s=MAX_SECONDS)
    except (GitError, SourceError, IndexError):
        return None
    rows = (line.split("\t") for line in output.decode("utf-8", "replace").splitlines())
    renamed = (row[2] for row in rows if row[1:2] == [removed] and len(row) > 2)
    return Removal(change, removed, next(renamed, ""))


def _last_line(output: bytes) -> str:
    return output.decode("utf-8", "replace").rstrip().rpartition("\n")[2]


def history_of_lines(
    root: Path, commit: str | None, path: str, first: int, last: int, *, whole: bool = False
) -> LineHistory:
    """Return the commits that changed lines of a file in a folder, which may differ from the commit.

    Args:
        root: the folder, in a git work tree or a clone.
        commit: the commit that the folder is at; None if there is no history.
        path: the file, relative to the folder.
        first: the first line, as it is in the folder now.
        last: the last line (inclusive).
        whole: whether the commits of the whole file are meant, with those that only renamed it.
    """
    if commit is None:
        return LineHistory(note="the folder has no git history")
    try:
        before, is_edited = _committed_lines(root, commit, path, first, last)
        if before is None:
            return LineHistory(note="it is not committed yet", is_edited=True)
        found = _history(root, commit, path, *before, whole)
    except (GitError, SourceError):
        return LineHistory(note="git cannot read the history")
    return LineHistory(found.changes, found.note, is_edited)


def _committed_lines(
    root: Path, commit: str, path: str, first: int, last: int
) -> tuple[tuple[int, int] | None, bool]:
    """Return where the lines of the folder are in the commit, None if nowhere, and whether they differ."""
    command = ["diff", "-U0", "--no-color", *_SAFE, "--no-renames", "--ignore-submodules=all"]
    changed = run_git([*command, commit, "--", f":(literal){path}"], cwd=root, timeout_s=MAX_SECONDS)
    start, end, is_edited = first, last, False
    for hunk in _HUNK.finditer(changed):
        _, old_count, new, new_count = (1 if part is None else int(part) for part in hunk.groups())
        moved = old_count - new_count
        if new + new_count - (new_count > 0) < first:
            start, end = start + moved, end + moved
        elif new + (new_count == 0) <= last:
            is_edited = True
            end += moved
    exists = run_git(["ls-tree", "--end-of-options", commit, f"./{path}"], cwd=root, timeout_s=MAX_SECONDS)
    if not exists or end < start:
        return None, True
    return (max(start, 1), end), is_edited


@lru_cache(maxsize=64)
def _history(root: Path, commit: str, path: str, first: int, last: int, whole: bool) -> LineHistory:
    """Return the commits of lines at a commit, which never change."""
    note = "the history is cut off: it is a shallow clone" if is_shallow(root) else ""
    until = time.monotonic() + MAX_SECONDS
    try:
        try:
            changes = log_of_lines(root, commit, path, 0 if whole else first, last)
        except GitError:  # a clone may lack contents that only its renames need
            changes = log_of_lines(root, commit, path, first, last)
    except SourceError:
        note = note or "not all commits could be read: it takes too long, or they are too large"
        return LineHistory(blamed(root, commit, path, first, last, until - time.monotonic()), note)
    if len(changes) > _MAX_COMMITS:
        note = note or f"only the last {_MAX_COMMITS} commits were read"
    return LineHistory(changes[:_MAX_COMMITS], note)


def log_of_lines(root: Path, commit: str, path: str, first: int, last: int) -> tuple[Change, ...]:
    """Return the commits that changed lines, newest first, one more than the maximum if there are more.

    Those of the whole file if the first line is 0.

    Raises:
        GitError: git cannot read them.
        SourceError: the time is up.
    """
    of_lines = [f"-L{first},{last}:{path}", commit]
    of_file = ["--follow", "--relative", "-p", "-U0", commit, "--", f":(literal){path}"]
    command = ["log", f"--max-count={_MAX_COMMITS + 1}", "--no-notes", *_SAFE, "--no-color"]
    output = run_git(
        [*command, f"--format={_FORMAT}", *(of_lines if first else of_file)],
        cwd=root,
        timeout_s=MAX_SECONDS * _LOG_SHARE,
        max_bytes=_MAX_BYTES,
    )
    return _changes(output)


def blamed(root: Path, commit: str, path: str, first: int, last: int, timeout_s: float) -> tuple[Change, ...]:
    """Return the commits that wrote the present lines, newest first; none if that takes too long, too."""
    lines = ["-s", "-l", f"-L{first},{last}", "--no-textconv", "--no-ignore-revs-file"]
    command = ["blame", *lines, commit, "--", path]
    try:
        output = run_git(command, cwd=root, timeout_s=max(timeout_s, 0.2)).decode("utf-8", "replace")
        commits = {line.split(" ", 1)[0].lstrip("^") for line in output.splitlines()}
        shown = run_git(
            ["log", "--no-walk=sorted", "--stdin", "--no-notes", f"--format={_FORMAT}"],
            cwd=root,
            timeout_s=MAX_SECONDS / 4,
            stdin="\n".join([*sorted(commits)[:_MAX_COMMITS], ""]).encode(),
        )
    except (GitError, SourceError):
        return ()
    return tuple(sorted(_changes(shown), key=lambda change: change.date, reverse=True))


def _changes(output: bytes) -> tuple[Change, ...]:
    _, *fields = _COMMIT.split(output.decode("utf-8", "replace"))
    return tuple(_change(*row) for row in zip(*[iter(fields)] * 6, strict=True))


def _change(commit: str, author: str, date: str, subject: str, body: str, patch: str) -> Change:
    renamed = _RENAMED.search(patch)
    return Change(
        commit,
        author.partition("@")[0].strip() or "unknown",
        date,
        _clean(subject),
        _body(body),
        "\n".join(_CHANGED.findall(patch))[:_MAX_PATCH_CHARS],
        _clean(renamed[1]) if renamed else "",
    )


def _body(text: str) -> str:
    """Return the text of a message in one line, without trailers."""
    lines = (line.strip() for line in text.splitlines())
    return _clean(" ".join(line for line in lines if line and not _TRAILER.match(line)))


def _clean(text: str) -> str:
    """Return a text without addresses."""
    return " ".join(_ADDRESS.sub("…", text).split())
