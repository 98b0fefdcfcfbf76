"""Checks before a server starts: `rag doctor --server`. Changes nothing and prints no key."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rag.diagnosis import Finding
from rag.errors import ConfigError, RagError, SourceError
from rag.serve.access.identity import IdentityHeader
from rag.serve.access.keys import Key
from rag.serve.access.path_prefix import PathPrefix
from rag.serve.access.ssrf import git_pins_addresses
from rag.serve.config import opened_keys, server_settings
from rag.serve.settings import ServerSettings, check_settings
from rag.service.repositories.jobs import open_jobs
from rag.service.repositories.remotes import remote_commit
from rag.settings import Settings
from rag.types import Source, now_utc

_PACKAGES = ("fastapi", "httptools", "prometheus_client", "uvicorn", "uvloop", "websockets")
_GIT_TIMEOUT_S = 15
_PROXIES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_EXPIRES_SOON = timedelta(days=14)


def diagnose_server(
    engine: Settings, config: Path | None, flags: Mapping[str, Any], *, ask_servers: bool = True
) -> Iterator[Finding]:
    """Check the requirements of `rag serve` with the same settings, in the order in which it needs them.

    Args:
        engine: the engine's settings.
        config: the server's settings file.
        flags: as in `server_settings`.
        ask_servers: whether to check with git that the served URLs are reachable.
    """
    yield from _packages()
    try:
        settings = server_settings(engine, config, flags)
    except RagError as error:
        yield Finding("server settings", "bad", str(error), "rag serve --help")
        return
    where = str(config) if config else "no file; using flags and defaults"
    yield Finding("server settings", "ok" if config else "off", where)
    yield _shared(settings, ask=ask_servers)
    keys, problem = _stored_keys(settings)
    yield problem or _keys(settings, keys)
    yield _listening(settings, keys)
    yield _limits(settings)
    for name, source in settings.repositories:
        yield _repository(name, source, ask_servers=ask_servers)
    yield _allowed_hosts(settings)
    yield _port(settings)


def check_port(settings: ServerSettings) -> None:
    """Refuse a port that cannot be listened on. Raises ConfigError."""
    if (found := _port(settings)).state == "bad":
        raise ConfigError(f"cannot listen: {found.detail}; choose another with {found.fix}")


def _allowed_hosts(settings: ServerSettings) -> Finding:
    what, hosts = "allowed hosts", ", ".join(settings.allow_urls)
    if not hosts:
        return Finding(what, "off", "none; URLs in requests are refused", "--allow-urls HOST")
    if not git_pins_addresses():
        why = "this git resolves names again after they were checked, which may lead to a private address"
        return Finding(what, "bad", f"{hosts}; {why}", "git 2.37 or newer")
    if proxies := [name for name in _PROXIES if os.environ.get(name)]:
        return Finding(what, "ok", f"{hosts}; through {proxies[0]}, which must block private addresses")
    return Finding(what, "ok", hosts)


def _packages() -> Iterator[Finding]:
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        yield Finding(
            "server packages",
            "bad",
            f"missing: {', '.join(missing)}",
            "from the checkout: pip install '.[server]'",
        )
    else:
        yield Finding("server packages", "ok", "all installed")


def _shared(settings: ServerSettings, *, ask: bool) -> Finding:
    """Check the queue that the server shares with others."""
    what = "shared database"
    if not settings.engine.shared:
        return Finding(what, "off", "none; this server indexes by itself", "rag serve --shared URL")
    if not ask:
        return Finding(what, "ok", "not checked")
    try:
        with closing(open_jobs(settings.engine)) as jobs:
            running = len(jobs.jobs(states=("running",)))
    except RagError as error:
        return Finding(what, "bad", str(error), "--shared, RAG_SHARED")
    return Finding(what, "ok", f"{running} jobs run")


def _stored_keys(settings: ServerSettings) -> tuple[Sequence[Key], Finding | None]:
    """Return the keys in the turn store; else what is wrong there."""
    try:
        with opened_keys(settings.engine) as records:
            stored = records.read()
    except RagError as error:
        return (), Finding("keys", "bad", str(error), "rag keys --help")
    damage = Finding("keys", "bad", "; ".join(stored.damaged), "rag keys --help") if stored.damaged else None
    return stored.keys, damage


def _keys(settings: ServerSettings, stored: Sequence[Key]) -> Finding:
    names = [*(key.name for key in stored), *["RAG_SERVER_KEYS"] * bool(settings.keys)]
    names = list(dict.fromkeys(names))
    soon = now_utc() + _EXPIRES_SOON
    expiring = {key.name: key.expires for key in stored if key.expires and key.expires <= soon}
    for key in stored:  # one that was replaced by a later one
        if key.expires is None or key.expires > soon:
            expiring.pop(key.name, None)
    if expiring:
        found = ", ".join(f"{name} ({at:%Y-%m-%d %H:%M} UTC)" for name, at in sorted(expiring.items()))
        fix = f"rag keys renew {min(expiring)} --expires 90d, or rag keys remove {min(expiring)}"
        return Finding("keys", "bad", f"expired, or expire within two weeks: {found}", fix)
    if not names and settings.identity_header:
        return Finding("keys", "ok", f"none; a trusted proxy names callers in {settings.identity_header}")
    if not names:
        return Finding("keys", "off", "none; everyone who can connect is served", "rag keys add NAME")
    return Finding("keys", "ok", ", ".join(names))


def _listening(settings: ServerSettings, stored: Sequence[Key]) -> Finding:
    try:
        has_keys = bool(settings.keys or stored)
        IdentityHeader(settings.identity_header, settings.trusted_proxies)
        PathPrefix(settings.root_path, settings.trusted_proxies)
        check_settings(settings, has_keys=has_keys or bool(settings.identity_header))
    except RagError as error:
        return Finding("served to", "bad", str(error), "rag keys add NAME")
    if settings.is_loopback:
        return Finding("served to", "ok", f"only this machine ({settings.host})")
    if not settings.public_hosts:
        return Finding(
            "served to", "ok", f"{settings.host}, under any name", "--public-host NAME refuses other names"
        )
    return Finding("served to", "ok", f"{settings.host}, as {', '.join(settings.public_hosts)}")


def _limits(settings: ServerSettings) -> Finding:
    from rag.serve.access.rate_limits import Limiter

    try:
        Limiter(settings)
    except RagError as error:
        return Finding("limits", "bad", str(error), "--rate 60/minute")
    rate = settings.rate or "no rate limit per caller"
    return Finding("limits", "ok", f"{rate}; {settings.concurrent} concurrent questions")


def _repository(name: str, source: Source, *, ask_servers: bool) -> Finding:
    what = f"repository {name}"
    if not source.is_url:
        root = Path(source.location)
        if not root.is_dir():
            return Finding(what, "bad", f"{root} is not a folder", f"--repo {name}=PATH")
        if not os.access(root, os.R_OK | os.X_OK):
            return Finding(what, "bad", f"{root} cannot be read", f"chmod u+rx {root}")
        return Finding(what, "ok", str(root))
    if not ask_servers:
        return Finding(what, "ok", f"{source.location}, not checked")
    return _remote(what, source)


def _remote(what: str, source: Source) -> Finding:
    try:
        commit = remote_commit(source, timeout_s=_GIT_TIMEOUT_S)
    except SourceError as error:
        return Finding(what, "bad", f"{source}: {error}", f"git ls-remote {source.location}")
    return Finding(what, "ok", f"{source} at {commit[:10]}")


def _port(settings: ServerSettings) -> Finding:
    host, port = settings.host.strip("[]"), settings.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
    except (OSError, ValueError) as error:  # ValueError: no host can be called so
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            return Finding("port", "bad", f"{host}:{port} is in use by another program", "--port NUMBER")
        why = getattr(error, "strerror", None) or error
        return Finding("port", "bad", f"{host}:{port}: {why}", "--host, --port")
    return Finding("port", "ok", f"{host}:{port} is free")
