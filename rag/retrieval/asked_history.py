"""Recognise a question about the history of code: who changed it, since when it exists, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from rag.retrieval.kinds.recognition import asking_part

Asks = Literal["changed", "introduced", "event"]
"""What is asked: the last change, the first one, or the one that did what the question says, if one did."""

MADE = r"(?:added|introduced|created|written|implemented|born)"
CHANGED = r"(?:changed|modified|edited|touched|updated|rewritten|refactored|altered)"
PAST = r"(?:was|were|did|has|have|had|got)"
_ANYONE = r"(?:we|you|they|anyone|someone|somebody)"
_GAP = r"\b(?:[^.?!\n]|\.(?=\w)){0,120}?\b"
"""Words of the same sentence; `auth.py` is one."""
_ASKED = r"(?:\A|[.?!]\s)[^\w.?!]*+(?:(?:and|but|so|can|could|you|please|in) ){0,4}"
"""The beginning of a sentence. Where "since the last commit" is printed is another question."""
_PATTERNS: Mapping[Asks, str] = {
    "changed": "|".join(
        (
            rf"\b(?:who|when|why)\b{_GAP}(?:last|recently|lately|latest)\b{_GAP}{CHANGED}\b",
            rf"\b(?:who|which commits?|what commits?)\s+(?:has\s+|have\s+)?{CHANGED}\b",
            rf"\b(?:when|why) {PAST}\b{_GAP}{CHANGED}\b",
            r"\b(?:git|commit|change) (?:history|log)\b|\bhistory of (?:the )?(?:\w+ )?\S+\s*\Z",
            rf"{_ASKED}(?:who|when|what|which|show|list|the|its)\b{_GAP}last (?:change|commit|edit)\b",
            rf"{_ASKED}last (?:change|commit|edit)\b",
            r"\bwhat (?:has )?changed (?:in|there|here)\b|\bgit blame\b",
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
    "event": "|".join(
        (
            r"\b(?:which|what) (?:commit|revision)s?\b",
            rf"\b(?:when|why)(?: and \w+)? {PAST}\b",
            r"\b(?:which|what) change\b(?! (?:can|do|in|is|must|of|should|would)\b)",
        )
    ),
}
_MAX_EVENT_CHARS = 300
"""A longer text reports what happened rather than asks for a change."""
_QUESTIONS = {asks: re.compile(pattern, re.IGNORECASE) for asks, pattern in _PATTERNS.items()}


def is_made(text: str, name: str) -> bool:
    """Return whether a text says of what has a name that it was made: "who wrote sign"."""
    said = (
        rf"(?:the\s+)?(?:\w+\s+)?[`'\"]?(?:\w+[.:]+)*{re.escape(name.rpartition('.')[2])}(?:\(\))?\b[`'\"]?"
    )
    made = rf"(?:wrote|authored|add|introduce|create|{MADE})\s+{said}|\b{PAST}\s+{said}\s+(?:{MADE}|appear)\b"
    return re.search(rf"\b(?:{made})", text[:_MAX_EVENT_CHARS], re.IGNORECASE) is not None


def asked_history(text: str) -> Asks | None:
    """Return what a question asks about a history; None if it is another question."""
    asked = asking_part(text)
    found = next((asks for asks, pattern in _QUESTIONS.items() if pattern.search(asked)), None)
    return None if found == "event" and len(asked) > _MAX_EVENT_CHARS else found
