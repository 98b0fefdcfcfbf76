"""LanceDB over the chunks of one store: lancedb_scale.py FOLDER; prints JSON.

The table has each chunk's path, text and vector, an index of the vectors (IVF_PQ) and one of the words. Of
the vectors' settings the first is measured that finds at least 0.97 of the ten nearest, or else the last one.
"""

import json
import sys
import time
from functools import partial
from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.rerankers import RRFReranker

K, RECALL, ROWS = 10, 0.97, 1 << 15
SETTINGS = ((20, 1), (20, 10), (50, 10), (100, 20), (200, 40), (400, 80))
"""Lists that are read, and how many times as many rows as wanted are compared exactly."""


def batches(folder, vectors, schema):
    paths, texts, first = [], [], 0
    with (folder / "chunks.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            path, text = json.loads(line)
            paths.append(path)
            texts.append(text)
            if len(paths) == ROWS or first + len(paths) == len(vectors):
                rows = np.ascontiguousarray(vectors[first : first + len(paths)])
                column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), vectors.shape[1])
                numbers = pa.array(range(first, first + len(paths)), pa.int64())
                yield pa.RecordBatch.from_arrays(
                    [numbers, pa.array(paths), pa.array(texts), column], schema=schema
                )
                first += len(paths)
                paths, texts = [], []


def timed(search, asked):
    found, took, wall = [], [], []
    for one in asked:
        began, clock = time.process_time(), time.perf_counter()
        found.append(search(one))
        took.append((time.process_time() - began) * 1000)
        wall.append((time.perf_counter() - clock) * 1000)
    return found, float(np.median(took)), float(np.percentile(took, 95)), float(np.median(wall))


def share_right(found, questions):
    right = [
        path in {row["path"] for row in rows}
        for rows, (_, path) in zip(found, questions, strict=True)
        if path
    ]
    return float(np.mean(right))


def main():
    folder = Path(sys.argv[1])
    vectors, queries = np.load(folder / "vectors.npy", mmap_mode="r"), np.load(folder / "queries.npy")
    questions = json.loads((folder / "questions.json").read_text())
    wanted = np.load(folder / "nearest.npy")
    schema = pa.schema(
        [
            ("number", pa.int64()),
            ("path", pa.string()),
            ("text", pa.string()),
            ("vector", pa.list_(pa.float32(), vectors.shape[1])),
        ]
    )
    began = time.process_time()
    database = lancedb.connect(folder / "lance")
    table = database.create_table("chunks", batches(folder, vectors, schema), schema=schema, mode="overwrite")
    table.create_index(metric="dot", vector_column_name="vector", index_type="IVF_PQ")
    vectors_s = time.process_time() - began
    table.create_fts_index("text", replace=True)
    build_s = time.process_time() - began

    def nearest(query, probes, refine):
        search = table.search(query).distance_type("dot").nprobes(probes).refine_factor(refine)
        return search.limit(K).select(["number"]).to_list()

    for probes, refine in SETTINGS:
        found, query_ms, _, query_wall = timed(partial(nearest, probes=probes, refine=refine), queries)
        pairs = zip(found, wanted, strict=True)
        shares = [len({row["number"] for row in rows} & set(best.tolist())) / K for rows, best in pairs]
        recall = float(np.mean(shares))
        if recall >= RECALL:
            break
    words = [text for text, _ in questions]

    def by_words(text):
        return table.search(text, query_type="fts").limit(K).select(["path"]).to_list()

    def hybrid(number):
        search = table.search(query_type="hybrid").vector(queries[number]).text(words[number])
        search = search.distance_type("dot").nprobes(probes).refine_factor(refine).rerank(RRFReranker())
        return search.limit(K).select(["path"]).to_list()

    by_text, words_ms, words_p95, words_wall = timed(by_words, words)
    both, both_ms, both_p95, both_wall = timed(hybrid, range(len(words)))
    figures = {
        "setting": f"IVF_PQ, nprobes {probes}, refine {refine}",
        "vectors_s": vectors_s,
        "build_s": build_s,
        "query_ms": query_ms,
        "query_wall": query_wall,
        "recall": recall,
        "words_ms": [words_ms, words_p95, words_wall],
        "both_ms": [both_ms, both_p95, both_wall],
        "right": share_right(both, questions),
        "right_by_words": share_right(by_text, questions),
        "bytes": sum(path.stat().st_size for path in (folder / "lance").rglob("*") if path.is_file()),
    }
    print(json.dumps(figures))


main()
