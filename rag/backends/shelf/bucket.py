"""Objects in a bucket of an S3 service, through obstore.

obstore rather than s3fs (fsspec): it has conditional writes (If-Match, If-None-Match), which the swap of a
pointer needs; timeouts and retries of one request; streams of parts in parallel; and it is one wheel without
dependencies, where s3fs needs aiobotocore, botocore and an event loop.

Credentials, region and endpoint are those of the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
`AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`), or the role of the machine or pod. They are in no
message.

A service that ignores the conditions of a write would lose publications without an error. So before its first
swap a process writes a small object twice that must not exist, and refuses a service that allows it.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import obstore
from obstore import exceptions
from obstore.store import S3Store

from rag.backends.shelf.objects import PROBES, ObjectContent, ObjectMissing, ObjectState
from rag.errors import SettingsError, ShelfError, ShelfFull, ShelfRefused, ShelfUnreachable

if TYPE_CHECKING:
    from obstore.store import BackoffConfig

_RANGE = 1 << 20
"""The bytes of one request for a part of an object: it must arrive within the timeout."""
_PARALLEL = 4
_UPLOAD_PART = 5 << 20
_CONNECT_TIMEOUT_S = 5.0
_RETRIES = 3
_DOWNLOAD_TRIES = 3
_PAUSE_S = 0.2
_ADDRESS = re.compile(
    r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<prefix>[\w./-]*))?", re.ASCII
)
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_LOGIN = re.compile(
    r"InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|ExpiredToken|InvalidToken|AuthorizationHeaderMalformed"
    r"|\b40[13] (?:Unauthorized|Forbidden)"
)
_NO_LOGIN = re.compile(r"/latest/(?:api/token|meta-data)|/v2/credentials|AssumeRoleWithWebIdentity")
_STATUS = re.compile(r"status code: (\d{3})|status: (\d{3}),")
_FULL = re.compile(r"QuotaExceeded|StorageFull|InsufficientStorage")
"""Codes of MinIO, Ceph and others for a bucket, tenant or disk without space; also status 507."""
_BUSY = re.compile(r"SlowDown|TooManyRequests|RequestLimitExceeded|Throttling")
_TIMEOUT = re.compile(r"kind: Timeout|operation timed out")

_Result = TypeVar("_Result")


class BucketObjects:
    """Implements `rag.backends.shelf.objects.Objects`. Nothing is contacted before the first call.

    Args:
        address: `s3://BUCKET` or `s3://BUCKET/PREFIX`.
        timeout_s: for one request. A call makes up to four when the service fails.

    Raises:
        SettingsError: the address, or a variable of the environment, is invalid.
    """

    def __init__(self, address: str, *, timeout_s: float) -> None:
        found = _ADDRESS.fullmatch(address)
        if found is None or {".", ".."} & set(address.split("/")):
            raise SettingsError(
                "the address of the shared indexes is invalid; use s3://BUCKET/PREFIX, with credentials in "
                "the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"
            )
        self._bucket, prefix = found["bucket"], (found["prefix"] or "").strip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "")
        where = f" ({_shown(endpoint)})" if endpoint else ""
        self._name = f"s3://{self._bucket}/{self._prefix}".rstrip("/") + where
        self._timeout_s = timeout_s
        self._store = self._opened(allow_http=endpoint.lower().startswith("http://"))
        self._is_conditional = False

    def _opened(self, *, allow_http: bool) -> S3Store:
        timeout = timedelta(seconds=self._timeout_s)
        connect = timedelta(seconds=min(self._timeout_s, _CONNECT_TIMEOUT_S))
        backoff: BackoffConfig = {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=2),
            "base": 2,
        }
        try:
            return S3Store(
                self._bucket,
                client_options={"allow_http": allow_http, "timeout": timeout, "connect_timeout": connect},
                retry_config={"max_retries": _RETRIES, "retry_timeout": timeout, "backoff": backoff},
            )
        except (exceptions.BaseError, ValueError) as error:
            raise SettingsError(
                f"the settings of {self.name} are invalid; check the variables AWS_… of the environment"
            ) from error

    @property
    def name(self) -> str:
        """The bucket, the prefix and the endpoint."""
        return self._name

    def read(self, name: str, *, max_bytes: int) -> ObjectContent | None:
        """Return a small object; its version is its ETag."""

        def get() -> ObjectContent:
            found = obstore.get(self._store, self._prefix + name)
            content = bytearray()
            for block in found.stream(min_chunk_size=1):
                content += bytes(block)
                if len(content) > max_bytes:
                    break
            return ObjectContent(bytes(content[: max_bytes + 1]), found.meta["e_tag"] or "")

        try:
            with self._translated():
                return self._retried(get)
        except ObjectMissing:
            return None

    def swap(self, name: str, content: bytes, *, version: str | None) -> bool:
        """Write an object if it still has this version."""
        with self._translated():
            self._check_conditions()
            return self._put_if(name, content, version)

    def _put_if(self, name: str, content: bytes, version: str | None) -> bool:
        mode: obstore.PutMode = "create" if version is None else {"e_tag": version}
        try:
            obstore.put(self._store, self._prefix + name, content, mode=mode, use_multipart=False)
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
            return False
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise
            return False
        return True

    def _check_conditions(self) -> None:
        """Verify, once, that the service obeys the condition of a write."""
        if self._is_conditional:
            return
        name = f"{PROBES}{uuid.uuid4().hex}"
        try:
            self._put_if(name, b"", None)
            obeyed = not self._put_if(name, b"", None)
        finally:
            self.delete([name])
        if not obeyed:
            raise ShelfRefused(
                shelf=self.name,
                why="the service ignores the conditions of writes (If-None-Match), so two publishers could "
                "replace each other's stores",
                fix="use a service that has conditional writes, or a folder",
            )
        self._is_conditional = True

    def upload(self, name: str, file: Path) -> None:
        """Write an object from a file, in parts if it is large."""
        with file.open("rb") as source, self._translated():
            obstore.put(
                self._store, self._prefix + name, source, chunk_size=_UPLOAD_PART, max_concurrency=_PARALLEL
            )

    def download(self, name: str, *, size_bytes: int) -> Iterator[bytes]:
        """Yield the bytes of an object. Each part must arrive within the timeout, so a trickle ends."""
        path = self._prefix + name
        with self._translated():
            end = min(int(self._retried(lambda: obstore.head(self._store, path))["size"]), size_bytes + 1)
            for first in range(0, end, _RANGE * _PARALLEL):
                starts = list(range(first, min(end, first + _RANGE * _PARALLEL), _RANGE))
                ends = [min(end, start + _RANGE) for start in starts]
                yield from self._retried(partial(self._ranges, path, starts, ends))

    def _ranges(self, path: str, starts: Sequence[int], ends: Sequence[int]) -> list[bytes]:
        found = obstore.get_ranges(self._store, path, starts=starts, ends=ends, coalesce=0)
        return [bytes(block) for block in found]

    def state(self, name: str) -> ObjectState | None:
        """Return the state of an object."""
        try:
            with self._translated():
                meta = obstore.head(self._store, self._prefix + name)
        except ObjectMissing:
            return None
        return ObjectState(name, int(meta["size"]), meta["last_modified"])

    def list(self, prefix: str) -> Iterator[ObjectState]:
        """Yield the objects below a prefix."""
        with self._translated():
            for metas in obstore.list(self._store, prefix=self._prefix + prefix):
                for meta in metas:
                    name = str(meta["path"]).removeprefix(self._prefix)
                    yield ObjectState(name, int(meta["size"]), meta["last_modified"])

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects."""
        paths = [self._prefix + name for name in names]
        with self._translated():
            if paths:
                try:
                    obstore.delete(self._store, paths)
                except FileNotFoundError as error:
                    if "NoSuchBucket" in str(error):
                        raise

    def _retried(self, call: Callable[[], _Result]) -> _Result:
        """Call a function that reads; again if the connection breaks in the middle of the answer."""
        for left in reversed(range(_DOWNLOAD_TRIES)):
            try:
                return call()
            except exceptions.GenericError as error:
                if not left or _TIMEOUT.search(str(error)) or _LOGIN.search(str(error)):
                    raise
                time.sleep(_PAUSE_S)
        raise AssertionError("not reached")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except ShelfError:
            raise
        except (exceptions.BaseError, FileNotFoundError) as error:
            # Its text may have the signature of a request, so it is no part of the error or of a log.
            raise translated(error, self.name, self._bucket, self._timeout_s) from None


def translated(error: Exception, shelf: str, bucket: str, timeout_s: float) -> ShelfError | ObjectMissing:
    """Return our error for one of obstore's. Only known words of its text are repeated."""
    text = str(error)
    code = found[1] if (found := _CODE.search(text)) else ""
    if code == "NoSuchBucket" or "NoSuchBucket" in text:
        fix = "create the bucket, or correct the address (RAG_STORES)"
        return ShelfRefused(shelf=shelf, why=f"there is no bucket {bucket}", fix=fix)
    if isinstance(error, FileNotFoundError):
        return ObjectMissing()
    found_status = _STATUS.search(text)
    status = int(found_status[1] or found_status[2]) if found_status else 0
    if _FULL.search(code) or status == 507:
        return ShelfFull(shelf=shelf, code=code)
    if _BUSY.search(code) or status == 429:
        return ShelfUnreachable(
            shelf=shelf,
            why=f"the service asks for fewer requests ({code or status})",
            fix="retry later, with fewer publishers at once (`rag worker --slots`)",
        )
    login = isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError))
    if login or _LOGIN.search(text):
        fix = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and what they may do with the bucket"
        why = f"the service refuses the credentials{f' ({code})' if code else ''}"
        return ShelfRefused(shelf=shelf, why=why, fix=fix)
    if isinstance(error, (exceptions.NotSupportedError, exceptions.InvalidPathError)):
        return ShelfRefused(shelf=shelf, why="the service does not support a needed operation")
    if _NO_LOGIN.search(text):
        fix = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give this machine a role"
        return ShelfRefused(shelf=shelf, why="no credentials were found", fix=fix)
    if status:
        return ShelfUnreachable(
            shelf=shelf, why=f"the service failed with status {status}{f' ({code})' if code else ''}"
        )
    if _TIMEOUT.search(text):
        return ShelfUnreachable(shelf=shelf, why=f"no answer within {timeout_s:g} s")
    return ShelfUnreachable(shelf=shelf, why="the connection failed or was closed")


def _shown(endpoint: str) -> str:
    """Return an endpoint without user and password."""
    try:
        parts = urlsplit(endpoint)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    except ValueError:
        return "an invalid endpoint"
