"""Answer messages that ask for nothing in the code: thanks, a greeting, "What can you do?"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag.quoting import code_span

_THANKS = re.compile(
    r"(?:ok(?:ay)?|great|cool|perfect|nice|good|awesome|excellent|very helpful"
    r"|(?:that|this)(?:'s| is| was) (?:it|all|helpful|great|perfect|clear|good)(?: for now)?"
    r"|(?P<is_thanks>thanks?(?: you)?(?: (?:a lot|very much))?|thx|cheers|got it|that helps(?: a lot)?|bye))"
)
_GREETING = re.compile(
    r"(?:hi|hello|hey|hallo|hola|bonjour|ciao|moin|servus|good (?:morning|afternoon|evening|day))"
    r"(?: (?:there|rag|all|everyone|team|again))?"
)
_IDENTITY = re.compile(
    r"(?:and |so )?(?:(?:who|what) (?:are|r) you|what(?:'s| is) your name|introduce yourself"
    r"|what (?:can|could) (?:you (?:do|answer|help(?: me)? with)|i ask(?: you)?)(?: for me| here)?"
    r"|how can you help(?: me)?)"
)
_BETWEEN = re.compile(r"(?<!\s)(?:\s*[,.!;:]+\s*|\s++(?=(?:thanks|thank you|thx|cheers|that helps|bye)\b))")
_MAX_CHARS = 100
_NOTHING_ASKED = "Nothing is asked here, so nothing was searched."
_CAN_BE_ASKED = (
    "This is rag. It answers questions about {names} and cites the lines that an answer is based on. "
    "Ask, for example, where something is done, who calls a function, or what the project is."
)


def is_small_talk(message: str) -> bool:
    """Return whether a message asks about rag, or only greets or says thanks."""
    return _which(message) != ""


def answer_small_talk(message: str, repositories: Sequence[str]) -> str:
    """Return the answer in a conversation about repositories; "" for a message that asks for something."""
    which = _which(message)
    if which == "thanks":
        return _NOTHING_ASKED
    return _CAN_BE_ASKED.format(names=" and ".join(map(code_span, repositories)) or "code") if which else ""


def _which(message: str) -> str:
    """Return what is meant: "thanks", or "rag"; "" for anything else."""
    text = " ".join(message.lower().replace("’", "'").split()).strip(" .!?,;:")
    said = [part for part in _BETWEEN.split(text) if part] if len(text) <= _MAX_CHARS else []
    if said and all(_GREETING.fullmatch(part) or _IDENTITY.fullmatch(part) for part in said):
        return "rag"
    parts = [_THANKS.fullmatch(part) for part in said]
    return "thanks" if all(parts) and any(part["is_thanks"] for part in parts if part) else ""
