"""Parse what a person types into a `Source`: one spelling per repository, and never a credential in it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

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

_PAGE = re.compile(
    r"(?P<repo>/[^/]+/.+?)/(?:-/(?P<other>(?!tree/|blob/|raw/|blame/|commits?/)[^/]+).*"
    r"|(?:-/)?(?:tree|blob|raw|blame|edit|commits?|src/(?:branch|tag|commit)|releases/tag)/(?P<rest>.+))"
)
"""A page of a forge about a repository: at a ref (`rest` begins with it), or another one."""
_TWO_PARTS = re.compile(r"(?P<repo>/[^/]+/[^/]+)/(?P<other>.+)")
_TWO_PART_HOSTS = frozenset({"github.com", "www.github.com", "bitbucket.org", "codeberg.org"})
"""Forges whose repositories are always OWNER/NAME: more in a path is a page."""
_REF_PARAMETERS = ("ref", "branch", "at", "h", "version")
"""Query parameters with which forges name the ref of a page."""

_MAX_REF_CHARS = 250
"""The file systems of git servers have no longer names."""

_seen_tokens: dict[str, str] = {}
"""Credentials from URLs, by location: kept only in this process's memory, for `acquire`."""


def resolve(text: str | None, ref: str | None = None) -> Source:
    """Return the source that a path or a git URL names. None means the current folder.

    Paths become real and absolute. URLs lose credentials, `.git`, trailing slashes and a default port, and
    their scheme and host are lowercased; `user@host:path` and `ssh://` stay two different spellings. A ref in
    a URL (`URL#REF`, `?ref=REF`, the page of a branch) is used. A text with spaces, such as `Error: no`,
    is not `host:path`. An existing folder takes precedence over any other interpretation; `owner/repo` is not
    guessed. A password or token in the URL is kept in memory for `acquire` and appears nowhere else.

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
        remote = _remote(text)
        location = remote.location if remote else _folder(text)
        ref = _one_ref(ref, remote) if remote else ref
    ref = (ref or "").strip() or None
    if ref is not None and (_BAD_REF.search(ref) or len(ref) > _MAX_REF_CHARS):
        raise RefNotFound(source=location, ref=ref)
    return Source(location, ref)


def remembered_token(location: str) -> str | None:
    """Return the token or `user:password` that was in the URL of this location, None when there was none."""
    return _seen_tokens.get(location)


def without_credentials(url: str) -> str:
    """Return a remote's URL without credentials, safe to show and store; a path is returned unchanged."""
    try:
        remote = _remote(url.strip(), remember=False)
        if remote is None and not url.strip().startswith(("/", ".", "~")):
            return hidden(url.strip())
    except SourceError:
        return hidden(url.strip())
    return remote.location if remote else url.strip()


def hidden(text: str) -> str:
    """Return an address for a message: nothing before its last `@`, which may be a password, is shown."""
    scheme, colon, _ = text.partition(":")
    before, at, place = text.rpartition("@")
    if not at or (":" not in before and "/" not in before):
        return text
    return f"{scheme}://***@{place}" if colon and before.startswith(f"{scheme}:/") else f"***@{place}"


def _one_ref(ref: str | None, remote: Source) -> str | None:
    if ref and remote.ref and ref.strip() != remote.ref:
        raise SourceError(f"the address names {remote.ref!r} and --ref names {ref!r}; give one of them")
    return ref or remote.ref


def _remote(text: str, *, remember: bool = True) -> Source | None:
    """Return the canonical URL and the ref in it, None when the text is no URL."""
    if _URL.match(text):
        return _canonical_url(text, remember=remember)
    match = _SCP.fullmatch(text)
    is_sentence = match is not None and not match["user"] and any(map(str.isspace, text))
    if match is None or is_sentence or is_folder(text):
        return None
    path, _, ref = match["path"].partition("#")
    if "@" in path or re.match(r"\d+(?:/|$)", path):
        raise SourceError(f"{hidden(text)} is an address without a scheme; write https://HOST/OWNER/NAME")
    user, host = f"{match['user']}@" if match["user"] else "", match["host"].lower()
    absolute = "" if path.startswith("/") else "/"
    path, of_page = _repository_path(host, absolute + path)
    return Source(f"{user}{host}:{_trimmed(path.removeprefix(absolute))}", ref or of_page)


def _repository_path(host: str, path: str) -> tuple[str, str | None]:
    """Return the path of the repository, and the ref, of a forge's page.

    Raises:
        SourceError: where the ref ends cannot be known, or the page is about no ref.
    """
    if host == "bitbucket.org":
        path = re.sub(r"^(/[^/]+/[^/]+)/src/(?!branch/|tag/)", r"\1/tree/", path)
    page = _PAGE.fullmatch(path) or (_TWO_PARTS.fullmatch(path) if host in _TWO_PART_HOSTS else None)
    if page is None:
        return path, None
    rest = (page.groupdict().get("rest") or "").strip("/")
    parts = [unquote(part) for part in rest.split("/")]
    is_file = re.search("/(?:blob|raw|blame|edit)/", path) is not None
    if rest and len(parts) == (2 if is_file else 1):
        return page["repo"], parts[0]
    such = (
        f" (such as --ref {parts[0]}, or --ref {'/'.join(parts[: -1 if is_file else None])})" if rest else ""
    )
    where = f"https://{host}{page['repo']}"
    raise SourceError(f"this is the address of a page; give {where} with --ref BRANCH{such}")


def _ref_in(query: str, fragment: str) -> str | None:
    """Return the ref that the end of a URL names: Azure writes it after GB, GT or GC."""
    given = parse_qs(query)
    for name in _REF_PARAMETERS:
        if found := given.get(name):
            ref = re.sub(r"^G[BTC]", "", found[0]) if name == "version" else found[0]
            return ref.removeprefix("refs/heads/") or None
    return unquote(fragment) or None


def _canonical_url(text: str, *, remember: bool) -> Source:
    shown = hidden(text)
    try:
        parts = urlsplit(text)
        port, host = parts.port, (parts.hostname or "").lower()
    except ValueError as error:
        raise SourceError(
            f"{shown} cannot be read as a URL; a special character is written as %NN"
        ) from error
    scheme = parts.scheme.lower().removeprefix("git+")
    if scheme not in _SCHEMES or "://" not in text:
        raise SourceError(f"{shown} cannot be fetched: use one of {', '.join(sorted(_SCHEMES))}")
    if scheme == "file":
        return Source(
            f"file://{_trimmed(_real(Path(unquote(parts.path))))}", _ref_in(parts.query, parts.fragment)
        )
    if "@" in parts.path + parts.query + parts.fragment:
        raise SourceError(
            f"{shown} has an @ after the host; write it as %40 in a password, and a branch as --ref"
        )
    path, of_page = _repository_path(parts.netloc.rpartition("@")[2].lower(), parts.path)
    path = _trimmed(path)
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
    return Source(location, of_page or _ref_in(parts.query, parts.fragment))


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
    text = hidden(text)
    if re.match(r"(?:[\w-]+\.)+[A-Za-z]{2,}/[^/]", text):
        hint = f"; an address needs a scheme: https://{text}"
    elif re.fullmatch(r"[\w.-]+/[\w.-]+", text) and not text.startswith((".", "-")):
        hint = f"; for a repository on GitHub write https://github.com/{text}"
    shown = path if "@" not in str(path) else text
    raise SourceNotFound(f"there is no folder {shown}{hint or '; give a folder or a git URL'}")
