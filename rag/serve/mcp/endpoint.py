"""The route /mcp. Its server is made at the first request: importing the SDK takes half a second."""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module

from fastapi import FastAPI
from starlette.routing import Route

from rag.serve.mcp.sessions import Sessions
from rag.serve.middleware import App, Receive, Scope, Send
from rag.serve.service import Service


def install(app: FastAPI, service: Service) -> None:
    """Add /mcp (streamable HTTP) to the app."""
    endpoint, settings = _Endpoint(service), service.settings
    sessions = Sessions(endpoint, max_sessions=settings.mcp_sessions, idle_s=settings.mcp_idle_s)
    app.router.routes.append(Route("/mcp", endpoint=sessions))
    service.lifespans.append(endpoint.running)


class _Endpoint:
    """Passes requests on to the SDK's endpoint, which runs in a task from the first request on."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on. Raises BackendMissing: the SDK is of an unknown version."""
        self._asked.set()
        inner = await asyncio.shield(self._started)
        await inner(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests in the block."""
        self._asked, self._stopped = asyncio.Event(), asyncio.Event()
        self._started: asyncio.Future[App] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            self._stopped.set()
            self._asked.set()
            await task

    async def _run(self) -> None:
        """Run the SDK's server from the first request on, in a task of its own, which its sessions need."""
        await self._asked.wait()
        if self._stopped.is_set():
            return
        try:
            server = await to_thread(import_module, "rag.serve.mcp.server")
            inner, sessions = server.http_endpoint(self._service)
            async with sessions.run():
                self._started.set_result(inner)
                await self._stopped.wait()
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)  # raised in the requests
