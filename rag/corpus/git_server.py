"""Call git with the address of a repository: with its token, and errors that say what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rag.corpus.git import GitError, run_git
from rag.corpus.git_token import advice, with_token
from rag.errors import SourceError, SourceNotFound, SourceUnreachable

NO_SUCH_REF = re.compile(
    r"couldn't find remote ref|not our ref|unadvertised object|no such remote ref", re.IGNORECASE
)
_NO_SUCH_REPOSITORY = re.compile(
    r"not appear to be a git repository|repository .{0,300}not (?:found|exist)|not found|does not exist"
    r"|no such (?:file|path)|could not read username|terminal prompts disabled|authentication failed"
    r"|error: 40[134]",
    re.IGNORECASE,
)
_UNREACHABLE = re.compile(
    r"could not resolve|(?:couldn't|failed to|unable to|could not) connect|timed out|network is unreachable"
    r"|no route to host|connection (?:refused|reset|closed)|empty reply|early eof|error: (?:429|5\d\d)",
    re.IGNORECASE,
)
_MOVED = re.compile(r"error: 30\d|redirect", re.IGNORECASE)


@dataclass(slots=True)
class GitServer:
    """A repository at an address.

    Args:
        location: the canonical address, or a folder.
        token: `RAG_GIT_TOKEN`, see `rag.corpus.git_token`.
        timeout_s: for each call.
        report: receives a notice before a token without a host is sent.
    """

    location: str
    token: str | None
    timeout_s: float
    report: Callable[[str], None]
    _url: str = field(init=False)

    def __post_init__(self) -> None:
        self._url = self.location

    def call(
        self, command: Sequence[str], place: Path, refspecs: Sequence[str] = (), stdin: bytes | None = None
    ) -> bytes:
        """Run a git command, which takes the address and refspecs, in a folder; return its output.

        Raises:
            GitError: git failed; `error` explains it.
        """

        def run_with(token: str | None) -> bytes:
            return run_git(
                [*command, "--", self._url, *refspecs],
                cwd=place,
                token=token,
                url=self._url,
                timeout_s=self.timeout_s,
                stdin=stdin,
            )

        def run() -> bytes:
            return with_token(self.location, self.token, run_with, self.report)

        try:
            return run()
        except GitError as failure:
            # Some servers need the `.git` ending, which the canonical name leaves out.
            bare = self._url.startswith(("http://", "https://")) and not self._url.endswith(".git")
            may_need_suffix = _NO_SUCH_REPOSITORY.search(failure.output) or _MOVED.search(failure.output)
            if not (bare and may_need_suffix):
                raise
            self._url += ".git"
            return run()

    def error(self, failure: GitError, verb: str = "fetch") -> SourceError:
        """Return what a failed call means for the user."""
        where = self.location
        if _NO_SUCH_REPOSITORY.search(failure.output):
            return SourceNotFound(
                f"no repository found at {where}: {failure.line}; {advice(where, self.token)}"
            )
        if _MOVED.search(failure.output):
            return SourceError(
                f"{where} has moved ({failure.line}); tokens are not sent to redirects, use the new address"
            )
        if _UNREACHABLE.search(failure.output):
            return SourceUnreachable(
                f"cannot {verb} {where}: {failure.line}; try again later, or check the address"
            )
        return SourceError(f"cannot {verb} {where}: {failure.line}")
