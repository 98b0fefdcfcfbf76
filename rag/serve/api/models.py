"""What goes in and out of the native routes, typed, with examples: what all of them share, and repositories.

Text from a repository may hold bytes that are no text, as names of files do: `?` goes out in their place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from rag.serve.registry import ServedRepository
from rag.serve.service import MOST_REPOSITORIES
from rag.types import Coverage
from rag.wiki.forges import web_address

MOST_RESULTS = 100


def _whole(value: object) -> object:
    """JSON knows one kind of number: 3.0 is as whole as 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
Name = Annotated[str, Field(min_length=1, max_length=300, examples=["sample"])]
Names = Annotated[list[Name], Field(max_length=MOST_REPOSITORIES, examples=[["sample"]])]
Question = Annotated[str, Field(min_length=1, examples=["Where is a short code made?"])]
ConversationName = Annotated[str, Field(min_length=1, max_length=200, examples=["login"])]
Mark = Annotated[str, Field(min_length=1, max_length=100, examples=["useful"])]


class Strict(BaseModel):
    """A request: a field that is not known is a mistake."""

    model_config = ConfigDict(extra="forbid", strict=True)


def shown(text: str) -> str:
    """Text as it can be sent: what is no text becomes `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    code: str | None = None
    param: str | None = None


class Error(BaseModel):
    """The body of every error."""

    error: ErrorDetail


class IndexJob(BaseModel):
    """How far the indexing of a repository is. A `total` of 0 is unknown."""

    running: bool
    stage: str
    done: int
    total: int
    error: str | None = None


class RepositoryState(BaseModel):
    """A repository that is served."""

    name: str
    location: str
    ref: str | None
    state: Literal["waiting", "indexing", "ready", "failed", "cancelled"]
    job: IndexJob
    commit: str | None = None
    dirty: bool = False
    remote: str | None = None
    files: int | None = None
    chunks: int | None = None
    size_bytes: int | None = None
    skipped: dict[str, int] = {}
    indexed: datetime | None = None


class IndexRequest(Strict):
    """How to index."""

    rebuild: bool = False


class SourceLines(BaseModel):
    """Lines of a file as they are in the index."""

    path: str
    start: int
    end: int
    lines: int
    """How many the file has."""
    language: str
    text: str
    commit: str | None
    dirty: bool


class CoverageBody(BaseModel):
    """What of a repository an answer rests on, and what of it the answer cannot know.

    `skipped` counts files that are never indexed, by reason; `not_indexed` names up to 20 files that changed
    and are not in the index yet, `not_indexed_count` counts all. `checked_ago_s` is how long before the
    answer the files were compared with the index (of a URL: fetched); null where that was not done.
    """

    repository: str
    commit: str | None = None
    dirty: bool
    skipped: dict[str, int]
    not_indexed: list[str]
    not_indexed_count: int
    checked_ago_s: float | None = None


def coverage_body(coverage: Coverage) -> CoverageBody:
    """Coverage as it is sent."""
    values = asdict(coverage) | {"not_indexed": [shown(path) for path in coverage.not_indexed]}
    return CoverageBody(**values)


def searched_words(coverage: Coverage) -> str:
    """Return on one line what was searched, and what was not."""
    parts = [f"commit {coverage.commit[:10]}" if coverage.commit else "no commit"]
    parts += ["with uncommitted changes"] if coverage.dirty else []
    skipped = sorted(coverage.skipped.items(), key=lambda pair: (-pair[1], pair[0]))
    parts += ["not indexed: " + ", ".join(f"{n} {why}" for why, n in skipped)] if skipped else []
    parts += [coverage.note] if coverage.note else []
    return "; ".join(parts)


def repository_state(shelf: ServedRepository, told: Callable[[str], str]) -> RepositoryState:
    """A shelf as it is now, its texts as they are `told`."""
    checkout = shelf.checkout
    report: dict[str, Any] = shelf.report or {}
    remote = checkout.remote if checkout else None
    return RepositoryState(
        name=shelf.name,
        location=shown(told(shelf.source.location)),
        ref=shelf.source.ref,
        state=shelf.state,
        job=IndexJob(
            running=shelf.running,
            stage=shelf.stage,
            done=shelf.done,
            total=shelf.total,
            error=shown(told(str(shelf.error))) if shelf.error else None,
        ),
        commit=checkout.commit if checkout else None,
        dirty=bool(checkout and checkout.dirty),
        remote=shown(told(remote)) if remote and web_address(remote) else None,  # it may be a folder
        files=report.get("files"),
        chunks=report.get("chunks"),
        size_bytes=report.get("size_bytes"),
        skipped=report.get("skipped", {}),
        indexed=datetime.fromtimestamp(shelf.indexed).astimezone() if shelf.indexed else None,
    )
