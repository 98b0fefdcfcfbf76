"""`rag index`: build, update, list and remove indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.settings_options import settings_from
from rag.cli.terminal import megabytes, opened_engine, out_json, say, table, wants_json
from rag.errors import ConfigError, StoreError
from rag.quoting import counted
from rag.settings import Settings
from rag.types import ENCODING_GUESSED, OWN_LINES, PARSER_GAVE_UP, IndexReport, Source

if TYPE_CHECKING:
    from rag.service import Engine, Repository
    from rag.service.repositories.shared_stores import Publication

_INDEXED = {
    PARSER_GAVE_UP: f"cut by lines: {PARSER_GAVE_UP}",
    ENCODING_GUESSED: f"indexed: {ENCODING_GUESSED}",
    OWN_LINES: f"indexed: {OWN_LINES}",
}
"""What is said of a file that is indexed, by its reason."""


@options.grouped
def index(
    source: Annotated[str | None, options.RepositoryArgument] = None,
    *,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Rebuild the index from scratch.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List all indexes.")] = False,
    publish: Annotated[
        bool,
        typer.Option("--publish", help="Share the index with other machines (RAG_STORES)."),
    ] = False,
    publish_as: Annotated[
        str | None,
        typer.Option(
            "--publish-as",
            metavar="NAME",
            help="Share the index under this name instead of the repository's URL.",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Publish even if the published index is of a newer commit."),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="List every skipped file.")] = False,
    files: options.IndexOptions,
) -> None:
    """Index a repository, or update its index, and report the indexed and skipped files.

    rag index .

    rag index https://example.org/team/app.git --ref v2.1

    rag index https://example.org/team/app.git --publish

    rag index --list
    """
    settings = settings_from()
    to_publish = publish or publish_as is not None
    if force and not to_publish:
        raise ConfigError("--force needs --publish or --publish-as")
    if list_all:
        _list(settings)
        return
    from rag.service import locate

    wanted = locate(source, files.ref, files.filters)
    with opened_engine(settings) as engine:
        engine.shared_name = publish_as
        repository = engine.repository(wanted, rebuild=rebuild)
        _finish(engine, repository, publish=to_publish, force=force, verbose=verbose)


def _finish(engine: Engine, repository: Repository, *, publish: bool, force: bool, verbose: bool) -> None:
    """Report what was indexed, and publish it if wanted."""
    report = repository.report
    assert report is not None
    if not wants_json():
        _print_report(report, verbose=verbose)
    published = engine.publish(repository, force=force) if publish else None
    if wants_json():
        more = {} if published is None else {"published": asdict(published)}
        out_json(report_json(report) | more)
    elif published is not None:
        _print_publication(published)


def _print_publication(done: Publication) -> None:
    say(f"rag: published {done.key}, generation {done.generation[:10]}, at {done.shelf}")
    uploaded = f"{counted(done.uploaded_files, 'file')}, {done.uploaded_bytes / 1e6:,.2f} MB uploaded"
    say(f"rag: {uploaded} of {done.size_bytes / 1e6:,.2f} MB; {done.seconds:.2f} s")


def report_json(report: IndexReport) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "source": str(report.source),
        "action": report.action,
        "reason": report.reason,
        "store": str(report.path),
        "commit": report.commit,
        "seen": report.seen,
        "files": report.files,
        "chunks": report.chunks,
        "changed": report.changed,
        "removed": report.removed,
        "remarks": report.remarks,
        "skipped": [{"path": s.path, "reason": s.reason, "detail": s.detail} for s in report.skipped],
        "size_bytes": report.size_bytes,
        "recall_at_10": report.recall_at_10,
        "seconds": round(report.seconds, 3),
    }


def _print_report(report: IndexReport, *, verbose: bool) -> None:
    skipped = Counter(skip.reason for skip in report.skipped)
    rows: list[tuple[str, object, str]] = [
        ("files seen", f"{report.seen:,}", str(report.source)),
        ("indexed", f"{report.files:,}", counted(report.chunks, "chunk")),
        (report.action, f"{report.changed:,}", f"{report.removed:,} removed; {report.seconds:.2f} s"),
    ]
    for reason, count in skipped.most_common():
        examples = [skip.path for skip in report.skipped if skip.reason == reason]
        if reason == ENCODING_GUESSED:
            examples = [f"{one.path} ({one.detail})" for one in report.skipped if one.reason == reason]
        what = _INDEXED.get(reason, f"skipped: {reason}")
        rows.append((what, f"{count:,}", ", ".join(examples if verbose else examples[:3])))
    rows.append(("index", megabytes(report.size_bytes), str(report.path)))
    if report.recall_at_10 is not None:
        rows.append(("search", "approximate", f"finds {report.recall_at_10:.1%} of the ten nearest vectors"))
    table("", ("what", "how many", ""), rows)


def _list(settings: Settings) -> None:
    from rag.database.locate import stores
    from rag.database.parts import segment_files, size_on_disk

    found: list[dict[str, Any]] = []
    for path, header in stores(settings.home):
        if isinstance(header, StoreError):
            found.append({"store": str(path), "error": str(header)})
            continue
        fingerprint: Any = header["fingerprint"]
        ref = header["ref"]
        source = Source(str(header["location"]), None if ref is None else str(ref))
        found.append(
            {
                "source": str(source),
                "filters": fingerprint["filters"],
                "embedder": fingerprint["embedder"],
                "commit": header["commit"],
                "built": datetime.fromtimestamp(float(str(header["built"]))).isoformat(" ", "seconds"),
                "size_bytes": size_on_disk(segment_files(path)),
                "store": str(path),
            }
        )
    if wants_json():
        out_json(found)
        return
    rows = [
        (row["store"], "", "", row["error"])
        if "error" in row
        else (_filtered(row), row["built"], megabytes(row["size_bytes"]), (row["commit"] or "")[:10])
        for row in found
    ]
    if not rows:
        say("rag: no indexes yet; create one with `rag index SOURCE`")
        return
    table("", ("source", "built", "size", "commit"), rows)


def _filtered(row: Mapping[str, Any]) -> str:
    """Return the source with its globs, which distinguish several stores of one source."""
    include, exclude = row["filters"]
    globs = [*(f"--include {glob}" for glob in include), *(f"--exclude {glob}" for glob in exclude)]
    return " ".join([row["source"], *globs])
