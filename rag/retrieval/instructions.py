"""Remove what is not part of the question itself: greetings, thanks, the form of the answer, and context.

These words need not occur in a repository. Simple rules recognise them: phrases that are never the subject of
a question, sentences and sentence endings that consist only of words about the form of an answer, and blocks
of tags that editors and agents add to a message.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rag.resources import shipped


def _blocks() -> dict[str, list[str]]:
    """Return the lines of the blocks of the file by the first line of each."""
    text = shipped("data/small_talk.txt").read_text(encoding="utf-8")
    blocks = (block.splitlines() for block in text.split("\n\n") if not block.startswith("#"))
    return {first: lines for first, *lines in blocks}


_SAID = _blocks()
_PHRASE = re.compile(rf"(?<![\w.])(?:{'|'.join(_SAID['phrases'])})(?!\w)", re.IGNORECASE)
_FORM, _BEGINS = (frozenset(" ".join(_SAID[name]).split()) for name in ("form", "begins"))
"""Words about the form of an answer, and those that an instruction begins with."""
_SENTENCE = re.compile(r"[^.?!\n:]+[.?!:]*")
_WORD = re.compile(r"[\w'-]+")
_QUOTED = re.compile(r"(`[^`\n]*`)")
_TAG = re.compile(r"(?<!`)<(/?)([a-z][\w-]{0,60})(?:\s[^<>\n]{0,200})?>", re.I)
_CLIENT_TAG = re.compile(
    r"\w+[-_][\w-]+|system|context|environment|instructions?|reminder|user|task|query|question|rules", re.I
)
"""Tags of chat clients. Other tags are code: `<div>`."""
_ENOUGH_WORDS = 3
"""A text around the blocks with this many words is the message."""


def without_client_blocks(text: str) -> str:
    """Return a message without the blocks that a client adds around it, such as `<context>…</context>`.

    If there is nothing else, the content of the last block is the message; one with a question mark is
    preferred.
    """
    blocks = _client_blocks(text) if "</" in text else []
    if not blocks:
        return text
    ends = [0, *(close.end() for _, close in blocks)]
    begins = [*(tag.start() for tag, _ in blocks), len(text)]
    outside = " ".join(text[end:begin] for end, begin in zip(ends, begins, strict=True))
    if len(_WORD.findall(outside)) >= _ENOUGH_WORDS:
        return outside
    inside = [text[tag.end() : close.start()] for tag, close in blocks]
    return next((content for content in reversed(inside) if "?" in content), inside[-1])


def _client_blocks(text: str) -> list[tuple[re.Match[str], re.Match[str]]]:
    """Return the outermost client blocks as pairs of tags, in linear time: unclosed tags are skipped once."""
    blocks: list[tuple[re.Match[str], re.Match[str]]] = []
    opened: dict[str, re.Match[str]] = {}
    for tag in _TAG.finditer(text):
        name = tag[2].lower()
        if not _CLIENT_TAG.fullmatch(name):
            continue
        if not tag[1]:
            opened.setdefault(name, tag)
        elif name in opened:
            begin = opened[name]
            while opened.popitem()[0] != name:  # tags inside the block that were not closed
                pass
            while blocks and blocks[-1][0].start() > begin.start():
                blocks.pop()
            blocks.append((begin, tag))
    return blocks


@lru_cache(maxsize=64)
def without_instructions(text: str) -> str:
    """Return the question without greetings, thanks and instructions about the form of its answer.

    Quoted code is kept. A text without any of these is returned unchanged.
    """
    parts = _QUOTED.split(without_client_blocks(text))
    kept = [
        part if n % 2 else _PHRASE.sub(" ", _SENTENCE.sub(_question, part)) for n, part in enumerate(parts)
    ]
    return "".join(kept)


def _question(sentence: re.Match[str]) -> str:
    """Return a sentence, or nothing if it only says how to answer. A sentence that asks is never dropped."""
    words = [word.lower() for word in _WORD.findall(_PHRASE.sub(" ", sentence[0]))]
    is_instruction = (
        bool(words) and words[0] in _BEGINS and _FORM.issuperset(word for word in words if not word.isdigit())
    )
    return " " if is_instruction and "?" not in sentence[0] else sentence[0]
