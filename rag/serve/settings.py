"""What a server is told when it starts: what it serves, to whom, and how much of it."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from rag.errors import SettingsError
from rag.settings import Settings
from rag.types import MAX_QUESTION_CHARS, Source

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
_REF = re.compile(r"refs/[^\s~^:\\]+")
_MAX_NAME = 120


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """All settings of one server. `engine` says how repositories are indexed, searched and answered on.

    `repositories` is the allow-list: nothing else is ever opened, but https URLs on a host of
    `allow_urls` ("host" or "host:port"). `keys_file` holds hashed keys; without one, and without `keys`
    (keys in the clear, from the environment), everyone who can connect is served, which is allowed on
    loopback only. `origins` are web origins beside the server's own that may call it; `public_hosts` the
    names it may be called by, beside those of loopback. `rate` is read by `limits`: "60/minute"; "" is
    no limit.
    """

    engine: Settings = field(default_factory=Settings)
    repositories: tuple[tuple[str, Source], ...] = ()
    allow_urls: tuple[str, ...] = ()
    refs: tuple[str, ...] = ("refs/heads", "refs/tags")
    """What `NAME@REF` may name: full ref names, folders of refs or globs, and the commits that such a ref
    reaches. "*" is all that git can name, also the stash and commits that no branch has."""
    max_refs: int = 100
    """Refs and URLs that were asked for, of which clones and indexes are kept on disk."""
    max_refs_bytes: int = 20_000_000_000
    """What those clones and indexes may take together."""
    host: str = "127.0.0.1"
    port: int = 8000
    keys_file: Path | None = None
    keys: tuple[str, ...] = field(default=(), repr=False)
    public_hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed; loopback
    when left out."""
    deepwiki: bool = False
    deepwiki_code: str = field(default="", repr=False)
    """What deepwiki-open's frontend asks people for before wikis are made or deleted; "" is nothing."""
    metrics: bool = True

    max_body_bytes: int = 4_000_000
    max_json_values: int = 20_000
    """Values in the JSON of one request; of an import, in one line."""
    max_question_chars: int = MAX_QUESTION_CHARS
    max_messages: int = 2_000
    rate: str = ""
    attempts: str = "60/minute"
    """Requests without a known key that one address may send; known keys pass beyond it, short ones only if
    the address used them before."""
    concurrent: int = 256
    """Questions answered at once, streams included."""
    waiting: int = 256
    """Questions that may wait for their turn; one more is refused with 429."""
    mcp_sessions: int = 1_000
    """MCP sessions at once; one more ends the one that was used longest ago."""
    mcp_idle_s: float = 1_800.0
    """An MCP session that was not used for so long has ended."""
    threads: int = 4
    """Threads that search, render and store; more than a few cost more than they bring."""
    processes: int = min(os.cpu_count() or 1, 4)
    """Processes that search and render, started when questions come at once; 0 is this one alone."""
    body_timeout_s: float = 30.0
    """How long the head of a request may take to arrive, and then its body."""
    wait_for_index_s: float = 5.0
    refresh_s: float = 5.0
    """A folder that could not be indexed is tried again when it is asked, at most this often. One that can be
    asked is compared with its index at each question; with 0 its index stays as it is, whatever changes."""
    fetch_s: float = 300.0
    """A URL is fetched again when it is asked, at most this often."""
    grace_s: float = 10.0
    """How long streams may go on when the server is told to stop."""

    @property
    def allowed_refs(self) -> tuple[str, ...] | None:
        """The policy for refs that requests name; None allows all that git can name."""
        return None if "*" in self.refs else self.refs

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can connect."""
        return is_loopback(self.host)


def check_settings(settings: ServerSettings, *, has_keys: bool) -> None:
    """Refuse settings that would serve strangers, or name things badly.

    Raises:
        SettingsError: another host than loopback without a key, a name or host that cannot be used.
    """
    if not settings.is_loopback and not has_keys:
        raise SettingsError(
            f"the server will not listen on {settings.host} without a key: anyone there could ask and read "
            "everything; make one with `rag serve --add-key NAME`, or listen on 127.0.0.1"
        )
    for name, _ in settings.repositories:
        check_name(name)
    for host in (*settings.allow_urls, *settings.public_hosts):
        if not _HOST.fullmatch(host):
            raise SettingsError(f"{host!r} is no host; write it as example.org or example.org:8443")
    for pattern in settings.refs:
        if pattern != "*" and not _REF.fullmatch(pattern):
            raise SettingsError(
                f"{pattern!r} is not a pattern of refs; write it as refs/heads, refs/tags/v* or "
                "refs/heads/main, or as * for all that git can name"
            )
    for origin in settings.origins:
        if not re.fullmatch(rf"https?://{_HOST.pattern}", origin):
            raise SettingsError(f"{origin!r} is no web origin; write it as https://example.org")
    names = [name for name, _ in settings.repositories]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SettingsError(f"two repositories are called {min(twice)}; give each --repo a name of its own")


def check_name(name: str) -> None:
    """Refuse a repository name that would be ambiguous in a URL or a model's id. Raises SettingsError."""
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise SettingsError(
            f"{name!r} cannot name a repository: letters, digits, '.', '_', '-' and single slashes between "
            f"them can, up to {_MAX_NAME}; write --repo NAME=PATH"
        )


def is_loopback(host: str) -> bool:
    """Whether a host to listen on is this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
