"""Lines quoted where they were found: what the answerer without a model does, ahead of it."""

from __future__ import annotations

from dataclasses import replace

from rag.answer.extract import extract
from rag.settings import Settings
from rag.types import Prepared


def with_quotes(prepared: Prepared, settings: Settings) -> Prepared:
    """The same, with the lines that would be quoted; a model that is configured writes its own answer."""
    return prepared if settings.has_model else replace(prepared, quotes=tuple(extract(prepared)))
