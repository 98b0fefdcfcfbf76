"""Queries git for its version and for the commit of a remote ref, with the rules of `rag.corpus.git`."""

from __future__ import annotations

from rag.corpus.git import GitError, run_git
from rag.corpus.git_token import for_host, with_token
from rag.errors import SourceError
from rag.lines import lines_of
from rag.types import Source

__all__ = ["for_host", "git_version", "remote_commit"]


def git_version() -> str:
    """Return the version line of the git program, `git version 2.39.5`.

    Raises:
        SourceError: the git program is missing or fails.
    """
    try:
        return run_git(["version"]).decode("utf-8", "replace").strip()
    except GitError as error:
        raise SourceError(f"the program `git` fails: {error}") from error


def remote_commit(source: Source, *, timeout_s: float, token: str | None = None) -> str:
    """Return the commit of a URL's ref on its server, as a fetch of this ref would choose it.

    Raises:
        SourceError: the server does not reply in time, refuses, or has no such ref.
    """
    ref = source.ref or "HEAD"

    def run(chosen: str | None) -> bytes:
        return run_git(command, url=source.location, timeout_s=timeout_s, token=chosen)

    command = ["ls-remote", "--exit-code", "--", source.location, ref, f"{ref}^{{}}"]
    try:
        output = with_token(source.location, token, run, lambda text: None)
    except GitError as error:
        why = error.line if error.output else "there is no such ref"
        raise SourceError(why) from error
    # A pattern also matches the end of longer names, such as `refs/heads/old/main` for `main`.
    pairs = (line.partition("\t") for line in lines_of(output.decode("utf-8", "replace")))
    found = {name.removesuffix("^{}"): oid for oid, _, name in pairs}  # a tag, then the commit it points to
    for prefix in ("", "refs/", "refs/tags/", "refs/heads/"):
        if commit := found.get(prefix + ref):
            return commit
    raise SourceError("there is no such ref")
