"""Recognise a question that asks for one definition by its name: "Where is open_file defined?".

Such a question is answered by the definitions of that name, wherever they are and whatever else fits.
"""

from __future__ import annotations

import re

import numpy as np

from rag.analysis import is_stop_word
from rag.ports import ChunkIndex
from rag.retrieval.question import ParsedQuestion, last_part
from rag.retrieval.rank import chunk_at, defining_chunks

MAX_CHUNKS = 24
"""A name that more chunks define is no answer by itself."""
UNITS = r"(?:function|method|class|struct|type|interface|trait|module|macro|constant|enum)"
UNIT, AFTER = rf"(?:(?:the|an?) )?(?:{UNITS} )?", rf"(?: {UNITS})?"
_PART = r"[A-Za-z_$*%][\w$*%'-]{0,120}"
NAME = rf"[`\"'“‘]?({_PART}(?:(?:\.|::?|->|#|/){_PART}){{0,6}}[!?]?)(?:\(\))?[`\"'”’]?"
HERE = r"(?: in (?:this|the) (?:repo\w*|code\w*|project|package|library))?\W*\Z"
_PLAIN = re.compile(
    rf"\A\W*(?:where (?:is|are) {UNIT}{NAME}{AFTER} (?:defined|declared|implemented)"
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


def asked_definition(question: ParsedQuestion) -> str:
    """Return the name whose definition is all that a question asks for; "" if it asks for more."""
    if found := _PLAIN.match(question.text):
        name = next(filter(None, found.groups()))
        return "" if is_stop_word(name) else name
    found = _OF_CODE.match(question.text)
    is_written = found and (found[1] in question.names or not found[1].isidentifier())
    return found[1] if found and is_written else ""


def definition_chunks(index: ChunkIndex, name: str) -> list[int]:
    """Return the chunks that define a name; of `Client.send` those in `Client`, if it has one.

    In code they are those where a definition begins; a short one may share its chunk with others. Elsewhere
    those that are written like the name count alone, if there are any. None are returned if there are more
    than `MAX_CHUNKS`.
    """
    heads = [chunk_at(index, index.chunks_of(one.path), one.start) for one in index.graph.definitions(name)]
    if heads:
        return list(dict.fromkeys(heads)) if len(set(heads)) <= MAX_CHUNKS else []
    whole = [] if name.isidentifier() else index.defining(name)
    found = dict.fromkeys(whole, 1.0) or dict(defining_chunks(index, name))
    highest = max(found.values(), default=0.0)
    best = [chunk for chunk, value in found.items() if value == highest]
    if len(best) > MAX_CHUNKS:
        return []
    written = index.names(np.asarray(best, np.int64)) if best else []
    exact = [chunk for chunk, (symbol, _) in zip(best, written, strict=False) if symbol == last_part(name)]
    return exact or best
