"""faiss over the vectors of one store, in a process of its own; prints JSON: scale_engines KIND FOLDER.

KIND is flat, sq8 or ivf. Of an index by lists the first setting is measured that finds at least `RECALL` of
the ten nearest, or else the last one.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np

K, RECALL = 10, 0.97
_PROBES = (16, 64, 128, 256, 512, 1024)


def main() -> None:
    """Build one index and search it, with one thread."""
    kind, folder = sys.argv[1], Path(sys.argv[2])
    faiss.omp_set_num_threads(1)
    vectors, queries = np.load(folder / "vectors.npy", mmap_mode="r"), np.load(folder / "queries.npy")
    wanted_file = folder / "nearest.npy"
    lists = 3 * math.isqrt(len(vectors))
    spec = {"flat": "Flat", "sq8": "SQ8", "ivf": f"IVF{lists},SQ8"}[kind]
    began = time.process_time()
    index: Any = faiss.index_factory(vectors.shape[1], spec, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.add(vectors)
    build_s = time.process_time() - began
    if kind == "flat":
        np.save(wanted_file, index.search(queries, K)[1])
    wanted = np.load(wanted_file)
    for probes in _PROBES if kind == "ivf" else (0,):
        if probes:
            index.nprobe = probes
        found, query_ms = _timed(index, queries)
        recall = float(np.mean([len(set(a) & set(b)) / K for a, b in zip(found, wanted, strict=True)]))
        if recall >= RECALL:
            break
    file = folder / f"{kind}.faiss"
    faiss.write_index(index, str(file))
    setting = f"{spec}, nprobe {probes}" if probes else spec
    figures = {"setting": setting, "build_s": build_s, "query_ms": query_ms, "recall": recall}
    sys.stdout.write(json.dumps(figures | {"bytes": file.stat().st_size}) + "\n")


def _timed(index: Any, queries: Any) -> tuple[list[list[int]], float]:
    found, took = [], []
    for query in queries:
        began = time.process_time()
        _, rows = index.search(query[None], K)
        took.append((time.process_time() - began) * 1000)
        found.append(rows[0].tolist())
    return found, float(np.median(took))


if __name__ == "__main__":
    main()
