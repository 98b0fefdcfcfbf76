"""The answer when the model fails or is interrupted: quote the lines nearest to the question."""

from __future__ import annotations

from dataclasses import replace

from rag.answer.citations import resolve
from rag.answer.extract import ExtractiveGenerator, extract
from rag.answer.finish import finish
from rag.ports import TokenCounter
from rag.types import Answer, Prepared, Usage

_FAILED = "The language model failed; this is quoted without it."
_INTERRUPTED = "The model was interrupted while it looked for the answer; this is quoted without it."
_SO_FAR = "interrupted while looking; this quotes what was found so far"


def fallback_answer(prepared: Prepared, counter: TokenCounter) -> Answer:
    """Return the answer without a model, for a question whose model failed. It is not stored."""
    return _quotes(prepared, counter, _FAILED)


def quotes_so_far(prepared: Prepared, counter: TokenCounter) -> Answer:
    """Return the answer without a model, not complete, for a question that was interrupted before it."""
    answer = _quotes(prepared, counter, _INTERRUPTED, complete=False)
    return replace(answer, notes=(*answer.notes, _SO_FAR))


def _quotes(prepared: Prepared, counter: TokenCounter, why: str, *, complete: bool = True) -> Answer:
    text = "".join([f"{why}\n\n", *extract(prepared)])
    return finish(
        prepared,
        text,
        resolve(text, prepared.prompt.sources),
        model=ExtractiveGenerator.model,
        usage=Usage(estimated=False, cost_usd=0.0),
        counter=counter,
        complete=complete,
    )
