"""Recognise a question that asks for one definition by its name: "Where is open_file defined?".

Such a question is answered by the definitions of that name, wherever they are and whatever else fits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from rag.analysis import is_stop_word
from rag.identifiers import MARKS, composed
from rag.ports import ChunkIndex
from rag.retrieval.question import ParsedQuestion, last_part, without_marks
from rag.retrieval.rank import chunk_at, defining_chunks
from rag.types import CodeDefinition

MAX_CHUNKS = 24
"""A name that more chunks define is no answer by itself."""
UNITS = r"(?:function|method|class|struct|type|interface|trait|module|macro|constant|enum)"
UNIT, AFTER = rf"(?:(?:the|an?) )?(?:{UNITS} )?", rf"(?: {UNITS})?"
_PART = rf"[~#]?(?!\d)[\w$*%{MARKS}][\w$*%'{MARKS}-]{{0,120}}"
_MARKS = "`\"'“‘"
"""What may stand before a name; a word with it is one, also if it is a word of any text."""
NAME = rf"[{_MARKS}]?({_PART}(?:(?:\.|::?|->|#|/){_PART}){{0,6}}[!?]?)(?:\(\))?[`\"'”’]?"
HERE = r"(?: in (?:this|the) (?:repo\w*|code\w*|project|package|library))?\W*\Z"
_PLAIN = re.compile(
    rf"\A\W*(?:where (?:is|are) {UNIT}{NAME}{AFTER} (?:defined|declared|implemented)"
    rf"|(?:in )?(?:which|what) (?:file|module|place) (?:is|are) {UNIT}{NAME}{AFTER}"
    rf" (?:defined|declared|implemented|in)"
    rf"|(?:which|what) (?:file|module) (?:defines|declares|implements|contains|has) {UNIT}{NAME}{AFTER}"
    rf"|what does {UNIT}{NAME}{AFTER} do"
    rf"|(?:(?:please )?show(?: me)? )?(?:the )?(?:code|source|source code|definition|implementation)"
    rf" (?:of|for) {UNIT}{NAME}{AFTER}){HERE}",
    re.I,
)
"""What asks for a definition even if the name is a word of any text."""
_OF_CODE = re.compile(
    rf"\A\W*(?:(?:please )?(?:explain|describe|show|show me|find|look up)|where is|what is|how does) "
    rf"{UNIT}{NAME}{AFTER}(?: work)?{HERE}",
    re.I,
)
"""The same if the name is written like code: with punctuation, or between backticks."""


_SPAN, _SPANNED = re.compile(r"`([^`\n]{1,200})`"), "spanned_name"
_DECLARES = 1.2
"""What the declaration of a type counts; another definition of its name counts 1."""


def asked_definition(question: ParsedQuestion) -> str:
    """Return the name whose definition is all that a question asks for; "" if it asks for more."""
    spans = _SPAN.findall(question.text)
    if len(spans) == 1 and not re.fullmatch(NAME, spans[0]):  # "`<=>`", "`a title with spaces`"
        found = _PLAIN.match(_SPAN.sub(f"`{_SPANNED}`", question.text))
        return spans[0] if found and found[found.lastindex or 0] == _SPANNED else ""
    if found := _PLAIN.match(question.text):
        name = found[found.lastindex or 0]
        is_marked = found.string[found.start(found.lastindex or 0) - 1] in _MARKS
        return "" if is_stop_word(without_marks(name)) and not is_marked else name
    found = _OF_CODE.match(question.text)
    name = without_marks(found[1]) if found else ""
    is_written = name in question.names or not (name.isidentifier() or is_stop_word(name))
    return found[1] if found and name and is_written else ""


def definition_chunks(index: ChunkIndex, name: str) -> dict[int, float]:
    """Return the chunks that define a name, with how well; of `Client.send` those in `Client`, if it has one.

    In code they are those where a definition begins; a short one may share its chunk with others. Elsewhere
    those that are written like the name count alone, if there are any. A mark at the end may be that of the
    question. The declaration of a type comes before its constructors. None are returned if there are more
    than `MAX_CHUNKS`.
    """
    chunks = _defining(index, name)
    if not chunks and (plain := without_marks(name)) not in ("", name):
        return definition_chunks(index, plain)
    if len(chunks) > MAX_CHUNKS:
        return {}
    declares = re.compile(rf"\b{UNITS}\s+{re.escape(last_part(name))}(?![\w$])")
    return {
        chunk: _DECLARES
        if len(chunks) > 1 and declares.search(composed(index.hit(chunk, 0.0, {}).text))
        else 1.0
        for chunk in chunks
    }


def _defining(index: ChunkIndex, name: str) -> list[int]:
    if heads := _heads(index, index.graph.definitions(name) or index.graph.values(name)):
        return heads
    whole = [] if name.isidentifier() else index.defining(name)
    found = dict.fromkeys(whole, 1.0) or dict(defining_chunks(index, name))
    highest = max(found.values(), default=0.0)
    best = [chunk for chunk, value in found.items() if value == highest]
    written = index.names(np.asarray(best, np.int64)) if 0 < len(best) <= MAX_CHUNKS else []
    exact = [chunk for chunk, (symbol, _) in zip(best, written, strict=False) if symbol == last_part(name)]
    return exact or best


def _heads(index: ChunkIndex, found: Sequence[CodeDefinition]) -> list[int]:
    """Return the chunks in which definitions begin."""
    return list(dict.fromkeys(chunk_at(index, index.chunks_of(one.path), one.start) for one in found))
