"""Put a German question into English, word by word, if every word is known: `data/german.txt`.

Most follow-ups need few words: "wer ruft das auf?", "ist das getestet?", "was passiert, wenn es
fehlschlägt?". Their order is near enough to that of English to be read by the same rules. A question with any
other word is left as it is: a part of it in English would be neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from rag.analysis import terms, words
from rag.resources import shipped

_TOKEN = re.compile(
    r"""`[^`\n]*`|"[^"\n]*"|[“„«»][^“”„«»\n]*[“”«»]|(?<!\w)'[^'\n]*'(?!\w)"""
    r"|(?<![-$@.])[-$@.]*+\w++(?:[.:/#=-]+\w+)*(?:\(\))?"
)
"""A quotation, a name, or a word with what is written next to it: `send()`, `a.b`, `--limit`, `$token`."""
_WORD = re.compile(r"(?![A-Z]{2})[^\W\d_][^\W\d_A-ZÄÖÜ]*")
"""A token that is no name in any language."""
_GERMAN = re.compile(
    r"\b(?:wer|wo|wie|wann|warum|wieso|wird|werden|ist|sind|und|das|der|die|gibt|kann|nicht|mir|welche[rsnm]?"
    r"|wenn|oder|ich|den|eine[rnms]?)\b",
    re.I,
)
_PHRASES = (
    (re.compile(r"\bgibt es (?:dafür|dazu) tests\b", re.I), "ist das getestet"),
    (re.compile(r"(\bwelche .{1,80}?)\bgibt es\b", re.I), r"\1sind da"),
    (re.compile(r"\bgibt es\b(?!.*\bzurück\b)", re.I), "ist da"),
    (re.compile(r"\bläuft\b(.{1,80}?)\sab(?=\W*\Z)", re.I), r"abläuft\1"),
    (re.compile(r"\s(?:auf|an|ab)(?=\W*\Z)", re.I), ""),
    (re.compile(r"\b[Dd]as(?= [A-ZÄÖÜ])"), "der"),
)
"""German that cannot be put into English word by word: "gibt es", verbs in two parts, and "das" before a
noun.
"""
_SPELLED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
_MAX_CHARS = 200
_MIN_GERMAN = 2
"""A text with fewer words that other languages lack may be in one of these: "the die is cast"."""


def in_english(text: str, is_defined: Callable[[str], bool] = lambda _: False) -> str:
    """Return a German question in English; any other text, and one with an unknown word, as it is.

    A noun that the code defines is its name: `Benutzer` stays, between backticks.
    """
    if len(text) > _MAX_CHARS or not _GERMAN.search(text):
        return text
    german = text
    for pattern, instead in _PHRASES:
        german = pattern.sub(instead, german)
    table = _table()

    def english(token: re.Match[str]) -> str:
        word = token[0]
        if not _WORD.fullmatch(word):
            return word
        meaning = table[word.lower().translate(_SPELLED)]
        is_noun = token.start() and word[0].isupper() and meaning != word.lower()
        return f"`{word}`" if is_noun and is_defined(word) else meaning

    try:
        return _TOKEN.sub(english, german)
    except KeyError:
        return text


def function_words(text: str) -> set[str]:
    """Return the words of a German text, in lower case, that mean stop words: "wird", "ein"."""
    if len(text) > _MAX_CHARS or len({word.lower() for word in _GERMAN.findall(text)}) < _MIN_GERMAN:
        return set()
    spoken = {word.lower() for word in words(text)}
    meanings = ((word, _table().get(word.translate(_SPELLED), "")) for word in spoken)
    return {word for word, meaning in meanings if meaning and not terms(meaning)}


@cache
def _table() -> dict[str, str]:
    """Return the English of each German word."""
    lines = shipped("data/german.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(":") for line in lines if not line.startswith("#"))
    return {word: english for english, words in pairs for word in words.split()}
