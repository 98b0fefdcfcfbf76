"""Make a source available as a folder on disk.

A folder is read in place. A URL, a bare repository, or a folder at another ref is fetched into our own clone,
`HOME/repos/<name>-<hash>/`: one commit deep, without hooks, submodules or filters, with a detached `HEAD`. A
clone is made in a temporary folder and renamed under a lock, so nobody sees an incomplete one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from rag.corpus.address import resolve, without_credentials
from rag.corpus.git import GitError, run_git
from rag.corpus.git_server import NO_SUCH_REF, GitServer
from rag.corpus.history import named_commit
from rag.corpus.refs import HEX, allowed_commit, full_name, is_allowed, ref_not_found
from rag.corpus.worktree import is_bare, work_tree
from rag.errors import RefNotFound, SourceError, SourceNotFound
from rag.lines import lines_of
from rag.resources import make_private
from rag.types import Checkout, Source

__all__ = ["acquire", "committed", "resolve"]

_NO_HEAD = (
    "{} has no commit: it is a new repository, or not a git server (such as a page that asks to log in); "
    "open the address in a browser"
)
"""Over HTTP, git answers the same for both."""
_OTHER_FORMAT = re.compile(r"mismatched algorithms|object[ -]format", re.IGNORECASE)
_ENTRY = re.compile(rb"\d{6} \w+ [0-9a-f]+ +(\d+|-)\t([^\0]*)\0")
_MAX_FILES = 1_000_000
_MAX_BYTES = 16 << 30
_MAX_PATH_BYTES = 4000
_MAX_DEPTH = 200
"""Limits of a commit that is checked out: a few kilobytes of objects can mean billions of files."""
_ALLOWED = "rag.allowed"
"""A setting in our clones: the ref policy that the commit was checked against."""
_ALLOWED_REFS = "refs/rag/allowed"
"""The namespace in our clones for the refs that a commit may be reached from."""
_STATUS = (
    *("status", "--porcelain=v2", "--branch", "-z", "--no-renames"),
    *("--untracked-files=normal", "--ignore-submodules=all", "--", "."),
)
_ATTRIBUTES = "* -filter -text -eol -ident -working-tree-encoding -diff -merge\n"
"""Overrides all other attribute files: no filter runs, and every file keeps its committed bytes."""
_FETCHED = "rag-fetched"
"""In the `.git` of a clone: the commit that its server last had. The file's time is that of the fetch."""


def acquire(
    source: Source,
    *,
    home: Path,
    token: str | None = None,
    timeout_s: float = 600,
    refresh: bool = True,
    refs: Sequence[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Checkout:
    """Make the source readable on disk.

    Args:
        source: from `resolve`.
        home: the folder for clones, under `repos/`.
        token: `RAG_GIT_TOKEN`, see `rag.corpus.git_token`; credentials in the URL take precedence.
        timeout_s: for each git call that fetches.
        refresh: fetch again; False uses an existing clone as it is, and fetches only where there is none.
        refs: patterns of the refs that the source's ref may name or be reached from, see `rag.corpus.refs`;
            None allows everything that git can name.
        progress: called with a few words before each slow step.

    Returns:
        The folder, with commit and remote where there is git history. `dirty` is only ever True for a folder
        read in place that differs from its commit.

    Raises:
        SourceNotFound: no such folder or repository (or none visible without a token).
        SourceUnreachable: the server does not respond, or failed.
        RefNotFound: it has no such branch, tag or commit, or `refs` does not allow it.
        SourceError: it cannot be read or fetched.
    """
    report = progress or (lambda text: None)
    if not source.is_url:
        folder = Path(source.location)
        _check_readable(folder)
        if not is_bare(folder):
            return (
                _in_place(source, folder, report)
                if source.ref is None
                else _at_ref(source, folder, home, timeout_s, refs)
            )
    clone = _Clone(source, home, token, timeout_s, report, allowed=None if refs is None else tuple(refs))
    root, commit = clone.ready(refresh=refresh)
    return Checkout(source, root, commit, remote=source.location if source.is_url else None)


def is_in_place(source: Source) -> bool:
    """Return whether a source is a folder that is read in place, without a clone."""
    return not source.is_url and source.ref is None and not is_bare(Path(source.location))


def fetched_folder(source: Source, home: Path) -> Path | None:
    """Return the folder of our clone of a source; None where there is none. Nothing is fetched.

    Raises:
        SourceError: the repository it was cloned from cannot be read.
    """
    cloned, inside = source, ""
    if not source.is_url and not is_bare(Path(source.location)):
        top, inside = place_in_work_tree(Path(source.location))
        cloned = replace(source, location=top)
    folder = clone_folder(cloned, home)
    return folder.resolve() / inside if (folder / ".git" / "HEAD").is_file() else None


def fetched_ago_s(source: Source, home: Path, commit: str | None) -> float | None:
    """Return the seconds since a URL was last fetched, by any process, if it then had this commit."""
    try:
        with (clone_folder(source, home) / ".git" / _FETCHED).open(encoding="ascii") as file:
            found, fetched = file.read(), os.fstat(file.fileno()).st_mtime
    except OSError:
        return None
    return max(0.0, time.time() - fetched) if found == commit else None


def changed_since_clone(checkout: Checkout) -> tuple[str, ...]:
    """Return the files that differ between a local repository's ref and the commit of our clone, ascending.

    Raises:
        RefNotFound: the repository no longer has this ref.
        SourceError: it cannot be read.
    """
    source = checkout.source
    folder = Path(source.location)
    commit = named_commit(folder, source.ref or "HEAD")
    if commit is None:
        raise RefNotFound(source=str(folder), ref=source.ref or "HEAD")
    if commit == checkout.commit:
        return ()
    try:
        options = ["--name-only", "--no-renames", "--no-ext-diff", "--relative", "-z"]
        changed = run_git(["diff", *options, str(checkout.commit), commit], cwd=folder)
    except GitError:  # the previous commit is gone
        return (f"(everything between {str(checkout.commit)[:10]} and {commit[:10]})",)
    return tuple(sorted(name for name in changed.decode("utf-8", "surrogateescape").split("\0") if name))


def committed(checkout: Checkout, paths: Iterable[str]) -> dict[str, str]:
    """Return the git blob ids of these files at the checkout's commit, by path, without uncommitted files.

    A commit never changes, so they are cached: git is asked for the first files alone, then once for all.
    """
    wanted = list(paths)
    if checkout.commit is None or not wanted:
        return {}
    tree = _tree_of(checkout.root, checkout.commit)
    if not tree.is_whole and any(path not in tree.blobs for path in wanted):
        files = ["-r"] if tree.blobs else ["--", *wanted]
        try:
            listing = run_git(["ls-tree", "-z", checkout.commit, *files], cwd=checkout.root)
        except GitError:
            return {}  # the history is gone: treat every file as uncommitted
        tree.is_whole = bool(tree.blobs)
        tree.blobs |= dict.fromkeys(wanted, "") | _blobs_in(listing)
    return {path: blob for path in wanted if (blob := tree.blobs.get(path))}


@dataclass(slots=True)
class _Tree:
    """What is known of a commit: its blob ids by path, "" for a path that it does not have."""

    blobs: dict[str, str] = field(default_factory=dict)
    is_whole: bool = False


@lru_cache(maxsize=8)
def _tree_of(root: Path, commit: str) -> _Tree:
    return _Tree()


def _blobs_in(listing: bytes) -> dict[str, str]:
    """Return the blob ids of an output of `git ls-tree`, by path."""
    found = {}
    for line in listing.decode("utf-8", "replace").split("\0"):
        head, tab, path = line.partition("\t")
        if tab and head.split(" ")[1] == "blob":
            found[path] = head.split(" ")[2]
    return found


def clone_folder(source: Source, home: Path) -> Path:
    """Return the folder of our clone of a source, whether or not it exists."""
    key = hashlib.sha256(f"{source.location}\0{source.ref or ''}".encode()).hexdigest()[:12]
    name = re.sub(r"[^\w.-]+", "-", f"{source.name}-{source.ref or ''}").strip("-.")[:60] or "repository"
    return home / "repos" / f"{name}-{key}"


def _check_readable(folder: Path) -> None:
    try:
        is_folder = folder.is_dir()
    except OSError as error:
        raise SourceError(f"{folder} cannot be accessed: {error.strerror}") from error
    if not is_folder:
        raise SourceNotFound(f"there is no folder {folder}")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise SourceError(f"no permission to read the folder {folder}; check with `ls -ld {folder}`")


def _repair(failure: GitError, folder: Path) -> str:
    """Return the command that lets git read a folder of another user; "" for other failures."""
    if "dubious ownership" not in failure.output:
        return ""
    return f"; if you trust it: git config --global --add safe.directory {shlex.quote(str(folder))}"


def _in_place(source: Source, folder: Path, report: Callable[[str], None]) -> Checkout:
    if work_tree(folder) is None:
        return Checkout(source, folder)
    try:
        status = run_git(_STATUS, cwd=folder)
        remote = run_git(["config", "--get", "remote.origin.url"], cwd=folder, ok_codes=(0, 1))
    except GitError as failure:
        fix = _repair(failure, folder)
        report(f"git failed in {folder}; reading it without history ({failure.line}){fix}")
        return Checkout(source, folder)
    records = [record for record in status.decode("utf-8", "replace").split("\0") if record]
    oid = next((r.rpartition(" ")[2] for r in records if r.startswith("# branch.oid ")), "")
    return Checkout(
        source,
        folder,
        commit=oid if HEX.fullmatch(oid) else None,
        dirty=any(not record.startswith("# ") for record in records),
        remote=without_credentials(remote.decode("utf-8", "replace")) or None,
    )


def _at_ref(
    source: Source, folder: Path, home: Path, timeout_s: float, refs: Sequence[str] | None
) -> Checkout:
    """Return a local repository at a ref: the same folder in our clone."""
    ref = source.ref or ""
    if work_tree(folder) is None:
        raise SourceError(f"{folder} has no git history, so it has no ref {ref!r}; omit the ref")
    top, prefix = place_in_work_tree(folder)
    try:
        commit = named_commit(folder, ref) if refs is None else allowed_commit(folder, ref, refs)
    except GitError as failure:
        raise SourceError(f"git cannot read {folder}: {failure.line}") from failure
    if commit is None:
        raise ref_not_found(folder, ref, refs)
    clone = _Clone(Source(top, ref), home, None, timeout_s, lambda text: None, fetch_ref=commit)
    root, commit = clone.ready(refresh=True)
    inside = root / prefix
    if not inside.is_dir() or inside.resolve() != inside:
        raise SourceError(f"{source.location} has no folder {prefix!r} at {ref!r}")
    return Checkout(source, inside, commit)


def place_in_work_tree(folder: Path) -> tuple[str, str]:
    """Return the top of the work tree that a folder belongs to, and the folder's path relative to it."""
    try:
        places = run_git(["rev-parse", "--show-toplevel", "--show-prefix"], cwd=folder)
    except GitError as failure:
        raise SourceError(f"git cannot read {folder}: {failure.line}") from failure
    top, _, prefix = places.decode().partition("\n")
    return top, prefix.strip("\n")


class _Clone:
    """Our clone of one location at one ref."""

    def __init__(
        self,
        source: Source,
        home: Path,
        token: str | None,
        timeout_s: float,
        report: Callable[[str], None],
        *,
        fetch_ref: str | None = None,
        allowed: tuple[str, ...] | None = None,
    ) -> None:
        self.source, self.timeout_s, self.report = source, timeout_s, report
        self.server, self.ref = GitServer(source.location, token, timeout_s, report), fetch_ref or source.ref
        self.allowed = allowed if self.ref is not None else None
        self.folder = clone_folder(source, home)

    def ready(self, *, refresh: bool) -> tuple[Path, str]:
        """Return the clone's root and its commit, after a fetch where needed."""
        try:
            make_private(self.folder.parent)
            with locked(self.folder, self.timeout_s):
                self._sweep()
                if not (self.folder / ".git" / "HEAD").is_file():
                    self._make()
                elif not self._has_same_policy() or (refresh and not self._is_pinned()):
                    self._update(self.folder)
                elif not refresh:
                    return self.folder.resolve(), self._commit(self.folder)
                commit = self._commit(self.folder)
                (self.folder / ".git" / _FETCHED).write_text(commit, encoding="ascii")
                return self.folder.resolve(), commit
        except OSError as error:
            raise SourceError(
                f"cannot create a clone in {self.folder.parent}: {error.strerror or error}"
            ) from error

    def _sweep(self) -> None:
        """Remove what a killed process left behind. Call only while holding the lock."""
        for leftover in self.folder.parent.glob(f".{self.folder.name}.*.tmp"):
            shutil.rmtree(leftover, ignore_errors=True)
        for lock in ("index.lock", "shallow.lock", "HEAD.lock", "config.lock"):
            (self.folder / ".git" / lock).unlink(missing_ok=True)

    def _is_pinned(self) -> bool:
        """Return whether the clone is at the full commit that is requested: nothing can have changed."""
        return self.ref is not None and len(self.ref) >= 40 and self.ref.lower() == self._commit(self.folder)

    def _has_same_policy(self) -> bool:
        """Return whether the clone was fetched under the same policy; another process may have had none."""
        if self.allowed is None:
            return True
        noted = run_git(["config", "--get", _ALLOWED], cwd=self.folder, ok_codes=(0, 1))
        return noted.decode("utf-8", "replace").strip() == " ".join(self.allowed)

    def _make(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        place = Path(tempfile.mkdtemp(dir=self.folder.parent, prefix=f".{self.folder.name}.", suffix=".tmp"))
        try:
            try:
                self._init(place, "sha1")
                self._update(place)
            except SourceError as error:
                if not _OTHER_FORMAT.search(str(error)):
                    raise
                shutil.rmtree(place / ".git")
                self._init(place, "sha256")
                self._update(place)
            place.rename(self.folder)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _init(self, place: Path, object_format: str) -> None:
        self._git("init", "--quiet", "--template=", f"--object-format={object_format}", cwd=place)
        self._git("config", "remote.origin.url", self.source.location, cwd=place)
        info = place / ".git" / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(_ATTRIBUTES, encoding="ascii")

    def _update(self, place: Path) -> None:
        ref = f" (--ref {self.source.ref})" if self.source.ref else ""
        self.report(f"fetching {self.source.location}{ref}")
        commit = self._fetch(place) if self.allowed is None else self._fetch_allowed(place, self.allowed)
        try:
            self._check_size(place, commit)
            self._git("update-ref", "--no-deref", "HEAD", commit, cwd=place)
            self._git("reset", "--hard", "--quiet", cwd=place)
            self._git("clean", "-ffdxq", cwd=place)
            if self.allowed is not None:
                self._git("config", _ALLOWED, " ".join(self.allowed), cwd=place)
        except GitError as failure:
            raise SourceError(f"cannot check out {self.source}: {failure.line}") from failure

    def _check_size(self, place: Path, commit: str) -> None:
        """Raise an error if the files of a commit are too many, or too large, to be checked out."""
        files, size, longest, deepest, rest = 0, 0, 0, 0, b""

        def count(piece: bytes) -> None:
            nonlocal files, size, longest, deepest, rest
            end = 0
            for entry in _ENTRY.finditer(text := rest + piece):
                files += 1
                size += 0 if entry[1] == b"-" else int(entry[1])
                longest, deepest = max(longest, len(entry[2])), max(deepest, entry[2].count(b"/"))
                end = entry.end()
            rest = text[end:]
            if files > _MAX_FILES or size > _MAX_BYTES:
                found = f"{_MAX_FILES:,} files or {_MAX_BYTES >> 30} GB"
            elif max(longest, len(rest)) > _MAX_PATH_BYTES or deepest > _MAX_DEPTH:
                found = f"{_MAX_PATH_BYTES:,} bytes or {_MAX_DEPTH} folders in a path"
            else:
                return
            raise SourceError(
                f"{self.source} cannot be checked out: it has more than {found}; clone it yourself and give "
                "the folder, or a part of it"
            )

        run_git(["ls-tree", "-r", "-l", "-z", commit], cwd=place, timeout_s=self.timeout_s, on_output=count)

    def _fetch(self, place: Path) -> str:
        """Fetch exactly the ref, or more where the server does not serve it alone; return the commit."""
        try:
            self._fetch_from_url(place, ["--depth", "1"], [self.ref or "HEAD"])
            return self._named(place, "FETCH_HEAD")
        except GitError as failure:
            if not NO_SUCH_REF.search(failure.output):
                raise self.server.error(failure) from failure
            if self.ref is None:
                raise SourceError(_NO_HEAD.format(self.source.location)) from failure
            if not HEX.fullmatch(self.ref):
                raise self._not_found(self.ref) from failure
        deeper = ["--unshallow"] if (place / ".git" / "shallow").exists() else []
        try:
            self._fetch_from_url(
                place, deeper, ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"]
            )
        except GitError as failure:
            raise self.server.error(failure) from failure
        return self._named(place, self.ref)

    def _fetch_allowed(self, place: Path, allowed: tuple[str, ...]) -> str:
        """Fetch the ref if the policy allows it; return the commit."""
        ref = self.ref or ""
        try:
            there = self._advertised(place)
            names = {name: oid for name, oid in there.items() if is_allowed(name, allowed)}
            name = full_name(ref, names, allowed)
            if tip := name or _tip(ref, there, names):
                self._fetch_from_url(place, ["--depth", "1"], [tip])
                commit = self._named(place, "FETCH_HEAD")
                if name or ref == "HEAD" or commit.startswith(ref.lower()):  # else it has changed meanwhile
                    return commit
            if not names or not HEX.fullmatch(ref):
                raise self._not_found(ref)
            deeper = ["--unshallow"] if (place / ".git" / "shallow").exists() else []
            refspecs = [f"+{name}:{_ALLOWED_REFS}{name.removeprefix('refs')}" for name in names]
            self._fetch_from_url(place, [*deeper, "--stdin"], [], stdin="\n".join(refspecs).encode())
            reached = allowed_commit(place, ref, (_ALLOWED_REFS,))
        except GitError as failure:
            raise self.server.error(failure) from failure
        if reached is None:
            raise self._not_found(ref)
        return reached

    def _advertised(self, place: Path) -> dict[str, str]:
        """Return the refs that the server advertises, with their objects; an annotated tag maps to its
        commit.
        """
        listing = self.server.call(["ls-remote", "--quiet"], place).decode("utf-8", "surrogateescape")
        pairs = (line.partition("\t") for line in lines_of(listing))
        return {name.removesuffix("^{}"): oid for oid, _, name in pairs}

    def _fetch_from_url(
        self, place: Path, options: list[str], refspecs: list[str], stdin: bytes | None = None
    ) -> None:
        always = ["--quiet", "--force", "--no-tags", "--no-recurse-submodules"]
        self.server.call(["fetch", *always, *options], place, refspecs, stdin)

    def _named(self, place: Path, ref: str) -> str:
        try:
            wanted = f"{ref}^{{commit}}"
            return (
                self._git("rev-parse", "--verify", "--quiet", "--end-of-options", wanted, cwd=place)
                .decode()
                .strip()
            )
        except GitError as failure:
            raise self._not_found(self.ref or "HEAD") from failure

    def _not_found(self, ref: str) -> RefNotFound:
        """Return the error for a ref that the repository does not have."""
        location = self.source.location
        if self.source.is_url:
            return RefNotFound(source=location, ref=ref)
        return ref_not_found(Path(location), ref, self.allowed)

    def _commit(self, place: Path) -> str:
        try:
            return self._git("rev-parse", "--verify", "HEAD", cwd=place).decode().strip()
        except GitError as failure:
            raise SourceError(
                f"the clone {place} is damaged ({failure.line}); remove that folder"
            ) from failure

    def _git(self, *arguments: str, cwd: Path) -> bytes:
        return run_git(arguments, cwd=cwd, timeout_s=self.timeout_s)


def _tip(ref: str, there: Mapping[str, str], names: Mapping[str, str]) -> str | None:
    """Return the one of `names` that is at the commit which HEAD or an abbreviated id means."""
    wanted = there.get("HEAD", "-") if ref == "HEAD" else ref.lower() if HEX.fullmatch(ref) else "-"
    if len({oid for oid in there.values() if oid.startswith(wanted)}) != 1:
        return None
    return next((name for name, oid in names.items() if oid.startswith(wanted)), None)


@contextmanager
def locked(clone: Path, wait_s: float) -> Iterator[None]:
    """Hold the lock of a clone: one process at a time; the system releases it when a process dies.

    Raises:
        SourceError: another process held it for `wait_s`.
        OSError: the lock file cannot be written.
    """
    path = clone.with_name(f".{clone.name}.lock")
    deadline = time.monotonic() + wait_s
    while True:
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise SourceError(
                        f"another process has locked {clone.name} for {wait_s:g} seconds; try again later"
                    ) from error
                time.sleep(0.05)
                continue
            if _is_current(path, file.fileno()):
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return


def _is_current(path: Path, descriptor: int) -> bool:
    """Return whether the locked file is the one at `path`: the previous holder removes it when it is done."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
