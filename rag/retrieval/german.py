"""Put a German question into English, word by word, if every word is known: `data/german.txt`.

Most follow-ups need few words: "wer ruft das auf?", "ist das getestet?", "was passiert, wenn es
fehlschlägt?". Their order is near enough to that of English to be read by the same rules. A question with any
other word is left as it is: a part of it in English would be neither.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from rag.resources import shipped

_WORD = re.compile(r"`[^`\n]*`|[^\W\d_]+(?:['’-][^\W\d_]+)*|[^\s\w`]+|\S+")
_CODE = re.compile(r"[`\d_(]|[a-z][A-Z]|\A[A-Z]{2,}\Z|\A[^\w\s]+\Z")
"""What is a name or punctuation, in any language."""
_GERMAN = re.compile(
    r"\b(?:wer|wo|wie|wann|warum|wieso|wird|werden|ist|sind|und|das|der|die|gibt|kann|nicht|mir|welche[rsnm]?"
    r"|wenn|oder|ich|den|eine[rnms]?)\b",
    re.I,
)
_PHRASES = (
    (re.compile(r"\bgibt es (?:dafür|dazu) tests\b", re.I), "ist das getestet"),
    (re.compile(r"\bgibt es\b(?!.*\bzurück\b)", re.I), "ist da"),
    (re.compile(r"\s(?:auf|an|ab)(?=\W*\Z)", re.I), ""),
)
"""German that cannot be put into English word by word: "gibt es", and what a verb leaves at the end."""
_SPELLED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
_MAX_CHARS = 200


@lru_cache(maxsize=64)
def in_english(text: str) -> str:
    """Return a German question in English; any other text, and one with an unknown word, as it is."""
    if len(text) > _MAX_CHARS or not _GERMAN.search(text):
        return text
    german = text
    for pattern, instead in _PHRASES:
        german = pattern.sub(instead, german)
    table, found = _table(), _WORD.findall(german)
    english = []
    for word, after in zip(found, [*found[1:], ""], strict=True):
        if (key := word.lower().translate(_SPELLED)) == "das":
            english.append("the" if after[:1].isupper() and after.lower() in table else "that")
        elif _CODE.search(word):
            english.append(word)
        elif key in table:
            english.append(table[key])
        else:
            return text
    return re.sub(r" (?=[?!.,;:])", "", " ".join(english))


@cache
def _table() -> dict[str, str]:
    """Return the English of each German word."""
    lines = shipped("data/german.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(":") for line in lines if not line.startswith("#"))
    return {word: english for english, words in pairs for word in words.split()}
