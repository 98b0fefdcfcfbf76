"""The answer when the model fails or is interrupted: quote the lines nearest to the question."""

from __future__ import annotations

from dataclasses import replace

from rag.answer.citations import resolve
from rag.answer.extract import ExtractiveGenerator, extract
from rag.answer.finish import finish
from rag.ports import TokenCounter
from rag.types import Answer, Prepared, Usage

_SO_FAR = "interrupted while looking; this quotes what was found so far"


def fallback_answer(prepared: Prepared, counter: TokenCounter) -> Answer:
    """Return the answer without a model, for a question whose model failed. It is not stored."""
    return _quotes(prepared, counter)


def quotes_so_far(prepared: Prepared, counter: TokenCounter) -> Answer:
    """Return the answer without a model, not complete, for a question that was interrupted before it."""
    answer = _quotes(prepared, counter, complete=False)
    return replace(answer, notes=(*answer.notes, _SO_FAR))


def _quotes(prepared: Prepared, counter: TokenCounter, *, complete: bool = True) -> Answer:
    text = "".join(extract(prepared))
    return finish(
        prepared,
        text,
        resolve(text, prepared.prompt.sources),
        model=ExtractiveGenerator.model,
        usage=Usage(estimated=False, cost_usd=0.0),
        counter=counter,
        complete=complete,
    )
