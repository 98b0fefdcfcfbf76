"""BM25 over windows of 40 lines, identifiers split, the path's words in each window: `bm25.py FOLDER`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import bm25s
import numpy as np
from protocol import Result, files, result, serve

WINDOW_LINES = 40
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*|[0-9]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def tokens(text: str) -> list[str]:
    """The words of a text, each identifier whole and, when it has several, in its parts."""
    found = []
    for word in _WORD.findall(text):
        found.append(word.lower())
        parts = _PART.findall(word)
        if len(parts) > 1:
            found += [part.lower() for part in parts]
    return found


def main() -> None:
    places: list[tuple[str, int, int]] = []
    bags: list[list[str]] = []
    for path, text in files(Path(sys.argv[1])):
        lines = text.split("\n")
        for start in range(0, len(lines), WINDOW_LINES):
            window = lines[start : start + WINDOW_LINES]
            places.append((path, start + 1, start + len(window)))
            bags.append(tokens(path) + tokens("\n".join(window)))
    vocabulary: dict[str, int] = {}
    ids = [[vocabulary.setdefault(token, len(vocabulary)) for token in bag] for bag in bags]
    index = bm25s.BM25(k1=1.5, b=0.75)
    index.index((ids, vocabulary), show_progress=False)

    def search(query: str, k: int) -> list[Result]:
        known = [token for token in tokens(query) if token in vocabulary]
        if not known:
            return []
        scores = index.get_scores(known)
        best = np.argsort(-scores, kind="stable")[:k]
        return [result(*places[i], scores[i]) for i in best if scores[i] > 0]

    serve(search, chunks=len(places))


if __name__ == "__main__":
    main()
