"""Detect whether a question is in a language other than English, which most code and comments use."""

from __future__ import annotations

import re
from collections.abc import Callable

from rag.analysis import is_stop_word, terms
from rag.identifiers import CAMEL, CJK
from rag.ports import Embedder, takes_bags
from rag.retrieval.log_prefix import without_log_prefixes
from rag.retrieval.specificity import specificity

_LETTER = rf"[^\W{CJK}]"
_NO_PROSE = re.compile(
    rf"`[^`\n]*`|(?<!{_LETTER})(?:{_LETTER}++(?:\.{_LETTER}++)+|(?={_LETTER}*?(?:_|{CAMEL})){_LETTER}++)"
)
"""Code between backticks, dotted names, and names with an underscore or upper case inside."""
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_ENGLISH = frozenset(
    """
    all and any are been by can could did does each for from had have how if into it its not or should that
    the their them there they this to what when where which who why with would you your
    """.split()
)
"""Words that few other languages have, and most English questions."""
_RUN = re.compile(r"\w+")
_HAS_CJK = re.compile(f"[{CJK}]")
_MAX_RUN = 40
"""No name is looked for in a longer run of characters without spaces."""
_OTHER_SCRIPT = re.compile(r"[^\W\d_\u0000-\u024f]")
_MIN_WORDS = 3
"""Fewer words are too few to decide; they may all be names."""
_ENGLISH_SHARE = 0.75
"""At least this share of an English question's words is English or usual in code; in other languages up to
two of three.
"""


def names_apart(text: str, is_defined: Callable[[str], bool]) -> str:
    """Return a text with the names that are defined between backticks, where it is written without spaces."""
    return text if text.isascii() else _RUN.sub(lambda run: _apart(run[0], is_defined), text)


def _apart(run: str, is_defined: Callable[[str], bool]) -> str:
    """Return a run of characters with the longest names in it apart."""
    if len(run) > _MAX_RUN or not _HAS_CJK.search(run):
        return run
    parts = [run[at : at + size] for size in range(len(run), 1, -1) for at in range(len(run) - size + 1)]
    for part in parts:
        if is_defined(part):
            before, _, after = run.partition(part)
            return f"{_apart(before, is_defined)} `{part}` {_apart(after, is_defined)}".strip()
    return run


def is_foreign(text: str, embedder: Embedder) -> bool:
    """Return whether a text is in another language, by its script, else by its words; names are ignored.

    An embedder that looks up words knows which words are usual in code. With the built-in one, none of the
    655 development questions (all English) and none of the 28 questions in 16 other languages used for tuning
    is classified wrongly.
    """
    text = _NO_PROSE.sub(" ", without_log_prefixes(text))
    words = [word.lower() for word in _WORD.findall(text) if len(word) > 1 and word[1:].islower()]
    if len(_OTHER_SCRIPT.findall(text)) > 1:
        return not any(map(is_stop_word, words))  # in an English question it is a name
    if len(words) < _MIN_WORDS or not _ENGLISH.isdisjoint(words):
        return False
    return sum(_is_known(word, embedder) for word in words) < _ENGLISH_SHARE * len(words)


def _is_known(word: str, embedder: Embedder) -> bool:
    """Return whether a word is English or usual in code."""
    if is_stop_word(word):
        return True
    term = "".join(terms(word)[-1:])
    return specificity(term) < 0.5 or (takes_bags(embedder) and embedder.knows(term))
