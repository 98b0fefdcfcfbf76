"""Which commits of a repository others may read by name: a policy of full ref names.

Git itself resolves far more names than branches and tags: the stash, notes, pull requests, the reflog, and
the id of any object that is still on the disk. A policy is a list of ref patterns. A name is allowed if it is
a ref that matches one of them; a commit id is allowed if such a ref reaches it. A pattern is a full ref name
("refs/heads/main"), a folder of refs ("refs/heads"), or a glob ("refs/heads/release-*", where `*` also
matches slashes).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from rag.corpus.git import GitError, run_git
from rag.errors import RefNotFound
from rag.lines import lines_of

HEX = re.compile(r"[0-9a-f]{4,64}", re.IGNORECASE)
_ANCESTOR = re.compile(r"([^~^]{1,250})((?:~[0-9]{0,6}|\^[0-9]{0,3}){1,20})")
_GLOB = re.compile(r"[*?\[]")
_KIND = re.compile(r"\Arefs/(?:heads|tags|remotes)/")
_MAX_COMPARED = 2_000
"""How many refs, the newest first, a wrong one is compared with."""
_MAX_SPELLED = 300
"""With how many of them it is compared letter by letter."""
_MAX_NAMED = 5


def is_allowed(name: str, allowed: Sequence[str]) -> bool:
    """Return whether a full ref name matches one of the patterns."""
    return any(_matches(name, pattern) for pattern in allowed)


def full_name(ref: str, names: Collection[str], allowed: Sequence[str]) -> str | None:
    """Return the full name of the allowed ref that a short or full name means, in git's own order.

    Args:
        ref: as a user writes it, such as "main", "tags/v1" or "refs/heads/main".
        names: the full names of the refs that exist.
        allowed: the policy.
    """
    candidates = (
        (ref,)
        if ref.startswith("refs/")
        else [f"refs/{kind}{ref}" for kind in ("", "tags/", "heads/", "remotes/")]
    )
    return next((name for name in candidates if name in names and is_allowed(name, allowed)), None)


def allowed_commit(folder: Path, ref: str, allowed: Sequence[str]) -> str | None:
    """Return the full id of the commit that a branch, tag or commit id means; None where none is allowed.

    It may be followed by the way to an ancestor, such as `HEAD~2`: what an allowed ref reaches is allowed.

    Raises:
        GitError: git cannot read the repository.
    """
    if way := _ANCESTOR.fullmatch(ref):
        start = allowed_commit(folder, way[1], allowed)
        return _peeled(folder, f"{start}{way[2]}") if start else None
    names = {line for line in _refs(folder) if is_allowed(line, allowed)}
    if name := full_name(ref, names, allowed):
        return _peeled(folder, name)
    commit = _peeled(folder, "HEAD") if ref == "HEAD" else _by_id(folder, ref)
    return commit if commit and _is_reached(folder, commit, allowed) else None


def ref_not_found(folder: Path, ref: str, allowed: Sequence[str] | None, source: str = "") -> RefNotFound:
    """Return the error for a ref that a local repository does not have; it names the refs that are like it.

    Args:
        folder: the repository.
        ref: the ref.
        allowed: the policy, which the named refs are allowed by; None allows all branches and tags.
        source: what the message calls the repository; "" for the folder.
    """
    kinds = ("refs/heads", "refs/tags", "refs/remotes") if allowed is None else ()
    try:
        every = _refs(folder, "--sort=-creatordate", f"--count={_MAX_COMPARED}", *kinds)
    except GitError:
        every = []
    names = [_KIND.sub("", name) for name in every if allowed is None or is_allowed(name, allowed)]
    alike = [name for name in names if ref.lower() in name.lower()] if len(ref) > 1 else []
    alike = list(
        dict.fromkeys([*alike, *difflib.get_close_matches(ref[:200], names[:_MAX_SPELLED], n=_MAX_NAMED)])
    )
    shown = (alike or names)[:_MAX_NAMED]
    more = f" and {len(names) - len(shown)} more" if not alike and len(names) > len(shown) else ""
    said = f"{'similar names' if alike else 'it has'}: {', '.join(shown)}{more}" if shown else ""
    return RefNotFound(source=source or str(folder), ref=ref, names=said)


def _matches(name: str, pattern: str) -> bool:
    if _GLOB.search(pattern):
        return fnmatchcase(name, pattern)
    return name == pattern or name.startswith(f"{pattern.rstrip('/')}/")


def _refs(folder: Path, *options: str) -> list[str]:
    listing = run_git(["for-each-ref", "--format=%(refname)", *options], cwd=folder)
    return lines_of(listing.decode("utf-8", "surrogateescape"))


def _peeled(folder: Path, name: str) -> str | None:
    """Return the commit of a full ref name, of HEAD, or of a full object id: names that are not ambiguous."""
    arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
    return run_git(arguments, cwd=folder, ok_codes=(0, 1, 128)).decode("ascii", "replace").strip() or None


def _by_id(folder: Path, ref: str) -> str | None:
    """Return the only commit whose id has this prefix. A ref of that name is not considered."""
    if not HEX.fullmatch(ref):
        return None
    listing = run_git(["rev-parse", f"--disambiguate={ref.lower()}"], cwd=folder, ok_codes=(0, 128))
    found = {_peeled(folder, oid) for oid in _commits(folder, listing)}
    return found.pop() if len(found) == 1 else None


def _commits(folder: Path, objects: bytes) -> list[str]:
    """Return those of the object ids, one per line, that are commits or annotated tags."""
    if not objects.strip():
        return []
    kinds = run_git(["cat-file", "--batch-check=%(objectname) %(objecttype)"], cwd=folder, stdin=objects)
    pairs = (line.split(" ") for line in kinds.decode("ascii", "replace").splitlines())
    return [oid for oid, kind in pairs if kind in ("commit", "tag")]


def _is_reached(folder: Path, commit: str, allowed: Sequence[str]) -> bool:
    try:
        names = _refs(folder, f"--contains={commit}", "--", *map(_folder_of, allowed))
    except GitError:
        return False  # not a commit of this repository
    return any(is_allowed(name, allowed) for name in names)


def _folder_of(pattern: str) -> str:
    """Return the ref prefix to list so that it includes a pattern's refs."""
    plain = _GLOB.split(pattern)[0]
    return plain.rpartition("/")[0] if plain != pattern else pattern.rstrip("/")
