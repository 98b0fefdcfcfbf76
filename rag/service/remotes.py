"""What the git program tells about itself and about a server, by the rules of `rag.corpus.git`."""

from __future__ import annotations

from rag.corpus.git import GitError, run_git
from rag.errors import SourceError
from rag.types import Source

__all__ = ["git_version", "remote_commit"]


def git_version() -> str:
    """The version line of the git program, `git version 2.39.5`.

    Raises:
        SourceError: there is no git program, or it fails.
    """
    try:
        return run_git(["version"]).decode("utf-8", "replace").strip()
    except GitError as error:
        raise SourceError(f"the program `git` fails: {error}") from error


def remote_commit(source: Source, *, timeout_s: float) -> str:
    """The commit that a URL's ref names on its server.

    Raises:
        SourceError: the server does not answer in time, refuses, or has no such ref.
    """
    command = ["ls-remote", "--exit-code", "--", source.location, source.ref or "HEAD"]
    try:
        told = run_git(command, url=source.location, timeout_s=timeout_s)
    except GitError as error:
        why = error.line if error.output else "there is no such ref"
        raise SourceError(why) from error
    return told.split(b"\t", 1)[0].decode("ascii", "replace")
