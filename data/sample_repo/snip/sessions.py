"""Signed session cookies: who signed in, and until when, in a value that cannot be forged.

A cookie is `payload.signature`. The payload is base64url JSON `{"user": id, "expires": unix seconds}`;
the signature is HMAC-SHA256 of the payload under the server's secret key. Nothing is stored on the server,
so a session cannot be revoked before it expires; changing the secret key ends all of them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable

COOKIE_NAME = "snip_session"
RENEW_BELOW = 0.5
"""A session is renewed once less than this share of its lifetime is left."""


class SessionSigner:
    """Signs and verifies session cookies with one secret key."""

    def __init__(
        self, secret_key: str, lifetime_s: int, clock: Callable[[], float] = time.time
    ) -> None:
        if len(secret_key) < 16:
            raise ValueError("the secret key is shorter than 16 characters")
        self._key = secret_key.encode()
        self.lifetime_s = lifetime_s
        self._clock = clock

    def sign_session(self, user_id: int) -> str:
        """Return a cookie value for the user, valid for `lifetime_s` from now."""
        expires = int(self._clock()) + self.lifetime_s
        payload = _encode(json.dumps({"user": user_id, "expires": expires}).encode())
        return f"{payload}.{self._signature(payload)}"

    def verify_session(self, cookie: str) -> int | None:
        """Return the user's id, or None when the cookie is forged, broken or expired."""
        claims = self._claims(cookie)
        if claims is None or self.is_expired(claims["expires"]):
            return None
        return claims["user"]

    def is_expired(self, expires: int) -> bool:
        """Whether a session that ends at `expires` (unix seconds) is over."""
        return self._clock() >= expires

    def renew_if_old(self, cookie: str) -> str | None:
        """Return a fresh cookie when the session is past half of its life, else None."""
        claims = self._claims(cookie)
        if claims is None or self.is_expired(claims["expires"]):
            return None
        left_s = claims["expires"] - self._clock()
        if left_s >= self.lifetime_s * RENEW_BELOW:
            return None
        return self.sign_session(claims["user"])

    def _signature(self, payload: str) -> str:
        return _encode(hmac.new(self._key, payload.encode(), hashlib.sha256).digest())

    def _claims(self, cookie: str) -> dict[str, int] | None:
        payload, _, signature = cookie.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(payload).encode()):
            return None
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return {"user": int(claims["user"]), "expires": int(claims["expires"])}


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
