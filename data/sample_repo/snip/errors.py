"""What can go wrong while a request is handled. Each error knows its HTTP status."""


class SnipError(Exception):
    """The root of our errors; becomes a JSON body with `status`."""

    status = 500


class BadRequest(SnipError):
    """The request cannot be understood: not JSON, or a field is missing or wrong."""

    status = 400


class Unauthorized(SnipError):
    """No valid token and no valid session came with the request."""

    status = 401


class NotFound(SnipError):
    """There is no such link."""

    status = 404


class Conflict(SnipError):
    """The wished-for short code or user name is taken."""

    status = 409


class TooManyRequests(SnipError):
    """The caller spent its allowance; `retry_after_s` says when to come back."""

    status = 429

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"too many requests, try again in {retry_after_s:.0f} s")
        self.retry_after_s = retry_after_s
