"""Queries git for its version and for the commit of a remote ref, with the rules of `rag.corpus.git`."""

from __future__ import annotations

from rag.corpus.git import GitError, run_git
from rag.errors import SourceError
from rag.types import Source

__all__ = ["git_version", "remote_commit"]


def git_version() -> str:
    """Return the version line of the git program, `git version 2.39.5`.

    Raises:
        SourceError: the git program is missing or fails.
    """
    try:
        return run_git(["version"]).decode("utf-8", "replace").strip()
    except GitError as error:
        raise SourceError(f"the program `git` fails: {error}") from error


def remote_commit(source: Source, *, timeout_s: float) -> str:
    """Return the commit of a URL's ref on its server.

    Raises:
        SourceError: the server does not reply in time, refuses, or has no such ref.
    """
    command = ["ls-remote", "--exit-code", "--", source.location, source.ref or "HEAD"]
    try:
        output = run_git(command, url=source.location, timeout_s=timeout_s)
    except GitError as error:
        why = error.line if error.output else "there is no such ref"
        raise SourceError(why) from error
    return output.split(b"\t", 1)[0].decode("ascii", "replace")
