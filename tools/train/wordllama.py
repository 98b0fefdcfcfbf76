"""WordLlama's token table (wheel `wordllama==0.4.0.post1`), pooled over split words with their idf.

Its own loader asks a model hub for a file that the wheel has under another name, so the two files are read
from the wheel itself.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rag.analysis import is_stop_word, words
from tokenizers import Tokenizer

_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
Rows = npt.NDArray[np.float32]


class WordLlama:
    """Vectors of texts, by the words' idf in a corpus and less its mean vector: the corpus comes first."""

    def __init__(self, wheel: Path) -> None:
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read("wordllama/weights/l2_supercat_256.safetensors")
            tokenizer = archive.read("wordllama/tokenizers/l2_supercat_tokenizer_config.json").decode()
        self._tokenizer = Tokenizer.from_str(tokenizer)
        size = int.from_bytes(content[:8], "little")
        about = next(v for k, v in json.loads(content[8 : 8 + size]).items() if k != "__metadata__")
        start, end = about["data_offsets"]
        table = np.frombuffer(content[8 + size + start : 8 + size + end], np.float16).reshape(about["shape"])
        self._table, self._known = table.astype(np.float32), dict[str, Rows]()
        self._frequency: Mapping[str, int] = {}
        self._total, self._center = 0, np.zeros(table.shape[1], np.float32)

    def fit(self, texts: Sequence[str]) -> None:
        """Take the statistics of a corpus."""
        counts = [_count(text) for text in texts]
        self._frequency = Counter(word for count in counts for word in count)
        self._total = len(counts)
        self._center = self._pooled(counts).mean(axis=0)

    def vectors(self, texts: Sequence[str]) -> Rows:
        """Unit rows of passages or questions."""
        return _unit(self._pooled([_count(text) for text in texts]) - self._center)

    def _pooled(self, counts: Sequence[Mapping[str, int]]) -> Rows:
        rows = np.zeros((len(counts), self._table.shape[1]), np.float32)
        for row, count in zip(rows, counts, strict=True):
            for word, times in count.items():
                seen = self._frequency.get(word, 0)
                idf = np.log1p((self._total - seen + 0.5) / (seen + 0.5))
                row += self._vector(word) * (1 + np.log(times)) * idf
        return _unit(rows)

    def _vector(self, word: str) -> Rows:
        if word not in self._known:
            ids = self._tokenizer.encode(word, add_special_tokens=False).ids
            self._known[word] = (
                self._table[ids].mean(axis=0) if ids else np.zeros(self._table.shape[1], np.float32)
            )
        return self._known[word]


def _count(text: str) -> Counter[str]:
    parts = (part for word in words(text) for part in _PARTS.findall(word))
    return Counter(part.lower() for part in parts if not is_stop_word(part))


def _unit(rows: Rows) -> Rows:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
