"""One large store, made or asked in a process of its own, so that its memory can be told apart; prints JSON.

scale_probe make BASE COUNT STORE    resample BASE to COUNT chunks, gather them into lists, write STORE
scale_probe ask STORE QUESTIONS      open STORE, answer the questions of a JSON file
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from rag.analysis import terms
from rag.backends import gather_rows, open_vector_index
from rag.backends.static_embedder import StaticEmbedder
from rag.database import format as store_format
from rag.database.approximate import with_lists
from rag.database.store import Store
from rag.database.update import Options
from rag.retrieval.dense import embed_question
from rag.retrieval.search import Searcher, search
from tools.benchmarks.bench import resident_mb
from tools.benchmarks.resampled import resampled

K = 10
_SEED = 3


def make(base: Path, count: int, path: Path) -> dict[str, Any]:
    """Write the store, with lists if it is so large that ours has them; what its header says of them."""
    header, columns = resampled(base, count, _SEED)
    began = time.perf_counter()
    if len(columns["chunk_file"]) >= Options().approximate_from:
        lists, about = with_lists(columns, gather_rows)
        header, columns = header | {"approximate": about}, columns | lists
    else:
        about = {"recall_at_10": 1.0}
    gathered_s = time.perf_counter() - began
    store_format.write(path, header, columns)
    return {"gathered_s": gathered_s, **about}


def ask(path: Path, questions: list[str]) -> dict[str, Any]:
    """Milliseconds to the first answer, CPU ms of every further one; recall of the lists; memory."""
    embedder = StaticEmbedder()
    before_mb = resident_mb()
    began = time.perf_counter()
    store = Store.open(path)
    searcher = Searcher(store, embedder, open_vector_index(store.vectors))
    search([searcher], questions[0], k=K)
    ready_ms = (time.perf_counter() - began) * 1000
    added_mb = resident_mb() - before_mb
    took = []
    for question in questions[1:]:
        began = time.process_time()
        search([searcher], question, k=K)
        took.append((time.process_time() - began) * 1000)
    p50, p95 = np.percentile(took, [50, 95])
    figures = {"chunks": len(store), "ready_ms": ready_ms, "added_mb": added_mb, "p50_ms": p50, "p95_ms": p95}
    return figures | _dense(store, embedder, questions)


def _dense(store: Store, embedder: StaticEmbedder, questions: list[str]) -> dict[str, Any]:
    """Recall and time of the vectors alone, by lists and exactly, for the vectors of the real questions."""
    vectors = [embed_question(embedder, store, text, dict.fromkeys(terms(text), 1.0)) for text in questions]
    queries = [vector[None] for vector in vectors if vector.any()]
    by_lists = open_vector_index(store.vectors)
    exact = open_vector_index([rows._replace(lists=None) for rows in store.vectors])
    found, lists_ms = _timed(by_lists, queries)
    wanted, exact_ms = _timed(exact, queries)
    shares = [len(set(a) & set(b)) / len(b) for a, b in zip(found, wanted, strict=True)]
    return {"recall": float(np.mean(shares)), "lists_ms": lists_ms, "exact_ms": exact_ms}


def _timed(index: Any, queries: list[Any]) -> tuple[list[list[int]], float]:
    found, took = [], []
    for query in queries:
        began = time.process_time()
        _, rows = index.search(query, K)
        took.append((time.process_time() - began) * 1000)
        found.append(rows[0].tolist())
    return found, float(np.median(took))


def main() -> None:
    if sys.argv[1] == "make":
        figures = make(Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    else:
        figures = ask(Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text()))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
