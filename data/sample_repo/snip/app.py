"""The application: from a request to a response."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from snip import handlers
from snip.auth import authenticate
from snip.config import Config
from snip.errors import SnipError, TooManyRequests, Unauthorized
from snip.http import Environ, Request, Response, StartResponse
from snip.jobs import ClickCounter, Scheduler, default_jobs
from snip.ratelimit import RateLimiter
from snip.sessions import COOKIE_NAME, SessionSigner
from snip.storage import Storage, User

log = logging.getLogger(__name__)


class Application:
    """A WSGI application. Made by `create_app`."""

    def __init__(self, config: Config, storage: Storage) -> None:
        self.config = config
        self.storage = storage
        self.signer = SessionSigner(config.secret_key, config.session_lifetime_s)
        self.limiter = RateLimiter(config.requests_per_minute)
        self.clicks = ClickCounter()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        try:
            response = self.handle_request(Request.from_environ(environ))
        except SnipError as error:
            response = Response.of_json({"error": str(error)}, error.status)
            if isinstance(error, TooManyRequests):
                response.headers.append(("Retry-After", str(int(error.retry_after_s) + 1)))
        return response.send(start_response)

    def handle_request(self, request: Request) -> Response:
        """Find the handler, make sure that the caller may use it, and run it."""
        self.limiter.spend(request.headers.get("authorization") or request.remote)
        route, code = handlers.find_route(request.method, request.path)
        if not route.needs_user:
            return route.handle(self, request, code)
        user = self.current_user(request)
        response = route.handle(self, request, code, user)
        if renewed := self.signer.renew_if_old(request.cookie(COOKIE_NAME)):
            response.set_cookie(COOKIE_NAME, renewed, self.signer.lifetime_s)
        return response

    def current_user(self, request: Request) -> User:
        """The user behind a request: by API token if one was sent, else by session cookie.

        Raises:
            Unauthorized: neither is there, or what is there is not valid.
        """
        if authorization := request.headers.get("authorization"):
            return authenticate(self.storage, authorization)
        user_id = self.signer.verify_session(request.cookie(COOKIE_NAME))
        user = self.storage.user_by_id(user_id) if user_id is not None else None
        if user is None:
            raise Unauthorized("sign in first, or send a token")
        return user

    def start_jobs(self) -> Scheduler:
        """Start the background jobs; call once for each process."""
        jobs = default_jobs(self.storage, self.clicks, self.limiter, self.config.purge_interval_s)
        scheduler = Scheduler(jobs)
        scheduler.start()
        return scheduler


def create_app(config: Config | None = None) -> Application:
    """Build the application with its database opened and migrated."""
    config = config or Config()
    return Application(config, Storage(config.database))
