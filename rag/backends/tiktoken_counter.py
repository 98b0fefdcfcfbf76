"""Token counts by tiktoken when the model's encoding is at hand, else estimates that err high.

Nothing is ever downloaded: an encoding is used only when its file lies in `TIKTOKEN_CACHE_DIR` (ours
unless the user names another folder) with the right content; tiktoken would fetch a missing file, and
delete and fetch one that differs. Text such as `<|endoftext|>` is just text.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import string
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

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
"""Name and SHA-256 of each encoding's file: the name is the SHA-1 of the address tiktoken has it from."""

_O200K_FACTOR = 1.2
"""o200k_base took at most 1.16 times cl100k_base's tokens on 1,500-character pieces of installed packages."""

_FOREIGN_FACTOR = 1.35
"""Other vocabularies (Llama, Mistral, Qwen, SmolLM, Claude) are smaller, or cut code finer."""

_LONGEST_RUN = 4_000
"""Unbroken runs are cut here: merging is quadratic in their length in some versions of tiktoken."""

_CUTS = re.compile(rf"\S{{{_LONGEST_RUN}}}|\s{{{_LONGEST_RUN}}}")


def open_counter(model: str | None) -> TokenCounter:
    """Return the counter for a model, by its name; None means that no model reads the text.

    Exact for OpenAI's models when their encoding's file is at hand; for others cl100k_base's count is
    raised by what their vocabularies may need more. Without a model, or without any file, an estimate by
    characters, which costs no start-up time.
    """
    if model is None:
        return EstimateCounter()
    wanted = _encoding_name(model)
    if wanted is not None and _at_hand(wanted):
        return TiktokenCounter(wanted)
    factor = _FOREIGN_FACTOR if wanted is None else _O200K_FACTOR
    base: TokenCounter = TiktokenCounter("cl100k_base") if _at_hand("cl100k_base") else EstimateCounter()
    return RaisedCounter(base, factor)


def counter_of_answers(model: str) -> TokenCounter:
    """Return the counter for what a model wrote: unlike `open_counter`'s it is not raised to err high."""
    name = _encoding_name(model)
    at_hand = next((one for one in (name, "cl100k_base") if one is not None and _at_hand(one)), None)
    return EstimateCounter() if at_hand is None else TiktokenCounter(at_hand)


class TiktokenCounter:
    """Counts with one of tiktoken's encodings, loaded (0.3 s) at the first count."""

    def __init__(self, encoding: str = "cl100k_base") -> None:
        self.name = encoding

    def count(self, text: str) -> int:
        """Tokens of `text`; exact but for runs of thousands of unbroken characters, which err high."""
        encoding = _load(self.name)
        if len(text) < _LONGEST_RUN or _CUTS.search(text) is None:
            return len(encoding.encode(text, disallowed_special=()))
        pieces = _cut(text)
        return sum(len(encoding.encode(p, disallowed_special=())) for p in pieces) + len(pieces) - 1


class RaisedCounter:
    """Another counter's count, raised by a factor: for a vocabulary that is not at hand."""

    def __init__(self, base: TokenCounter, factor: float) -> None:
        self._base, self._factor = base, factor
        self.name = f"{base.name} × {factor}"

    def count(self, text: str) -> int:
        """An estimate that errs high; 0 for ""."""
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
"""What each byte of UTF-8 is; of what is not ASCII, and of control characters, every byte is counted."""
_PER_TOKEN = np.asarray([1, 4, 2, 3, 8, 8, 4, 1], np.int32)
"""How many of each kind in a row are a token."""


class EstimateCounter:
    """Counts by characters: a token for 4 letters, 2 capitals, 3 digits, 4 equal marks, a byte of the rest.

    Errs high on code, prose, and any script: about 1.5 times cl100k_base's count for English and code,
    more for other scripts. Tables of random letters may be undercounted.

    A capital counts with the word it begins as well as with the capitals it ends, unless it stands alone; a
    space before digits counts with them, other single spaces do not count.
    """

    name = "estimate"

    def count(self, text: str) -> int:
        """An estimate that errs high; 0 for ""."""
        if not text:
            return 0
        raw = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        kinds = _KINDS[raw]
        # A run is of one kind; a run of marks of one mark.
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


@cache
def _load(name: str) -> tiktoken.Encoding:
    import tiktoken

    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(_folder()))
    return tiktoken.get_encoding(name)


def _folder() -> Path:
    named = os.environ.get("TIKTOKEN_CACHE_DIR")
    return Path(named) if named else shipped("data/encodings")


def _at_hand(name: str) -> bool:
    if os.environ.get("TIKTOKEN_CACHE_DIR") == "":
        return False  # tiktoken takes this as: download every time
    file_name, sha256 = _FILES[name]
    try:
        content = (_folder() / file_name).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content).hexdigest() == sha256


def _encoding_name(model: str) -> str | None:
    """The encoding of an OpenAI model; None for others and for encodings we know no file of."""
    import tiktoken.model

    try:
        name = tiktoken.model.encoding_name_for_model(model.rsplit("/", 1)[-1])
    except KeyError:
        return None
    if name == "o200k_harmony":
        return "o200k_base"  # the same vocabulary; it differs in the special tokens, which we never send
    return name if name in _FILES else None


def _cut(text: str) -> list[str]:
    pieces, start = [], 0
    for match in _CUTS.finditer(text):
        pieces.append(text[start : match.end()])
        start = match.end()
    return [*pieces, text[start:]]
