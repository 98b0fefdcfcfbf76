"""The command `rag`: thin doors onto the engine.

A command is imported when it is called by its name: a search need not wait for the web server. Everything
else (help, a mistyped name, completion) sees all of them.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any

import typer

_COMMANDS = {
    "ask": ("ask", "ask"),
    "chat": ("chat", "chat"),
    "search": ("search", "search"),
    "index": ("index", "index"),
    "wiki": ("wiki", "wiki"),
    "turns": ("turns", "app"),
    "facts": ("facts", "app"),
    "prefer": ("facts", "prefer"),
    "memory": ("memory", "app"),
    "cache": ("cache", "app"),
    "eval": ("evaluate", "evaluate"),
    "serve": ("serve", "serve"),
    "mcp": ("mcp", "mcp"),
    "doctor": ("doctor", "doctor"),
}
"""The commands in the order of the help: the module of each, and what it is called there."""
_GC_THRESHOLDS = (100_000, 50, 100)
"""How often garbage is looked for: at Python's own rate, a tenth of a search's time goes into looking through
what was just imported."""
_OF_WORDS = frozenset({"ask", "search"})


def commands(names: Iterable[str] = _COMMANDS) -> typer.Typer:
    """The command line with these commands."""
    made = typer.Typer(
        name="rag",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name in names:
        module, attribute = _COMMANDS[name]
        command = getattr(import_module(f"rag.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            made.add_typer(command, name=name)
        elif name in _OF_WORDS:
            from rag.cli.options import WordsCommand

            made.command(name, cls=WordsCommand)(command)
        else:
            made.command(name)(command)
    made.callback()(_root)
    return made


def _version(show: bool) -> None:
    if show:
        from importlib.metadata import version

        typer.echo(f"rag-turns {version('rag-turns')}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool | None, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = None,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Keep control characters where the output does not go to a terminal."),
    ] = False,
) -> None:
    """Ask any code repository, and go on asking. Answers cite the lines they rest on."""
    from rag.cli.terminal import write_raw

    write_raw(raw)


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'rag.cli' has no attribute {name!r}")
    globals()["app"] = made = commands()
    return made


def main() -> None:
    """Run the command line. What a terminal cannot show, or was no text when it was typed, becomes `?`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
        elif stream is None:  # who started us closed it; the next file to be opened must not take its place
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    gc.set_threshold(*_GC_THRESHOLDS)
    first = sys.argv[1:2]
    try:
        commands(first if first and first[0] in _COMMANDS else _COMMANDS)()
    except KeyboardInterrupt:  # before the command began
        raise SystemExit(130) from None
