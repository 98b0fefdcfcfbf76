"""The steps towards an answer, as they are stored with its turn."""

from __future__ import annotations

from rag.types import Answer, Prepared, TraceStep

STANDALONE = "standalone"


def trace(prepared: Prepared, answer: Answer) -> tuple[TraceStep, ...]:
    """Return the steps of an answer; a step that was not made is left out.

    "reword" is a model's request for other words, "standalone" gives its form of the question, "phrasing" a
    text that was searched besides it, "cache" the turn whose answer was given again. The steps of a second
    look follow the search.
    """
    seconds, shown = answer.seconds, len(prepared.prompt.sources)
    steps = []
    if took := prepared.rewording.seconds:
        steps.append(TraceStep("reword", seconds=took))
    if prepared.rewording.standalone:
        steps.append(TraceStep(STANDALONE, prepared.question, prepared.rewording.standalone))
    steps += [TraceStep("phrasing", phrasing) for phrasing in prepared.rewording.phrasings]
    if answer.cached:
        return *steps, TraceStep("cache", prepared.standalone_question, answer.cached)
    found = f"{len(prepared.hits)} places"
    steps.append(TraceStep("search", prepared.standalone_question, found, seconds=seconds.get("search", 0.0)))
    steps += prepared.steps
    if answer.model:
        sources = f"{shown} sources"
        sources += f", {prepared.prompt.tokens} tokens" if prepared.prompt.text else ""
        written = f"{answer.usage.answer_tokens} tokens" if answer.usage.answer_tokens else ""
        steps.append(TraceStep("prompt", result=sources, seconds=seconds.get("prompt", 0.0)))
        steps.append(TraceStep("answer", answer.model, written, seconds=seconds.get("answer", 0.0)))
    return tuple(steps)
