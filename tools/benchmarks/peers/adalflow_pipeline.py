"""AdalFlow's pipeline as DeepWiki uses it, with a static embedder: `adalflow_pipeline.py FOLDER`.

TextSplitter (350 words, 100 overlapping) → mean-pooled, unit-length rows of WordLlama's 256-d table →
FAISSRetriever. The table is the folder named by PEER_MODEL (setup.sh makes it); the token encoding that
AdalFlow needs at import is found through TIKTOKEN_CACHE_DIR. Traps of AdalFlow 1.1.3 that are kept out:
vectors and queries come in with length 1 (FAISSRetriever's own normalisation divides by the norm of the
whole matrix), texts are split without making Documents (which count tokens, and raise on special ones), and
what it prints goes to stderr.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
from protocol import Result, files, result, serve
from safetensors.numpy import load_file
from tokenizers import Tokenizer

WORDS, OVERLAP = 350, 100


class Table:
    """Texts become the mean of their tokens' vectors, made unit length."""

    def __init__(self, folder: Path) -> None:
        (self._rows,) = load_file(folder / "model.safetensors").values()
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def __call__(self, texts: list[str]) -> np.ndarray:
        vectors = np.zeros((len(texts), self._rows.shape[1]), dtype=np.float32)
        for row, encoding in enumerate(self._tokenizer.encode_batch(texts, add_special_tokens=False)):
            if encoding.ids:
                vectors[row] = self._rows[encoding.ids].mean(axis=0)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def placed(path: str, text: str, pieces: list[str]) -> list[tuple[str, int, int]]:
    """The lines of each piece of a text: one begins after every WORDS - OVERLAP single spaces."""
    offsets = [0, *(match.end() for match in re.finditer(" ", text))]
    starts = [offsets[n * (WORDS - OVERLAP)] for n in range(len(pieces))]
    lines = [text.count("\n", 0, start) + 1 for start in starts]
    return [(path, at, at + piece.rstrip().count("\n")) for at, piece in zip(lines, pieces, strict=True)]


def main() -> None:
    with redirect_stdout(sys.stderr):
        from adalflow.components.data_process.text_splitter import TextSplitter
        from adalflow.components.retriever.faiss_retriever import FAISSRetriever

        splitter = TextSplitter(split_by="word", chunk_size=WORDS, chunk_overlap=OVERLAP)
        embed = Table(Path(os.environ["PEER_MODEL"]))
        places: list[tuple[str, int, int]] = []
        texts: list[str] = []
        for path, text in files(Path(sys.argv[1])):
            pieces = splitter.split_text(text) if text.strip() else []
            places += placed(path, text, pieces)
            texts += pieces
        vectors = embed(texts)
        retriever = FAISSRetriever(dimensions=vectors.shape[1])
        retriever.build_index_from_documents(vectors)

    def search(query: str, k: int) -> list[Result]:
        found = retriever.call([embed([query])[0].tolist()], top_k=k)[0]
        scored = zip(found.doc_indices, found.doc_scores, strict=True)
        return [result(*places[i], score) for i, score in scored if i >= 0]

    serve(search, chunks=len(places))


if __name__ == "__main__":
    main()
