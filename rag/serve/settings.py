"""The server's settings: what it serves, to whom, and its limits."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, field
from typing import get_args

from rag.errors import SettingsError
from rag.service.repositories.named_sources import MAX_NAME, is_valid_name
from rag.settings import Groups, Settings, ToolSet
from rag.types import Source

_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
_REF = re.compile(r"refs/[^\s~^:\\]+")
_MAX_PORT = 65_535
LOG_FORMATS = ("json", "text")
MAX_NAMED_REPOSITORIES = 1_000
"""The limit for `max_repositories`."""


ENVIRONMENT = {"keys": "RAG_SERVER_KEYS", "deepwiki_code": "RAG_DEEPWIKI_CODE"}
"""The settings that no file has: secrets, each with its environment variable."""
NOT_SETTINGS = frozenset(
    "engine max_repositories max_refs max_body_bytes max_json_values max_messages attempts waiting "
    "mcp_sessions mcp_idle_s threads body_timeout_s wait_for_index_s refresh_s fetch_s".split()
)
"""Fields that programs set, and no user: no file and no option has them."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """All settings of one server.

    The text below each field is also its row in the documentation (`docs/settings.md`).
    """

    engine: Settings = field(default_factory=Settings)
    """How repositories are indexed, searched and answered on."""
    repositories: tuple[tuple[str, Source], ...] = ()
    """The repositories that are served, as NAME = path or git URL. Nothing else is ever opened, except URLs
    on a host in `allow_urls`. Default: the current folder."""
    groups: Groups = ()
    """Groups of listed repositories, as NAME = a list of their names. A question to `@NAME` is answered from
    those that it is about; `@all` is the group of all listed repositories."""
    models: tuple[str, ...] = ()
    """Further models that a question may choose by name. They are opened like the configured `model`,
    with the same server and key, unless they are commands or files. Requests can name no other."""
    max_repositories: int = 10
    """How many repositories one question may name, and how many of a group it is answered from."""
    allow_urls: tuple[str, ...] = ()
    """Hosts (`host` or `host:port`) whose repositories may be requested by https URL."""
    refs: tuple[str, ...] = ("refs/heads", "refs/tags")
    """What `NAME@REF` may name: ref names, folders of refs or globs, and the commits that such a ref reaches.
    `*` allows everything that git can name, also the stash and commits on no branch."""
    max_refs: int = 1_000
    """How many requested refs and URLs keep their clone and index on disk; the least recently used go
    first."""
    max_refs_bytes: int = 20_000_000_000
    """The limit for the total size of those clones and indexes."""
    host: str = "127.0.0.1"
    """The address to listen on. Any address other than loopback needs a key."""
    port: int = 8000
    """The port to listen on."""
    keys: tuple[str, ...] = field(default=(), repr=False)
    """Keys in clear text, from the environment only (`RAG_SERVER_KEYS`). Without any key, everyone who can
    connect is served, which is allowed on loopback only."""
    public_hosts: tuple[str, ...] = ()
    """The host names under which clients call the server, in addition to those of loopback."""
    origins: tuple[str, ...] = ()
    """Other web origins whose pages may call the server."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Prefix` and
    `identity_header` are believed. Default: loopback for the first three, nobody for the last."""
    root_path: str = ""
    """The path under which a proxy publishes the server, such as `/rag`. Default: what a trusted proxy says
    in `X-Forwarded-Prefix`."""
    identity_header: str = ""
    """The header in which a trusted proxy names the user that it has authenticated, such as
    `X-Forwarded-User`. It selects a namespace like a key. Default: none; only keys identify callers."""
    deepwiki: bool = False
    """Add the routes of deepwiki-open's backend."""
    deepwiki_code: str = field(default="", repr=False)
    """The code that deepwiki-open's frontend asks for before a wiki is written or deleted, from the
    environment only (`RAG_DEEPWIKI_CODE`)."""
    log_format: str = "json"
    """The form of log lines on stderr: `json` or `text`."""
    access_log: bool = True
    """Log one line for each request."""

    max_body_bytes: int = 4_000_000
    """The largest request body."""
    max_json_values: int = 20_000
    """The largest number of values in the JSON of a request; for an import, in one line."""
    max_messages: int = 2_000
    """The largest number of messages in a chat completion request."""
    rate: str = ""
    """The limit of requests for each caller, such as `60/minute`. Default: no limit."""
    attempts: str = "60/minute"
    """The limit of requests without a known key for each address. Known keys pass beyond it, short ones only
    if the address used them before."""
    concurrent: int = 256
    """The number of questions answered at the same time, streams included."""
    waiting: int = 256
    """The number of questions that may wait in the queue. The next one is refused with 429."""
    mcp_tools: ToolSet = "basic"
    """The tools that MCP lists: `basic` for finding and asking, or `all`. Every tool can be called by its
    name."""
    mcp_sessions: int = 1_000
    """The number of MCP sessions. One more ends the least recently used."""
    mcp_idle_s: float = 1_800.0
    """Seconds without a request after which an MCP session ends."""
    threads: int = 4
    """Threads that search, render and store. More than a few slow the server down."""
    processes: int = min(os.cpu_count() or 1, 4)
    """Processes that search and render, started when several questions arrive at once; 0 uses the server
    process only. Default: one for each processor, at most 4."""
    body_timeout_s: float = 30.0
    """Seconds in which the head of a request must arrive, and then its body, and each 50 kB of the response
    must be taken."""
    wait_for_index_s: float = 5.0
    """Seconds that a question waits for a repository that is being indexed."""
    refresh_s: float = 5.0
    """The shortest interval between two attempts to index a folder that failed. A folder that can be asked is
    compared with its index at each question; 0 keeps the index as it is."""
    fetch_s: float = 300.0
    """The shortest interval between two fetches of a URL. It is fetched only when it is asked."""
    drain_s: float = 0.0
    """Seconds that the server goes on as before after it was asked to stop, but `/ready` reports 503, so that
    a balancer sends it nothing more. Default: 0; 5 for a server that shares its work."""
    grace_s: float = 10.0
    """Seconds that streams may continue after the server was asked to stop."""

    @property
    def allowed_refs(self) -> tuple[str, ...] | None:
        """The policy for refs that requests name; None allows all that git can name."""
        return None if "*" in self.refs else self.refs

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can connect."""
        return is_loopback(self.host)


def check_numbers(settings: ServerSettings) -> None:
    """Refuse a port that does not exist, and a negative number of questions. Raises SettingsError."""
    if not 0 <= settings.port <= _MAX_PORT or settings.concurrent < 0:
        raise SettingsError(
            f"port must be from 0 to {_MAX_PORT}, and concurrent not negative; they are {settings.port} and "
            f"{settings.concurrent}"
        )


def check_settings(settings: ServerSettings, *, has_keys: bool) -> None:
    """Validate the settings: refuse serving strangers, and invalid names.

    Raises:
        SettingsError: a host other than loopback without a key, or an invalid name or host.
    """
    if not settings.is_loopback and not has_keys:
        raise SettingsError(
            f"the server does not listen on {settings.host} without a key: anyone there could ask and read "
            "everything. Create a key with `rag keys add NAME`, or listen on 127.0.0.1"
        )
    for name, _ in settings.repositories:
        check_name(name)
    check_numbers(settings)
    for host in (*settings.allow_urls, *settings.public_hosts):
        if not _HOST.fullmatch(host):
            raise SettingsError(f"{host!r} is not a host; write it as example.org or example.org:8443")
    for pattern in settings.refs:
        if pattern != "*" and not _REF.fullmatch(pattern):
            raise SettingsError(
                f"{pattern!r} is not a pattern for refs; write it as refs/heads, refs/tags/v* or "
                "refs/heads/main, or as * for everything that git can name"
            )
    for origin in settings.origins:
        if not re.fullmatch(rf"https?://{_HOST.pattern}", origin):
            raise SettingsError(f"{origin!r} is not a web origin; write it as https://example.org")
    if settings.log_format not in LOG_FORMATS:
        raise SettingsError(f"log_format is {' or '.join(LOG_FORMATS)}, not {settings.log_format!r}")
    if settings.mcp_tools not in get_args(ToolSet):
        raise SettingsError(f"mcp_tools is {' or '.join(get_args(ToolSet))}, not {settings.mcp_tools!r}")
    _check_groups(settings)
    names = [name for name, _ in settings.repositories]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise SettingsError(f"two repositories are named {min(repeated)}; give each --repo its own name")


def _check_groups(settings: ServerSettings) -> None:
    """Refuse a group of repositories that are not listed, and an invalid limit. Raises SettingsError."""
    limit = settings.max_repositories
    if not 1 <= limit <= MAX_NAMED_REPOSITORIES:
        raise SettingsError(f"max_repositories is {limit:,}; it must be from 1 to {MAX_NAMED_REPOSITORIES:,}")
    listed = {name for name, _ in settings.repositories}
    for group, members in settings.groups:
        for name in members:
            if name not in listed:
                raise SettingsError(f"the group {group} names {name!r}, which is not under [repositories]")


def check_name(name: str) -> None:
    """Refuse a repository name that is ambiguous in a URL or a model id. Raises SettingsError."""
    if not is_valid_name(name):
        raise SettingsError(
            f"{name!r} is not a valid repository name; use letters, digits, '.', '_', '-' and single slashes "
            f"between them, at most {MAX_NAME} characters; write --repo NAME=PATH"
        )


def is_loopback(host: str) -> bool:
    """Whether a host to listen on is reachable from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
