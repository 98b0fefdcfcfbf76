"""What each kind of job does. The arguments are those of `rag.service.repositories.jobs`."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rag.database.update import stored_skips
from rag.errors import (
    ConfigError,
    RagError,
    ShelfConflict,
    ShelfError,
    ShelfFull,
    ShelfOutdated,
    StoreBusy,
    StoreError,
    StoreUnreachable,
    StoreUnwritable,
)
from rag.service import Engine, Repository
from rag.service.repositories.jobs import refs_of, source_of
from rag.service.repositories.published_index import take
from rag.settings import Settings
from rag.types import Checkout

Send = Callable[[Mapping[str, Any]], None]

_MAX_MESSAGE = 10_000
_MAY_PASS = (ShelfFull, StoreBusy, StoreUnreachable, StoreUnwritable)
"""Errors of this machine that another attempt, perhaps elsewhere, may not meet."""


def run(job: Mapping[str, Any], send: Send) -> dict[str, Any]:
    """Run a job; return its last message: the result as `done`, or an `error`."""
    settings = Settings(**{**job["settings"], "home": Path(job["settings"]["home"])})
    try:
        task = TASKS.get(job["kind"])
        if task is None:
            raise ConfigError(
                f"this version of rag has no jobs of the kind {job['kind']!r}; upgrade the worker"
            )
        return {"done": task(job["args"], settings, send)}
    except RagError as error:
        may_pass = error.exit_code == 3 or isinstance(error, _MAY_PASS)
        retry = getattr(error, "retryable", may_pass)
        return _failure(error, retry=retry)
    except Exception as error:  # noqa: BLE001 - at the border of the process: it must not end it
        traceback.print_exc()
        message = f"unexpected {type(error).__name__}: {error}"
        return _failure(error, message, retry=isinstance(error, OSError | MemoryError))


def _failure(error: Exception, message: str | None = None, *, retry: bool) -> dict[str, Any]:
    text = str(error) if message is None else message
    if len(text) > _MAX_MESSAGE:
        text = f"{text[:_MAX_MESSAGE]}…"
    return {"error": {"kind": type(error).__name__, "message": text, "retry": retry}}


def _index(args: Mapping[str, Any], settings: Settings, send: Send) -> dict[str, Any]:
    with _opened(args, settings, send, rebuild=bool(args.get("rebuild"))) as (engine, repository):
        report = repository.report
        assert report is not None
        published: dict[str, Any] = {}
        if args.get("publish") and settings.stores:
            try:
                published = _published(engine, repository)
            except ShelfError as error:
                if args.get("publish_required", True):
                    raise
                send({"notice": f"{repository.source.name} was indexed, but not published: {error}"})
                published = {"not_published": str(error)}
        place = checkout_record(repository.checkout)
        return {"checkout": place, "report": report.record, **published}


def _take(args: Mapping[str, Any], settings: Settings, send: Send) -> dict[str, Any]:
    """Take the published index of a source, if it can be answered from it without a clone."""
    engine = Engine(settings, notice=lambda text: send({"notice": text}), place=args.get("place"))
    with closing(engine):
        options = {name: args[name] for name in ("is_checked", "published_as")}
        found = take(engine, source_of(args["source"]), **options)
        if found is None:
            return {"taken": False}
        repository, is_current = found
        store = repository.store
        skipped = stored_skips(store)
        report = {
            "action": "fetched",
            "reason": "",
            "seen": store.file_count + sum(skipped.values()),
            "files": store.file_count,
            "chunks": store.live_count,
            "changed": 0,
            "removed": 0,
            "size_bytes": store.size_bytes,
            "commit": store.commit,
            "seconds": 0.0,
            "skipped": skipped,
            "is_current": is_current,
        }
        return {"taken": True, "checkout": checkout_record(repository.checkout), "report": report}


def checkout_record(checkout: Checkout) -> dict[str, Any]:
    """Return a checkout as JSON values."""
    names = ("commit", "dirty", "remote", "has_files")
    return {"root": str(checkout.root), **{name: getattr(checkout, name) for name in names}}


def _published(engine: Engine, repository: Repository) -> dict[str, Any]:
    """Publish a store for the other machines; return its key, or why others cannot use it."""
    try:
        try:
            return {"published": engine.publish(repository).key}
        except ShelfConflict:  # another worker has published; the order of the commits decides
            return {"published": engine.publish(repository).key}
    except ShelfConflict:
        return {"not_published": "other workers have published at the same time"}
    except ShelfOutdated as error:
        return {"not_published": error.why}
    except (ShelfError, StoreError):
        raise
    except ConfigError as error:
        return {"not_published": str(error)}


@contextmanager
def _opened(
    args: Mapping[str, Any], settings: Settings, send: Send, *, rebuild: bool = False
) -> Iterator[tuple[Engine, Repository]]:
    """Open the repository of a job with its current files."""
    settings = replace(settings, embedder=str(args.get("embedder") or settings.embedder))
    engine = Engine(
        settings,
        progress=lambda stage, done, total: send({"progress": [stage, done, total]}),
        notice=lambda text: send({"notice": text}),
        place=args.get("place"),
        refs=refs_of(args),
    )
    with closing(engine):
        yield engine, engine.repository(source_of(args["source"]), rebuild=rebuild)


TASKS: Mapping[str, Callable[[Mapping[str, Any], Settings, Send], dict[str, Any]]] = {
    "index": _index,
    "take": _take,
}
"""The functions that run jobs, by kind; "take" is only asked of a server's own children."""
