"""Read a model's rewording of a question: lines, whatever marks, labels or JSON a model puts around them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag.parsing import parse_json
from rag.quoting import CONTROLS
from rag.types import Rewording

MAX_PHRASINGS = 4
_MAX_CHARS, _MAX_PHRASING_CHARS = 8_000, 200
_IS_QUESTION = re.compile("[?？؟]\\s*$")
"""In any script."""
_MARK = re.compile(r"\A(?:[-*•>#]|\(?\d{1,2}[.):])\s*")
_LABEL = re.compile(
    r"\A\W*(?:the |a )?(?:standalone |rewritten |first |search )?"
    r"(?:question|words|line|query|phras\w+)\b[^:?\n]{0,40}:\s*",
    re.IGNORECASE,
)
"""Small models repeat the label of what they were asked for."""
_QUOTES = " \t`*_\"'“”«»"


def read_rewording(reply: str, question: str, *, leans: bool) -> Rewording:
    """Return what a model's reply says; an empty rewording if it says nothing of use.

    Args:
        reply: untrusted text.
        question: the question as typed.
        leans: whether the first line is the standalone question. A small model sometimes answers a question
            instead: a first line that is no question, where the typed one is, is taken for a phrasing, and
            if it is the only line for nothing.
    """
    lines = list(dict.fromkeys(_lines(reply[:_MAX_CHARS])))
    standalone = ""
    if leans and lines:
        is_rewritten = not _IS_QUESTION.search(question) or _IS_QUESTION.search(lines[0])
        standalone = lines.pop(0) if is_rewritten else ""
        if not standalone and len(lines) == 1:
            return Rewording()
    asked = {question.strip().casefold(), standalone.casefold()}
    phrasings = [line[:_MAX_PHRASING_CHARS].rstrip() for line in lines if line.casefold() not in asked]
    return Rewording(standalone, tuple(phrasings[:MAX_PHRASINGS]))


def _lines(reply: str) -> Iterator[str]:
    """Yield the lines of a reply, or the strings of JSON, without marks, labels and control characters."""
    text = "\n".join(line for line in reply.splitlines() if not line.lstrip().startswith("```")).strip()
    for line in _strings(text) if text[:1] in ("{", "[") else text.splitlines():
        plain = " ".join(_LABEL.sub("", _MARK.sub("", line.strip())).split())
        plain = plain.translate(CONTROLS).replace("\N{REPLACEMENT CHARACTER}", "").strip(_QUOTES)
        if re.search(r"\w\w", plain) and not plain.endswith(":"):
            yield plain


def _strings(text: str) -> list[str]:
    """Return the strings in a JSON value, in order; the lines of a text that is none."""
    try:
        values = [parse_json(text)]
    except ValueError:
        return text.splitlines()
    found: list[str] = []
    while values:
        value = values.pop(0)
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, (list, dict)):
            values[:0] = value.values() if isinstance(value, dict) else value
    return found
