"""What each address does. Handlers raise errors from `snip.errors`; the application turns them into JSON."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from snip.auth import check_password, issue_token
from snip.errors import BadRequest, NotFound
from snip.http import Request, Response
from snip.sessions import COOKIE_NAME
from snip.shortcodes import encode_id, is_valid_code
from snip.storage import Link, User

if TYPE_CHECKING:
    from snip.app import Application


@dataclass(frozen=True)
class Route:
    """A method and an address. A path of "/{code}" matches any single segment."""

    method: str
    path: str
    handle: Callable[..., Response]
    needs_user: bool = True


def login(app: Application, request: Request, _code: str) -> Response:
    """Check name and password, answer with a session cookie."""
    fields = request.json()
    user = check_password(app.storage, _text(fields, "name"), _text(fields, "password"))
    response = Response.of_json({"user": user.name})
    response.set_cookie(COOKIE_NAME, app.signer.sign_session(user.id), app.signer.lifetime_s)
    return response


def logout(app: Application, request: Request, _code: str, _user: User) -> Response:
    """Make the browser forget its session."""
    response = Response(204)
    response.set_cookie(COOKIE_NAME, "", 0)
    return response


def create_link(app: Application, request: Request, _code: str, user: User) -> Response:
    """Shorten a URL, under a code of our choice or the caller's."""
    fields = request.json()
    url = _checked_url(_text(fields, "url"))
    wish = fields.get("code")
    if wish is not None and not (isinstance(wish, str) and is_valid_code(wish)):
        raise BadRequest("a code has 3 to 32 letters, digits, dashes or underscores")
    days = app.config.link_lifetime_days
    expires = int(time.time()) + days * 24 * 3600 if days else None
    link_id = app.storage.add_link(user.id, url, expires)
    code = wish or encode_id(link_id)
    app.storage.set_code(link_id, code)
    return Response.of_json({"code": code, "short_url": f"{app.config.base_url}/{code}", "url": url}, 201)


def list_links(app: Application, request: Request, _code: str, user: User) -> Response:
    """The caller's links, the newest first."""
    return Response.of_json({"links": [_shown(link) for link in app.storage.links_of(user.id)]})


def create_token(app: Application, request: Request, _code: str, user: User) -> Response:
    """Issue an API token; it is shown only in this answer."""
    return Response.of_json({"token": issue_token(app.storage, user, _text(request.json(), "label"))}, 201)


def follow(app: Application, request: Request, code: str) -> Response:
    """Redirect to where a short code leads, and count the click."""
    link = app.storage.link_by_code(code)
    if link is None or (link.expires is not None and link.expires < time.time()):
        raise NotFound(f"there is no link {code!r}")
    app.clicks.record(code)
    return Response.redirect(link.url)


def health(app: Application, request: Request, _code: str) -> Response:
    """Answer that the process lives."""
    return Response.of_json({"status": "ok"})


ROUTES = (
    Route("POST", "/login", login, needs_user=False),
    Route("POST", "/logout", logout),
    Route("POST", "/links", create_link),
    Route("GET", "/links", list_links),
    Route("POST", "/tokens", create_token),
    Route("GET", "/health", health, needs_user=False),
    Route("GET", "/{code}", follow, needs_user=False),
)


def find_route(method: str, path: str) -> tuple[Route, str]:
    """The route for a request and the short code in its path ("" when there is none). Raises NotFound."""
    for route in ROUTES:
        if route.method != method:
            continue
        if route.path == path:
            return route, ""
        if route.path == "/{code}" and path.count("/") == 1 and len(path) > 1:
            return route, path[1:]
    raise NotFound(f"nothing answers {method} {path}")


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise BadRequest(f"the field {name!r} is missing or not text")
    return value


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise BadRequest("only http and https addresses can be shortened")
    return url


def _shown(link: Link) -> dict[str, Any]:
    return {"code": link.code, "url": link.url, "clicks": link.clicks, "expires": link.expires}
