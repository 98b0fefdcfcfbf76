"""Recognize questions for exit codes and HTTP status codes: "When does it exit with 3?"."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Literal, NamedTuple


class AskedCode(NamedTuple):
    """What a question asks for: the places of one code, or of all codes if `number` is None."""

    of: Literal["exit", "status"]
    number: int | None


_CLUE = re.compile(r"exit|status|http|return|respon|answer|sen[dt]|repl", re.I)
_EXIT = re.compile(
    r"\b(?:exit (?:codes?|status(?:es)?|values?)|return codes?)(?: (?:is|be|of|set to|to))?"
    r"(?: (?P<after>\d{1,3})\b)?"
    r"|\bexit(?:s|ed)?(?: with)?(?: code)? (?P<with>\d{1,3})"
    r"(?=\W*\Z|[,;]|\s(?:if|when|on|in|after|for|because)\b)",
    re.I,
)
_STATUS = re.compile(
    r"\b(?:status ?codes?|http (?:status(?:es)?|codes?)|response codes?)(?: (?:is|be|of|set to|to))?"
    r"(?: (?P<after>\d{1,3})\b)?"
    r"|\bstatus (?P<with>[1-5]\d\d)\b",
    re.I,
)
_MANY = re.compile(r"\b(?:codes|statuses|values)\b", re.I)
_ASKS_ALL = re.compile(
    r"\A\W*(?:(?:and|so|please|show me|give me) )*(?:(?:which|what|list|enumerate|all|how many)\b"
    r"|where are\b.{1,60}\b(?:defined|declared)\b)",
    re.I,
)
_ASKS_ONE = re.compile(
    r"\A\W*(?:(?:and|so|but|please) )*(?:when|where|why|(?:in|under|for) (?:which|what)"
    r"|(?:what|which|who)\b"
    r"(?=.*\b(?:mean|return|respond|answer|repl|send|sent|giv|sets?\b|uses?\b|exits?\b(?! code))))",
    re.I,
)
_EXCLUDED = re.compile(
    r"\b(?:handl|check|test(?:ed|s|ing)? |parse|caught|catch|retr[iy]|ignor|expect|logged|how\b|compar|mapp"
    r"|convert|turned|trigger|cached|accept|treat|consider|count as|differen|skip|exclud|represent|headers?\b"
    r"|body\b|not\b|instead\b|make\b|mean that\b|pass(?:es|ed)? (?:on|through))",
    re.I,
)
"""What asks for code that looks at a code, or for something else about it."""
_CASE = re.compile(r"\b(?:if|when|unless|for an?|on)\b", re.I)
"""What asks for the code of one case."""
_NUMBER = re.compile(r"(?<![\w.:/+-])(\d{1,3})(?![\w%:/]|\.\d)")
_RETURNED = re.compile(
    r"\A\W*(?:and )?(?:when|where|why)\b.{0,60}?\b(?:return|respond|answer|reply|send)s?(?: with)?(?: an?)?"
    r"(?: http)?(?: status)? ([1-5]\d\d)(?: errors?| responses?)?\W*\Z"
    r"|\A\W*(?:and )?(?:when|where|why) (?:is|are) (?:an? )?([1-5]\d\d)(?: errors?| responses?)?"
    r" (?:returned|sent)\W*\Z",
    re.I,
)
_EXITS = re.compile(
    r"\A\W*(?:and )?when (?:does|do|will|would) (?:it|the (?:program|command|tool|cli|process|script))"
    r" return (\d{1,2})\W*\Z",
    re.I,
)
REGISTERED = frozenset(status.value for status in HTTPStatus)
_MAX_CHARS = 200


def asked_code(text: str) -> AskedCode | None:
    """Return the code that a question asks for; None if it asks for something else."""
    if len(text) > _MAX_CHARS or not _CLUE.search(text):
        return None
    if found := _RETURNED.match(text):
        number = int(found[1] or found[2])
        return AskedCode("status", number) if number in REGISTERED else None
    if found := _EXITS.match(text):
        return AskedCode("exit", int(found[1]))
    exits = _EXIT.search(text)
    found = exits or _STATUS.search(text)
    if not found or _EXCLUDED.search(text):
        return None
    of: Literal["exit", "status"] = "exit" if exits else "status"
    if numbers := _NUMBER.findall(text):
        is_one = [found["after"] or found["with"]] == numbers and (of == "exit" or len(numbers[0]) == 3)
        return AskedCode(of, int(numbers[0])) if is_one and _ASKS_ONE.match(text) else None
    asks_all = _MANY.search(text) and _ASKS_ALL.match(text) and not _CASE.search(text)
    return AskedCode(of, None) if asks_all else None
