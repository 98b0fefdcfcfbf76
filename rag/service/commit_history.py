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
        # Titles and paths may have any character but NUL: only its position says what a field is.
        output = run_git([*command, "-z", "--format=%x00%H%x00%P%x00%s"], cwd=root)
    except GitError as error:
        raise SourceError(f"cannot read the git history of {root}: {error}") from error
    fields = iter(output.decode("utf-8", "surrogateescape").split("\0")[1:])
    while number := next(fields, ""):
        parent, title = next(fields), next(fields)
        edited: list[str] = []
        added: list[str] = []
        while status := next(fields, "").strip("\n"):
            (added if status.startswith("A") else edited).append(next(fields))
        yield Commit(number, parent, title, tuple(edited), tuple(added))
