"""Build the Answer from a model's text and the sources that it was shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rag.answer.citations import Resolved
from rag.answer.cost import cost
from rag.answer.extract import ExtractiveGenerator
from rag.ports import TokenCounter
from rag.types import Answer, Prepared, Usage


def finish(
    prepared: Prepared,
    text: str,
    resolved: Resolved,
    *,
    model: str,
    usage: Usage | None,
    counter: TokenCounter,
    home: Path | None = None,
    complete: bool = True,
) -> Answer:
    """Return the complete answer for a text whose references are resolved.

    Args:
        prepared: the question, and what was shown.
        text: the answer as it was generated.
        resolved: the same with its references resolved.
        model: the model that wrote it.
        usage: tokens as the service counted them; with None, `counter` estimates them.
        counter: counts the answer when the service did not.
        home: the folder of the user's own prices, if any.
        complete: False when the answer was cut off.

    Returns:
        The answer. Without a model it comes after its warning, if it has one; a model was given the warning
        and says itself what is missing. After a look of the model, the search by words is no measure: there
        are no confidence and no missing words. `found` is False when the repository held nothing on the
        question. `seconds` are those of `prepared`; conversation and turn are filled in when it is stored.

    Raises:
        SettingsError: the user's price list cannot be read.
    """
    if usage is None:
        usage = Usage(prompt_tokens=prepared.prompt.tokens, answer_tokens=counter.count(text))
    if usage.cost_usd is None:
        usage = replace(usage, cost_usd=cost(model, usage, home=home))
    warned = prepared.warning if model == ExtractiveGenerator.model else ""
    is_looked = prepared.chat is not None or any(step.is_look for step in prepared.steps)
    doubt = None if is_looked else prepared.confidence
    return Answer(
        text=warning_paragraph(warned) + resolved.text,
        question=prepared.question,
        standalone_question=prepared.standalone_question,
        sources=resolved.shown,
        hits=prepared.hits,
        model=model,
        usage=usage,
        found=bool(prepared.hits),
        invented=resolved.invented,
        complete=complete,
        notes=_notes(resolved),
        prompt_hash=prepared.prompt.hash,
        confidence=doubt,
        warning=warned,
        missing_words=doubt.missing_words if prepared.warning and doubt else (),
        seconds=prepared.seconds,
        code_facts=prepared.code_facts,
        subject=prepared.subject,
    )


def warning_paragraph(warned: str) -> str:
    """Return a warning as a paragraph before an answer."""
    return f"{warned}\n\n" if warned else ""


def removed_references(count: int) -> str:
    """Return in words how many references were removed from a text."""
    what = "1 reference" if count == 1 else f"{count} references"
    return f"{what} to sources or lines that were not shown {'was' if count == 1 else 'were'} removed"


def _notes(resolved: Resolved) -> tuple[str, ...]:
    notes = []
    if resolved.invented:
        notes.append(removed_references(resolved.invented))
    if resolved.by_name:
        notes.append("the answer cites no source by number; the sources are those whose code it names")
    return tuple(notes)
