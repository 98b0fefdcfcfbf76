"""What a name looks like in any script, and the form in which names and texts are compared.

A name is what Unicode calls an identifier: letters, digits, underscores and combining marks, not beginning
with a digit; here also with the `$` of some languages. One text has several spellings in Unicode ("é" is one
character, or "e" with an accent): compared are composed forms (NFC). What is stored, cited and quoted keeps
its own spelling. Text in ASCII, nearly all code, pays one check for this.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_WITH_CASE = "".join(map(chr, (*range(0x80, 0x590), *range(0x10A0, 0x1100), *range(0x1C80, 0x2000))))
"""The characters outside ASCII among which are the scripts with upper and lower case."""
UPPER = "A-Z" + "".join(filter(str.isupper, _WITH_CASE))
LOWER = "a-z" + "".join(filter(str.islower, _WITH_CASE))
"""The letters of each case, for a set of a regular expression."""
CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Chinese, Japanese and Korean characters, which are written without spaces."""
MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963"
    "\u0966-\u0dff\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1-\u0ebc\u0f71-\u0f84\u1037-\u103e\u17b6-\u17d3\u200c\u200d"
)
"""What may follow a letter in a name and is none itself, for a set: accents, vowel signs, joiners."""
NAME = rf"(?!\d)[\w${MARKS}]+"
"""The expression of a name."""
QUALIFIED = rf"{NAME}(?:(?:\.|::|->|#){NAME})*"
"""The expression of a name with those of what has it."""
CAMEL = rf"[{LOWER}\d][{UPPER}]"
"""The expression of the place in a name at which upper case begins a word."""
LIKE_CODE = rf"{CAMEL}|_|[^\W\d]\d"
"""The expression of what only names have, and words of no text."""
UNCASED = rf"[^\W\d_{LOWER}{UPPER}]"
"""The expression of a letter of a script without upper case: among words in Latin letters it is of a name."""

_NAMES = re.compile(rf"{QUALIFIED}(?:\(\))?")
_RUNS = re.compile(rf"[{CJK}]+|[^\W{CJK}]+(?:(?:\.|::|->|#)[^\W{CJK}]+)*")
_HAS_CJK = re.compile(f"[{CJK}]")


def composed(text: str) -> str:
    """Return a text in the form in which it is compared (NFC); its lines are the same."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def folded(text: str) -> str:
    """Return a text in the form in which it is compared without case: "groß" and "GROSS" are one."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", text.casefold())


def spellings(text: str) -> str:
    """Return an expression (of `re` and RE2) for a text in all mixtures of composed and decomposed forms."""
    if text.isascii():
        return re.escape(text)
    return "".join(map(_spellings_of, composed(text)))


@lru_cache(maxsize=4_096)
def _spellings_of(character: str) -> str:
    parts = unicodedata.normalize("NFD", character)
    forms = {composed(parts[:end]) + parts[end:]: None for end in range(len(parts), 0, -1)}
    if len(forms) == 1:
        return re.escape(character)
    return f"(?:{'|'.join(forms)})"


def names_in(text: str) -> Iterator[str]:
    """Yield the names in a text, as they are written: with "()" where that follows.

    Between characters that are written without spaces a name may end: `check_token在哪里` is a name if it is
    defined, else `check_token` is one.
    """
    for name in _NAMES.findall(text):
        yield name
        if not name.isascii() and _HAS_CJK.search(name):
            yield from (run for run in _RUNS.findall(name) if run != name and not run[0].isdigit())
