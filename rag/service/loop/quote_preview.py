"""Writes the extractive answer in advance."""

from __future__ import annotations

from dataclasses import replace

from rag.answer.extract import extract
from rag.settings import Settings
from rag.types import Prepared


def with_quotes(prepared: Prepared, settings: Settings) -> Prepared:
    """Add the extractive answer to a prepared question.

    Nothing is added if a model is configured, which writes its own answer, or if nothing was found.
    """
    is_missing = prepared.confidence is not None and not prepared.confidence.found
    if settings.has_model or is_missing:
        return prepared
    return replace(prepared, quotes=tuple(extract(prepared)))
