"""Small files that a team shares in a ref of its repository, outside of all branches.

They are read and written in an empty repository of our own, which knows only the address: the settings of a
work tree run nothing, and nothing is written into it. Each change is one commit. What others have pushed is
untrusted: its names, number and sizes are limited before it is read.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rag.corpus.git import GitError, run_git
from rag.corpus.git_server import NO_SUCH_REF, GitServer
from rag.corpus.history import read_blobs
from rag.errors import ConfigError, SourceError

REF = "refs/rag/shared"
_MAX_FILES = 20_000
MAX_FILE_BYTES = 4 << 20
_MAX_LISTING_BYTES = 8 << 20
_ENTRY = re.compile(r"100644 blob (?P<blob>[0-9a-f]+) +(?P<size>\d{1,15})\t(?P<path>.+)", re.DOTALL)
_OVERTAKEN = re.compile(
    r"stale info|fetch first|non-fast-forward|cannot lock ref|failed to update ref|incorrect old value"
)
_OTHER_FORMAT = re.compile(r"mismatched algorithms|object[ -]format", re.IGNORECASE)


class Overtaken(Exception):
    """Somebody else has pushed meanwhile: fetch again, merge, and push again."""


@dataclass(slots=True)
class SharedRef:
    """The shared files of a repository, as last fetched. `commit` is "" if there are none yet."""

    server: GitServer
    place: Path
    commit: str = ""
    _blobs: dict[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> Collection[str]:
        """The paths of the files that were fetched."""
        return self._blobs.keys()

    def fetch(self) -> Collection[str]:
        """Fetch, and return the paths of the files, without those that are too large or no regular files.

        Raises:
            SourceError: the repository cannot be reached, or shares too many files.
        """
        self.commit, self._blobs = "", {}
        if not self._fetched():
            return self.paths
        self.commit = run_git(["rev-parse", "--verify", REF], cwd=self.place).decode().strip()
        listed = run_git(["ls-tree", "-r", "-l", "-z", REF], cwd=self.place, max_bytes=_MAX_LISTING_BYTES)
        entries = [*map(_ENTRY.fullmatch, listed.decode("utf-8", "surrogateescape").split("\0"))]
        if len(entries) > _MAX_FILES:
            raise SourceError(f"{self.server.location} shares more than {_MAX_FILES:,} files in {REF}")
        found = [one for one in entries if one and int(one["size"]) <= MAX_FILE_BYTES]
        self._blobs = {one["path"]: one["blob"] for one in found}
        return self.paths

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of files that were fetched, by path."""
        blobs = {path: self._blobs[path] for path in paths}
        contents = read_blobs(self.place, blobs.values())
        return {path: contents[blob] for path, blob in blobs.items() if blob in contents}

    def _fetched(self) -> bool:
        """Fetch the ref; return False if the repository has none."""
        command, refs = ["fetch", "--quiet", "--no-tags", "--depth", "1"], [f"+{REF}:{REF}"]
        try:
            try:
                self.server.call(command, self.place, refs)
            except GitError as failure:
                if not _OTHER_FORMAT.search(failure.output):
                    raise
                shutil.rmtree(self.place)
                _init(self.place, "sha256")
                self.server.call(command, self.place, refs)
        except GitError as failure:
            if NO_SUCH_REF.search(failure.output):
                return False
            raise self.server.error(failure) from failure
        return True

    def push(self, changed: Mapping[str, bytes | None], message: str, author: str) -> None:
        """Write files (None: delete) as one commit on what was fetched, and push it.

        Args:
            changed: the contents by path.
            message: of the commit.
            author: `NAME <EMAIL>`, which also signs it off.

        Raises:
            Overtaken: somebody else has pushed since `fetch`.
            SourceError: the repository cannot be reached, or refuses it.
        """
        stream = f"commit {REF}\ncommitter {author} {int(time.time())} +0000\n".encode()
        stream += _data(f"{message}\n\nSigned-off-by: {author}\n".encode())
        stream += f"from {self.commit}\n".encode() if self.commit else b""
        for path, content in sorted(changed.items()):
            name = f"{path}\n".encode()
            stream += b"D " + name if content is None else b"M 100644 inline " + name + _data(content)
        run_git(["fast-import", "--quiet", "--force", "--date-format=raw"], cwd=self.place, stdin=stream)
        lease = f"--force-with-lease={REF}:{self.commit}"
        try:
            self.server.call(["push", "--quiet", lease], self.place, [f"{REF}:{REF}"])
        except GitError as failure:
            if _OVERTAKEN.search(failure.output):
                raise Overtaken from failure
            raise self.server.error(failure, "push to") from failure


@contextmanager
def shared_files(server: GitServer) -> Iterator[SharedRef]:
    """Open the shared files of a repository, in a temporary folder. Raises SourceError."""
    with tempfile.TemporaryDirectory(prefix="rag-shared-") as folder:
        place = Path(folder) / "shared.git"
        _init(place, "sha1")
        yield SharedRef(server, place)


def _init(place: Path, object_format: str) -> None:
    run_git(["init", "--quiet", "--bare", "--template=", f"--object-format={object_format}", str(place)])


def identity(folder: Path | None) -> str:
    """Return the `NAME <EMAIL>` that git would write into a commit in a folder.

    Raises:
        ConfigError: git knows none.
    """
    try:
        known = run_git(["var", "GIT_COMMITTER_IDENT"], cwd=folder).decode("utf-8", "replace")
    except GitError as failure:
        raise ConfigError(
            f"git does not know who you are ({failure.line}); run `git config --global user.name NAME` and "
            "`git config --global user.email ADDRESS`"
        ) from failure
    return known[: known.rindex(">") + 1]


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)
