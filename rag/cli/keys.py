"""`rag keys`: the API keys of a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.settings_options import settings_from
from rag.cli.terminal import listing, result, say, wants_json
from rag.errors import BackendMissing, ConfigError, SettingsError
from rag.parsing import parse_expiry
from rag.quoting import counted
from rag.types import now_utc

if TYPE_CHECKING:
    from rag.serve.access.keys import Key, KeyRecords

app = typer.Typer(help="Add, list, renew, replace and remove the API keys of a server.", no_args_is_help=True)

_NEVER = "never"

KeyName = Annotated[str, typer.Argument(metavar="NAME", help="The name of a key.")]


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the new key.")],
    *,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", metavar="NAME", help="The namespace of its conversations. Default: its own."
        ),
    ] = None,
    project: Annotated[
        str, typer.Option("--project", metavar="NAME", help="A project whose facts it reads.")
    ] = "",
    team: Annotated[str, typer.Option("--team", metavar="NAME", help="A team whose facts it reads.")] = "",
    writes: Annotated[
        str | None,
        typer.Option(
            "--writes",
            metavar="SCOPE",
            help="Where it adds facts: user, project or team. Default: the team, else the project, else the "
            "user.",
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires",
            metavar="WHEN",
            help="When it expires: after 30d, 12h or 1y, or at the end of a day such as 2027-01-31 (UTC). "
            "Default: never.",
        ),
    ] = None,
) -> None:
    """Create a key, and print it once. Only its hash is stored.

    rag keys add alice --expires 90d

    rag keys add ci --project shop --team backend --expires 2027-01-31
    """
    with _keys() as keys:
        from rag.serve.access.key_changes import new_key
        from rag.serve.access.keys import sharing

        try:
            shared = sharing(project, team, writes)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        key = new_key(keys, name, namespace, shared, _expiry(expires))
        result({"name": name, "key": key}, key)
        if not wants_json():
            say("rag: only its hash is stored; send it as `Authorization: Bearer`")


@app.command("list")
def list_keys() -> None:
    """List the keys: whose they are, and when they expire. The keys themselves are not stored.

    rag keys list
    """
    with _keys() as keys:
        found, now = keys.read(), now_utc()
        rows = [
            (one.name, one.namespace or "(default)", one.sharing.project, one.sharing.team, _until(one, now))
            for one in found.keys
        ]
        columns = ("key", "namespace", "project", "team", "expires")
        empty = "there are no keys; add one with `rag keys add NAME`"
        if rows or not found.damaged or wants_json():
            listing([_as_json(key, now) for key in found.keys], columns, rows, empty)
        if found.damaged:
            raise SettingsError("; ".join(found.damaged))


@app.command()
def renew(
    name: KeyName,
    *,
    expires: Annotated[
        str, typer.Option("--expires", metavar="WHEN", help="As for `rag keys add`; or never.")
    ],
) -> None:
    """Change when a key expires. The key itself stays the same.

    rag keys renew alice --expires 90d
    """
    with _keys() as keys:
        from rag.serve.access.key_changes import renew_key

        until = None if expires == _NEVER else _expiry(expires)
        renew_key(keys, name, until)
        result(
            {"name": name, "expires": until and until.isoformat()}, f"the key {name} expires: {_time(until)}"
        )


@app.command()
def rotate(
    name: KeyName,
    *,
    overlap: Annotated[
        str | None,
        typer.Option(
            "--overlap", metavar="AGE", help="Accept the previous key for this long too, such as 7d."
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="WHEN", help="As for `rag keys add`. Default: as before."),
    ] = None,
) -> None:
    """Replace a key by a new one with the same name and rights, and print it once.

    rag keys rotate ci --overlap 7d --expires 90d
    """
    with _keys() as keys:
        from rag.serve.access.key_changes import rotate_key

        until = None if overlap is None else now_utc() + options.age(overlap, "--overlap")
        key = rotate_key(keys, name, previous_until=until, expires=_expiry(expires))
        result({"name": name, "key": key, "previous_until": until and until.isoformat()}, key)
        if not wants_json():
            state = "refused from now on" if until is None else f"accepted until {_time(until)}"
            say(f"rag: the previous key is {state}")


@app.command()
def remove(name: KeyName) -> None:
    """Remove a key. Conversations and facts of its namespace stay.

    rag keys remove alice
    """
    with _keys() as keys:
        from rag.serve.access.key_changes import remove_key

        remove_key(keys, name)
        result({"name": name, "removed": True}, f"the key {name} is removed")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A keys.toml of version 0.2.")],
) -> None:
    """Add the keys of a file of version 0.2. The file is renamed to FILE.imported.

    rag keys import ~/.local/share/rag/keys.toml
    """
    with _keys(importing=True) as keys:
        from rag.serve.access.key_changes import import_keys

        found = import_keys(keys, file)
        result({"imported": found}, f"imported {counted(len(found), 'key')}: {', '.join(found)}")


@contextmanager
def _keys(*, importing: bool = False) -> Iterator[KeyRecords]:
    """Open the keys in the turn store of the servers."""
    try:
        from rag.serve.config import opened_keys, with_shared_memory
    except ImportError as error:
        raise BackendMissing(backend="rag keys", missing=str(error.name), extra="server") from error
    settings = settings_from()
    if with_shared_memory(settings).memory.startswith("memory:"):
        raise ConfigError(
            "the turn store memory: ends with its process, so it has no keys; name another with --memory"
        )
    with opened_keys(settings, importing=importing) as keys:
        yield keys


def _until(key: Key, now: datetime) -> str:
    has_expired = key.expires is not None and key.expires <= now
    return f"{_time(key.expires)}{' (expired)' if has_expired else ''}"


def _time(expires: datetime | None) -> str:
    return _NEVER if expires is None else f"{expires.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _expiry(text: str | None) -> datetime | None:
    try:
        return None if text is None else parse_expiry(text, now_utc())
    except ValueError as error:
        raise ConfigError(f"--expires: {error}") from error


def _as_json(key: Key, now: datetime) -> dict[str, Any]:
    return {
        "name": key.name,
        "namespace": key.namespace,
        "project": key.sharing.project,
        "team": key.sharing.team,
        "writes": key.sharing.writes,
        "expires": key.expires and key.expires.isoformat(),
        "expired": key.expires is not None and key.expires <= now,
    }
