"""The jobs of a queue: how one is described, and what of its errors is stored.

A job builds or updates one store. Its key names the store, so it waits or runs once,
and its lock too, so that no two workers build the same generation. The arguments are JSON values; a worker
adds its own settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rag import backends
from rag.corpus.address import resolve
from rag.corpus.git_token import tokens_of
from rag.corpus.secrets import find_secret
from rag.database.locate import store_path
from rag.errors import SettingsError, SourceError
from rag.job_queue import Jobs, QueuedJob
from rag.ports import SharedState
from rag.request_context import request_id
from rag.settings import Settings
from rag.types import Filters, Source

_MIN_SECRET = 6
_MAX_LOCATION = 4_096
_MAX_SHOWN = 200
_CREDENTIALS = re.compile(r"(?<=://)[^\s/@]+@")


class JobRequest(NamedTuple):
    """A job that is not in a queue yet; see `Jobs.enqueue`."""

    key: str
    args: Mapping[str, Any]
    lock: str = ""

    def enqueue(self, jobs: Jobs, *, namespace: str = "", asked: bool = False) -> QueuedJob:
        """Add it to a queue, with the id of the request that this is done for, if any."""
        args = {**self.args, "request_id": request_id()} if request_id() else self.args
        return jobs.enqueue(self.key, args, namespace=namespace, asked=asked, lock=self.lock)


def open_jobs(settings: Settings) -> Jobs:
    """Open the queue that `settings.shared` names.

    Raises:
        SettingsError: none is named, or its address is invalid.
        BackendMissing: the extra is not installed.
    """
    return backends.open_jobs(settings)


def open_shared_state(settings: Settings) -> SharedState | None:
    """Open what servers share in the database that `settings.shared` names; None if none is named.

    Raises:
        SettingsError, BackendMissing: as `open_jobs`.
    """
    return backends.open_shared_state(settings)


def index_request(
    source: Source,
    settings: Settings,
    *,
    rebuild: bool = False,
    place: str | None = None,
    refs: Sequence[str] | None = None,
    publish: bool = True,
    publish_required: bool = True,
) -> JobRequest:
    """Return the job that builds or updates the store of a source.

    Args:
        source: what to index.
        settings: those of the store: the embedder.
        rebuild: rebuild the store from scratch.
        place: the only addresses git may connect to.
        refs: patterns of the refs that may be read.
        publish: whether a worker that shares stores publishes it.
        publish_required: whether the job fails, and is repeated, if the shared stores cannot be used.
    """
    store = store_path(Path(), source, embedder=settings.embedder).stem
    args = {
        "source": asdict(source),
        "embedder": settings.embedder,
        "rebuild": rebuild,
        "place": place,
        "refs": None if refs is None else list(refs),
        "publish": publish,
        "publish_required": publish_required,
    }
    return JobRequest(f"{'rebuild' if rebuild else 'store'}:{store}", args, f"store:{store}")


def source_of(record: Mapping[str, Any]) -> Source:
    """Return the source in the arguments of a job.

    Raises:
        SettingsError: they are those of another version, or of another program.
    """
    try:
        location, ref, globs = record["location"], record["ref"], record["filters"]
        filters = Filters(tuple(map(str, globs["include"])), tuple(map(str, globs["exclude"])))
        source = Source(str(location), None if ref is None else str(ref), filters)
    except (KeyError, TypeError) as error:
        raise SettingsError(f"the job names no source that this version of rag reads: {error!r}") from error
    _check_source(source)
    return source


def refs_of(record: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the patterns of refs in the arguments of a job, None for all. Raises SettingsError."""
    refs = record.get("refs")
    if refs is None:
        return None
    if not isinstance(refs, list | tuple) or not all(isinstance(ref, str) for ref in refs):
        raise SettingsError(f"the refs of the job are no list of patterns: {refs!r:.80}")
    return tuple(refs)


def _check_source(source: Source) -> None:
    """Refuse what `resolve` never returns. Raises SettingsError."""
    shown = source.location[:_MAX_SHOWN]
    if len(source.location) > _MAX_LOCATION or len(source.ref or "") > _MAX_LOCATION:
        raise SettingsError(
            f"the job names a source of {len(str(source)):,} characters, the limit is {_MAX_LOCATION:,}: "
            f"{shown}…"
        )
    if source.is_url:
        try:
            known = resolve(source.location, source.ref)
        except SourceError as error:
            raise SettingsError(f"the job names a source that cannot be used: {error}") from error
        if known.is_url:
            return
    elif Path(source.location).is_absolute():
        return
    raise SettingsError(f"the job names {shown!r}, which is neither an absolute path nor a git URL")


def name_of(job: QueuedJob) -> str:
    """Return what a job is about, for messages: its source, else its key."""
    try:
        return str(source_of(job.args["source"]))
    except (KeyError, TypeError, SettingsError):
        return job.key


def public_error(message: str, settings: Settings) -> str:
    """Return an error as everyone who reads the queue may see it.

    Users and passwords of URLs, and the secrets of the settings, are replaced. A message with another likely
    secret, such as a line of a file, is withheld; the worker logs that it was.
    """
    text = _CREDENTIALS.sub("…@", message)
    for secret in _secrets(settings):
        text = text.replace(secret, "…")
    if found := find_secret(text):
        kind = found.rpartition(" on line ")[0]
        return f"the message is withheld because it may contain a secret ({kind}); run it by hand to see it"
    return text


def _secrets(settings: Settings) -> list[str]:
    known = [settings.api_key, settings.embedding_api_key, *tokens_of(settings.git_token).values()]
    known += [_password(url) for url in (settings.shared, settings.memory)]
    return sorted({one for one in known if one and len(one) >= _MIN_SECRET}, key=len, reverse=True)


def _password(url: str) -> str | None:
    try:
        return urlsplit(url).password
    except ValueError:
        return None
