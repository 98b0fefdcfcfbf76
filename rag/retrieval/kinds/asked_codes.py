"""Recognize questions for exit codes and HTTP status codes: "When does it exit with 3?"."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple


class AskedCode(NamedTuple):
    """What a question asks for: the places of one code, or of all codes if `number` is None."""

    of: Literal["exit", "status"]
    number: int | None


_CLUE = re.compile(r"exit|status|http|return|respon|answer|sen[dt]|repl", re.I)
_EXIT = re.compile(
    r"\bexit (?:codes?|status(?:es)?|values?)\b|\breturn codes?\b|\bexit(?:s|ed)?(?: with)?(?: code)? \d",
    re.I,
)
_STATUS = re.compile(
    r"\bstatus ?codes?\b|\bhttp (?:status(?:es)?|codes?)\b|\bresponse codes?\b|\bstatus [1-5]\d\d\b", re.I
)
_MANY = re.compile(r"\b(?:codes|statuses|values)\b", re.I)
_ASKS_ALL = re.compile(
    r"\A\W*(?:(?:and|so|please|show me|give me) )*(?:(?:which|what|list|enumerate|all|how many)\b"
    r"|where are\b.{1,60}\b(?:defined|declared|listed)\b)",
    re.I,
)
_ASKS_ONE = re.compile(
    r"\A\W*(?:(?:and|so|but|please) )*(?:when|where|why|what|which|who|(?:in|under|for) (?:which|what))\b",
    re.I,
)
_HANDLES = re.compile(
    r"\b(?:handled?|checked|tested|parsed|caught|retried|ignored|expected|logged|how)\b", re.I
)
"""What asks for code that looks at a code."""
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
_MAX_CHARS = 200


def asked_code(text: str) -> AskedCode | None:
    """Return the code that a question asks for; None if it asks for something else."""
    if len(text) > _MAX_CHARS or not _CLUE.search(text):
        return None
    if found := _RETURNED.match(text):
        return AskedCode("status", int(found[1] or found[2]))
    if found := _EXITS.match(text):
        return AskedCode("exit", int(found[1]))
    is_exit = _EXIT.search(text) is not None
    if (not is_exit and not _STATUS.search(text)) or _HANDLES.search(text):
        return None
    of: Literal["exit", "status"] = "exit" if is_exit else "status"
    if number := _NUMBER.search(text):
        return AskedCode(of, int(number[1])) if _ASKS_ONE.match(text) else None
    asks_all = _MANY.search(text) and _ASKS_ALL.match(text) and not _CASE.search(text)
    return AskedCode(of, None) if asks_all else None
