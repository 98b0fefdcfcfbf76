"""When two questions mean the same."""

from __future__ import annotations

import unicodedata


def meaning(question: str) -> str:
    """What a question means, as text: equal only for questions that one answer serves."""
    return " ".join(unicodedata.normalize("NFKC", question).casefold().split()).rstrip("?.! ")
