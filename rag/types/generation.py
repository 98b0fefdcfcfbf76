"""What is asked of a model, and what it returns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

FinishReason = Literal["stop", "length", "interrupted"]


class Replacement(str):
    """A piece of an answer that replaces all pieces before it: they were thoughts of the model."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one generation; `estimated` if not reported by the service. `cost_usd` is None if unknown."""

    prompt_tokens: int = 0
    answer_tokens: int = 0
    estimated: bool = True
    cost_usd: float | None = None

    @property
    def total_tokens(self) -> int:
        """Prompt and answer tokens together."""
        return self.prompt_tokens + self.answer_tokens


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a model asks for; `arguments` are as the model wrote them, supposedly JSON.

    `extra` are fields of its service that must be sent back unchanged, such as Gemini's signatures.
    """

    id: str
    name: str
    arguments: str
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolChat:
    """A conversation with a model that may call tools, in the form of the OpenAI protocol.

    With `must_answer`, the tools are sent, as they are part of what a service caches, but may not be called.
    """

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...]
    must_answer: bool = False

    @property
    def text(self) -> str:
        """What is sent, as far as its tokens are counted."""
        return json.dumps([self.messages, self.tools], ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """What a caller asks of the model for one answer; the defaults leave everything to the settings.

    Attributes:
        instructions: the caller's own instructions, such as a client's system prompt; "" for none.
        max_tokens: the maximum length of the answer; None uses the settings.
        stop: strings that end the answer, which does not contain them.
        parameters: further parameters of OpenAI's chat completions, sent to the model's server unchanged.
        is_json: whether the reply must be JSON: then nothing is added to it or removed from it.
    """

    instructions: str = ""
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_json: bool = False
