"""The generator of a `RAG`, which is called like AdalFlow's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rag.adal import adalflow
from rag.component.conversation import as_turn
from rag.component.documents import hit_of
from rag.ports import TextGenerator
from rag.service import Engine
from rag.service.loop.given_sources import answer_from, prepared_from
from rag.types import Prepared


@dataclass(frozen=True, slots=True)
class AnswerGenerator:
    """Writes answers from given sources, with the prompt, limits and citations of `RAG.call`.

    Its other attributes (`stream`, `model`, `usage`, …) are those of the wrapped generator.
    """

    engine: Engine
    wrapped: TextGenerator

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)

    def __call__(
        self,
        prompt_kwargs: Mapping[str, Any],
        model_kwargs: Mapping[str, Any] | None = None,
        *,
        id: str | None = None,
    ) -> Any:
        """Return AdalFlow's `GeneratorOutput`; its `data` is the `Answer` (`data.answer` is the text).

        Args:
            prompt_kwargs: `input_str`, the question; `contexts`, documents; `conversation_history`, turns by
                id, as `Memory` returns them; `system_prompt` and `output_format_str`.
            model_kwargs: further parameters of the model's server.
            id: the id of the output.

        Raises:
            TypeError: there is no question, or something else is given than these.
            ProviderError: the model failed; unlike AdalFlow's, no output has an `error`.
            ContextTooSmall, TemplateError: the prompt cannot be rendered.
        """
        prepared = self._prepared(model_kwargs=model_kwargs, **prompt_kwargs)
        answer = answer_from(self.engine, self.wrapped, prepared)
        used = answer.usage
        types = adalflow.core.types
        return types.GeneratorOutput(
            id=id,
            data=answer,
            raw_response=answer.text,
            input=prepared.prompt.text,
            usage=types.CompletionUsage(
                used.answer_tokens, used.prompt_tokens, used.answer_tokens + used.prompt_tokens
            ),
        )

    call = __call__

    async def acall(
        self,
        prompt_kwargs: Mapping[str, Any],
        model_kwargs: Mapping[str, Any] | None = None,
        *,
        id: str | None = None,
    ) -> Any:
        """Like calling it, in a thread."""
        return await asyncio.to_thread(self.__call__, prompt_kwargs, model_kwargs, id=id)

    def _prepared(
        self,
        *,
        input_str: str,
        contexts: Any = None,
        conversation_history: Mapping[Any, Any] | None = None,
        system_prompt: str | None = None,
        output_format_str: str | None = None,
        model_kwargs: Mapping[str, Any] | None,
    ) -> Prepared:
        return prepared_from(
            self.engine,
            input_str,
            [hit_of(document, number) for number, document in enumerate(contexts or ())],
            [as_turn(turn) for turn in (conversation_history or {}).values()],
            instructions=system_prompt or "",
            output_format_str=output_format_str or "",
            parameters=model_kwargs,
        )
