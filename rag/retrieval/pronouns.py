"""Recognise a question that names nothing but "it": "Who calls it?", "What happens if it fails?".

Such a question has a pronoun, words for what is asked of a definition, and no others. It is about the subject
of the conversation; without a subject it means nothing.
"""

from __future__ import annotations

import re

from rag.analysis import is_stop_word, words
from rag.retrieval.instructions import without_instructions

_PLACES = frozenset(
    "class classes file files function functions method methods place places type types".split()
)
_RELATIONS = frozenset(
    """call called caller callers calling calls cover covered covers crash crashes default defaults depend
    depends error errors exception exceptions extend extended extends fail failed failing fails failure
    failures go goes happen happens import imported imports inherit inherits invoke invoked invokes override
    overridden overrides raise raised raises reference referenced references return returned returns subclass
    subclasses throw throwing throws thrown trigger triggered triggers wrong""".split()
)
_OF_ANYTHING = frozenset(
    "test tested testing tests unit untested added introduced defined declared read reads set sets".split()
)
_PRONOUN = re.compile(
    r"\b(?:it|its|they|them|their|those|these|(?P<near>this)|(?<!function )(?<!method )(?<!class )(?<!tests )"
    r"(?<!test )(?<!error )(?<!errors )(?<!exception )(?<!exceptions )that)"
    r"\b(?: (?:function|method|class|exceptions?|errors?|tests?)\b)?",
    re.I,
)
"""A pronoun, but not "that" of "the test that fails". A first "this" may mean the repository."""
_USES = re.compile(
    r"\b(?:who|what)(?: else)? uses\b|\bwhere (?:is|are) \w+(?: \w+)? used\b(?! (?:for|to)\b)", re.I
)
_OF_A_USER = re.compile(r"\b(?:do|can|could|should|would|must|to) (?:i|we)\b", re.I)
_MAX_CHARS = 160


def bare_pronoun(question: str) -> str:
    """Return the pronoun of a question that names nothing else; "" if it names something."""
    if len(question) > _MAX_CHARS or "`" in question:
        return ""
    text = without_instructions(question)
    found = _PRONOUN.search(text)
    if found is None or _OF_A_USER.search(text):
        return ""
    own = _meaningful(text)
    if not (_RELATIONS | _OF_ANYTHING | _PLACES).issuperset(own):
        return ""
    asks_of_code = not _RELATIONS.isdisjoint(own) or _USES.search(text) is not None
    asks = asks_of_code or (not _OF_ANYTHING.isdisjoint(own) and not found["near"])
    return found[0].lower() if asks else ""


def with_its_meaning(question: str, meaning: str) -> str:
    """Return a question that names nothing but "it" with what that means; else the meaning alone."""
    if not bare_pronoun(question):
        return meaning
    return _PRONOUN.sub(lambda _: meaning, question, count=1)


def _meaningful(text: str) -> list[str]:
    return [word.lower() for word in words(_PRONOUN.sub(" ", text)) if not is_stop_word(word)]
