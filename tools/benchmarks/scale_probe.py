"""One large store, asked in a process of its own, so that its memory is its own: scale_probe HOME QUESTIONS.

It opens the store in HOME, answers the questions of a JSON file, and prints JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from rag.analysis import terms
from rag.backends import open_vector_index
from rag.backends.static_embedder import StaticEmbedder
from rag.database.locate import stores
from rag.database.store import Store
from rag.retrieval import search as search_module
from rag.retrieval.dense import embed_question
from rag.retrieval.search import Searcher, search
from tools.benchmarks.bench import resident_mb
from tools.benchmarks.linux_tree import Asked

K = 10


def ask(store_file: Path, questions: Sequence[Asked]) -> dict[str, Any]:
    """Milliseconds to the first answer, CPU ms of questions, recall of the vectors, right files, memory.

    `first_stage_p50_ms` is the median without the rules of the kinds of questions, `again_p50_ms` that of all
    questions asked once more.
    """
    embedder = StaticEmbedder()
    before_mb = resident_mb()
    began = time.perf_counter()
    store = Store.open(store_file)
    searcher = Searcher(store, embedder, open_vector_index(store.vectors))
    search([searcher], "Where is the first question asked?", k=K)
    ready_ms = (time.perf_counter() - began) * 1000
    took: dict[str, list[float]] = defaultdict(list)
    right, first_stage = [], []
    with timed_rules() as spent:
        for asked in questions:
            spent.clear()
            began = time.process_time()
            hits = search([searcher], asked.text, k=K).hits
            took[asked.form].append((time.process_time() - began) * 1000)
            first_stage.append(took[asked.form][-1] - sum(spent) * 1000)
            if asked.path:
                right.append(asked.path in {hit.path for hit in hits})
    again = []
    for asked in questions:
        began = time.process_time()
        search([searcher], asked.text, k=K)
        again.append((time.process_time() - began) * 1000)
    figures: dict[str, Any] = {
        "chunks": store.live_count,
        "files": store.file_count,
        "segments": len(store.segments),
    }
    figures |= {"ready_ms": ready_ms, "added_mb": resident_mb() - before_mb, "right": float(np.mean(right))}
    p50, p95 = np.percentile([ms for form in took.values() for ms in form], [50, 95])
    figures |= {"first_stage_p50_ms": np.median(first_stage), "again_p50_ms": np.median(again)}
    by_form = {form: [*np.percentile(ms, [50, 95])] for form, ms in took.items()}
    return figures | {"p50_ms": p50, "p95_ms": p95, "forms": by_form} | _dense(store, embedder, questions)


@contextmanager
def timed_rules() -> Iterator[list[float]]:
    """Yield a list that takes the CPU seconds of the rules of each question."""
    spent: list[float] = []
    rules = search_module._code_facts

    def timed(*given: Any) -> Any:
        began = time.process_time()
        try:
            return rules(*given)
        finally:
            spent.append(time.process_time() - began)

    with mock.patch.object(search_module, "_code_facts", timed):
        yield spent


def _vectors(store: Store, embedder: StaticEmbedder, questions: Sequence[Asked]) -> np.ndarray[Any, Any]:
    texts = [asked.text for asked in questions]
    return np.stack([embed_question(embedder, store, t, dict.fromkeys(terms(t), 1.0)) for t in texts])


def _dense(store: Store, embedder: StaticEmbedder, questions: Sequence[Asked]) -> dict[str, Any]:
    """Recall and time of the vectors alone, by short codes and exactly, for those of the real questions."""
    vectors = _vectors(store, embedder, questions)
    queries = [vector[None] for vector in vectors if vector.any()]
    by_short_codes = open_vector_index(store.vectors)
    exact = open_vector_index([rows._replace(short=None) for rows in store.vectors])
    found, short_ms = _timed(by_short_codes, queries, store.dead)
    wanted, exact_ms = _timed(exact, queries, store.dead)
    shares = [len(set(a) & set(b)) / len(b) for a, b in zip(found, wanted, strict=True)]
    return {"recall": float(np.mean(shares)), "short_ms": short_ms, "exact_ms": exact_ms}


def _timed(index: Any, queries: list[Any], dead: Any) -> tuple[list[list[int]], float]:
    found, took = [], []
    for query in queries:
        began = time.process_time()
        _, rows = index.search(query, K, dead=dead)
        took.append((time.process_time() - began) * 1000)
        found.append(rows[0].tolist())
    return found, float(np.median(took))


def main() -> None:
    """Ask the questions."""
    home, asked = map(Path, sys.argv[1:3])
    (store,) = (file for file, _ in stores(home))
    questions = [Asked(*row) for row in json.loads(asked.read_text())]
    sys.stdout.write(json.dumps(ask(store, questions)) + "\n")


if __name__ == "__main__":
    main()
