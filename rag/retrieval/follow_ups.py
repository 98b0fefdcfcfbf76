"""Recognize follow-ups that correct the last question, that ask for the whole of what was shown, or for one
of the places that were listed: "the second one", "[2]", "the other one".

A correction says what the last question meant: "no, I meant the parser", "no, the one with a timeout".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from rag.retrieval.pronouns import with_its_meaning
from rag.types import Subject

_THAT_ONE = r"not (?:that|this|it)(?: one)?"
_NO_STATEMENT = (
    r"(?!(?:(?!\b(?:that|which|who|where|when|if)\b)[^:;.?!])*(?:\b(?:is|are|was|were|has|have|had|does|do|did"
    r"|will|can|cannot|should|must|fails?|says?|works?|happens?)\b|n't\b))"
)
"""Before what was meant: "no, the one that is used", but not "no, the test is green"."""
_CORRECTION = re.compile(
    rf"\A\W*(?:(?:(?:no|nope|nah|sorry|oops|wait|well|actually|oh|{_THAT_ONE})\b\W*){{0,3}}"
    r"(?:i|we) (?:actually |really )?(?:meant?|(?:was|am|were) (?:asking|talking) about)\b"
    r"(?:,? to (?:ask|say|know)\b)?"
    rf"|(?:(?:sorry|oops|wait|oh)\b\W*)?(?:no|nope|{_THAT_ONE})\b\W*,\W*(?:{_THAT_ONE}[\s,;:.]+)?(?:but )?"
    rf"(?=(?:the|(?:in|for)(?! (?:what|which|example|instance)\b))\b(?!-)|`){_NO_STATEMENT})"
    r"[\s,;:.]*(?P<meant>.*)",
    re.I | re.S,
)
_ASKS = re.compile(
    r"(?:\A|[:;,.] *)(?:and |so )?(?:who|what|which|where|when|why|how|is|are|does|do|did|can|could|will)\b",
    re.I,
)
_WHOLE = re.compile(
    r"\W*(?:(?:and|now|ok|please|can you|could you)\W+){0,2}(?:show|print|display|give|quote|see|open)"
    r"(?: me| us)? (?:(?:all|the rest) of )?(?:the |its )?(?:(?:whole|full|entire|complete|source) ){0,2}"
    r"(?:function|method|class|definition|implementation|code|body|source|thing|it|that|this|(?P<file>file))"
    r"(?:\W+please)?\W*",
    re.I,
)
OTHER = -2
"""The number of "the other one"."""
_NUMBERS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "last": -1, "other": OTHER}
"""Which of the places of an answer a word means."""
_GOES_ON = frozenset("again are calls did does fails has is please raises returns throws too was".split())
"""What may follow "the second" where that means a place."""
_ENDS = frozenset("called do fail raise return tested throw untested used".split())
"""The same at the end: "is the second called?", but not "the second called function"."""
_ANOTHER = frozenset("both each one or these this".split())
"""What precedes "the other" of two that are both named: "does one call the other?"."""
_TOKEN = re.compile(r"(?<![\w\])`])\[([1-9]\d?)\](?![\w\[])|\w+(?:['’-]\w+)*")
_ITEM = re.compile(
    r"^ {0,3}(?:[-*]|\d{1,2}[.)])\s+(?:\W{0,3}`(?P<name>[\w.]+)`)?"
    r"[^\n]*?(?:`(?P<path>[^`\s:]+):(?P<line>\d+)`|\[(?P<number>\d{1,2})\])",
    re.M,
)
"""A member of a list, with the place or the number of the source that it has."""
_AFTER_LIST = re.compile(r"^(?:Other places:|\[\d+\] )", re.M)
_WHERE = re.compile(r"(?:in|for)\b", re.I)
_SETTING = re.compile(
    r"`([\w.-]+)` is (?:(?:declared|read) in `|`[^\n]{1,200}`(?: by default)? \(`[^`\n]+:\d+`\)[:.])"
)
"""How an answer that is sure about a setting begins."""
_MAX_CHARS = 160


def meant(text: str) -> str:
    """Return what a correction says the last question meant; "" if a text is none."""
    found = _CORRECTION.match(text) if len(text) <= _MAX_CHARS else None
    return found["meant"] if found else ""


def is_whole_question(correction: str) -> bool:
    """Return whether what was meant is a question by itself: "I meant plugins: how do they start?"."""
    return _ASKS.search(correction) is not None


def asked_again(correction: str, last: str) -> str:
    """Return the question that a correction asks: the last one about what was meant, where that names only
    "it" and the correction names something, not a place: "in the browser".
    """
    if is_whole_question(correction) or _WHERE.match(correction):
        return correction
    return with_its_meaning(last, correction.strip(" ?.!"))


def listed_as_it(text: str) -> tuple[str, int] | None:
    """Return a question for one of the listed places with "it" instead, and the number of the place from 0
    (-1 for the last one, `OTHER` for "the other one"); None if a text does not ask for exactly one.
    """
    if len(text) > _MAX_CHARS:
        return None
    found = [(token[0].lower(), *token.span(), token[1]) for token in _TOKEN.finditer(text)]
    asked, none = [], ("", 0, 0, None)
    for at, (word, first, end, number) in enumerate(found):
        before, after, then = found[at - 1] if at else none, *[*found, none, none][at + 1 : at + 3]
        if number:
            asked.append((first, end, int(number) - 1))
        elif before[0] in ("the", "that") and word in _NUMBERS:
            is_one, is_last = after[0] == "one", not after[0] or (after[0] in _ENDS and not then[0])
            if is_one or is_last or after[0] in _GOES_ON:
                asked.append((before[1], after[2] if is_one else end, _NUMBERS[word]))
    if len(asked) != 1 or sum(word in _NUMBERS for word, *_ in found) > 1:
        return None
    first, end, which = asked[0]
    is_pair = which == OTHER and any(word in _ANOTHER for word, at, *_ in found if at < first)
    return None if is_pair else (f"{text[:first]}it{text[end:]}", which)


def listed_in(answer: str, cited: Mapping[int, Subject]) -> tuple[Subject, ...]:
    """Return the places that the members of the first list of an answer name; none if it has no list."""
    found = []
    for item in _ITEM.finditer(_AFTER_LIST.split(answer, maxsplit=1)[0]):
        if item["path"]:
            scope, _, symbol = (item["name"] or "").rpartition(".")
            found.append(Subject(item["path"], symbol, scope, int(item["line"]), int(item["line"])))
        elif place := cited.get(int(item["number"])):
            found.append(place)
    return tuple(found) if len(found) > 1 else ()


def setting_in(answer: str) -> str:
    """Return the setting that the first sentence of an answer is about; "" for another answer."""
    found = _SETTING.match(answer)
    return found[1] if found else ""


def whole_asked(text: str) -> Literal["definition", "file", ""]:
    """Return what a question asks to see as a whole: the definition last shown, its file, or neither."""
    found = _WHOLE.fullmatch(text) if len(text) <= _MAX_CHARS else None
    return "" if found is None else "file" if found["file"] else "definition"
