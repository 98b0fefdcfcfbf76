"""The settings as options of `rag` itself, derived from the fields of `Settings`.

`rag ask . "…" --model NAME` is read as `rag --model NAME ask . "…"`: each setting is one option that may
follow any command, and a new field of `Settings` is an option at once.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup, TyperOption

from rag.settings import NOT_SETTINGS, Settings, load_settings

EPILOG = (
    "Every command that prints a result takes `--json`, one that asks takes `--yes`. Settings are options "
    "too, such as `--model NAME`; `rag admin settings` lists them."
)
_NOT_OPTIONS = frozenset(
    {
        *("api_key", "embedding_api_key", "git_token"),  # a command line is visible to other users
        *("api_key_variable", "groups", *NOT_SETTINGS),
        *("namespace", "project", "team", "scope"),  # commands have options of these names
    }
)
_given: dict[str, Any] = {}


class SettingsGroup(TyperGroup):
    """The command `rag`, which takes its options anywhere on the line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of `rag` wherever they are, then the command and its own."""
        own, others = split_options(self.params, args)
        return super().parse_args(ctx, [*own, *others])


def split_options(params: Sequence[Any], args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return these options with their values, wherever they are before `--`, and the other arguments.

    Raises:
        BadParameter: the value of the last option is missing.
    """
    known = [param for param in params if isinstance(param, TyperOption) and not param.is_eager]
    switches = {name for param in known if param.is_flag for name in (*param.opts, *param.secondary_opts)}
    valued = {name for param in known if not param.is_flag for name in param.opts}
    own: list[str] = []
    others: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            return own, [*others, word, *words]
        name, has_value, _ = word.partition("=")
        if word in switches or (has_value and name in valued):
            own.append(word)
        elif word in valued:
            value = next(words, None)
            if value is None:
                raise typer.BadParameter("it needs a value", param_hint=word)
            own += [word, value]
        else:
            others.append(word)
    return own, others


def setting_parameters() -> list[inspect.Parameter]:
    """Return a parameter for each setting that is an option. `rag settings` describes them, not the help.

    Values are texts, which `load_settings` converts, as those of variables.
    """
    kinds = {each.name: str(each.type) for each in fields(Settings) if is_option(each.name)}
    return [
        option_parameter(
            name, "bool" if kind.startswith("bool") else "str", f"--{name.replace('_', '-')}", hidden=True
        )
        for name, kind in kinds.items()
    ]


def option_parameter(name: str, kind: str, option: str, **shown: Any) -> inspect.Parameter:
    """Return a field of this type as an optional parameter of a command; None is not given."""
    if kind.startswith("bool"):
        annotation: Any = Annotated[bool | None, typer.Option(f"{option}/--no-{option[2:]}", **shown)]
    elif kind.startswith("tuple"):
        annotation = Annotated[list[str] | None, typer.Option(option, **shown)]
    elif kind == "int":
        annotation = Annotated[int | None, typer.Option(option, **shown)]
    else:
        annotation = Annotated[str | None, typer.Option(option, **shown)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def with_parameters(
    command: Callable[..., None], derived: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """Return a command that takes `**values`, with these parameters for them."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    shown = [*(one for one in own if one.kind is not one.VAR_KEYWORD), *derived]
    command.__annotations__ = {one.name: one.annotation for one in shown}
    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return command


def is_option(name: str) -> bool:
    """Return whether a setting is an option of the command line."""
    return name not in _NOT_OPTIONS


def use_settings(values: Mapping[str, Any]) -> None:
    """Set the settings that the options of this command line give; None is not given."""
    global _given
    _given = {name: value for name, value in values.items() if value is not None}


def settings_from(**flags: Any) -> Settings:
    """Return the settings of this run. `flags` override the command line; None is not set."""
    return load_settings({**_given, **{name: value for name, value in flags.items() if value is not None}})


@cache
def field_texts(kind: type[Any]) -> dict[str, str]:
    """Return the text below each field of a dataclass, on one line; "" where there is none."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    texts = {}
    for statement, below in zip(definition.body, [*definition.body[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            value = below.value if isinstance(below, ast.Expr) else None
            text = value.value if isinstance(value, ast.Constant) else ""
            texts[statement.target.id] = " ".join(str(text).split())
    return texts
