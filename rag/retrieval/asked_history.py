"""Recognise a question about the history of code: who changed it, since when it exists, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

Asks = Literal["changed", "introduced"]

MADE = r"(?:added|introduced|created|written|implemented|born)"
CHANGED = r"(?:changed|modified|edited|touched|updated|rewritten|refactored|altered)"
PAST = r"(?:was|were|did|has|have|had|got)"
_ANYONE = r"(?:we|you|they|anyone|someone|somebody)"
_GAP = r"\b(?:[^.?!\n]|\.(?=\w)){0,120}?\b"
"""Words of the same sentence; `auth.py` is one."""
_PATTERNS: Mapping[Asks, str] = {
    "changed": "|".join(
        (
            rf"\b(?:who|when|why)\b{_GAP}(?:last|recently|lately|latest)\b{_GAP}{CHANGED}\b",
            rf"\b(?:who|which commits?|what commits?)\s+(?:has\s+|have\s+)?{CHANGED}\b",
            rf"\b(?:when|why) {PAST}\b{_GAP}{CHANGED}\b",
            r"\b(?:git|commit|change) (?:history|log)\b|\bhistory of (?:the )?(?:\w+ )?\S+\s*\Z",
            r"\blast (?:change|commit|edit)\b|\bwhat (?:has )?changed (?:in|there|here)\b|\bgit blame\b",
        )
    ),
    "introduced": "|".join(
        (
            rf"\b(?:who|which commits?|what commits?)\s+(?:{MADE}|wrote|authored|made)\b",
            rf"\b(?:when|why) {PAST}\b{_GAP}{MADE}\b|\breason\b{_GAP}\bwas {MADE}\b",
            rf"\bsince when\b|\b(?:author|origin) of\b|\b(?:when|why) did\b{_GAP}appear\b",
            rf"\b(?:when did\b{_GAP}|why did {_ANYONE} )(?:add|introduce|create)\b",
        )
    ),
}
_QUESTIONS = {asks: re.compile(pattern, re.IGNORECASE) for asks, pattern in _PATTERNS.items()}


def asked_history(text: str) -> Asks | None:
    """Return what a question asks about a history; None if it is another question."""
    return next((asks for asks, pattern in _QUESTIONS.items() if pattern.search(text)), None)
