"""The token of git servers: for the one host it belongs to, and never over plain http except on loopback.

`RAG_GIT_TOKEN` is `HOST=TOKEN`, several of them separated by spaces, or a token without a host. A token
without a host is sent only over https, only to a host that has asked for credentials, and with a notice.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from urllib.parse import urlsplit

from rag.corpus.address import remembered_token
from rag.corpus.git import GitError

_OF_HOST = re.compile(
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*)(?::\d+)?|\[[0-9A-Fa-f:.]+\](?::\d+)?)=(?P<token>[^=].*)"
)
_ASKED = re.compile(r"(?:could not read Username|Authentication failed) for '(?P<address>[^']+)'")


def tokens_of(setting: str | None) -> dict[str, str]:
    """Return the tokens of the setting by lower-case host; one without a host has the key ""."""
    parts = (setting or "").split()
    pairs = [_OF_HOST.fullmatch(part) for part in parts]
    if all(pairs):
        return {pair["host"].lower(): pair["token"] for pair in pairs if pair}
    return {"": (setting or "").strip()}


def for_host(token: str, url: str) -> str:
    """Return the setting that binds a token to the host of a URL; a token with a host stays as it is."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    return f"{host}={token}" if host and "" in tokens_of(token) else token


def with_token(
    location: str, setting: str | None, run: Callable[[str | None], bytes], report: Callable[[str], None]
) -> bytes:
    """Call git with the token that belongs to the host of a URL, else without one.

    Credentials in the URL take precedence: the user has typed them for this host.

    Args:
        location: the canonical URL.
        setting: `RAG_GIT_TOKEN`.
        run: calls git with a token, or None.
        report: receives the notice before a token without a host is sent.

    Raises:
        GitError: git failed.
    """
    if typed := remembered_token(location):
        return run(typed)
    tokens, parts = tokens_of(setting), urlsplit(location)
    named = tokens.get(parts.netloc) or tokens.get(parts.hostname or "")
    if named and (parts.scheme == "https" or (parts.scheme == "http" and _on_loopback(parts.hostname))):
        return run(named)
    try:
        return run(None)
    except GitError as failure:
        asked = _ASKED.search(failure.output)
        if not (tokens.get("") and parts.scheme == "https" and asked):
            raise
        if urlsplit(asked["address"]).netloc.rpartition("@")[2].lower() != parts.netloc:
            raise  # a redirect: another host has asked
        report(
            f"sending RAG_GIT_TOKEN to {parts.netloc}, which asks for credentials; name its host as in "
            f"RAG_GIT_TOKEN={parts.netloc}=TOKEN"
        )
        return run(tokens[""])


def advice(location: str, setting: str | None) -> str:
    """Return what to do when a repository is not visible."""
    parts = urlsplit(location)
    if remembered_token(location):
        return "check the address"
    host = parts.netloc or "HOST"
    if parts.scheme == "http" and setting and not _on_loopback(parts.hostname):
        return "check the address; RAG_GIT_TOKEN is never sent over plain http, use https"
    return (
        "check the address, which has the form https://HOST/OWNER/NAME, with --ref for a branch; a private "
        f"repository needs RAG_GIT_TOKEN={host}=TOKEN or a git credential helper"
    )


def _on_loopback(host: str | None) -> bool:
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"
