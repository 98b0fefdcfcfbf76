"""Find where a URL path that a question names is a string of the code: "what handles /users/{id}?".

A router often has only the end of the path, as groups of routes have the beginning; so if the whole path is
nowhere, its first parts are left out one by one. A parameter may be written in another way: `:id`, `{id}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag.analysis import terms, words
from rag.ports import ChunkIndex
from rag.retrieval.rank import CODE, TEST

_PART = r"[\w:{}<>*@%$~-][\w:{}<>*@%$.~-]{0,80}"
_PATH = re.compile(rf"(?<![\w/.~:>)\]-])/{_PART}(?:/{_PART}){{0,12}}/?")
_ASKS = re.compile(
    r"\b(?:routes?|routed|endpoints?|handlers?|handles?|handled|serve[sd]?|serving|urls?|api|http|requests?"
    r"|registered|mounted|exposed|GET|POST|PUT|PATCH|DELETE)\b"
)
_PARAMETER = re.compile(r"[:{<*$].*|\d+")
_WORD = re.compile(r"[A-Za-z]{3,}")
_MAX_READ = 256
_MAX_CHUNKS = 8


def url_path_chunks(index: ChunkIndex, text: str) -> list[int]:
    """Return the chunks of code with a string that is the URL path of a question, or its end; else of tests.

    Empty if the text names none, does not ask about one, or more than eight chunks have it.
    """
    asked = _PATH.search(text) if _ASKS.search(text) else None
    parts = asked[0].rstrip("/?.").strip("/").split("/") if asked else []
    tests: list[int] = []
    while any(map(_WORD.search, parts)):
        found = list(_holding(index, parts))
        if code := [chunk for chunk in found if index.kind[chunk] == CODE]:
            return code if len(code) <= _MAX_CHUNKS else []
        tests = tests or [chunk for chunk in found if index.kind[chunk] == TEST]
        parts = parts[1:]
    return tests if len(tests) <= _MAX_CHUNKS else []


def _holding(index: ChunkIndex, parts: list[str]) -> Iterator[int]:
    """Yield the chunks with a string that consists of these parts of a path."""
    written = "/".join(r"[^/\"'`\s]+" if _PARAMETER.fullmatch(part) else re.escape(part) for part in parts)
    slash = "/?" if len(parts) > 1 else "/"  # without it, one word is any string
    string = re.compile(rf"[\"'`]\^?(?:[A-Z]{{3,7}} )?{slash}{written}/?\$?[\"'`]")
    named = [word for part in parts if not _PARAMETER.fullmatch(part) for word in words(part)]
    lists = [index.postings(whole).chunks for word in named for whole in terms(word)[-1:]]
    if lists:
        for chunk in min(lists, key=len)[:_MAX_READ].tolist():
            if string.search(index.hit(chunk, 0.0, {}).text):
                yield chunk
