"""The answer when the model fails: quote the lines nearest to the question."""

from __future__ import annotations

from rag.answer.citations import resolve
from rag.answer.extract import ExtractiveGenerator, extract
from rag.answer.finish import finish
from rag.ports import TokenCounter
from rag.types import Answer, Prepared, Usage

_FAILED = "The language model failed, so nothing is explained here"


def fallback_answer(prepared: Prepared, counter: TokenCounter) -> Answer:
    """Return the answer without a model, for a question whose model failed. It is not stored."""
    text = "".join(extract(prepared, why=_FAILED))
    return finish(
        prepared,
        text,
        resolve(text, prepared.prompt.sources),
        model=ExtractiveGenerator.model,
        usage=Usage(estimated=False, cost_usd=0.0),
        counter=counter,
    )
