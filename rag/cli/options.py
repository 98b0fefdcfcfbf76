"""The options that several commands share, each defined once, and groups of them.

A command decorated with `grouped` takes a whole group as one parameter:

    @options.grouped
    def chat(source: Source = "", *, index: options.IndexOptions, answering: options.AnswerOptions) -> None:
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from rag.errors import ConfigError
from rag.parsing import parse_age
from rag.types import Filters, SearchFilter

_INDEX = "Index"
_CONVERSATION = "Conversation"
_FILTER = "Filter"


def group(text: str, *, default: str = "") -> typer.Typer:
    """Return a group of commands with this help; without one, the default or else the help is shown."""
    app = typer.Typer(help=text)

    @app.callback(invoke_without_command=True)
    def without_command(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            commands: Any = context.command
            commands.commands[default].callback() if default else typer.echo(context.get_help())

    return app


def age(text: str, option: str) -> timedelta:
    """Return the age that an option has. Raises ConfigError."""
    try:
        return parse_age(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from error


class WordsCommand(TyperCommand):
    """A command of `[SOURCE] QUESTION`, whose usage line says so."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line after the command's name."""
        return [self.options_metavar or "", "[SOURCE] QUESTION"]


def _words(default: str) -> Any:
    """Return the argument of a `WordsCommand` that has this default for its repository."""
    return typer.Argument(
        metavar="[SOURCE] QUESTION",
        help=f"A path, a git URL or a group such as @all, and a question. Default: {default}.",
    )


AskWords = Annotated[
    list[str], _words("the repository of the continued conversation, or the current directory")
]
SearchWords = Annotated[list[str], _words("the current directory")]
CodeWords = Annotated[
    list[str] | None,
    typer.Option(
        "--words",
        help="Say what is asked as the code would, with likely identifiers. "
        "Best are 2 to 4, each in other words. Repeatable.",
    ),
]
Ref = Annotated[str | None, typer.Option("--ref", help="A branch, tag or commit.", rich_help_panel=_INDEX)]
Include = Annotated[
    list[str] | None,
    typer.Option(
        "--include", help="Index only files that match this glob. Repeatable.", rich_help_panel=_INDEX
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude", help="Do not index files that match this glob. Repeatable.", rich_help_panel=_INDEX
    ),
]
Paths = Annotated[
    list[str] | None,
    typer.Option(
        "--path",
        metavar="GLOB",
        help="Search only files that match this glob. Repeatable.",
        rich_help_panel=_FILTER,
    ),
]
Languages = Annotated[
    list[str] | None,
    typer.Option(
        "--lang",
        metavar="NAME",
        help="Search only files in this language: a name or a file extension. Repeatable.",
        rich_help_panel=_FILTER,
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="Search only files of this kind: code, test, doc or config. Repeatable.",
        rich_help_panel=_FILTER,
    ),
]
NoRefresh = Annotated[
    bool,
    typer.Option(
        "--no-refresh",
        help="Use the index without updating it; report how many files have changed since.",
        rich_help_panel=_INDEX,
    ),
]
RepositoryArgument = typer.Argument(help="A path or a git URL. Default: the current directory.")
Repository = Annotated[
    str | None,
    typer.Option(
        "--repo",
        "-r",
        metavar="SOURCE",
        help="The repository: a path or a git URL. Default: that of the current directory.",
    ),
]
Repositories = Annotated[
    list[str] | None,
    typer.Option(
        "--repo",
        "-r",
        help="A repository: a path or a git URL. Repeatable.",
        metavar="SOURCE",
    ),
]
Continue = Annotated[
    bool,
    typer.Option(
        "--continue",
        "-c",
        help="Continue the last conversation about the named repository, else the current folder's.",
        rich_help_panel=_CONVERSATION,
    ),
]
Last = Annotated[
    bool,
    typer.Option(
        "--last",
        help="Continue the last conversation, whatever it is about.",
        rich_help_panel=_CONVERSATION,
    ),
]
Named = Annotated[
    str | None,
    typer.Option(
        "--conversation",
        metavar="NAME",
        help="Continue this conversation, or start it.",
        rich_help_panel=_CONVERSATION,
    ),
]

About = Annotated[
    str | None,
    typer.Option(
        "--about",
        metavar="NAME",
        help='What "it" means in the question: a definition or a file.',
        rich_help_panel=_CONVERSATION,
    ),
]


@dataclass(frozen=True, kw_only=True)
class IndexOptions:
    """Which version and which files of a repository are indexed."""

    ref: Ref = None
    include: Include = None
    exclude: Exclude = None

    @property
    def filters(self) -> Filters:
        """Return the globs of the files."""
        return Filters(tuple(self.include or ()), tuple(self.exclude or ()))


@dataclass(frozen=True, kw_only=True)
class FilterOptions:
    """Which files are searched."""

    path: Paths = None
    lang: Languages = None
    kind: Kinds = None

    @property
    def only(self) -> SearchFilter:
        """Return the filter of the search."""
        kinds: tuple[Any, ...] = tuple(self.kind or ())
        return SearchFilter(tuple(self.path or ()), tuple(self.lang or ()), kinds)


@dataclass(frozen=True, kw_only=True)
class ConversationOptions:
    """Which conversation is continued."""

    go_on: Continue = False
    last: Last = False
    conversation: Named = None
    about: About = None


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Show each parameter that is a dataclass of options as these options on the command line.

    The command is called with the dataclass. Field names must be unique in the command.
    """
    shown: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            shown += _parameters(parameter.annotation)
        else:
            shown.append(parameter)

    @wraps(command)
    def with_groups(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    with_groups.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    with_groups.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return with_groups


def _parameters(group: Any) -> list[inspect.Parameter]:
    """Return the fields of a dataclass as parameters of a function."""
    types = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(field.name, kind, default=field.default, annotation=types[field.name])
        for field in fields(group)
    ]
