"""The routes of deepwiki-open's backend, so that its unmodified frontend works with our engine.

    POST /chat/completions/stream, WS /ws/chat      all questions and prompts, see `chat`
    /models/config, /lang/config, /auth/…           the options of its menus
    /api/wiki_cache, /api/processed_projects        the wikis it generated, see `cache`
    /export/wiki, /local_repo/structure             a wiki as a file, the files of a repository

Errors have its shape: `{"detail": …}`, and `{"error": …}` for the files of a repository.
"""

from __future__ import annotations

import asyncio
import hmac
from asyncio import to_thread
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from rag.errors import NotFound, RagError
from rag.serve.access.auth import CallerOf
from rag.serve.api.rendering import encodable, json_response
from rag.serve.api.responses import Error
from rag.serve.deepwiki import schema as shapes
from rag.serve.deepwiki.cache import WikiCache
from rag.serve.deepwiki.chat import DeepWikiChat
from rag.serve.deepwiki.export import exported
from rag.serve.deepwiki.repositories import entry_named, is_served, name_of, ready
from rag.serve.deepwiki.websocket import answer_socket
from rag.serve.errors import BadRequest, StillIndexing, Unauthorized, headers_of, invalid_request, status_of
from rag.serve.repositories.entry import ServedRepository
from rag.serve.service import Service
from rag.serve.sse import EventStream, until_disconnect
from rag.service import Repository

_WAIT_FOR_FILES_S = 25.0
_REFUSALS = (400, 401, 403, 404, 408, 409, 413, 422, 424, 429, 500, 502, 503)
Name = Annotated[str, Query(max_length=300)]


class _ValidText(Request):
    """A request in whose JSON lone surrogates, which no answer can hold, are replaced by `?`."""

    async def json(self) -> Any:
        """Return the body."""
        return _encodable(await super().json())


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, list):
        return [_encodable(one) for one in value]
    if isinstance(value, dict):
        return {encodable(key): _encodable(one) for key, one in value.items()}
    return value


class _Route(APIRoute):
    """A route whose errors have the shape of deepwiki-open's."""

    key = "detail"
    refused: type[BaseModel] = shapes.Refused

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await inner(_ValidText(request.scope, request.receive))
            except RagError as error:
                status, _ = status_of(error)
                message = request.app.state.service.public_message(error)
                return json_response({self.key: message}, status, headers=headers_of(error))
            except RequestValidationError as error:
                return json_response({self.key: invalid_request(error.errors())[0]}, 422)

        return handled


class _FilesRoute(_Route):
    key = "error"
    refused = shapes.FilesRefused


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    cache = WikiCache(service.engine.settings.home / "deepwiki")
    routers = (
        _chat(app, service),
        _menus(service),
        _wikis(service, cache),
        _export(service),
        _files(service),
    )
    for router in routers:
        app.include_router(router)


def _router(route: type[_Route] = _Route) -> APIRouter:
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": route.refused | Error} for status in _REFUSALS
    }
    return APIRouter(tags=["deepwiki-open"], route_class=route, responses=responses)


def _chat(app: FastAPI, service: Service) -> APIRouter:
    router, chat = _router(), DeepWikiChat(service)

    @router.post(
        "/chat/completions/stream",
        responses={200: {"content": {"text/event-stream": {}}}},
        response_class=Response,
    )
    async def completions(request: Request, asked: shapes.DeepWikiRequest, caller: CallerOf) -> Response:
        """Answer the last message. The body is streamed plain text, despite its media type."""
        pieces = chat.pieces(caller, asked, base=str(request.base_url))
        try:
            first = await until_disconnect(request, _next(pieces))
        except BaseException:
            await pieces.aclose()
            raise

        async def streamed() -> AsyncGenerator[bytes, None]:
            async with aclosing(pieces):
                yield first.encode("utf-8", "replace")
                async for piece in pieces:
                    yield piece.encode("utf-8", "replace")

        return EventStream(streamed(), streams=service.streams, error_event=partial(_error_event, service))

    async def socket(connection: WebSocket) -> None:
        await answer_socket(connection, service, chat)

    app.router.routes.append(WebSocketRoute("/ws/chat", socket))
    return router


async def _next(pieces: AsyncGenerator[str, None]) -> str:
    return await anext(pieces, "")


def _error_event(service: Service, error: RagError) -> bytes:
    return f"\n\nError: {' '.join(service.public_message(error).split())}".encode("utf-8", "replace")


def _menus(service: Service) -> APIRouter:
    router = _router()
    settings = service.settings

    @router.get("/models/config")
    async def models() -> shapes.ModelConfig:
        """Return the models that the server offers, the usual one first."""
        names = service.models or ("extractive",)
        offered = [shapes.DeepWikiModel(id=name, name=name) for name in names]
        provider = shapes.Provider(id="rag", name="Rag", models=offered)
        return shapes.ModelConfig(providers=[provider], defaultProvider="rag")

    @router.get("/lang/config")
    async def languages() -> shapes.LanguageConfig:
        """Return the languages of the menu."""
        return shapes.LANGUAGES

    @router.get("/auth/status")
    async def status() -> shapes.AuthStatus:
        """Return whether generating and deleting wikis needs a code."""
        return shapes.AuthStatus(auth_required=bool(settings.deepwiki_code))

    @router.post("/auth/validate")
    async def validate(asked: shapes.AuthCode) -> shapes.AuthResult:
        """Check the code."""
        return shapes.AuthResult(success=_is_code(service, asked.code))

    return router


def _is_code(service: Service, code: str) -> bool:
    expected = service.settings.deepwiki_code
    return bool(expected) and hmac.compare_digest(expected.encode(), code.encode("utf-8", "replace"))


def _wikis(service: Service, cache: WikiCache) -> APIRouter:
    router = _router()

    registry = service.registry

    @router.get("/api/wiki_cache")
    async def cached(
        caller: CallerOf, owner: Name, repo: Name, repo_type: Name, language: Name
    ) -> shapes.WikiCacheData | None:
        """Return a stored wiki, or null."""
        info = shapes.RepoInfo(owner=owner, repo=repo, type=repo_type)
        stored = await to_thread(cache.read, caller.namespace, info, _language(language))
        return stored[1] if stored is not None and is_served(registry, stored[0]) else None

    @router.post("/api/wiki_cache")
    async def keep(caller: CallerOf, wiki: shapes.WikiCacheRequest) -> shapes.Done:
        """Store a wiki without its token. A wiki with an error as a page is refused."""
        name = await name_of(registry, _repo_url(wiki.repo))
        wiki.language = _language(wiki.language)
        await to_thread(cache.write, caller.namespace, name, wiki)
        return shapes.Done(message="Wiki cache saved successfully")

    @router.delete("/api/wiki_cache")
    async def delete(
        caller: CallerOf,
        owner: Name,
        repo: Name,
        repo_type: Name,
        language: Name,
        authorization_code: str | None = None,
    ) -> shapes.Done:
        """Delete a wiki."""
        if language not in shapes.LANGUAGES.supported_languages:
            raise BadRequest("Language is not supported")
        if service.settings.deepwiki_code and not _is_code(service, authorization_code or ""):
            raise Unauthorized("Authorization code is invalid")
        info = shapes.RepoInfo(owner=owner, repo=repo, type=repo_type)
        if not await to_thread(cache.delete, caller.namespace, info, language):
            raise NotFound("Wiki cache not found")
        return shapes.Done(message=f"Wiki cache for {owner}/{repo} ({language}) deleted successfully")

    @router.get("/api/processed_projects")
    async def projects(caller: CallerOf) -> list[shapes.ProcessedProject]:
        """List the stored wikis, newest first."""
        stored = await to_thread(cache.projects, caller.namespace)
        return [project for name, project in stored if is_served(registry, name)]

    return router


def _export(service: Service) -> APIRouter:
    router, registry = _router(), service.registry

    @router.post(
        "/export/wiki",
        response_class=Response,
        responses={200: {"content": {"text/markdown": {}, "application/json": {}}}},
    )
    async def export(asked: shapes.ExportRequest) -> Response:
        """Return pages as one file."""
        await name_of(registry, asked.repo_url)
        async with service.limiter.slot():
            text, media_type, name = await to_thread(exported, asked)
        headers = {"Content-Disposition": f"attachment; filename={name}"}
        return Response(text.encode("utf-8", "replace"), media_type=media_type, headers=headers)

    return router


def _files(service: Service) -> APIRouter:
    router = _router(_FilesRoute)

    @router.get("/local_repo/structure")
    async def structure(
        caller: CallerOf, path: Annotated[str | None, Query(max_length=4_096)] = None
    ) -> shapes.FileTree:
        """Return the indexed files of a listed repository, and its README."""
        if not path:
            raise BadRequest("No path provided. Please provide a 'path' query parameter.")
        entry = await entry_named(service.registry, path, caller)
        repository = await _within(_WAIT_FOR_FILES_S, ready(service.registry, entry), entry)
        async with service.limiter.slot():
            return await to_thread(_tree, repository)

    return router


def _tree(repository: Repository) -> shapes.FileTree:
    store = repository.store
    paths = sorted(store.known_files())
    readmes = [path for path in paths if path.lower().rpartition("/")[2] == "readme.md"]
    readme = store.file_text(min(readmes, key=lambda path: path.count("/"))) if readmes else None
    return shapes.FileTree(
        file_tree="\n".join(path.encode("utf-8", "replace").decode() for path in paths),
        readme="" if readme is None else readme[0],
    )


async def _within(seconds: float, work: Awaitable[Repository], entry: ServedRepository) -> Repository:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise StillIndexing(f"{entry.name} is being indexed; retry in a moment", retry_after_s=5) from None


def _repo_url(repo: shapes.RepoInfo) -> str:
    """Return the path or URL by which the frontend names a repository in its requests."""
    if repo.type == "local" and repo.localPath:
        return repo.localPath
    return repo.repoUrl or f"http://example/{repo.owner}/{repo.repo}"


def _language(code: str) -> str:
    return code if code in shapes.LANGUAGES.supported_languages else shapes.LANGUAGES.default
