"""Who is calling: API tokens for programs, passwords for people.

Only hashes are stored. A token is 32 random bytes, so one round of SHA-256 is enough for it; a password is
chosen by a person and goes through scrypt.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets

from snip.errors import Unauthorized
from snip.storage import Storage, User

TOKEN_PREFIX = "snip_"


def issue_token(storage: Storage, user: User, label: str) -> str:
    """Make a new API token for the user. It is shown once; only its hash is kept."""
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    storage.add_token(user.id, hash_token(token), label)
    return token


def authenticate(storage: Storage, authorization: str) -> User:
    """Check the token in an `Authorization: Bearer …` header and return its user.

    Raises:
        Unauthorized: the header has another scheme, or no user holds the token.
    """
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token.startswith(TOKEN_PREFIX):
        raise Unauthorized("send the token as 'Authorization: Bearer snip_…'")
    user = storage.user_by_token(hash_token(token))
    if user is None:
        raise Unauthorized("the token is unknown or was revoked")
    return user


def check_password(storage: Storage, name: str, password: str) -> User:
    """Return the user when the password is right.

    Raises:
        Unauthorized: there is no such user, or the password is wrong; the message does not say which.
    """
    user = storage.user_by_name(name)
    stored = user.password_hash if user else hash_password("")
    salt = bytes.fromhex(stored.split("$")[0])
    if not hmac.compare_digest(stored, hash_password(password, salt)) or user is None:
        raise Unauthorized("wrong name or password")
    return user


def hash_token(token: str) -> str:
    """SHA-256 of a token, in hexadecimal."""
    return hashlib.sha256(token.encode()).hexdigest()


def hash_password(password: str, salt: bytes | None = None) -> str:
    """`salt$digest` of a password by scrypt, both in hexadecimal."""
    salt = os.urandom(16) if salt is None else salt
    digest = hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1)
    return f"{salt.hex()}${digest.hex()}"
