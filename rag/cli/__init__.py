"""The command `rag`: a thin layer over the engine.

Only the module of the called command is imported, so that a search does not wait for the web server. Help,
completion and unknown names import all of them.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from rag.cli.settings_options import EPILOG, setting_parameters, use_settings, with_parameters
from rag.cli.terminal import OutputOptions, Program, use_output
from rag.processes import collect_garbage_rarely

_COMMANDS = {
    "ask": ("ask", "ask"),
    "chat": ("chat", "chat"),
    "search": ("search", "search"),
    "setup": ("setup", "setup"),
    "turns": ("turns", "app"),
    "facts": ("facts", "app"),
    "review": ("review", "review"),
    "check": ("check", "check"),
    "wiki": ("wiki", "wiki"),
    "serve": ("serve", "serve"),
    "index": ("index", "index"),
    "explore": ("explore", "explore"),
    "settings": ("settings", "settings"),
    "mcp": ("mcp", "mcp"),
    "agents": ("agents", "app"),
    "doctor": ("doctor", "doctor"),
    "prefer": ("facts", "prefer"),
    "memory": ("memory", "app"),
    "storage": ("storage", "app"),
    "cache": ("cache", "app"),
    "keys": ("keys", "app"),
    "worker": ("worker", "worker"),
    "jobs": ("jobs", "app"),
    "eval": ("evaluate", "evaluate"),
    "admin": ("admin", "app"),
}
"""The commands in the order of the help: the module of each, and its name there."""
UNDER_ADMIN = tuple(_COMMANDS)[10:-1]
"""The commands that `rag admin` lists, not `rag --help`; `rag admin keys` and `rag keys` are the same."""
_PROGRAMS = ("RAG", "RAG_TURNS")
_OVERVIEW = "What is this project?"
"""What `rag .` asks."""
_OF_WORDS = frozenset({"ask", "search", "explore"})


def commands(names: Iterable[str] = _COMMANDS, *, named_only: Iterable[str] = ()) -> typer.Typer:
    """Return the command line with these commands; those that are `named_only` do nothing."""
    names = tuple(names)
    made = typer.Typer(
        name="rag",
        cls=Program,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=EPILOG,
    )
    for name in names:
        module, attribute = _COMMANDS[name]
        command = getattr(import_module(f"rag.cli.{module}"), attribute)
        hidden = name in UNDER_ADMIN
        if isinstance(command, typer.Typer):
            for each in command.registered_commands:
                each.epilog = EPILOG
            made.add_typer(command, name=name, hidden=hidden, epilog=EPILOG)
        elif name in _OF_WORDS:
            from rag.cli.options import WordsCommand

            made.command(name, cls=WordsCommand, epilog=EPILOG)(command)
        else:
            made.command(name, hidden=hidden, epilog=EPILOG)(command)
    for name in named_only:
        made.command(name, hidden=name in UNDER_ADMIN)(_nothing)
    made.callback()(_root())
    return made


def _nothing() -> None:
    """Take the place of a command of which only the name is needed."""


def _completed() -> typer.Typer:
    """Return as much of the command line as the completion that the shell asks for needs.

    Nothing may be written to stderr: it would appear in the line that is being typed.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    name = next((word for word in line.split()[1:] if word in _COMMANDS), None)
    if name is not None:
        return commands([name])
    return commands((), named_only=_COMMANDS) if "COMP_WORDS" in os.environ else commands()


def _version(show: bool) -> None:
    if show:
        from importlib.metadata import version

        typer.echo(f"rag-turns {version('rag-turns')}")
        raise typer.Exit


def _root() -> Callable[..., None]:
    """Return the function of `rag` without a command: it keeps the settings that the options give."""

    def root(
        *,
        version: Annotated[
            bool | None,
            typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
        ] = None,
        json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
        yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
        raw: Annotated[
            bool,
            typer.Option("--raw", help="Keep control characters if the output does not go to a terminal."),
        ] = False,
        **settings: Any,
    ) -> None:
        """Ask questions about any code repository. Answers cite the lines they are based on.

        rag "Where is a token checked?"

        rag .
        """
        use_settings(settings)
        use_output(OutputOptions(json=json, yes=yes, raw=raw))

    return with_parameters(root, setting_parameters())


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'rag.cli' has no attribute {name!r}")
    globals()["app"] = made = commands()
    return made


def is_question(words: Sequence[str]) -> bool:
    """Return whether a command line is a question without a command: a text with a space, alone or after a
    source and its options. Another word is a command, perhaps a misspelt one.
    """
    has_options = words[1:2] and words[1].startswith("-")
    texts = [*words[:1], *(words[-1:] if has_options else words[1:2])]
    has_space = [" " in word.strip() and not word.startswith("-") for word in texts]
    return any(has_space) and (has_space[0] or _is_source(words[0]))


def is_source_alone(words: Sequence[str]) -> bool:
    """Return whether a command line is only a source (`rag .`), perhaps with options and their values."""
    if not words or words[0].startswith("-") or any(not word.startswith("-") for word in words[1:2]):
        return False
    return _is_source(words[0])


def _is_source(word: str) -> bool:
    """Return whether a word is a source: a place, or the name of a folder here that is no command's."""
    if word in _COMMANDS:
        return False
    from rag.cli.ask import is_place
    from rag.resources import is_folder

    return is_place(word) or is_folder(word)


def with_command(words: Sequence[str]) -> list[str]:
    """Return a command line with its command: `rag "QUESTION"` and `rag .` ask."""
    first = next((n for n, word in enumerate(words) if word not in ("--json", "--yes", "-y")), 0)
    words = [*words[first:], *words[:first]]
    if is_question(words):
        return ["ask", *words]
    return ["ask", words[0], _OVERVIEW, *words[1:]] if is_source_alone(words) else list(words)


def main() -> None:
    """Run the command line. Characters that cannot be decoded or shown become `?`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
        elif stream is None:  # the parent closed it; the next opened file must not get its number
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    collect_garbage_rarely()
    if any(os.environ.get(f"_{program}_COMPLETE", "").startswith("complete_") for program in _PROGRAMS):
        _completed()()
    sys.argv[1:] = with_command(sys.argv[1:])
    first = sys.argv[1:2]
    if not _OF_WORDS.isdisjoint(first):
        # One question needs no threads for products of matrices; numpy starts them when it is imported.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        named = [name for name in first if name in _COMMANDS]
        commands(named if named or first == ["--version"] else _COMMANDS)()
    except KeyboardInterrupt:  # before the command started
        raise SystemExit(130) from None
