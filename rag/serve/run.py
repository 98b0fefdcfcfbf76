"""Runs the app with uvicorn: graceful shutdown of streams, and log lines as JSON."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

import uvicorn

from rag.serve.access.http_limits import bounded
from rag.serve.access.identity import forwarding_networks, with_peer
from rag.serve.access.websocket_limits import bounded_websocket
from rag.serve.app import create_app
from rag.serve.service import Service
from rag.serve.settings import ServerSettings
from rag.serve.telemetry import FORMATTERS, access_log

_CLOSING_S = 3
_MAX_HEAD_BYTES = 32_768


class Server(uvicorn.Server):
    """uvicorn with a signal handler that notifies the service before connections are closed."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._running: asyncio.AbstractEventLoop | None = None
        self._draining = False
        self.stopped_by: int | None = None

    async def _serve(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        self._running = asyncio.get_running_loop()
        await super()._serve(sockets)  # type: ignore[arg-type]

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals that stop a server; the caller obeys `stopped_by` when the loop has ended."""
        handlers = {}
        if threading.current_thread() is threading.main_thread():
            handlers = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal: shut down, gracefully the first time. A second signal ends the draining."""
        loop, drain_s = self._running, self._service.settings.drain_s
        if drain_s > 0 and not self._draining and loop is not None and not loop.is_closed():
            self._draining = True
            loop.call_soon_threadsafe(self._service.drain)
            loop.call_soon_threadsafe(loop.call_later, drain_s, self.handle_exit, sig, frame)
            return
        self.stopped_by = sig
        self.stop()
        super().handle_exit(sig, frame)

    def stop(self) -> None:
        """Shut down, from any thread: refuse questions, and end streams after the grace period."""
        if self._running is not None and not self._running.is_closed():
            self._running.call_soon_threadsafe(self._service.stop)


class _Config(uvicorn.Config):
    """uvicorn's configuration with our outermost layer."""

    def load(self) -> None:
        super().load()
        self.loaded_app = with_peer(self.loaded_app)


def with_free_port(settings: ServerSettings) -> tuple[ServerSettings, list[socket.socket] | None]:
    """Return the settings with the port that the system chooses for 0, and the socket that listens there."""
    if settings.port:
        return settings, None
    host = settings.host.strip("[]")
    listening = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    return replace(settings, port=listening.getsockname()[1]), [listening]


def make_server(settings: ServerSettings) -> Server:
    """Create a server that is ready to run. Port 0 selects a free port.

    Raises:
        SettingsError: as `create_app`.
    """
    app = create_app(settings)
    config = _Config(
        app,
        host=settings.host.strip("[]"),
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        forwarded_allow_ips=forwarding_networks(settings.trusted_proxies) or None,
        timeout_graceful_shutdown=int(settings.grace_s) + _CLOSING_S,
        http=bounded(max_bytes=_MAX_HEAD_BYTES, within_s=settings.body_timeout_s),
        ws=bounded_websocket(within_s=settings.body_timeout_s) if settings.deepwiki else "none",
        ws_max_size=settings.max_body_bytes,
    )
    return Server(config, app.state.service)


def write_logs(settings: ServerSettings, level: int = logging.INFO) -> None:
    """Write the server's log lines to stderr, in the form of `log_format`, with requests if `access_log`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATTERS[settings.log_format]())
    access_log.disabled = not settings.access_log
    for name in ("rag.serve", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level if name == "rag.serve" else logging.WARNING)
