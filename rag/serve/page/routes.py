"""`/`: the web page. It is a client of the native routes like any other, and holds nothing itself.

No script runs in it but its own files: a strict Content-Security-Policy, no inline script, and trusted
types, so that text of a repository or a model is put into the page by the sanitiser or not at all. Diagrams
are drawn in a frame of their own that has no origin and no network, and come back as pictures.
"""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from rag.errors import NotFound
from rag.resources import packaged
from rag.serve.page import map as page_map
from rag.serve.page.files import PageFile, PageFiles
from rag.serve.service import Service

PUBLIC = frozenset({"/", "/static/", "/repos/"})
"""The files of the page are everybody's; what it shows is asked for with a key, where there are keys."""

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
        "style-src 'unsafe-inline'",  # what mermaid draws carries its style; nothing else is in the frame
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
        "sandbox allow-scripts",
    )
)
_FRAME = "diagram.html"
_ZIPPED_FROM_BYTES = 1_000


def install(app: FastAPI, service: Service) -> None:
    """Add the routes of the page, and those that only it needs."""
    page = PageFiles.read(packaged("serve/page/static"))
    page_map.install(app, service)

    @app.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        """The page."""
        return _sent(request, page.files["index.html"], policy=PAGE_POLICY)

    @app.get("/repos/{name:path}/view", include_in_schema=False)
    async def view(request: Request, name: str) -> Response:
        """The page, which shows the file that its address names. The file itself comes from the index."""
        return _sent(request, page.files["index.html"], policy=PAGE_POLICY)

    @app.get("/static/{version}/{path:path}", include_in_schema=False)
    async def file(request: Request, version: str, path: str) -> Response:
        """A file of the page, of this version."""
        found = page.files.get(path) if version == page.version else None
        if found is None:
            raise NotFound("the page has no such file in this version; load the page anew")
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
