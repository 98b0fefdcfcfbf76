"""The parameters of OpenAI's requests: which are sent to the model, done here, without effect, or refused.

A refused parameter is accepted with the value that asks for nothing. Parameters that have no effect, among
them those that OpenAI does not have, are named in `rag.ignored` of the reply. `tools` has none: a model may
answer without calling one, unless `tool_choice` says that it must, which is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, ValidationError

from rag.serve.errors import BadRequest
from rag.types import GenerationOptions

Handling = Literal["sent to the model", "done here", "no effect", "refused"]

_SENT: Handling = "sent to the model"
_DONE: Handling = "done here"
_NO_EFFECT: Handling = "no effect"
_REFUSED: Handling = "refused"

_COMMON: dict[str, Handling] = {
    "model": _DONE,
    "temperature": _SENT,
    "top_p": _SENT,
    "metadata": _DONE,
    "store": _DONE,
    "stream": _DONE,
    "stream_options": _DONE,
    "tools": _NO_EFFECT,
    "tool_choice": _REFUSED,
    "top_logprobs": _REFUSED,
    "moderation": _REFUSED,
    "parallel_tool_calls": _NO_EFFECT,
    "prompt_cache_key": _NO_EFFECT,
    "prompt_cache_options": _NO_EFFECT,
    "prompt_cache_retention": _NO_EFFECT,
    "safety_identifier": _NO_EFFECT,
    "service_tier": _NO_EFFECT,
    "user": _NO_EFFECT,
}
CHAT: Mapping[str, Handling] = {
    **_COMMON,
    "messages": _DONE,
    "max_completion_tokens": _DONE,
    "max_tokens": _DONE,
    "stop": _DONE,
    "frequency_penalty": _SENT,
    "presence_penalty": _SENT,
    "logit_bias": _SENT,
    "prediction": _SENT,
    "reasoning_effort": _SENT,
    "response_format": _SENT,
    "seed": _SENT,
    "verbosity": _SENT,
    "audio": _REFUSED,
    "function_call": _REFUSED,
    "functions": _NO_EFFECT,
    "logprobs": _REFUSED,
    "modalities": _REFUSED,
    "n": _REFUSED,
    "web_search_options": _REFUSED,
}
"""How each parameter of chat completions is handled."""
RESPONSES: Mapping[str, Handling] = {
    **_COMMON,
    "conversation": _DONE,
    "input": _DONE,
    "instructions": _DONE,
    "max_output_tokens": _DONE,
    "previous_response_id": _DONE,
    "reasoning": _SENT,
    "text": _SENT,
    "background_options": _NO_EFFECT,
    "include": _NO_EFFECT,
    "max_tool_calls": _NO_EFFECT,
    "truncation": _NO_EFFECT,
    "access_programs": _REFUSED,
    "background": _REFUSED,
    "context_management": _REFUSED,
    "image": _REFUSED,
    "prompt": _REFUSED,
}
"""How each parameter of responses is handled."""
_EXTENSIONS = frozenset("top_k min_p repeat_penalty repetition_penalty chat_template_kwargs".split())
"""Parameters of llama.cpp, vLLM and Ollama, which are sent to the model."""
_ASKS_NOTHING: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "modalities": (["text"],),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "background": (False,),
}
"""The values with which a refused parameter is accepted; null is accepted for each."""
_WHY = {
    "n": "one answer is generated for each request",
    "tool_choice": "answers are written from the repository, and call no tools of the client",
    "function_call": "answers are written from the repository, and call no functions of the client",
}
_JSON_TYPES = ("json_object", "json_schema")

_Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_Tokens = Annotated[StrictInt, Field(ge=1, le=10_000_000)]
_MetadataKey = Annotated[str, Field(max_length=64)]
_MetadataValue = Annotated[str, Field(max_length=512)]
_StopText = Annotated[str, Field(min_length=1, max_length=500)]


class _Format(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["text", "json_object", "json_schema"]


class _Reasoning(BaseModel):
    model_config = ConfigDict(extra="allow")
    effort: str | None = None


class _TextFormat(BaseModel):
    model_config = ConfigDict(extra="allow")
    format: _Format | None = None
    verbosity: str | None = None


class _Checked(BaseModel):
    """The parameters whose values are checked here; the model's server checks the others."""

    model_config = ConfigDict(extra="allow")
    temperature: Annotated[_Number, Field(ge=0, le=2)] | None = None
    top_p: Annotated[_Number, Field(ge=0, le=1)] | None = None
    presence_penalty: Annotated[_Number, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[_Number, Field(ge=-2, le=2)] | None = None
    seed: StrictInt | None = None
    max_tokens: _Tokens | None = None
    max_completion_tokens: _Tokens | None = None
    max_output_tokens: _Tokens | None = None
    stop: _StopText | Annotated[list[_StopText], Field(max_length=16)] | None = None
    store: StrictBool | None = None
    metadata: Annotated[dict[_MetadataKey, _MetadataValue], Field(max_length=16)] | None = None
    response_format: _Format | None = None
    text: _TextFormat | None = None
    reasoning: _Reasoning | None = None


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a request asks for besides its question.

    Attributes:
        options: what is asked of the model.
        store: whether the turn is stored; None if the request does not say.
        metadata: stored with the turn.
        ignored: the names of the parameters that have no effect, ascending.
    """

    options: GenerationOptions
    store: bool | None
    metadata: Mapping[str, str]
    ignored: tuple[str, ...]


def read_parameters(
    given: Mapping[str, Any], handling: Mapping[str, Handling], *, instructions: str, has_model: bool
) -> Parameters:
    """Read the parameters of a request.

    Args:
        given: the parameters as sent, without those that the route reads itself.
        handling: `CHAT` or `RESPONSES`.
        instructions: the text of the request's system messages.
        has_model: whether there is a model to which parameters can be sent.

    Raises:
        BadRequest: a value is invalid, or asks for something that is not supported; `param` names it.
    """
    given = {name: value for name, value in given.items() if value is not None}
    for name, value in given.items():
        if handling.get(name) == _REFUSED and value not in _ASKS_NOTHING.get(name, ()):
            why = _WHY.get(name, "leave it out")
            raise BadRequest(f"`{name}` is not supported: {why}", param=name)
    checked = _checked(given)
    is_json = _is_json(checked)
    if is_json and not has_model:
        name = "response_format" if handling is CHAT else "text"
        raise BadRequest(
            f"`{name}` needs a language model, and none is configured: answers are quoted lines", param=name
        )
    sent = _sent(given, handling)
    ignored = {n for n in given if handling.get(n, _NO_EFFECT) == _NO_EFFECT and n not in _EXTENSIONS}
    if not has_model:
        ignored |= {n for n in given if handling.get(n) == _SENT or n in _EXTENSIONS}
        ignored |= {"instructions"} if instructions else set()
    stop = [checked.stop] if isinstance(checked.stop, str) else checked.stop or []
    limits = (checked.max_completion_tokens, checked.max_output_tokens, checked.max_tokens)
    options = GenerationOptions(
        instructions=instructions if has_model else "",
        max_tokens=next((limit for limit in limits if limit is not None), None),
        stop=tuple(stop),
        parameters=sent if has_model else {},
        is_json=is_json,
    )
    return Parameters(options, checked.store, checked.metadata or {}, tuple(sorted(ignored)))


def _checked(given: Mapping[str, Any]) -> _Checked:
    try:
        return _Checked.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        raise BadRequest(f"`{name}` is invalid: {first['msg']}", param=name) from error


def _is_json(checked: _Checked) -> bool:
    text = checked.text.format if checked.text else None
    return any(form is not None and form.type in _JSON_TYPES for form in (checked.response_format, text))


def _sent(given: Mapping[str, Any], handling: Mapping[str, Handling]) -> dict[str, Any]:
    """Return the parameters of chat completions that the model's server gets."""
    sent = {name: value for name, value in given.items() if handling.get(name) == _SENT}
    if text := sent.pop("text", None):
        form = text.get("format") or {}
        if form.get("type") == "json_schema":
            schema = {name: value for name, value in form.items() if name != "type"}
            sent["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif form.get("type") == "json_object":
            sent["response_format"] = {"type": "json_object"}
        if text.get("verbosity"):
            sent["verbosity"] = text["verbosity"]
    if (reasoning := sent.pop("reasoning", None)) and reasoning.get("effort"):
        sent["reasoning_effort"] = reasoning["effort"]
    if sent.get("response_format", {}).get("type") == "text":
        del sent["response_format"]
    if extensions := {name: given[name] for name in sorted(_EXTENSIONS & given.keys())}:
        sent["extra_body"] = extensions
    return sent
