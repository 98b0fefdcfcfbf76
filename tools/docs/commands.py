"""The command line as Markdown, from the Typer app."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import typer.main

from rag.cli import app
from tools.docs.fields import table


def command_reference() -> str:
    """Every command with its usage, examples, arguments and options."""
    return "\n\n".join(_section(name, command) for name, command in commands())


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its words (`ask`, `turns show`), in the order of the help."""
    root: Any = typer.main.get_command(app)
    for name, command in root.commands.items():
        yield name, command
        for inner, one in getattr(command, "commands", {}).items():
            yield f"{name} {inner}", one


def _section(name: str, command: Any) -> str:
    level = "##" if " " not in name else "###"
    parts = [f"{level} `rag {name}`"]
    words, examples = _help(command)
    parts += words
    if not hasattr(command, "commands"):
        context = command.make_context(f"rag {name}", [], resilient_parsing=True)
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        parts.append(f"```text\n{usage}\n```")
    if examples:
        parts.append("```sh\n" + "\n".join(examples) + "\n```")
    for panel, rows in _panels(command).items():
        parts.append(table((panel, "Meaning"), rows))
    return "\n\n".join(parts)


def _help(command: Any) -> tuple[list[str], list[str]]:
    """The paragraphs of a command's help, and its examples."""
    paragraphs = [" ".join(each.split()) for each in re.split(r"\n\s*\n", command.help or "")]
    examples = [each for each in paragraphs if each.startswith("rag ")]
    return [_escaped(each) for each in paragraphs if each and each not in examples], examples


def _panels(command: Any) -> dict[str, list[tuple[str, ...]]]:
    """The rows of a command's arguments and options under the headings that its help gives them."""
    found: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    kinds = get_type_hints(command.callback) if command.callback else {}
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        is_argument = parameter.param_type_name == "argument"
        panel = getattr(parameter, "rich_help_panel", None) or ("Argument" if is_argument else "Option")
        found[panel].append((_written(parameter, kinds.get(parameter.name)), _meaning(parameter)))
    return dict(found)


def _written(parameter: Any, kind: Any) -> str:
    """A parameter as it is typed."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    return names if parameter.is_flag else f"{names} `{parameter.metavar or _placeholder(kind)}`"


def _placeholder(kind: Any) -> str:
    """The placeholder of an option's value: its choices, or a word for its type."""
    kinds = [each for each in get_args(kind) if each is not type(None)] or [kind]
    if issubclass(get_origin(kinds[0]) or kinds[0], list):
        kinds = list(get_args(kinds[0])) or [str]
    if issubclass(kinds[0], Enum):
        return "|".join(str(each.value) for each in kinds[0])
    return {int: "N", float: "N", Path: "PATH"}.get(kinds[0], "TEXT")


def _meaning(parameter: Any) -> str:
    text = _escaped(parameter.help or "")
    default = parameter.default
    is_shown = isinstance(default, int | float | str) and not isinstance(default, bool) and default != ""
    return f"{text} Default: `{default}`." if is_shown else text


def _escaped(text: str) -> str:
    """Help text as Markdown: what looks like a tag stays text."""
    return text.replace("<", "&lt;")
