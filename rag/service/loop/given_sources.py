"""Answers a question from sources and turns that the caller gives: nothing is searched, nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag.answer.citations import resolve
from rag.answer.finish import finish
from rag.answer.references import with_places
from rag.ports import TextGenerator
from rag.prompt.compose import PromptInput, compose
from rag.prompt.templates import load_template
from rag.service.repositories.engine import Engine
from rag.types import Answer, DialogTurn, GenerationOptions, Hit, Prepared


def prepared_from(
    engine: Engine,
    question: str,
    hits: Sequence[Hit],
    turns: Sequence[DialogTurn] = (),
    *,
    instructions: str = "",
    output_format_str: str = "",
    parameters: Mapping[str, Any] | None = None,
) -> Prepared:
    """Render the prompt for a question with these sources and earlier turns, as many as fit.

    Args:
        engine: has the template, the size of the context, and the counter of tokens.
        question: the question.
        hits: the sources, best first.
        turns: the earlier turns, oldest first.
        instructions: put after the system prompt.
        output_format_str: passed on to the template.
        parameters: further parameters of the model's server.

    Raises:
        ContextTooSmall, TemplateError: the prompt cannot be rendered.
    """
    settings = engine.settings
    given = PromptInput(
        question=question,
        hits=hits,
        turns=[with_places(turn) for turn in turns],
        repositories=list(dict.fromkeys(hit.repo for hit in hits if hit.repo)),
        instructions=instructions,
        output_format_str=output_format_str,
        language=settings.language,
    )
    prompt = compose(
        given,
        template=load_template(settings.template, settings.home),
        counter=engine.counter,
        context_tokens=settings.context_tokens,
        answer_tokens=settings.answer_tokens,
    )
    options = GenerationOptions(parameters=parameters or {})
    return Prepared(question, question, None, tuple(hits), prompt, options=options)


def answer_from(engine: Engine, generator: TextGenerator, prepared: Prepared) -> Answer:
    """Return the generator's answer. Raises ProviderError if the model fails."""
    text = "".join(generator.stream(prepared))
    return finish(
        prepared,
        text,
        resolve(text, prepared.prompt.sources),
        model=generator.model,
        usage=generator.usage,
        counter=engine.counter,
        home=engine.settings.home,
    )
