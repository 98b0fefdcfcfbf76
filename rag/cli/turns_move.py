"""`rag turns export`, `import`, `copy`: conversations between files and stores, without loss."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rag.cli import options
from rag.cli.chosen import Of, named
from rag.cli.terminal import (
    counted,
    errors_as_exit_codes,
    json_text,
    opened_engine,
    out,
    out_json,
    say,
    settings_from,
)
from rag.errors import ConfigError

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
        except (ValueError, RecursionError) as error:
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
    return (json_module.loads(line) for line in text.split("\n") if line.strip())
