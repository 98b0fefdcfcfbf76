"""How a model asks for a step: with a tool call, or with a line of text where it has no tools.

Only the model's own reply counts. In a line of text, what the reply quotes from the repository is no request:
lines between fences, lines that begin with ">", and lines that occur in the text the model was shown.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rag.resources import shipped
from rag.types import ToolCall


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it. `parameters` are descriptions by name, "" if `about` says enough; the first
    one is required.

    `line` is an example of the arguments in a line of text. Parameters in `numbers` are line numbers, those
    in `flags` are true or false.
    """

    name: str
    about: str
    parameters: dict[str, str]
    line: str
    numbers: Sequence[str] = ()
    flags: Sequence[str] = ()

    def kind(self, name: str) -> tuple[str, type]:
        """Return the type of a parameter, in JSON's words and in Python."""
        if name in self.numbers:
            return "integer", int
        return ("boolean", bool) if name in self.flags else ("string", str)

    def schema(self) -> dict[str, Any]:
        """Return the tool in the form of the OpenAI protocol."""
        properties = {
            name: {"type": self.kind(name)[0], **({"description": about} if about else {})}
            for name, about in self.parameters.items()
        }
        required = list(self.parameters)[:1]
        parameters = {"type": "object", "properties": properties, "required": required}
        function = {"name": self.name, "description": self.about, "parameters": parameters}
        return {"type": "function", "function": function}


@cache
def tool_specs() -> tuple[ToolSpec, ...]:
    """Return all tools, as `templates/look.toml` describes them."""
    found = tomllib.loads(shipped("templates/look.toml").read_text(encoding="utf-8"))
    return tuple(ToolSpec(name, **one) for name, one in found.items())


@dataclass(frozen=True, slots=True)
class StepRequest:
    """A step that a model asks for. `error` says why it cannot be run, "" if it can.

    `arguments` are checked if there is no error; else they are those of the model, unless they are too long.
    """

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def shown(self) -> str:
        """The arguments on one line: `path:10-40`, or the only one, or `name=value` for each."""
        values = {name: value for name, value in self.arguments.items() if value is not None}
        if "path" in values and "start" in values:
            last = f"-{values['end']}" if "end" in values else ""
            return f"{values['path']}:{values['start']}{last}"
        if len(values) == 1 and not self.error:
            return str(next(iter(values.values())))
        return ", ".join(f"{name}={value}" for name, value in values.items())


_LOOK = re.compile(r"LOOK ([a-z_]{1,40}):[ \t]*(\S.*)")
_ANSWER = re.compile(r"ANSWER\b[ \t]*(?P<numbers>[\d, \t]*)")
_MAX_CHOSEN = 40
_LINES = re.compile(r"(.+?):(\d{1,7})(?:-(\d{1,7}))?")
_MAX_ARGUMENT_CHARS, _MAX_ARGUMENTS_CHARS, _MAX_NAME_CHARS = 1_000, 3_000, 40


def read_text(reply: str, shown: Sequence[str], specs: Sequence[ToolSpec]) -> list[StepRequest]:
    """Return the steps that a reply in text asks for, in order, until `ANSWER`; none means it will answer.

    Args:
        reply: the model's text.
        shown: the repository text that the model was shown; lines of it are not requests.
        specs: the known tools.
    """
    found: list[StepRequest] = []
    fenced = False
    for line in map(str.strip, reply.splitlines()):
        if line.startswith(("```", "~~~")):
            fenced = not fenced
        elif fenced or line.startswith(">"):
            continue
        elif _ANSWER.fullmatch(line):
            break
        elif (match := _LOOK.fullmatch(line)) and not any(line in text for text in shown):
            found.append(_of_line(match[1], match[2].strip(), specs))
    return found


def chosen_sources(reply: str) -> list[int]:
    """Return the numbers after `ANSWER` in a reply in text: the sources to keep; none means all."""
    said = (_ANSWER.fullmatch(line.strip()) for line in reply.splitlines())
    numbers = next((match["numbers"] for match in said if match), "")
    return [int(number) for number in re.findall(r"\d{1,4}", numbers)][:_MAX_CHOSEN]


def _of_line(tool: str, argument: str, specs: Sequence[ToolSpec]) -> StepRequest:
    spec = _spec(tool, specs)
    if spec is None:
        return StepRequest(tool, error=_unknown(specs))
    first = next(iter(spec.parameters))
    if spec.numbers and (lines := _LINES.fullmatch(argument)):
        numbers = zip(spec.numbers, (lines[2], lines[3]), strict=True)
        return _checked(StepRequest(tool, {first: lines[1]} | {n: int(v) for n, v in numbers if v}))
    return _checked(StepRequest(tool, {first: argument}))


def read_call(call: ToolCall, specs: Sequence[ToolSpec]) -> StepRequest:
    """Return the step of a tool call. Its arguments are parsed as JSON, never evaluated."""
    spec = _spec(call.name, specs)
    name = call.name[:_MAX_NAME_CHARS] if spec is None else spec.name
    try:
        values = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return StepRequest(name, error="the arguments are not JSON")
    if not isinstance(values, dict):
        return StepRequest(name, error="the arguments are not an object")
    if len(json.dumps(values, ensure_ascii=False)) > _MAX_ARGUMENTS_CHARS:
        return StepRequest(name, error=f"the arguments are longer than {_MAX_ARGUMENTS_CHARS:,} characters")
    values = {name: value for name, value in values.items() if value is not None}
    return _checked(StepRequest(name, values, _unknown(specs) if spec is None else _wrong(spec, values)))


def _wrong(spec: ToolSpec, values: Mapping[str, Any]) -> str:
    """Return what is wrong with arguments, "" for nothing."""
    if unknown := sorted(set(values) - set(spec.parameters)):
        return (
            f"there is no argument {unknown[0][:_MAX_NAME_CHARS]!r}; there are {', '.join(spec.parameters)}"
        )
    for name, value in values.items():
        said, expected = spec.kind(name)
        if type(value) is not expected:
            return f"{name} is not of type {said}"
    required = next(iter(spec.parameters))
    return "" if str(values.get(required, "")).strip() else f"{required} is missing"


def _checked(request: StepRequest) -> StepRequest:
    if any(isinstance(v, str) and len(v) > _MAX_ARGUMENT_CHARS for v in request.arguments.values()):
        error = f"an argument is longer than {_MAX_ARGUMENT_CHARS:,} characters"
        return StepRequest(request.tool, error=request.error or error)
    return request


def _spec(name: str, specs: Sequence[ToolSpec]) -> ToolSpec | None:
    return next((spec for spec in specs if spec.name == name), None)


def _unknown(specs: Sequence[ToolSpec]) -> str:
    return f"there is no such tool; there are {', '.join(spec.name for spec in specs)}"
