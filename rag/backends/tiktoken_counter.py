"""Token counts by tiktoken if the model's encoding is available, else estimates on the high side.

Nothing is downloaded: an encoding is only used if its file is in `TIKTOKEN_CACHE_DIR` (by default that of
this package) with the right content; tiktoken would download a missing file, and replace one that differs.
Text such as `<|endoftext|>` is treated as plain text.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import string
from functools import cache, lru_cache, partial
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rag.backends.learned_counter import LearnedCounter
from rag.ports import TokenCounter
from rag.resources import shipped

if TYPE_CHECKING:
    import tiktoken

_FILES = {
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
}
"""Name and SHA-256 of each encoding's file; the name is the SHA-1 of its download URL in tiktoken."""

_O200K_FACTOR = 1.2
"""o200k_base took at most 1.16 times cl100k_base's tokens on 1,500-character pieces of installed packages."""

_FOREIGN_FACTOR = 1.35
"""Other vocabularies (Llama, Mistral, Qwen, SmolLM, Claude) are smaller, or split code more finely."""

_LONGEST_RUN = 4_000
"""Runs without breaks are split at this length, as merging is quadratic in some versions of tiktoken."""

_CUTS = re.compile(rf"\S{{{_LONGEST_RUN}}}|\s{{{_LONGEST_RUN}}}")
_LINES = re.compile(r"[^\n]*+(?:\n(?![ \t]*+[^\s/])[^\n]*+)*+\n?+")
"""Lines that can be counted alone, with those after them that cannot: in these encodings, no token has a line
break before spaces and tabs that are followed by a character other than whitespace or a slash.
"""

_ASCII_WORDS = re.compile(
    rb"'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\nA-Za-z0-9]?+[A-Za-z]++|[0-9]{1,3}+"
    rb"| ?[^\sA-Za-z0-9]++[\r\n]*+|\s++\Z|\s*[\r\n]|\s+(?!\S)|\s"
)
"""The words that cl100k_base divides a text of ASCII into before it looks for tokens. Most are a token: to
look them up takes half the time of encoding the text.
"""


def open_counter(model: str | None, learned: Path | None = None) -> TokenCounter:
    """Return the counter for a model, by its name; None means that no model reads the text.

    Counts are exact for OpenAI's models if the encoding's file is available; for others, cl100k_base's count
    is multiplied by a factor: a flat one, or if `learned` is a file, one that is learned there. Without a
    model or the encoding's file, counts are estimated from characters, which needs no start-up time.
    """
    if model is None:
        return EstimateCounter()
    wanted = _encoding_name(model)
    if wanted is not None and _is_available(wanted):
        return TiktokenCounter(wanted)
    factor = _FOREIGN_FACTOR if wanted is None else _O200K_FACTOR
    base: TokenCounter = TiktokenCounter("cl100k_base") if _is_available("cl100k_base") else EstimateCounter()
    return LearnedCounter(base, factor, learned) if learned else RaisedCounter(base, factor)


def counter_of_answers(model: str) -> TokenCounter:
    """Return the counter for a model's output; unlike that of `open_counter` it is not raised."""
    name = _encoding_name(model)
    available = next((one for one in (name, "cl100k_base") if one is not None and _is_available(one)), None)
    return EstimateCounter() if available is None else TiktokenCounter(available)


class TiktokenCounter:
    """Counts with one of tiktoken's encodings, which is loaded (0.3 s) on the first count."""

    def __init__(self, encoding: str = "cl100k_base") -> None:
        self.name = encoding

    def count(self, text: str) -> int:
        """Return the number of tokens; exact except for runs of thousands of characters, which count high."""
        return sum(map(partial(tokens_of_block, self.name), _LINES.findall(text)))


class RaisedCounter:
    """Multiplies another counter's count by a factor, for a vocabulary that is not available."""

    def __init__(self, base: TokenCounter, factor: float) -> None:
        self._base, self._factor = base, factor
        self.name = f"{base.name} × {factor}"

    def count(self, text: str) -> int:
        """Return an estimate on the high side; 0 for ""."""
        return math.ceil(self._base.count(text) * self._factor) + 1 if text else 0


_LOWER, _UPPER, _DIGIT, _SPACE, _BREAK, _MARK, _OTHER = range(1, 8)
_KINDS = np.full(256, _OTHER, np.uint8)
for _kind, _bytes in (
    (_LOWER, string.ascii_lowercase),
    (_UPPER, string.ascii_uppercase),
    (_DIGIT, string.digits),
    (_SPACE, " "),
    (_BREAK, "\t\n\r\x0b\x0c"),
    (_MARK, string.punctuation),
):
    _KINDS[list(_bytes.encode())] = _kind
"""The kind of each byte of UTF-8; for non-ASCII and control characters every byte is counted."""
_PER_TOKEN = np.asarray([1, 4, 2, 3, 8, 8, 4, 1], np.int32)
"""The number of bytes of each kind per token."""


_CACHED_CHARS = 8_000
"""Longer texts, such as whole prompts, are seldom counted twice."""


class EstimateCounter:
    """Estimates from characters: a token for 4 letters, 2 capitals, 3 digits, 4 equal marks, 1 other byte.

    Errs on the high side for code, prose, and any script: about 1.5 times cl100k_base's count for English and
    code, more for other scripts. Tables of random letters may be undercounted.

    A capital that starts a word after other capitals counts with both; a space before digits counts with
    them, other single spaces do not count.
    """

    name = "estimate"

    def count(self, text: str) -> int:
        """Return an estimate on the high side; 0 for ""."""
        return _estimated(text) if len(text) <= _CACHED_CHARS else _estimated.__wrapped__(text)


@lru_cache(maxsize=1024)
def _estimated(text: str) -> int:
    """Return the estimate of a text; cached, as every question counts the turns before it."""
    if not text:
        return 0
    raw = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    kinds = _KINDS[raw]
    # A run consists of one kind; a run of marks, of one mark.
    ends = (kinds[1:] != kinds[:-1]) | ((kinds[1:] == _MARK) & (raw[1:] != raw[:-1]))
    starts = np.concatenate(([0], np.flatnonzero(ends) + 1))
    length = np.diff(starts, append=len(raw)).astype(np.int32)
    around = np.zeros(len(starts) + 2, np.uint8)
    around[1:-1] = kinds[starts]
    before, kind, after = around[:-2], around[1:-1], around[2:]
    per = _PER_TOKEN[kind]
    alone = length == 1
    spaced = (kind == _DIGIT) & (before == _SPACE)
    joined = spaced | ((kind == _LOWER) & (before == _UPPER))
    tokens = (length + joined + per - 1) // per
    begins_word = (kind == _UPPER) & alone & (after == _LOWER)
    single_space = (kind == _SPACE) & alone
    kept = np.count_nonzero(spaced) - np.count_nonzero(begins_word | single_space)
    return 1 + int(tokens.sum()) + int(kept)


@lru_cache(maxsize=16_384)
def tokens_of_block(name: str, block: str) -> int:
    """Return the tokens of a text; cached, as a prompt is counted again with each piece that is added."""
    if len(block) >= _LONGEST_RUN and _CUTS.search(block) is not None:
        pieces = _cut(block)
        return sum(_encoded(name, piece) for piece in pieces) + len(pieces) - 1
    if name != "cl100k_base" or not block.isascii():
        return _encoded(name, block)
    known, words = _vocabulary(name), _ASCII_WORDS.findall(block.encode())
    others = list(filterfalse(known.__contains__, words))
    return len(words) - len(others) + sum(_tokens_of_word(name, word) for word in others)


@lru_cache(maxsize=16_384)
def _tokens_of_word(name: str, word: bytes) -> int:
    """Return the tokens of a word of ASCII that is not a token itself."""
    return _encoded(name, word.decode("ascii"))


def _encoded(name: str, text: str) -> int:
    return len(_load(name).encode_ordinary(text))


@cache
def _vocabulary(name: str) -> frozenset[bytes]:
    return frozenset(_load(name).token_byte_values())


@cache
def _load(name: str) -> tiktoken.Encoding:
    import tiktoken

    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(_folder()))
    return tiktoken.get_encoding(name)


def _folder() -> Path:
    named = os.environ.get("TIKTOKEN_CACHE_DIR")
    return Path(named) if named else shipped("data/encodings")


def _is_available(name: str) -> bool:
    if os.environ.get("TIKTOKEN_CACHE_DIR") == "":
        return False  # for tiktoken, this means downloading every time
    file_name, sha256 = _FILES[name]
    try:
        content = (_folder() / file_name).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content).hexdigest() == sha256


def _encoding_name(model: str) -> str | None:
    """Return the encoding of an OpenAI model; None for others, and for encodings whose file is unknown."""
    import tiktoken.model

    try:
        name = tiktoken.model.encoding_name_for_model(model.rsplit("/", 1)[-1])
    except KeyError:
        return None
    if name == "o200k_harmony":
        return "o200k_base"  # the same vocabulary; only special tokens differ, which are never sent
    return name if name in _FILES else None


def _cut(text: str) -> list[str]:
    pieces, start = [], 0
    for match in _CUTS.finditer(text):
        pieces.append(text[start : match.end()])
        start = match.end()
    return [*pieces, text[start:]]
