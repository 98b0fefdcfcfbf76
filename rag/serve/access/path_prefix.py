"""The path prefix under which a proxy publishes the server, such as `/rag` of https://example.org/rag/.

It is a setting, or the header `X-Forwarded-Prefix` of a trusted proxy. The proxy may remove it from the path.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

from rag.errors import SettingsError
from rag.serve.access.identity import PEER, is_within, proxy_network

_PREFIX = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,63}){1,8}")
_HEADER = b"x-forwarded-prefix"
_LOOPBACK = ("127.0.0.0/8", "::1/128")


class PathPrefix:
    """Finds the prefix of each request.

    Args:
        configured: the setting; "" for none. It takes precedence over the header.
        proxies: the addresses and networks whose header is read; none means loopback.

    Raises:
        SettingsError: the setting is not a path such as `/rag`, or a proxy is no address.
    """

    def __init__(self, configured: str, proxies: tuple[str, ...]) -> None:
        self._configured = configured.rstrip("/")
        if self._configured and not _PREFIX.fullmatch(self._configured):
            raise SettingsError(f"{configured!r} is not a path prefix; write it as /rag")
        self._networks = [proxy_network(one) for one in proxies or _LOOPBACK]

    def apply(self, scope: MutableMapping[str, Any]) -> None:
        """Set the `root_path` of a request, and remove the prefix from its path if the proxy has not."""
        prefix = self._configured or self._forwarded(scope)
        if not prefix:
            return
        scope["root_path"] = prefix
        if scope["path"].startswith(f"{prefix}/") or scope["path"] == prefix:
            scope["path"] = scope["path"].removeprefix(prefix) or "/"

    def _forwarded(self, scope: MutableMapping[str, Any]) -> str:
        values = [value.decode("latin-1").strip() for name, value in scope["headers"] if name == _HEADER]
        peer = scope.get(PEER) or (scope.get("client") or ("",))[0]
        if len(values) != 1 or not is_within(peer, self._networks):
            return ""
        prefix = values[0].rstrip("/")
        return prefix if _PREFIX.fullmatch(prefix) else ""
