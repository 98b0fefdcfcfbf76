"""What a person types becomes a `Source`: one spelling for one repository, and never a credential in it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rag.corpus.worktree import work_tree
from rag.errors import RefNotFound, SourceError, SourceNotFound
from rag.resources import is_folder
from rag.types import Source

_SCHEMES = frozenset({"https", "http", "ssh", "git", "file"})
_DEFAULT_PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:/|:)")
_SCP = re.compile(
    r"(?:(?P<user>[\w.+-]+)@)?(?P<host>[A-Za-z0-9_](?:[\w.-]*\w)?|\[[0-9A-Fa-f:.]+\]):(?P<path>[^/:\\].*|/.+)"
)
_BAD_REF = re.compile(r"^[-/.]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|[/.]$|\.lock$|^@$")

_seen_tokens: dict[str, str] = {}
"""Credentials that stood in a URL, by location: kept in this process's memory only, for `acquire`."""


def resolve(text: str | None, ref: str | None = None) -> Source:
    """The source that a path or a git URL names. None is the current folder, where nobody named one.

    Paths become real and absolute. URLs lose credentials, query, `.git`, closing slashes and a default
    port, and their scheme and host are in lower case; `user@host:path` and `ssh://` are two spellings that
    stay apart. A folder that exists wins over any other reading; `owner/repo` is not guessed. What
    stood in the URL as password or token is held in memory for `acquire` and appears nowhere else.

    Raises:
        SourceNotFound: no such folder, or none was named in a folder that can hardly be meant.
        RefNotFound: `ref` is no possible name of a branch, tag or commit.
        SourceError: a file instead of a folder, or a URL that cannot be used.
    """
    if text is None:
        location = _here()
    else:
        text = text.strip()
        if not text or "\0" in text:
            raise SourceNotFound("no repository was named; give a folder or a git URL")
        location = _remote(text) or _folder(text)
    ref = (ref or "").strip() or None
    if ref is not None and _BAD_REF.search(ref):
        raise RefNotFound(source=location, ref=ref)
    return Source(location, ref)


def remembered_token(location: str) -> str | None:
    """The token or `user:password` that stood in the URL of this location, None when there was none."""
    return _seen_tokens.get(location)


def without_credentials(url: str) -> str:
    """A remote's URL as it may be shown and stored; a path stays as it is."""
    try:
        return _remote(url.strip(), remember=False) or url.strip()
    except SourceError:
        return re.sub(r"(?<=://)[^/\s]*@", "", url.strip())


def _remote(text: str, *, remember: bool = True) -> str | None:
    """The canonical URL, None when the text is no URL."""
    if _URL.match(text):
        return _canonical_url(text, remember=remember)
    match = _SCP.fullmatch(text)
    if match is None or is_folder(text):
        return None
    user = f"{match['user']}@" if match["user"] else ""
    return f"{user}{match['host'].lower()}:{_trimmed(match['path'])}"


def _canonical_url(text: str, *, remember: bool) -> str:
    shown = re.sub(r"(?<=://)[^/\s]*@", "", text)
    try:
        parts = urlsplit(text)
        port, host = parts.port, (parts.hostname or "").lower()
    except ValueError as error:
        raise SourceError(f"{shown} cannot be read as a URL: {error}") from error
    scheme = parts.scheme.lower().removeprefix("git+")
    if scheme not in _SCHEMES or "://" not in text:
        raise SourceError(f"{shown} cannot be fetched: git is asked over {', '.join(sorted(_SCHEMES))} only")
    if scheme == "file":
        return f"file://{_trimmed(_real(Path(unquote(parts.path))))}"
    path = _trimmed(parts.path)
    if not host or host.startswith("-") or not path.strip("/"):
        raise SourceError(f"{shown} names no repository; a git URL reads https://host/owner/name")
    netloc = f"[{host}]" if ":" in host else host
    if port is not None and port != _DEFAULT_PORTS[scheme]:
        netloc += f":{port}"
    user = parts.username or ""
    if scheme == "ssh" and user:
        if user.startswith("-"):
            raise SourceError(f"{shown} cannot be used: a user name cannot begin with a dash")
        netloc = f"{user}@{netloc}"
    location = f"{scheme}://{netloc}{path}"
    if remember and scheme in ("https", "http") and (user or parts.password):
        _seen_tokens[location] = _token(user, parts.password)
    return location


def _token(user: str, password: str | None) -> str:
    user, password = unquote(user), unquote(password or "")
    if not password or not user:
        return password or user
    return password if password == "x-oauth-basic" else f"{user}:{password}"


def _trimmed(path: str) -> str:
    path = path.rstrip("/")
    return path if path.endswith("/.git") else path.removesuffix(".git").rstrip("/")


def _real(path: Path) -> str:
    try:
        return str(path.resolve())
    except (OSError, RuntimeError) as error:
        raise SourceError(f"{path} cannot be followed: {error}; is it a loop of symbolic links?") from error


def _here() -> str:
    """The current folder; not a home folder, nor where those lie (`/`, `/home`), unless it is in git."""
    here = _folder(".")
    try:
        home = Path.home().resolve()
    except (OSError, RuntimeError):
        home = Path("/")
    above = [str(folder) for folder in home.parents if len(folder.parts) <= 2]
    if here in ("/", str(home), *above) and work_tree(Path(here)) is None:
        what = "your home folder" if str(home) == here else f"{here}, which holds far more than a repository"
        raise SourceNotFound(
            f"no repository was named, and this is {what}; go to a repository or name one, or say `.` if all "
            "of this folder is meant"
        )
    return here


def _folder(text: str) -> str:
    try:
        path = Path(_real(Path(text).expanduser()))
        is_folder, exists = path.is_dir(), path.exists()
    except RuntimeError as error:
        raise SourceNotFound(f"{text}: {error}") from error
    except (OSError, ValueError) as error:
        raise SourceError(f"{text!r} cannot be looked at: {error}") from error
    if is_folder:
        return str(path)
    if exists:
        raise SourceError(f"{path} is a file, not a folder; give the folder it lies in ({path.parent})")
    hint = ""
    if re.fullmatch(r"[\w.-]+/[\w.-]+", text) and not text.startswith((".", "-")):
        hint = f"; for a repository on GitHub write https://github.com/{text}"
    raise SourceNotFound(f"there is no folder {path}{hint or '; give a folder or a git URL'}")
