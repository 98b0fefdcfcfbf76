"""Answer what is asked about the conversation itself: "Summarise what we found", "What did I ask first?".

The answer is made from the stored turns, without a search and without a model. Thanks ask for nothing, and a
greeting, "Who are you?" or "What can you do?" are answered with what can be asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag.memory.extractive_summary import turn_lines
from rag.quoting import code_span
from rag.types import DialogTurn

_SO_FAR = r"(?: (?:so far|until now|up to now|together|today|in this (?:conversation|chat)))?"
_WE_FOUND = (
    r"(?:we|you|i)(?:'ve| have)? (?:found|discussed|learned|learnt|covered|said|asked|talked about)(?: out)?"
)
_SUMMARY = re.compile(
    r"(?:(?:can|could|would) you |please |now |and |ok )*(?:give me )?(?:a )?"
    r"(?:summary|summari[sz]e|recap|sum up|list)(?: (?:for me|of))?"
    rf"(?: (?:(?:all )?(?:what|everything) {_WE_FOUND}|(?:this|our|the whole) (?:conversation|chat)"
    r"|(?:my|our|all my) questions|our findings))"
    rf"{_SO_FAR}(?: please| for me)?"
    r"|(?:and )?what (?:(?:have|did) we (?:find|found|discuss(?:ed)?|learn(?:ed|t)?|cover(?:ed)?|do|done)"
    rf"(?: out)?{_SO_FAR}|(?:did i ask|have i asked|were my questions)(?: you)?{_SO_FAR})"
    r"|recap(?: please)?"
)
_ONE = re.compile(
    r"(?:and )?what (?:did i ask(?: you)?|was my|was the)(?: very)? (?P<which>first|last|previous|before)"
    r"(?: question| of all| time)?(?: i asked)?"
)
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
_OUTDATED = " — outdated: the code has changed since"
_NOTHING_ASKED = "Nothing is asked here, so nothing was searched."
_CAN_BE_ASKED = (
    "This is rag. It answers questions about {names} and cites the lines that an answer is based on. "
    "Ask, for example, where something is done, who calls a function, or what the project is."
)


def is_about_conversation(question: str) -> bool:
    """Return whether a message asks about the conversation or about rag, or only greets or says thanks."""
    return _which(question) != ""


def answer_from_turns(question: str, turns: Sequence[DialogTurn], repositories: Sequence[str]) -> str:
    """Return the answer from the turns, oldest first, of a conversation about repositories.

    "" for a question about anything else, or about turns when there are none.
    """
    which = _which(question)
    if which == "thanks":
        return _NOTHING_ASKED
    if which == "rag":
        return _CAN_BE_ASKED.format(names=" and ".join(map(code_span, repositories)) or "code")
    answered = [turn.with_current_citations() for turn in turns if turn.has_answer and turn.model]
    if not which or not answered:
        return ""
    if which == "all":
        count = f"{len(answered)} question" + ("s" if len(answered) > 1 else "")
        return "\n".join([f"{count} with an answer in this conversation:", "", *_lines(answered)])
    chosen = answered[0] if which == "first" else answered[-1]
    return "\n".join([f"Your {which} question with an answer:", "", *_lines([chosen])])


def _lines(turns: Sequence[DialogTurn]) -> list[str]:
    """Return a line for each turn; one whose lines have changed since is marked."""
    return [
        line + (_OUTDATED if turn.freshness and turn.freshness.is_stale else "")
        for turn, line in zip(turns, turn_lines(turns), strict=True)
    ]


def _which(question: str) -> str:
    """Return what is meant: "all" turns, the "first" or "last" one, "thanks", or "rag"; "" for none."""
    text = " ".join(question.lower().replace("’", "'").split()).strip(" .!?,;:")
    if not text or len(text) > _MAX_CHARS:
        return ""
    if _SUMMARY.fullmatch(text):
        return "all"
    if one := _ONE.fullmatch(text):
        return "first" if one["which"] == "first" else "last"
    said = [part for part in _BETWEEN.split(text) if part]
    if all(_GREETING.fullmatch(part) or _IDENTITY.fullmatch(part) for part in said):
        return "rag"
    parts = [_THANKS.fullmatch(part) for part in said]
    return "thanks" if all(parts) and any(part["is_thanks"] for part in parts if part) else ""
