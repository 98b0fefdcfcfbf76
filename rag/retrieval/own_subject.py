"""Recognise a follow-up that names its own subject, so that it is not about that of the conversation.

"Who calls parse_range?" is never answered about another definition, whatever the conversation is about: what
it names is searched for as in a first question, and if it is nowhere, the answer says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag.analysis import terms, words
from rag.ports import ChunkIndex
from rag.retrieval.literal import quoted
from rag.retrieval.mentions import asks_only_for_paths, has_path
from rag.retrieval.question import ParsedQuestion, last_part
from rag.retrieval.working_set import names_said, own_terms

_PHRASE_TERMS = 2
"""A quotation with more terms is a text to find; with fewer, it may be a word for what was shown."""


def names_its_subject(indexes: Sequence[ChunkIndex], question: ParsedQuestion) -> bool:
    """Return whether a question says no "it" and names a definition or a file that exists, or what occurs
    nowhere; or quotes a text; or asks for the callers or the tests of a name.

    Any other name, such as that of an exception, only says more about what was shown.
    """
    if question.refers or not own_terms(question):
        return False
    if any(len(terms(phrase)) > _PHRASE_TERMS for phrase in quoted(question.text)):
        return True
    if any("." in path for path in question.paths) and asks_only_for_paths(question):
        return True
    if any(has_path(index, path) for path in question.paths for index in indexes):
        return True
    names = names_said(question)
    if not question.asks.isdisjoint(("callers", "tests")):
        return any(names)
    return any(_is_defined(indexes, name) or _is_nowhere(indexes, name) for name in names)


def _is_defined(indexes: Sequence[ChunkIndex], name: str) -> bool:
    return any(index.defining(last_part(name)) or index.graph.definitions(name) for index in indexes)


def _is_nowhere(indexes: Sequence[ChunkIndex], name: str) -> bool:
    whole = [term for word in words(name) for term in terms(word)[-1:]]
    return any(not any(len(index.postings(term).chunks) for index in indexes) for term in whole)
