"""Measure on the packages that were kept from training.

    python measure.py BAGS.npz MODEL.pt...

For each package, at most 1000 documents and 200 queries; a query's answer is its own document. MRR@10 of
the model alone, of BM25 over the same terms, and of both together (each divided by its best, the model's
times a weight). `far` are the queries whose words the answer holds least (under a third of the idf
mass): like the questions of somebody who does not know the code. Intervals: 95 %, bootstrap over
queries.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy import sparse

from bags import held_out
from model import Bags, Model, Rows, load

MAX_DOCUMENTS, MAX_QUERIES = 1000, 200
K1, B = 1.2, 0.75


@dataclass(slots=True)
class Sample:
    """One package's documents (pair numbers) and which of them are asked for."""

    documents: np.ndarray
    asked: np.ndarray  # places in documents


def samples(bags: Bags, seed: int = 1) -> list[Sample]:
    """The validation packages, the same for every model."""
    chance = np.random.default_rng(seed)
    found = []
    for n, name in enumerate(bags["names"]):
        members = np.flatnonzero(bags["package"] == n)
        if not held_out(str(name)) or len(members) < 30:
            continue
        documents = np.sort(chance.permutation(members)[:MAX_DOCUMENTS])
        _, first = np.unique(bags["same"][documents], return_index=True)
        documents = documents[np.sort(first)]
        found.append(Sample(documents, np.sort(chance.permutation(len(documents))[:MAX_QUERIES])))
    return found


def _matrix(bags: Bags, side: str, rows: np.ndarray, columns: dict[int, int]) -> sparse.csr_matrix:
    """Counts, shape (rows, terms seen in documents)."""
    r = Rows(bags, side, rows)
    lengths = np.diff(np.append(r.offsets.numpy(), len(r.terms)))
    terms, tf = r.terms.numpy(), np.exp(r.tf.numpy() - 1)
    if side == "d":
        for t in terms:
            columns.setdefault(int(t), len(columns))
    place = np.asarray([columns.get(int(t), -1) for t in terms])
    row = np.repeat(np.arange(len(rows)), lengths)
    known = place >= 0
    return sparse.csr_matrix((tf[known], (row[known], place[known])), shape=(len(rows), len(columns)))


def bm25(bags: Bags, sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """BM25 scores, shape (queries, documents), and the share of each query's idf mass its answer holds."""
    columns: dict[int, int] = {}
    counts = _matrix(bags, "d", sample.documents, columns)
    frequency = np.bincount(counts.indices, minlength=len(columns))
    idf = np.log1p((counts.shape[0] - frequency + 0.5) / (frequency + 0.5))
    length = np.asarray(counts.sum(axis=1)).ravel()
    weighed = counts.copy()
    norm = np.repeat(K1 * (1 - B + B * length / length.mean()), np.diff(counts.indptr))
    weighed.data = counts.data * (K1 + 1) / (counts.data + norm) * idf[counts.indices]
    queries = _matrix(bags, "q", sample.documents[sample.asked], columns)
    queries.data[:] = 1
    mass = np.asarray(queries.multiply(idf).sum(axis=1)).ravel()
    unseen = np.diff(bags["q_indptr"])[sample.documents[sample.asked]] - np.diff(queries.indptr)
    shared = np.asarray(queries.multiply(idf).multiply(counts[sample.asked] > 0).sum(axis=1)).ravel()
    return np.asarray((queries @ weighed.T).todense()), shared / (mass + unseen * idf.max() + 1e-9)


def cosines(model: Model, bags: Bags, sample: Sample) -> np.ndarray:
    """The model's scores, shape (queries, documents)."""
    with torch.no_grad():
        documents = model.embed(Rows(bags, "d", sample.documents), query=False)
        queries = model.embed(Rows(bags, "q", sample.documents[sample.asked]), query=True)
        return (queries @ documents.T).numpy()


def reciprocal_ranks(scores: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """1/rank of each answer, 0 beyond the tenth; ties count against us."""
    rank = (scores >= scores[np.arange(len(answers)), answers][:, None]).sum(axis=1)
    return np.where(rank <= 10, 1 / rank, 0)


def fused(lexical: np.ndarray, dense: np.ndarray, weight: float) -> np.ndarray:
    """Both scores, each divided by its best of the query."""
    best = np.maximum(lexical.max(axis=1, keepdims=True), 1e-9)
    nearest = np.maximum(dense.max(axis=1, keepdims=True), 1e-9)
    return lexical / best + weight * np.maximum(dense, 0) / nearest


def interval(values: np.ndarray, rounds: int = 1000) -> tuple[float, float]:
    """95 % of the means of resampled values."""
    chance = np.random.default_rng(0)
    means = [values[chance.integers(0, len(values), len(values))].mean() for _ in range(rounds)]
    return float(np.percentile(means, 2.5)), float(np.percentile(means, 97.5))


def measure(bags: Bags, models: dict[str, Model]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Reciprocal ranks by system, and what is known of each query (language, sort, shared)."""
    ranks: dict[str, list[np.ndarray]] = {}
    known: dict[str, list[np.ndarray]] = {"language": [], "sort": [], "shared": []}
    for sample in samples(bags):
        lexical, shared = bm25(bags, sample)
        systems = {"bm25": lexical}
        for name, model in models.items():
            systems[name] = cosines(model, bags, sample)
            for weight in (0.5, 1.0, 1.5):
                systems[f"{name}+bm25 w{weight}"] = fused(lexical, systems[name], weight)
        for system, scores in systems.items():
            ranks.setdefault(system, []).append(reciprocal_ranks(scores, sample.asked))
        asked = sample.documents[sample.asked]
        for column, values in (
            ("language", bags["language"][asked]),
            ("sort", bags["sort"][asked]),
            ("shared", shared),
        ):
            known[column].append(values)
    return {s: np.concatenate(r) for s, r in ranks.items()}, {c: np.concatenate(v) for c, v in known.items()}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bags", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    given = parser.parse_args()
    torch.set_num_threads(1)
    ranks, known = measure(Bags(given.bags), {path.stem: load(path) for path in given.models})
    coded = np.isin(known["sort"], ["function", "class"])
    slices = {
        "all": np.ones(len(coded), bool),
        "doc": coded,
        "far": known["shared"] < 0.33,
        "doc far": coded & (known["shared"] < 0.33),
    }
    slices |= {s: known["sort"] == s for s in ("comment", "message", "test", "page", "file")}
    slices |= {f"doc {name}": coded & (known["language"] == name) for name in np.unique(known["language"])}
    print("| system | " + " | ".join(f"{name} ({mask.sum()})" for name, mask in slices.items()) + " |")
    for system, values in ranks.items():
        print(
            f"| {system} | "
            + " | ".join(f"{values[mask].mean():.3f}" if mask.any() else "" for mask in slices.values())
            + " |"
        )
    doc = slices["doc"]
    for system, values in ranks.items():
        low, high = interval(values[doc])
        least, most = interval((values - ranks["bm25"])[doc])
        mean = f"{values[doc].mean():.3f} [{low:.3f}, {high:.3f}]"
        print(f"{system}: doc {mean}, minus bm25 [{least:+.3f}, {most:+.3f}]")


if __name__ == "__main__":
    main()
