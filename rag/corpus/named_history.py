"""Read from git, in few calls, when lines of a text were written, and which versions of files hold a name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby, takewhile
from pathlib import Path

from rag.corpus.git import GitError, run_git
from rag.corpus.history import Listing, files_at, stored
from rag.errors import SourceError

MAX_SECONDS = 20.0
_MAX_BYTES = 64 << 20
_MAX_VERSIONS = 20_000
_MAX_NEW_COMMITS = 1_000
_MAX_BLOBS = 10_000
"""The number of ids that fit into a command."""
_BLAMED = re.compile(rb"^([0-9a-f]{40,64}) \d+ (\d+)", re.MULTILINE)
_ORIGIN = re.compile(r"([0-9a-f]{40,64}) (\d+) \d+")
_CHANGE = re.compile(r":\d+ \d+ ([0-9a-f]+) ([0-9a-f]+) [A-Z]\d*")
_MAX_PATTERN_CHARS = 20_000
_MAX_DEPTH = 100
"""How deeply PCRE lets groups be nested is 250."""
_MAX_IGNORED_CALLS = 64
_EXACT = ("--no-color", "--no-line-number", "--no-column", "--no-full-name", "--no-recurse-submodules")

Version = tuple[str, str, str, str]
"""A change of a file: its commit, the path, and the blob ids before and after it, zeros for none."""


def line_commits(root: Path, path: str, lines: Collection[int], commit: str | None = None) -> dict[int, str]:
    """Return the commit that last changed each line of a file in the folder, or at a commit.

    Lines that are not committed, and those of a file that git does not know, are left out.

    Raises:
        SourceError: git takes too long.
    """
    spans = [f"-L{line},{line}" for line in sorted(lines)]
    options = ["--porcelain", "--no-textconv", "--no-ignore-revs-file"]
    at = [commit] if commit else []
    try:
        command = ["blame", *options, *spans, *at, "--", path]
        output = run_git(command, cwd=root, timeout_s=MAX_SECONDS, max_bytes=_MAX_BYTES)
    except GitError:
        return {}
    found = {int(row): one.decode() for one, row in _BLAMED.findall(output)}
    return {row: one for row, one in found.items() if row in lines and one.strip("0")}


def line_origins(
    root: Path, path: str, lines: tuple[int, int], commit: str | None = None
) -> set[tuple[str, str, int]]:
    """Return where lines of a file come from: the commit along the first parents, the path and line there.

    The first and last of the lines are given; without a commit they are those in the folder. Empty if git
    does not say.
    """
    options = ["--porcelain", "--first-parent", "--no-textconv", "--no-ignore-revs-file"]
    span, at = f"-L{lines[0]},{lines[1]}", [commit] if commit else []
    try:
        command = ["blame", *options, span, *at, "--", path]
        output = run_git(command, cwd=root, timeout_s=MAX_SECONDS, max_bytes=_MAX_BYTES)
    except (GitError, SourceError):
        return set()
    paths: dict[str, str] = {}
    rows: list[tuple[str, int]] = []
    for line in output.decode("utf-8", "surrogateescape").split("\n"):
        if line.startswith("filename "):
            paths[rows[-1][0]] = line.removeprefix("filename ")
        elif found := _ORIGIN.match(line):
            rows.append((found[1], int(found[2])))
    return {(one, paths[one], row) for one, row in rows if one.strip("0") and one in paths}


def files_with(
    root: Path,
    names: Collection[str],
    *,
    is_git: bool = True,
    left_out: set[str] | None = None,
    among: Collection[str] = (),
) -> dict[str, list[str]]:
    """Return the files in a folder as it is that hold each name as a whole word; it need not be one of git's.

    Only files `among` some, if any are given. Names with too many uses to list are left out, and added to
    `left_out`.

    Raises:
        SourceError: git takes too long.
    """
    found: dict[str, list[str]] = {}
    where = ["--untracked" if is_git else "--no-index", "--", *(f":(literal){path}" for path in among or ".")]
    for path, name in _uses(root, names, where, left_out):
        found.setdefault(name, []).append(path)
    return found


def files_once_with(
    root: Path,
    names: Collection[str],
    commits: Collection[str],
    *,
    unsearched: Collection[str] = (),
    left_out: set[str] | None = None,
) -> dict[str, dict[str, list[str]]]:
    """Return the files that held each name as a whole word, by commit, then name.

    Versions of files that several commits have are searched once, and those with an id in `unsearched` never.

    Raises:
        SourceError: git takes too long.
    """
    listings = {one: listing.files for one in commits if (listing := files_at(root, one)) is not None}
    blobs = sorted({blob for files in listings.values() for blob in files.values()} - set(unsearched))
    held: dict[str, set[str]] = {}
    for start in range(0, len(blobs), _MAX_BLOBS):
        for blob, name in _uses_in_blobs(root, names, blobs[start : start + _MAX_BLOBS], left_out):
            held.setdefault(blob, set()).add(name)
    found: dict[str, dict[str, list[str]]] = {}
    for commit, files in listings.items():
        for path, blob in files.items():
            for name in held.get(blob, ()):
                found.setdefault(commit, {}).setdefault(name, []).append(path)
    return found


def _uses_in_blobs(
    root: Path, names: Collection[str], blobs: Sequence[str], left_out: set[str] | None
) -> Iterator[tuple[str, str]]:
    """Yield the blobs with each name; those that a partial clone does not have are left out."""
    try:
        yield from _uses(root, names, [*blobs, "--", "."], left_out)
    except SourceError:
        there = stored(root, blobs)
        if len(there) == len(blobs):
            raise
        if there:
            yield from _uses(root, names, [*there, "--", "."], left_out)


def _uses(
    root: Path, names: Collection[str], where: Sequence[str], left_out: set[str] | None
) -> Iterator[tuple[str, str]]:
    """Yield the files or blobs with each name, each pair once; `where` are arguments that choose them."""
    parts = list(_parts(sorted(set(names))))
    while parts:
        part = parts.pop()
        try:
            lines = _grep(root, part, where)
        except _TooMany:
            half = len(part) // 2
            parts += [part[:half], part[half:]] if half else []
            if not half and left_out is not None:
                left_out.update(part)
            continue
        for line in dict.fromkeys(lines.decode("utf-8", "surrogateescape").split("\n")):
            place, between, name = line.partition("\0")
            if between:
                yield place, name


def _parts(names: Sequence[str]) -> Iterator[list[str]]:
    """Yield the names in parts that fit into one regular expression."""
    part: list[str] = []
    for name in names:
        part.append(name)
        if sum(map(len, part)) + len(part) > _MAX_PATTERN_CHARS:
            yield part
            part = []
    if part:
        yield part


class _TooMany(Exception):
    """Names have more uses than are read."""


def _grep(root: Path, names: Sequence[str], where: Sequence[str]) -> bytes:
    """Return a line for each use of the sorted names. As one expression, of PCRE: as strings they take 100
    times as long. Raises _TooMany, SourceError.
    """
    taken = bytearray()

    def take(piece: bytes) -> None:
        taken.extend(piece)
        if len(taken) > _MAX_BYTES:
            raise _TooMany

    pattern = rf"(?<![\w$])(?:{_one_of(names)})(?![\w$])".encode("utf-8", "surrogateescape")
    try:
        run_git(
            ["grep", "-I", "-P", "-o", "-z", *_EXACT, "-f", "-", *where],
            cwd=root,
            stdin=pattern,
            ok_codes=(0, 1),
            timeout_s=MAX_SECONDS,
            on_output=take,
        )
    except GitError as error:
        raise SourceError(f"git cannot search {root} for names: {error.line}") from error
    return bytes(taken)


def _one_of(names: Sequence[str], depth: int = 0) -> str:
    """Return an expression for sorted names that shares their beginnings, so that many take no longer."""
    if len(names) == 1 or depth == _MAX_DEPTH:
        return "|".join(map(re.escape, names))
    pairs = zip(names[0], names[-1], strict=False)
    start = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    rest = [name.removeprefix(start) for name in names]
    groups = [[*group] for _, group in groupby(filter(None, rest), key=lambda one: one[0])]
    ends = "" if rest[0] else "?"
    return f"{re.escape(start)}(?:{'|'.join(_one_of(group, depth + 1) for group in groups)}){ends}"


def blobs_at(root: Path, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the blob id of each file at a commit, given as (commit, path); those that do not exist are left
    out.

    Raises:
        SourceError: git takes too long.
    """
    wanted = [one for one in dict.fromkeys(places) if "\n" not in one[1]]
    if not wanted:
        return {}
    names = "".join(f"{commit}:./{path}\n" for commit, path in wanted).encode("utf-8", "surrogateescape")
    try:
        output = run_git(["cat-file", "--batch-check"], cwd=root, stdin=names, timeout_s=MAX_SECONDS)
    except GitError:  # in a partial clone, one of a file that is not here
        trees = {commit: files_at(root, commit) or Listing() for commit in dict(wanted)}
        return {(at, path): blob for at, path in wanted if (blob := trees[at].files.get(path))}
    rows = output.decode("utf-8", "surrogateescape").split("\n")
    words = [row.split(" ") for row in rows[: len(wanted)]]
    return {
        place: word[0]
        for place, word in zip(wanted, words, strict=False)
        if len(word) == 3 and word[1] == "blob"
    }


def ignored(root: Path, paths: Collection[str]) -> set[str]:
    """Return those of the paths that git ignores, as files or folders: what is there is made by a tool, not
    written. Git refuses all paths for one beyond a symbolic link or in a submodule; these are left out.
    """
    found: set[str] = set()
    parts = [sorted(path for path in paths if not _is_beyond_link(root, path))]
    for _ in range(_MAX_IGNORED_CALLS):
        if not parts:
            break
        part = parts.pop(0)
        wanted = "".join(f"{path}\0{path}/\0" for path in part).encode("utf-8", "surrogateescape")
        command = ["check-ignore", "--stdin", "-z"]
        try:
            output = run_git(command, cwd=root, stdin=wanted, ok_codes=(0, 1), timeout_s=MAX_SECONDS)
        except GitError:
            half = len(part) // 2
            parts += [part[:half], part[half:]] if half else []
        except SourceError:
            break
        else:
            found.update(output.decode("utf-8", "surrogateescape").split("\0"))
    return {path for path in paths if path in found or f"{path}/" in found}


def _is_beyond_link(root: Path, path: str) -> bool:
    names = path.split("/")
    return any(root.joinpath(*names[:n]).is_symlink() for n in range(1, len(names)))


def versions(root: Path, commit: str, paths: Collection[str]) -> list[Version]:
    """Return the changes of files along the first parents of a commit, newest first; [] if that takes too
    long.
    """
    if not paths:
        return []
    with suppress(GitError, SourceError):
        return changes(root, commit, [f":(literal){path}" for path in sorted(paths)])
    return []


def changed_between(root: Path, commit: str, other: str) -> set[str] | None:
    """Return the paths that differ between two commits, or changed along their first parents since they have
    branched.

    None if that takes too long, or if there are too many commits.
    """
    with suppress(GitError, SourceError):
        found = changes(root, f"{other}...{commit}", ())
        if len({one for one, *_ in found}) <= _MAX_NEW_COMMITS:
            compared = ["diff-tree", "-r", "--name-only", "-z", "--relative", other, commit, "--"]
            differing = run_git(compared, cwd=root, timeout_s=MAX_SECONDS)
            return {path for _, path, *_ in found}.union(
                filter(None, differing.decode("utf-8", "surrogateescape").split("\0"))
            )
    return None


def changes(root: Path, commit: str, pathspecs: Sequence[str]) -> list[Version]:
    """Return the changes of files along the first parents of a commit, newest first. Raises GitError,
    SourceError.
    """
    shown = ["--format=%x01%H", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff", "--relative"]
    walked = ["--root", "--first-parent", "-m", f"--max-count={_MAX_VERSIONS}", commit, "--"]
    output = run_git(["log", *shown, *walked, *pathspecs], cwd=root, timeout_s=MAX_SECONDS)
    found: list[Version] = []
    current, blobs = "", ("", "")
    for part in output.decode("utf-8", "surrogateescape").split("\0"):
        text = part.lstrip("\n")
        if text.startswith("\x01"):
            current, _, text = text[1:].partition("\n")
            text = text.lstrip("\n")
        if match := _CHANGE.fullmatch(text):
            blobs = match[1], match[2]
        elif text and blobs[0]:
            found.append((current, text, *blobs))
            blobs = "", ""
    return found


def commit_days(root: Path, commits: Collection[str]) -> dict[str, str]:
    """Return the day on which each commit was made."""
    if not commits:
        return {}
    command = ["log", "--no-walk=unsorted", "--stdin", "--format=%H %cs"]
    try:
        output = run_git(command, cwd=root, stdin="\n".join([*sorted(commits), ""]).encode())
    except (GitError, SourceError):
        return {}
    return dict(line.split(" ", 1) for line in output.decode("ascii", "replace").splitlines() if " " in line)
