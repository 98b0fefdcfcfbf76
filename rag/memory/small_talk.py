"""Answer messages that ask for nothing in the code: thanks, a greeting, "What can you do?"."""

from __future__ import annotations

from collections.abc import Sequence

from rag.analysis import words
from rag.quoting import code_span

_MAX_CHARS = 100
_THANKS = frozenset("thank thanks thx cheers helps bye".split())
_WITH_THANKS = _THANKS | frozenset(
    """a all and awesome clear cool excellent for good got great helpful is it lot much now nice ok okay
    perfect so that this very was you""".split()
)
_GREETING = frozenset("bonjour ciao hallo hello hey hi hola moin servus".split())
_WITH_GREETING = _GREETING | frozenset(
    "afternoon again all day evening everyone good morning rag team there".split()
)
_RAG = frozenset("you your yourself".split())
_ABOUT_RAG = _RAG | frozenset(
    """and answer are can could do for help here how introduce is me name s so what who
    with""".split()
)
"""The only words of each kind of message, and those of which it has one."""
_NOTHING_ASKED = "Nothing is asked here, so nothing was searched."
_CAN_BE_ASKED = (
    "This is rag. It answers questions about {names} and cites the lines that an answer is based on. "
    "Ask, for example, where something is done, who calls a function, or what the project is."
)


def is_small_talk(message: str) -> bool:
    """Return whether a message asks about rag, or only greets or says thanks."""
    return answer_small_talk(message, ()) != ""


def answer_small_talk(message: str, repositories: Sequence[str]) -> str:
    """Return the answer in a conversation about repositories; "" for a message that asks for something."""
    said = {word.lower() for word in words(message)} if len(message) <= _MAX_CHARS else set()
    if said & _THANKS and said <= _WITH_THANKS:
        return _NOTHING_ASKED
    greets, asks = said & _GREETING, said & _RAG
    if (greets or asks) and said - _WITH_GREETING <= (_ABOUT_RAG if asks else set()):
        return _CAN_BE_ASKED.format(names=" and ".join(map(code_span, repositories)) or "code")
    return ""
