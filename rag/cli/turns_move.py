"""`rag turns export`, `import`, `copy`, `backup`, `restore`: conversations between files and stores."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.selectors import Of, named
from rag.cli.terminal import (
    counted,
    errors_as_exit_codes,
    json_text,
    megabytes,
    opened_engine,
    out,
    out_json,
    say,
    settings_from,
)
from rag.errors import ConfigError
from rag.parsing import parse_json

if TYPE_CHECKING:
    from rag.types import Backup

Url = Annotated[str, typer.Argument(help="A store, as in --memory.", show_default=False)]


def export(
    conversation: Of = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All conversations, and the records beside them.")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file instead of stdout.")] = None,
    memory: options.Memory = None,
) -> None:
    """Write conversations as JSON lines: first the conversations, then each turn and message.

    Versions, marks and forks are in it; `rag turns import` reads it back.

    rag turns export --all -o turns.jsonl
    """
    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        only = None if everything else [named(engine, conversation).id]
        dumped = engine.turns.dump(namespace=engine.settings.namespace, conversations=only)
        lines = list(map(_line, dumped))
        text = "".join(lines)
        if output is None:
            out(text, end="")
            return
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot write {output}: {error.strerror}; choose another file") from error
        say(f"rag: wrote {counted(len(lines), 'line')} to {output}")


def import_(
    source: Annotated[
        Path, typer.Argument(help="A file that `export` wrote; `-` reads stdin.", metavar="FILE")
    ],
    json: options.Json = False,
    memory: options.Memory = None,
) -> None:
    """Read conversations from JSON lines. What is there already stays as it is there.

    rag turns import turns.jsonl
    """
    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        try:
            new = engine.turns.restore(_lines(source), namespace=engine.settings.namespace)
        except ValueError as error:
            raise ConfigError(f"cannot read {source}: {error}; nothing was stored") from error
        if json:
            out_json({"conversations": new})
        else:
            out(f"stored {counted(new, 'conversation')}")


def copy(
    source: Url,
    target: Url,
    json: options.Json = False,
) -> None:
    """Copy everything from one store to another, of all namespaces. What is there already stays.

    rag turns copy sqlite:///turns.db sqlite:///archive.db
    """
    settings = settings_from()
    with errors_as_exit_codes():
        _must_exist(source)
        with (
            opened_engine(replace(settings, memory=source)) as from_,
            opened_engine(replace(settings, memory=target)) as to,
        ):
            new = 0
            for namespace in from_.turns.namespaces():
                new += to.turns.restore(from_.turns.dump(namespace=namespace), namespace=namespace)
                say(f"rag: copied {namespace or 'the namespace without a name'}")
            if json:
                out_json({"conversations": new})
            else:
                out(f"copied {counted(new, 'conversation')}")


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write.", metavar="FILE")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
    json: options.Json = False,
    memory: options.Memory = None,
) -> None:
    """Write everything that the memory keeps, of all namespaces, to one file, and verify it.

    Works while others write. The file can be restored into any memory, also of another kind.

    rag turns backup turns-backup.db
    """
    from rag.service.backup import back_up

    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        held = back_up(engine, file, force=force)
        if json:
            out_json({"file": str(file), **_held(held)})
        else:
            out(f"backed up {_in_words(held)} to {file} ({megabytes(file.stat().st_size)})")


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `backup` wrote.", metavar="FILE")],
    json: options.Json = False,
    memory: options.Memory = None,
) -> None:
    """Restore what a backup holds. What is there already stays as it is there.

    A damaged backup, or one of a newer version, is refused before anything is restored.

    rag turns restore turns-backup.db
    """
    from rag.service.backup import restore_backup

    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        held, new = restore_backup(engine, file)
        if json:
            out_json({"file": str(file), **_held(held), "new_conversations": new})
        else:
            made = held.made.astimezone().strftime("%Y-%m-%d %H:%M")
            out(f"restored {file} of {made}: {_in_words(held)}; {counted(new, 'conversation')} new here")


def _held(held: Backup) -> dict[str, Any]:
    return {**held._asdict(), "made": held.made.isoformat()}


def _in_words(held: Backup) -> str:
    return (
        f"{counted(held.conversations, 'conversation')}, {counted(held.turns, 'turn')}, "
        f"{counted(held.messages, 'message')} and {counted(held.records, 'record')}"
    )


def _must_exist(source: str) -> None:
    """What is copied from is not made: a mistyped file would be copied as an empty store."""
    scheme, _, path = source.partition(":///")
    if scheme == "sqlite" and path and not (file := Path(path).expanduser().absolute()).is_file():
        raise ConfigError(f"there is no file {file} to copy from")


def _line(line: dict[str, Any]) -> str:
    text = json_text(line)
    try:
        text.encode()
    except UnicodeEncodeError:  # the name of a file whose bytes are no text
        text = json_module.dumps(line)
    return text + "\n"


def _lines(source: Path) -> Iterator[dict[str, Any]]:
    try:
        text = sys.stdin.read() if str(source) == "-" else source.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {source}: {error.strerror}") from error
    return (parse_json(line) for line in text.split("\n") if line.strip())
