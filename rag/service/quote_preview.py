"""Lines quoted where they were found: what the answerer without a model does, ahead of it."""

from __future__ import annotations

from dataclasses import replace

from rag.answer.extract import extract
from rag.settings import Settings
from rag.types import Prepared


def with_quotes(prepared: Prepared, settings: Settings) -> Prepared:
    """The same, with the lines that would be quoted.

    A model that is configured writes its own answer, and where nothing was found nothing is quoted.
    """
    is_missing = prepared.confidence is not None and not prepared.confidence.found
    if settings.has_model or is_missing:
        return prepared
    return replace(prepared, quotes=tuple(extract(prepared)))
