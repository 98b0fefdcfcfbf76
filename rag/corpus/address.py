"""Parse what a person types into a `Source`: one spelling per repository, and never a credential in it."""

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
"""Credentials from URLs, by location: kept only in this process's memory, for `acquire`."""


def resolve(text: str | None, ref: str | None = None) -> Source:
    """Return the source that a path or a git URL names. None means the current folder.

    Paths become real and absolute. URLs lose credentials, query, `.git`, trailing slashes and a default port,
    and their scheme and host are lowercased; `user@host:path` and `ssh://` stay two different spellings. A
    text with spaces, such as `Error: no route`, is not `host:path`. An existing folder takes precedence over
    any other interpretation; `owner/repo` is not guessed. A password or token in the URL is kept in memory
    for `acquire` and appears nowhere else.

    Raises:
        SourceNotFound: no such folder, or none was named and the current folder is unlikely to be meant.
        RefNotFound: `ref` is not a valid name of a branch, tag or commit.
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
    """Return the token or `user:password` that was in the URL of this location, None when there was none."""
    return _seen_tokens.get(location)


def without_credentials(url: str) -> str:
    """Return a remote's URL without credentials, safe to show and store; a path is returned unchanged."""
    try:
        return _remote(url.strip(), remember=False) or url.strip()
    except SourceError:
        return re.sub(r"(?<=://)[^/\s]*@", "", url.strip())


def _remote(text: str, *, remember: bool = True) -> str | None:
    """Return the canonical URL, None when the text is no URL."""
    if _URL.match(text):
        return _canonical_url(text, remember=remember)
    match = _SCP.fullmatch(text)
    is_sentence = match is not None and not match["user"] and any(map(str.isspace, text))
    if match is None or is_sentence or is_folder(text):
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
        raise SourceError(f"{shown} cannot be fetched: use one of {', '.join(sorted(_SCHEMES))}")
    if scheme == "file":
        return f"file://{_trimmed(_real(Path(unquote(parts.path))))}"
    path = _trimmed(parts.path)
    if not host or host.startswith("-") or not path.strip("/"):
        raise SourceError(f"{shown} names no repository; a git URL has the form https://host/owner/name")
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
        raise SourceError(f"{path} cannot be resolved: {error}; is it a symbolic link loop?") from error


def _here() -> str:
    """Return the current folder; a home folder and its parents (`/`, `/home`) only if they are in git."""
    here = _folder(".")
    try:
        home = Path.home().resolve()
    except (OSError, RuntimeError):
        home = Path("/")
    above = [str(folder) for folder in home.parents if len(folder.parts) <= 2]
    if here in ("/", str(home), *above) and work_tree(Path(here)) is None:
        what = "your home folder" if str(home) == here else f"{here}, which contains more than one repository"
        raise SourceNotFound(
            f"no repository was named, and this is {what}; change to a repository, name one, or "
            "give `.` to use this whole folder"
        )
    return here


def _folder(text: str) -> str:
    try:
        path = Path(_real(Path(text).expanduser()))
        is_folder, exists = path.is_dir(), path.exists()
    except RuntimeError as error:
        raise SourceNotFound(f"{text}: {error}") from error
    except (OSError, ValueError) as error:
        raise SourceError(f"{text!r} cannot be accessed: {error}") from error
    if is_folder:
        return str(path)
    if exists:
        raise SourceError(f"{path} is a file, not a folder; give its folder ({path.parent})")
    hint = ""
    if re.fullmatch(r"[\w.-]+/[\w.-]+", text) and not text.startswith((".", "-")):
        hint = f"; for a repository on GitHub write https://github.com/{text}"
    raise SourceNotFound(f"there is no folder {path}{hint or '; give a folder or a git URL'}")
