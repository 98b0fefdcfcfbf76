"""The routes of the web page at `/`. The page is a client of the native routes.

It runs only its own scripts: a strict Content-Security-Policy, no inline scripts, and trusted types, so that
text of a repository or a model enters the page only through the sanitiser. Diagrams are rendered in a frame
without origin and network, and returned as images.
"""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from rag.errors import NotFound
from rag.resources import packaged
from rag.serve.page.files import PageFile, PageFiles
from rag.serve.service import Service

PUBLIC = frozenset({"/", "/static/", "/repos/"})
"""The files of the page are public. Its requests for data need a key, if the server has keys."""

PAGE_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
        "frame-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types dompurify",
    )
)
FRAME_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'unsafe-inline'",  # mermaid's output contains styles; the frame contains nothing else
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
        "sandbox allow-scripts",
    )
)
_FRAME = "diagram.html"
_ZIPPED_FROM_BYTES = 1_000


def install(app: FastAPI, service: Service) -> None:
    """Add the routes of the page."""
    page = PageFiles.read(packaged("serve/page/static"))

    @app.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        """Return the page."""
        return _sent(request, page.index(request.scope.get("root_path", "")), policy=PAGE_POLICY)

    @app.get("/repos/{name:path}/view", include_in_schema=False)
    async def view(request: Request, name: str) -> Response:
        """Return the page, which shows the file of its URL. The content comes from the index."""
        return _sent(request, page.index(request.scope.get("root_path", "")), policy=PAGE_POLICY)

    @app.get("/repos/{name:path}/wiki", include_in_schema=False)
    async def wiki(request: Request, name: str) -> Response:
        """Return the page, which shows the wiki page of its URL."""
        return _sent(request, page.index(request.scope.get("root_path", "")), policy=PAGE_POLICY)

    @app.get("/static/{version}/{path:path}", include_in_schema=False)
    async def file(request: Request, version: str, path: str) -> Response:
        """Return a file of the page, of this version."""
        found = page.files.get(path) if version == page.version else None
        if found is None:
            raise NotFound("the page has no such file in this version; reload the page")
        policy = FRAME_POLICY if path == _FRAME else "default-src 'none'; style-src 'unsafe-inline'"
        return _sent(request, found, policy=policy, lasting=True, framed=path == _FRAME)


def _sent(
    request: Request, file: PageFile, *, policy: str, lasting: bool = False, framed: bool = False
) -> Response:
    headers = {
        "Content-Security-Policy": policy,
        "Cache-Control": "public, max-age=31536000, immutable" if lasting else "no-cache",
        "Cross-Origin-Opener-Policy": "same-origin",
        "ETag": file.etag,
        "Vary": "Accept-Encoding",
    }
    if framed:
        headers["X-Frame-Options"] = "SAMEORIGIN"
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    data = file.data
    if len(data) >= _ZIPPED_FROM_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        data = file.zipped
    return Response(data, media_type=file.media_type, headers=headers)
