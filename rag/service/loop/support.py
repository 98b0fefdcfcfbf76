"""Check the statements of an answer against its sources and the indexed repositories."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rag.analysis import terms
from rag.answer.extract import ExtractiveGenerator
from rag.answer.support import check_support
from rag.types import Answer, Prepared

if TYPE_CHECKING:
    from rag.service.loop.dialog import Dialog


def with_support(dialog: Dialog, prepared: Prepared, answer: Answer) -> Answer:
    """Return a model's answer with the check of its statements.

    An answer without a model quotes code, and is returned unchanged.
    """
    if answer.model == ExtractiveGenerator.model:
        return answer
    hits = {source.hit.span: source.hit for source in prepared.prompt.sources}
    check = check_support(
        answer.text,
        [hits[citation.span] for citation in answer.sources],
        question=prepared.question,
        given=f"{prepared.question}\n{prepared.prompt.text}",
        occurs=lambda name: _occurs(dialog, name),
    )
    return replace(answer, support=check)


def _occurs(dialog: Dialog, name: str) -> bool:
    """Whether a repository has an identifier, in any spelling of its case and underscores."""
    whole = terms(name)[-1:]
    stores = [repository.store for repository in dialog.repositories]
    return not whole or any(len(store.postings(whole[0]).chunks) > 0 for store in stores)
