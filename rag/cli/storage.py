"""`rag storage`: the disk space of the data folder, and the removal of indexes and clones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli import options
from rag.cli.memory import last_applied
from rag.cli.settings_options import settings_from
from rag.cli.terminal import (
    agrees,
    confirm,
    listing,
    megabytes,
    opened_engine,
    out,
    out_json,
    result,
    say,
    wants_json,
)
from rag.errors import ConfigError
from rag.parsing import age_text, parse_age, parse_size
from rag.quoting import counted, visible
from rag.schema import to_json
from rag.types import now_utc

if TYPE_CHECKING:
    from rag.service.repositories.storage import DataFolder, StorageItem
    from rag.settings import Settings

app = options.group("Show what uses disk space, and remove indexes and clones.", default="show")


@app.command()
def show() -> None:
    """Show what the data folder holds, the largest first, with the time of last use.

    rag storage show

    rag storage show --json
    """
    from rag.service.repositories.storage import storage
    from rag.service.upkeep.namespace_retention import policies
    from rag.service.upkeep.namespaces import held_in_turns

    settings = settings_from()
    found = storage(settings)
    if not settings.memory and not any(one.kind == "turns" for one in found.items):
        settings = replace(settings, memory="memory:")  # opening the store would create it
    with opened_engine(settings) as engine:
        held = held_in_turns(engine.turns, engine.turns.namespaces())
        kept_for = {one.namespace: one for one in policies(engine.turns)}
    retention = {name: one.age.total_seconds() for name, one in kept_for.items()}
    values = {**to_json(found), "held_in_turns": held, "retention_s": retention}
    rows = [
        (one.kind, one.name, megabytes(one.size_bytes), f"{one.used.astimezone():%F}", _how(one))
        for one in found.items
    ]
    empty = f"nothing is stored yet in {found.home}"
    listing(values, ("what", "name", "size", "last used", "remove with"), rows, empty)
    if wants_json() or not rows:
        return
    kept = ", ".join(f"{name} {megabytes(size)}" for name, size in held.items() if size)
    say(f"rag: {megabytes(found.size_bytes)} in {found.home}; {_cap(found)}")
    say(f"rag: in the turn store: {kept or 'nothing but turns'}")
    for namespace, one in kept_for.items():
        named = visible(namespace) or "(default)"
        say(f"rag: retention of {named}: {age_text(one.age)}, last applied: {last_applied(one)}")


@app.command()
def prune(
    name: Annotated[
        str | None,
        typer.Argument(help="A repository, or a name that `rag storage` shows.", metavar="NAME"),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="AGE", help="Remove what was not used for this long, such as 30d."
        ),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            "--max-size",
            metavar="SIZE",
            help="Remove the least recently used data until the folder has at most this size, such as 5GB.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
) -> None:
    """Remove indexes and clones, which can be built again. Turns and facts are never removed.

    rag storage prune --older-than 30d --dry-run

    rag storage prune --max-size 5GB --yes

    rag storage prune https://example.org/team/app.git
    """
    from rag.service.repositories.storage import prune as remove
    from rag.service.repositories.storage import storage

    settings = settings_from()
    chosen = _chosen(storage(settings), name, older_than, max_size)
    if not wants_json() or not agrees():
        _announce(chosen)
    removed: list[StorageItem] = []
    if chosen and not dry_run:
        confirm(f"remove {counted(len(chosen), 'item')}?", always_ask=True)
        removed = remove(settings, chosen)
    freed = sum(one.size_bytes for one in removed)
    if wants_json():
        planned = [to_json(one) for one in chosen]
        gone = [to_json(one) for one in removed]
        out_json({"chosen": planned, "removed": gone, "freed_bytes": freed})
    elif not dry_run:
        out(f"removed {counted(len(removed), 'item')}, {megabytes(freed)}")
    if len(removed) < len(chosen) and not dry_run:
        say(f"rag: {counted(len(chosen) - len(removed), 'item')} stayed, as another process uses it")


@app.command()
def shared(
    remove: Annotated[
        str | None, typer.Option("--remove", metavar="KEY", help="Publish this index no longer.")
    ] = None,
    collect: Annotated[
        bool,
        typer.Option(
            "--collect", help="Remove the files that no published index has had for more than a day."
        ),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Read all published files; remove those that are damaged, to be published again."
        ),
    ] = False,
) -> None:
    """Show the indexes that are shared with other machines (RAG_STORES), or remove some.

    rag storage shared

    rag storage shared --remove app-0f3c2b1a49e58d7760cc1ad28e4b9f35 --collect
    """
    from rag.service.repositories.shared_stores import remove_shared, shared_indexes

    settings = settings_from()
    if verify:
        _verify(settings)
        return
    if remove is not None or collect:
        what = " and ".join([*([visible(remove)] if remove else []), *(["unused files"] if collect else [])])
        confirm(f"remove {what} for all machines?", always_ask=True)
        done = remove_shared(settings, remove, collect=collect)
        result(done._asdict(), f"removed {counted(done.objects, 'file')}, {megabytes(done.size_bytes)}")
        return
    name, found = shared_indexes(settings)
    values = {"shelf": name, "indexes": [to_json(one) for one in found]}
    rows = [
        (
            one.key,
            visible(one.error or " ".join(filter(None, (one.source, one.ref)))),
            (one.commit or "")[:10],
            megabytes(one.size_bytes),
            f"{one.published.astimezone():%F %H:%M}" if one.published else "",
        )
        for one in found
    ]
    listing(values, ("key", "source", "commit", "size", "published"), rows)
    if not wants_json():
        say(f"rag: {counted(len(found), 'shared index')} at {name}")


def _verify(settings: Settings) -> None:
    """Verify the shared indexes. Exits with 1 if a file is damaged."""
    from rag.service.repositories.shared_stores import verify_shared

    confirm("read all published files, and remove damaged ones for all machines?", always_ask=True)
    found = verify_shared(settings)
    if wants_json():
        named = [{"key": key, "file": file} for key, file in found.damaged]
        out_json({"files": found.files, "size_bytes": found.size_bytes, "damaged": named})
    else:
        for key, file in found.damaged:
            out(f"{visible(key)}: {visible(file)} is damaged or missing")
        out(f"read {counted(found.files, 'file')}, {megabytes(found.size_bytes)}")
    if found.damaged:
        say("rag: publish these indexes again: `rag index SOURCE --publish`")
        raise typer.Exit(1)


def _chosen(
    found: DataFolder, name: str | None, older_than: str | None, max_size: str | None
) -> list[StorageItem]:
    from rag.service.repositories.storage import beyond, named_items, unused_since

    if sum(one is not None for one in (name, older_than, max_size)) != 1:
        raise ConfigError("say what to remove: a NAME, --older-than AGE or --max-size SIZE")
    try:
        if older_than is not None:
            return unused_since(found, now_utc() - parse_age(older_than))
        if max_size is not None:
            return beyond(found, parse_size(max_size), now_utc())
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return named_items(found, name or "")


def _announce(chosen: list[StorageItem]) -> None:
    for one in chosen:
        used = f"last used {one.used.astimezone():%F}"
        say(f"rag: {one.kind} of {visible(one.name)}, {megabytes(one.size_bytes)}, {used}")
    if not chosen:
        say("rag: there is nothing to remove")


def _how(one: StorageItem) -> str:
    return f"rag storage prune {one.name}" if one.removable else one.remove_with


def _cap(found: DataFolder) -> str:
    if found.cap_bytes is None:
        return "no limit is set (RAG_STORAGE_CAP)"
    return f"the limit is {megabytes(found.cap_bytes)} (RAG_STORAGE_CAP)"
