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
from collections.abc import Iterable, Iterator, Mapping
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
_CANNOT_SAY = re.compile(r"wait-for-done|protocol v2")
"""How git says that a server does not know which commits it shares."""
_OTHER_FORMAT = re.compile(r"mismatched algorithms|object[ -]format", re.IGNORECASE)


_RECEIVE = (
    "--receive-pack=git -c core.hooksPath=/dev/null -c core.alternateRefsCommand=true -c receive.autogc=false"
    " receive-pack"
)
"""For a repository on this machine: nothing that its settings or hooks name is run."""


class Overtaken(Exception):
    """Somebody else has pushed meanwhile: fetch again, merge, and push again."""


@dataclass(slots=True)
class SharedRef:
    """The shared files of a repository, as last fetched. `commit` is "" if there are none yet."""

    server: GitServer
    place: Path
    commit: str = ""
    blobs: dict[str, str] = field(default_factory=dict)
    """The blob ids of the files by path; "" for what is too large, or no regular file."""

    def fetch(self) -> None:
        """Fetch the list of the files.

        Raises:
            SourceError: the repository cannot be reached, or shares too many files.
        """
        self.commit, self.blobs = "", {}
        if not self._fetched():
            return
        try:
            commit = run_git(["rev-parse", "--verify", f"{REF}^{{commit}}"], cwd=self.place)
            listed = run_git(["ls-tree", "-r", "-l", "-z", REF], cwd=self.place, max_bytes=_MAX_LISTING_BYTES)
        except GitError as failure:
            raise SourceError(
                f"{REF} of {self.server.location} is damaged, or not of this program: {failure.line}"
            ) from failure
        lines = listed.decode("utf-8", "surrogateescape").split("\0")[:-1]
        if len(lines) > _MAX_FILES:
            raise SourceError(f"{self.server.location} shares more than {_MAX_FILES:,} files in {REF}")
        self.commit = commit.decode().strip()
        for line in lines:
            found = _ENTRY.fullmatch(line)
            is_readable = found is not None and int(found["size"]) <= MAX_FILE_BYTES
            self.blobs[line.partition("\t")[2]] = found["blob"] if found and is_readable else ""

    def read(self, paths: Iterable[str]) -> dict[str, bytes | None]:
        """Return the contents of files that were fetched, by path; None for what cannot be read."""
        blobs = {path: self.blobs[path] for path in paths}
        contents = read_blobs(self.place, {*blobs.values()} - {""})
        return {path: contents.get(blob) for path, blob in blobs.items()}

    def shares_history(self, folder: Path) -> bool:
        """Whether the repository is empty, or has a commit of a folder's branch; True if it cannot say."""
        with tempfile.TemporaryDirectory(prefix="rag-shared-") as temporary:
            place = Path(temporary)
            _init(place, run_git(["rev-parse", "--show-object-format"], cwd=folder).decode().strip())
            files = run_git(
                ["rev-parse", "--git-path", "objects", "--git-path", "shallow", "--verify", "HEAD"],
                cwd=folder,
                ok_codes=(0, 128),
            )
            found = files.decode("utf-8", "surrogateescape").splitlines()
            if len(found) != 3:
                return False  # nothing is committed here
            objects, shallow, head = folder / found[0], folder / found[1], found[2]
            (place / "objects/info/alternates").write_bytes(bytes(objects.resolve()) + b"\n")
            if shallow.exists():
                shutil.copy(shallow, place / "shallow")
            try:
                refs = self.server.call(["ls-remote", "--refs"], place).split()[1::2]
                if set(refs) <= {REF.encode()}:
                    return True
                ask = ["fetch", "--negotiate-only", f"--negotiation-tip={head}"]
                return bool(self.server.call(ask, place))
            except GitError as failure:
                return _CANNOT_SAY.search(failure.output) is not None

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
        lease = f"--force-with-lease={REF}:{self.commit}"
        is_local = self.server.location.startswith(("/", "file://"))
        try:
            run_git(["fast-import", "--quiet", "--force", "--date-format=raw"], cwd=self.place, stdin=stream)
            self.server.call(
                ["push", "--quiet", lease, *([_RECEIVE] if is_local else [])], self.place, [f"{REF}:{REF}"]
            )
        except GitError as failure:
            if _OVERTAKEN.search(failure.output):
                raise Overtaken from failure
            raise self.server.error(failure, "push to") from failure


@contextmanager
def shared_files(server: GitServer, object_format: str = "sha1") -> Iterator[SharedRef]:
    """Open the shared files of a repository, in a temporary folder. Raises SourceError."""
    with tempfile.TemporaryDirectory(prefix="rag-shared-") as folder:
        place = Path(folder) / "shared.git"
        _init(place, object_format)
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
