"""The commits of a repository and the files that each of them changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rag.corpus.git import GitError, run_git
from rag.errors import SourceError


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit with one parent. `edited` and `added` are the files that it changed."""

    id: str
    parent: str
    title: str
    edited: tuple[str, ...]
    added: tuple[str, ...]


def commits(root: Path, *, limit: int) -> Iterator[Commit]:
    """Yield the last `limit` commits with one parent, newest first. A rename is a deletion and an addition.

    Raises:
        SourceError: the folder is not a git repository, or has no commit.
    """
    command = [
        "log",
        f"--max-count={limit}",
        "--no-merges",
        "--min-parents=1",
        "--no-renames",
        "--name-status",
    ]
    try:
        output = run_git([*command, "-z", "--format=%x01%H%x01%P%x01%s%x01"], cwd=root)
    except GitError as error:
        raise SourceError(f"cannot read the git history of {root}: {error}") from error
    fields = output.decode("utf-8", "surrogateescape").split("\x01")[1:]
    for number, parent, title, files in zip(*[iter(fields)] * 4, strict=True):
        parts = [part.strip("\n") for part in files.split("\0") if part.strip("\n")]
        changed = list(zip(parts[::2], parts[1::2], strict=True))
        yield Commit(
            id=number,
            parent=parent,
            title=title,
            edited=tuple(path for status, path in changed if not status.startswith("A")),
            added=tuple(path for status, path in changed if status.startswith("A")),
        )
